// A server whose requests ask a PostgreSQL through pg, many in flight over a few connections, and its callers. Each query has a
// length of its own, so that whose it is can be told from its size alone.
//   node postgresql.js PORT USER COUNT
// Requests are GET /PATTERN/N; query number step (0 to 2) of request N has 300 + 4 * N + step characters.
'use strict';
const http = require('http');
const path = require('path');
const { AsyncLocalStorage } = require('async_hooks');
const { Pool } = require(require.resolve('pg', { paths: [path.join(__dirname, '../../applications')] }));

const [port, user, count] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])];
const pool = new Pool({ host: '127.0.0.1', port, user, database: 'postgres', max: 5 });
const own = new AsyncLocalStorage();
const text = (n, step) => `select '${'x'.repeat(300 + 4 * n + step - 9)}'`;

const PATTERNS = {
    // A connection for the whole request.
    async client(n) {
        const client = await pool.connect();
        for (let i = 0; i < 3; i++) await client.query(text(n, i));
        client.release();
    },
    // One that the pool finds for each query.
    async pool(n) { for (let i = 0; i < 3; i++) await pool.query(text(n, i)); },
    callback: (n) => new Promise((resolve, reject) => {
        const next = (i) => (i === 3 ? resolve() : pool.query(text(n, i), (error) => (error ? reject(error) : next(i + 1))));
        next(0);
    }),
};

async function main() {
    let mixed = 0, answered = 0;
    // Connected before the first request: what a connection begins with is nobody's.
    for (const client of await Promise.all(Array.from({ length: 5 }, () => pool.connect()))) client.release();
    const server = http.createServer((request, response) => {
        const [, pattern, word] = request.url.split('/'), n = Number(word), serve = async () => {
            await PATTERNS[pattern](n);
            mixed += process.env.OWN === 'each' && own.getStore() !== n;
            response.end('ok');
        };
        if (process.env.OWN === 'each') own.run(n, serve);
        else serve();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const ask = (where) => new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: server.address().port, path: where, agent: false },
        (response) => response.resume().on('end', () => resolve(answered++))).on('error', reject));
    let n = 0;
    for (const pattern of Object.keys(PATTERNS)) await Promise.all(Array.from({ length: count }, () => ask(`/${pattern}/${n++}`)));
    server.close();
    await pool.end();
    console.log(JSON.stringify({ answered, mixed }));
}
main();
