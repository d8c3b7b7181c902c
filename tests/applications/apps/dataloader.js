// GraphQL with dataloader (over pg): resolvers ask for each item by itself, or the one query for all of them is slow.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const DataLoader = require('dataloader');
const { createSchema, createYoga } = require('graphql-yoga');
const { Pool } = require('pg');
const { begin, ready, trouble } = require('./truth.js');

const pool = new Pool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres', max: 4 });
const named = async (ids) => {
    const end = begin('named');
    const { rows } = await pool.query('select n as id, pg_sleep($2) from unnest($1::int[]) n limit 100', [ids, trouble === 'each' ? 0.005 : 0]);
    if (trouble === 'slow') await pool.query('select pg_sleep(0.2)');
    end();
    return ids.map((id) => `article ${rows.find((row) => row.id === id).id}`);
};
const typeDefs = 'type Article { name: String } type Query { articles: [Article], hello: String }';
const resolvers = {
    Query: { hello: () => 'hello', articles: () => Array.from({ length: 30 }, (_, id) => ({ id })) },
    Article: { name: async ({ id }, _, { loader }) => (trouble === 'each' ? (await named([id]))[0] : loader.load(id)) },
};
const yoga = createYoga({ schema: createSchema({ typeDefs, resolvers }), logging: false, context: () => ({ loader: new DataLoader(named) }) });
const server = http.createServer(yoga);
server.listen(0, '127.0.0.1', async () => {
    await Promise.all(Array.from({ length: 4 }, () => pool.query('select 1')));
    ready(server);
});
