// postgres (the client without pg): a slow statement; one statement for each line of an order, in turn.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const postgres = require('postgres');
const { begin, ready, trouble } = require('./truth.js');

const sql = postgres({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres', max: 10 });
const app = express();
app.get('/report', async (request, response) => {
    const end = begin('report');
    const rows = trouble === 'slow' ? await sql`select pg_sleep(0.15)` : await sql`select 1 as one`;
    end();
    response.json({ rows: rows.length });
});
app.get('/order', async (request, response) => {
    const end = begin('order');
    let price = 0;
    for (let line = 0; line < (trouble === 'each' ? 300 : 2); line++) price += (await sql`select ${line}::int as price, pg_sleep(0.001)`)[0].price;
    end();
    response.json({ price });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
Promise.all(Array.from({ length: 10 }, () => sql`select 1`)).then(() => {
    const server = app.listen(0, '127.0.0.1', () => ready(server));
});
