// busboy: what was uploaded is hashed at once; it is written by a synchronous call and forced to the disk's cache.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto'), fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const http = require('node:http');
const busboy = require('busboy');
const { begin, ready, trouble } = require('./truth.js');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));

function digest(content) { // planted digest
    const end = begin('digest');
    let hash = content;
    for (let i = 0; i < (trouble === 'digest' ? 60 : 1); i++) hash = crypto.createHash('sha512').update(content).update(hash).digest();
    end();
    return hash.toString('hex');
} // end digest

function keep(content) { // planted keep
    const end = begin('keep');
    const file = path.join(folder, 'upload');
    for (let i = 0; i < (trouble === 'keep' ? 120 : 1); i++) fs.writeFileSync(file, content);
    end();
} // end keep

function upload(request, response) {
    const form = busboy({ headers: request.headers }), parts = [];
    form.on('file', (name, file) => file.on('data', (part) => parts.push(part)));
    form.on('close', () => {
        const content = Buffer.concat(parts);
        if (trouble === 'keep') keep(content);
        response.end(trouble === 'keep' ? 'kept' : digest(content));
    });
    request.pipe(form);
}
const server = http.createServer((request, response) => (request.url === '/upload' ? upload(request, response) : response.end('ok')));
server.listen(0, '127.0.0.1', () => ready(server));
