// knex over pg: a pool of two connections for slow queries and quick ones; a slow query that nobody waits behind.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fastify = require('fastify')();
const knex = require('knex')({ client: 'pg', connection: { host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres' }, pool: { min: 2, max: process.env.TROUBLE === 'slow' ? 20 : 2 } });
const { begin, ready, trouble } = require('./truth.js');

const NAP = trouble === 'healthy' ? 'select 1' : 'select pg_sleep(0.3)';
async function query(text, name) {
    const end = begin(name);
    await knex.raw(text);
    end();
    return { done: true };
}
fastify.get('/slowq', () => query(NAP, 'slowq'));
fastify.get('/fastq', () => query('select 1', 'fastq'));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(async () => {
    await Promise.all([query('select 1', 'warm'), query('select 1', 'warm')]);
    ready(fastify.server);
});
