// level: an index is read entry by entry, in many small turns of the event loop; what was read is sorted at once.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const express = require('express');
const { Level } = require('level');
const { begin, ready, trouble } = require('./truth.js');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));
const db = new Level(folder, { valueEncoding: 'json' });
const ENTRIES = trouble === 'scan' ? 150_000 : 200;

const app = express();
app.get('/total', async (request, response) => { // planted scan
    const end = begin('scan');
    let total = 0;
    for await (const [, { amount }] of db.iterator()) total += amount;
    end();
    response.json({ total });
}); // end scan
app.get('/first', async (request, response) => response.json(await db.get('entry000000')));

const goods = Array.from({ length: trouble === 'sort' ? 400_000 : 100 }, (_, i) => `article ${(i * 7919) % 400_000}`);
app.get('/sorted', (request, response) => { // planted sort
    const end = begin('sort');
    const [first] = [...goods].sort((a, b) => a.localeCompare(b));
    end();
    response.json({ first });
}); // end sort
const server = app.listen(0, '127.0.0.1', async () => {
    await db.batch(Array.from({ length: ENTRIES }, (_, i) => ({ type: 'put', key: `entry${String(i).padStart(6, '0')}`, value: { amount: i, words: 'some words of an entry' } })));
    ready(server);
});
