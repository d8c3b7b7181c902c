// Express: a file is read synchronously; a pattern backtracks; a large object is encoded.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const express = require('express');
const { begin, ready, trouble } = require('./truth.js');

const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-')), 'big');
fs.writeFileSync(file, Buffer.alloc(trouble === 'readfile' ? 128 << 20 : 1 << 10, 'x'));
process.on('exit', () => fs.rmSync(path.dirname(file), { recursive: true }));

const app = express();
app.get('/quick', (request, response) => response.json({ ok: true }));

app.get('/file', (request, response) => { // planted readfile
    const end = begin('readfile');
    const { length } = fs.readFileSync(file);
    end();
    response.json({ length });
}); // end readfile

function checkName(name) { // planted regexp
    const end = begin('regexp');
    const good = /^(\w+\s?)*$/.test(name);
    end();
    return good;
} // end regexp
app.get('/name/:name', (request, response) => response.json({ good: checkName(trouble === 'regexp' ? 'a'.repeat(25) + '!' : request.params.name) }));

const catalogue = Array.from({ length: trouble === 'json' ? 300_000 : 100 }, (_, id) => ({ id, name: `article ${id}`, tags: ['a', 'b'] }));
app.get('/catalogue', (request, response) => { // planted json
    const end = begin('json');
    const body = JSON.stringify(catalogue);
    end();
    response.type('json').send(trouble === 'json' ? String(body.length) : body);
}); // end json

const server = app.listen(0, '127.0.0.1', () => ready(server));
