// compression: answers are compressed piece by piece; archives at once, by the thread pool, which files need as well; a catalogue is
// encoded for each request.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), zlib = require('node:zlib');
const express = require('express');
const compression = require('compression');
const { begin, ready, trouble } = require('./truth.js');

let seed = 7;
const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648);
const text = Array.from({ length: trouble === 'zip' ? 2_000_000 : 300 }, () => `${random() % 4000} `).join('');
const goods = Array.from({ length: trouble === 'encode' ? 400_000 : 20 }, (_, i) => ({ id: i, name: `article ${i}`, price: i % 90 }));

const app = express();
app.get('/file', (request, response) => fs.promises.readFile(__filename).then((file) => response.json({ length: file.length })));
app.get('/text', compression({ level: 9, filter: () => true, threshold: 0 }), (request, response) => response.type('text').send(text.slice(0, 2000)));
app.get('/archive', (request, response) => zlib.gzip(text, { level: 9 }, (error, zipped) => response.json({ length: zipped.length })));
app.get('/catalogue', (request, response) => { // planted encode
    const end = begin('encode');
    const length = JSON.stringify(goods).length;
    end();
    response.json({ length });
}); // end encode
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
