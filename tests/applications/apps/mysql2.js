// mysql2: a pool of three connections and slow queries, or a slow query that nobody waits behind.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fastify = require('fastify')();
const mysql = require('mysql2/promise');
const { begin, ready, trouble } = require('./truth.js');

const pool = mysql.createPool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: 'shop', password: 'secret', connectionLimit: trouble === 'slow' ? 20 : 3 });
const NAP = trouble === 'healthy' ? 'select 1' : 'select sleep(0.25)';

async function query(text, name) {
    const waited = begin('wait');
    const connection = await pool.getConnection();
    waited();
    const asked = begin(name);
    try {
        return (await connection.query(text))[0];
    } finally {
        asked();
        connection.release();
    }
}

fastify.get('/slowq', () => query(NAP, 'slowq'));
fastify.get('/fastq', () => query('select 1', 'fastq'));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(async () => {
    await Promise.all([1, 2, 3].map(() => query('select 1', 'warm')));
    ready(fastify.server);
});
