// MariaDB's own connector: a pool of three connections and slow queries; a slow query that nobody waits behind.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const mariadb = require('mariadb');
const { begin, ready, trouble } = require('./truth.js');

const pool = mariadb.createPool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: 'shop', password: 'secret', connectionLimit: trouble === 'slow' ? 20 : 3 });
const NAP = trouble === 'healthy' ? 'select 1' : 'select sleep(0.25)';

async function query(text, name) {
    const waited = begin('wait');
    const connection = await pool.getConnection();
    waited();
    const asked = begin(name);
    try {
        return (await connection.query(text)).length;
    } finally {
        asked();
        connection.release();
    }
}

const app = express();
app.get('/slowq', async (request, response) => response.json(await query(NAP, 'slowq')));
app.get('/fastq', async (request, response) => response.json(await query('select 1', 'fastq')));
const server = app.listen(0, '127.0.0.1', async () => {
    await Promise.all([1, 2, 3].map(() => query('select 1', 'warm')));
    ready(server);
});
