// node-cron: once a second a report is made beside the requests: it computes, or reads a large file at once.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const http = require('node:http');
const cron = require('node-cron');
const { begin, ready, trouble } = require('./truth.js');

const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-')), 'sales');
fs.writeFileSync(file, Buffer.alloc(trouble === 'read' ? 192 << 20 : 1 << 10, 'x'));
process.on('exit', () => fs.rmSync(path.dirname(file), { recursive: true }));

function report() { // planted sum
    const end = begin('sum');
    let n = 0;
    for (let i = 0; i < (trouble === 'sum' ? 200_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end sum

function sales() { // planted read
    const end = begin('read');
    let bytes = 0;
    for (let i = 0; i < (trouble === 'read' ? 4 : 1); i++) bytes += fs.readFileSync(file).length;
    end();
    return bytes;
} // end read

cron.schedule('* * * * * *', () => (trouble === 'read' ? sales() : report()));
const server = http.createServer((request, response) => response.end('ok'));
server.listen(0, '127.0.0.1', () => ready(server));
