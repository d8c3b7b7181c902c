// Requests that ask a database in SQL with values that must not be recorded: pg for PostgreSQL, mysql2 for MariaDB.
//   node sql.js postgres|mariadb PORT ROUTE,...
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const path = require('node:path');
const { createRequire } = require('node:module');

const [store, port, wanted] = process.argv.slice(2);
const SECRET = 'confidential', NUMBER = 987654321;

async function postgres() {
    const { Client } = createRequire(path.join(__dirname, '..', '..', 'applications', 'apps', 'pg.js'))('pg');
    const client = new Client({ host: '127.0.0.1', port: Number(port), user: 'shop', database: 'postgres' });
    await client.connect();
    const rows = (text, values, name) => client.query({ text, values, name });
    return {
        '/query': () => rows(`SELECT '${SECRET}' AS text, ${NUMBER} AS number -- ${SECRET}`),
        '/parameter': () => rows('SELECT $1::text AS text', [SECRET]),
        '/prepared': () => rows('SELECT $1::text AS prepared', [SECRET], SECRET),
        '/slow': () => rows(`SELECT pg_sleep(0.3), '${SECRET}' AS slow`),
        '/many': async () => { for (let i = 0; i < 30; i++) await rows(`SELECT pg_sleep(0.005), ${NUMBER + i} AS many`); },
        end: () => client.end(),
    };
}

async function mariadb() {
    const connection = await require('mysql2/promise').createConnection({ host: '127.0.0.1', port: Number(port), user: 'shop', password: 'secret' });
    return {
        '/query': () => connection.query(`SELECT '${SECRET}' AS text, ${NUMBER} AS number # ${SECRET}`),
        '/parameter': () => connection.query('SELECT ? AS text', [SECRET]),
        '/prepared': () => connection.execute('SELECT ? AS prepared', [SECRET]),
        '/slow': () => connection.query(`SELECT SLEEP(0.3), "${SECRET}" AS slow`),
        '/many': async () => { for (let i = 0; i < 30; i++) await connection.query(`SELECT SLEEP(0.005), ${NUMBER + i} AS many`); },
        end: () => connection.end(),
    };
}

async function main() {
    const routes = await (store === 'postgres' ? postgres() : mariadb());
    const server = http.createServer(async (request, response) => {
        await routes[request.url]();
        response.end('ok');
    });
    server.listen(0, '127.0.0.1', async () => {
        const get = (path) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path }, (r) => r.resume().on('end', resolve)));
        for (let round = 0; round < 4; round++) for (const route of wanted.split(',')) await get(route);
        await routes.end();
        process.exit();
    });
}

main();
