// Drizzle over pg: many rows become objects on the event loop; a pool of two connections.
// SPDX-License-Identifier: Apache-2.0
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import express from 'express';
import pg from 'pg';
import truth from './truth.js';

const { begin, ready, trouble } = truth;
const pool = new pg.Pool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres', max: 2 });
const db = drizzle(pool), goods = pgTable('goods', { id: integer(), name: text(), price: integer(), note: text() });
const NAP = trouble === 'starved' ? sql`select pg_sleep(0.3)` : sql`select 1`;

async function query(statement, name) {
    const end = begin(name);
    await db.execute(statement);
    end();
    return { done: true };
}

const app = express();
app.get('/slowq', async (request, response) => response.json(await query(NAP, 'slowq')));
app.get('/fastq', async (request, response) => response.json(await query(sql`select 1`, 'fastq')));
app.get('/goods', async (request, response) => {
    const rows = await db.select().from(goods).limit(trouble === 'rows' ? 400_000 : 20);
    response.json({ rows: rows.length });
});
const server = app.listen(0, '127.0.0.1', async () => {
    await db.execute(sql`create table goods as select n as id, 'name ' || n as name, n as price, 'note ' || n as note from generate_series(1, ${sql.raw(trouble === 'rows' ? '400000' : '100')}) n`);
    await Promise.all([query(sql`select 1`, 'warm'), query(sql`select 1`, 'warm')]);
    ready(server);
});
