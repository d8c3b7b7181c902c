// pino: each line of an order goes into the log, synchronously; a serializer cuts addresses with a pattern that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const express = require('express');
const pino = require('pino');
const { begin, ready, trouble } = require('./truth.js');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));

function address(text) { // planted address
    const end = begin('address');
    const cut = text.replace(/^(\w+\.?)+@/, '');
    end();
    return cut;
} // end address
const logger = pino({ serializers: { address } }, pino.destination({ dest: path.join(folder, 'log'), sync: true }));
const order = { id: 7, articles: ['one', 'two', 'three'], price: 12 };

const app = express();
app.get('/order', (request, response) => { // planted lines
    const end = begin('lines');
    for (let i = 0; i < (trouble === 'lines' ? 50_000 : 3); i++) logger.info({ order, line: i }, 'a line of an order');
    end();
    response.json({ ok: true });
}); // end lines
app.get('/account', (request, response) => {
    logger.info({ address: trouble === 'address' ? 'a'.repeat(25) + '!' : 'anna@example.com' }, 'asked for');
    response.json({ ok: true });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
