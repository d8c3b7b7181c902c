// A gateway whose requests ask a MariaDB server with the package mysql2 over one connection: /slow a query that takes long,
// /quick another, /prepared one that was prepared, /twice two one after the other, and /own over a connection of its own.
//   node database.js PORT ROUTE,...
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const mysql = require('mysql2/promise');

const [port, wanted] = process.argv.slice(2);

async function main() {
    const account = { host: '127.0.0.1', port: Number(port), user: 'shop', password: 'secret' };
    const connection = await mysql.createConnection(account);
    const routes = {
        '/quick': () => connection.query("SELECT 'confidential' AS text"),
        '/prepared': () => connection.execute('SELECT ? + 1 AS sum', [41]),
        '/slow': () => connection.query('SELECT SLEEP(0.3)'),
        '/twice': async () => {
            await connection.query('SELECT SLEEP(0.1)');
            await connection.query('SELECT SLEEP(0.2)');
        },
        '/own': async () => {
            const own = await mysql.createConnection(account);
            await own.query('SELECT SLEEP(0.2)');
            own.destroy();
        },
    };
    const server = http.createServer(async (request, response) => {
        await routes[request.url]();
        response.end('ok');
    });
    server.listen(0, '127.0.0.1', async () => {
        const get = (path) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path }, (r) => r.resume().on('end', resolve)));
        for (let round = 0; round < 4; round++) for (const route of wanted.split(',')) await get(route);
        await connection.end();
        process.exit();
    });
}

main();
