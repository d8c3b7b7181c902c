// sharp: pictures are made smaller by threads of the pool, which files need as well; one is turned by the program itself.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const express = require('express');
const sharp = require('sharp');
const { begin, ready, trouble } = require('./truth.js');

const side = trouble === 'pool' ? 1500 : 60, raw = Buffer.alloc(side * side * 3);
for (let i = 0; i < raw.length; i++) raw[i] = (i * 2654435761) >>> 24;
const turned = Buffer.alloc(trouble === 'turn' ? 40_000_000 : 3000);
sharp.concurrency(1);

const app = express();
app.get('/small', async (request, response) => {
    const picture = await sharp(raw, { raw: { width: side, height: side, channels: 3 } }).resize(side >> 1, side >> 1).png({ compressionLevel: 9 }).toBuffer();
    response.json({ bytes: picture.length });
});
app.get('/turned', (request, response) => { // planted turn
    const end = begin('turn');
    for (let i = 0; i < turned.length; i++) turned[i] = raw[(turned.length - i) % raw.length];
    end();
    response.json({ bytes: turned.length });
}); // end turn
app.get('/file', (request, response) => fs.readFile(__filename, (error, file) => response.json({ length: file.length })));
app.get('/quick', (request, response) => response.json({ ok: true }));
sharp(raw, { raw: { width: side, height: side, channels: 3 } }).resize(8, 8).png().toBuffer().then(() => {
    const server = app.listen(0, '127.0.0.1', () => ready(server));
});
