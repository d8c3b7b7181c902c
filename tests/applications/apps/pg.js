// pg: a pool of two connections and slow queries, a slow query that nobody waits behind, or a query for each row of another one.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { Pool } = require('pg');
const { begin, ready, trouble } = require('./truth.js');

const pool = new Pool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres', max: trouble === 'starved' || trouble === 'rows' ? 2 : 20 });
const NAP = trouble === 'healthy' ? 'select 1' : 'select pg_sleep(0.3)';

async function query(text, name) {
    const waited = begin('wait');
    const client = await pool.connect();
    waited();
    const asked = begin(name);
    try {
        return (await client.query(text)).rows;
    } finally {
        asked();
        client.release();
    }
}

const app = express();
app.get('/slowq', async (request, response) => response.json(await query(NAP, 'slowq')));
app.get('/fastq', async (request, response) => response.json(await query('select 1', 'fastq')));
app.get('/orders', async (request, response) => {
    const rows = await query('select n from generate_series(1, 40) n', 'orders');
    if (trouble === 'rows') for (const row of rows) row.name = (await query('select pg_sleep(0.005)', 'row')).length;
    response.json(rows);
});
const server = app.listen(0, '127.0.0.1', async () => {
    await Promise.all([query('select 1', 'warm'), query('select 1', 'warm')]);
    ready(server);
});
