// A server whose requests ask real services through real clients, many requests in flight. What a request asks for has the
// request's number in it, so that the program's own book says whose each operation is: by the operation's size, by what it
// asks the other server for, or by when it was asked for.
//   node kinds.js CONFIG    CONFIG: JSON { redis: port, postgres: { port, user }, mariadb: { port }, kinds: [NAME...] }
// Prints "ready PORT JSON", for each kind { book, layer, span, base, grain, steps } or { missing: why }. Requests are
//   GET /KIND/N         the operations of request N, three at least: step (0 to 2) has 4 * (3 * N + step) bytes more than base
//   GET /own/make       from now on requests use an AsyncLocalStorage of the program's own, made now
//   GET /own/end        the answer is the number of requests that found another's value in it
//   GET /up/KIND/N/STEP what requests of KIND ask this server for over HTTP
//   GET /again          connections are made anew, where a kind needs that
//   GET /book           the operations booked by time: [kind, number, from, to] in ns of the monotonic clock
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');
const { AsyncLocalStorage } = require('async_hooks');
const { fork } = require('child_process');
const { once } = require('events');
const { MessagePort, Worker } = require('worker_threads');

// CHUNK: several such are never as large as one of some request.
const STEPS = 3, GRAIN = 4, CHUNK = 20_001, MODULES = path.join(__dirname, '../../applications');
const installed = (name) => require(require.resolve(name, { paths: [MODULES] }));
const filler = (n, step) => 'x'.repeat(GRAIN * (STEPS * n + step));
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const steps = async (ask) => { for (let step = 0; step < STEPS; step++) await ask(step); };

// ---- the book by time: calls that submit what they ask for before they return ----

const booked = [];
function book(kind, n, call) {
    const from = process.hrtime.bigint(), result = call();
    booked.push([kind, n, Number(from), Number(process.hrtime.bigint())]);
    return result;
}

// Who posts to a worker, also from a pool's queue: the task says so.
const post = MessagePort.prototype.postMessage;
MessagePort.prototype.postMessage = function postMessage(message, ...rest) {
    const task = message && (message.task || message);
    if (!task || task.kind === undefined) return post.call(this, message, ...rest);
    return book(task.kind, task.n, () => post.call(this, message, ...rest));
};

// ---- what several kinds share ----

const made = new Map();
const shared = (name, make) => made.get(name) || made.set(name, make()).get(name);

function ioredis(config, name) {
    return shared(name, () => new (installed('ioredis'))({ port: config.redis, host: '127.0.0.1' }));
}

function reconnected(client) {
    client.disconnect(true);
    return once(client, 'ready');
}

const key = (n, step) => `${'k'.repeat(1003)}${filler(n, step)}`;
const statement = (n, step) => `select '${'s'.repeat(200)}${filler(n, step)}' as a`;

// What mongoose's queries are: nothing is asked before somebody waits for it, and what is waited for is no promise.
class Query {
    constructor(ask) { this.ask = ask; }
    exec() { return new Promise((resolve, reject) => process.nextTick(() => this.ask((error, value) => (error ? reject(error) : resolve(value))))); }
    then(resolve, reject) { return this.exec().then(resolve, reject); }
}

function pgPool(config) {
    return shared('pg', () => new (installed('pg').Pool)({ ...config.postgres, host: '127.0.0.1', database: 'postgres', max: 5, idleTimeoutMillis: 0 }));
}

async function asks(config, kind, n, step, options = {}) {
    const request = http.get({ host: '127.0.0.1', port: config.upstream, path: `/up/${kind}/${n}/${step}`, ...options });
    const [response] = await once(request, 'response');
    response.resume();
    await once(response, 'end');
}

let last = 0; // message to a thread or process
const waitingForLock = [];
let locked = false;

// Each: needs (of CONFIG), book ("size", "path", "time"), layer of its spans; begin(), once, before the first request;
// run(config, n); and for sizes ask(config, n, step), which is asked alone to learn what step 0 of request 0 takes.
const KINDS = {
    'ioredis': { needs: 'redis', book: 'size', layer: 'redis', run: (c, n) => steps((i) => ioredis(c, 'redis').get(key(n, i))) },
    'ioredis at once': { needs: 'redis', book: 'size', layer: 'redis', run: (c, n) => Promise.all([0, 1, 2].map(async (i) => { await null; await ioredis(c, 'redis').get(key(n, i)); })) },
    'ioredis callbacks': { needs: 'redis', book: 'size', layer: 'redis', run: (c, n) => new Promise((resolve) => {
        const client = ioredis(c, 'redis');
        client.get(key(n, 0), () => client.get(key(n, 1), () => client.get(key(n, 2), resolve)));
    }) },
    // Several commands are one write: the sizes of their arguments are what Redis tells, of connections that are made after sonde attached.
    'ioredis pipeline': { needs: 'redis', book: 'arguments', layer: 'redis', again: (c) => reconnected(ioredis(c, 'redis')), run: (c, n) => [0, 1, 2].reduce((all, i) => all.get(key(n, i)), ioredis(c, 'redis').pipeline()).exec() },
    'ioredis automatic pipelines': { needs: 'redis', book: 'arguments', layer: 'redis', begin: (c) => shared('auto', () => new (installed('ioredis'))({ port: c.redis, host: '127.0.0.1', enableAutoPipelining: true })).ping(),
        again: () => reconnected(made.get('auto')),
        run: (c, n) => steps((i) => made.get('auto').get(key(n, i))) },
    'node-redis': { needs: 'redis', book: 'arguments', layer: 'redis', begin: (c) => shared('node-redis', () => installed('redis').createClient({ url: `redis://127.0.0.1:${c.redis}` })).connect(),
        again: async () => { await made.get('node-redis').close(); await made.get('node-redis').connect(); }, run: (c, n) => steps((i) => made.get('node-redis').get(key(n, i))) },
    'timers and ticks': { needs: 'redis', book: 'size', layer: 'redis', async run(c, n) {
        await later(n % 7);
        await ioredis(c, 'redis').get(key(n, 0));
        await new Promise(setImmediate);
        await ioredis(c, 'redis').get(key(n, 1));
        await new Promise(process.nextTick);
        await ioredis(c, 'redis').get(key(n, 2));
    } },
    // A lock in Redis, asked for again and again.
    'redis lock': { needs: 'redis', book: 'size', layer: 'redis', async run(c, n) {
        const client = ioredis(c, 'redis');
        while (await client.set('lock', n, 'PX', 10_000, 'NX') !== 'OK') await later(1 + n % 5);
        await client.get(key(n, 0));
        await client.get(key(n, 1));
        await client.del('lock');
        await client.get(key(n, 2));
    } },
    // One in the process: who waits goes on in the code of who has had it.
    'shared lock': { needs: 'redis', book: 'size', layer: 'redis', async run(c, n) {
        if (locked) await new Promise((resolve) => waitingForLock.push(resolve));
        locked = true;
        await ioredis(c, 'redis').get(key(n, 0));
        await ioredis(c, 'redis').get(key(n, 1));
        if (waitingForLock.length) waitingForLock.shift()();
        else locked = false;
        await later(2);
        await ioredis(c, 'redis').get(key(n, 2));
    } },
    'thenables': { needs: 'redis', book: 'size', layer: 'redis', run: (c, n) => steps((i) => new Query((done) => ioredis(c, 'redis').get(key(n, i), done))) },
    'pg': { needs: 'postgres', book: 'size', async run(c, n) {
        const client = await pgPool(c).connect();
        await steps((i) => client.query(statement(n, i)));
        client.release();
    }, ask: (c) => pgPool(c).query(statement(0, 0)) },
    'pg pool': { needs: 'postgres', book: 'size', run: (c, n) => steps((i) => pgPool(c).query(statement(n, i))), ask: (c) => pgPool(c).query(statement(0, 0)) },
    'knex': { needs: 'postgres', book: 'size', begin: (c) => shared('knex', () => installed('knex')({ client: 'pg', connection: { ...c.postgres, host: '127.0.0.1', database: 'postgres' }, pool: { min: 5, max: 5 } })).raw('select 1'),
        run: (c, n) => steps((i) => made.get('knex').select(made.get('knex').raw(`'${'s'.repeat(200)}${filler(n, i)}' as a`))), ask: () => made.get('knex').select(made.get('knex').raw(`'${'s'.repeat(200)}' as a`)) },
    'sequelize': { needs: 'postgres', book: 'size', begin: (c) => shared('sequelize', () => new (installed('sequelize').Sequelize)('postgres', c.postgres.user, '', { ...c.postgres, host: '127.0.0.1', dialect: 'postgres', logging: false, pool: { min: 5, max: 5, idle: 1e9, evict: 1e9 } })).authenticate(),
        run: (c, n) => steps((i) => made.get('sequelize').query(statement(n, i))), ask: () => made.get('sequelize').query(statement(0, 0)) },
    'mysql2': { needs: 'mariadb', book: 'size', begin: (c) => shared('mysql2', () => installed('mysql2/promise').createPool({ ...c.mariadb, host: '127.0.0.1', connectionLimit: 5 })).query('select 1'),
        run: (c, n) => steps((i) => made.get('mysql2').query(statement(n, i))), ask: () => made.get('mysql2').query(statement(0, 0)) },
    'http': { book: 'path', run: (c, n) => steps((i) => asks(c, 'http', n, i)) },
    'http, four sockets': { book: 'path', run: (c, n) => steps((i) => asks(c, 'http,%20four%20sockets', n, i, { agent: shared('agent', () => new http.Agent({ keepAlive: true, maxSockets: 4 })) })) },
    'undici': { book: 'path', begin: (c) => shared('undici', () => new (installed('undici').Pool)(`http://127.0.0.1:${c.upstream}`, { connections: 4 })) && null,
        run: (c, n) => steps(async (i) => (await made.get('undici').request({ path: `/up/undici/${n}/${i}`, method: 'GET' })).body.dump()) },
    'fetch': { book: 'path', begin() { if (!globalThis.fetch) throw new Error('this Node has no fetch'); }, run: (c, n) => steps(async (i) => (await fetch(`http://127.0.0.1:${c.upstream}/up/fetch/${n}/${i}`)).text()) },
    'axios': { book: 'path', begin: () => shared('axios', () => installed('axios')) && null, run: (c, n) => steps((i) => made.get('axios').get(`http://127.0.0.1:${c.upstream}/up/axios/${n}/${i}`)) },
    'files': { book: 'time', span: 'pool', run: (c, n) => steps((i) => book('files', n, () => (i === 1 ? new Promise((resolve) => fs.stat(__filename, resolve)) : fs.promises.stat(__filename)))) },
    'hashes': { book: 'time', span: 'pool', run: (c, n) => steps(() => new Promise((resolve) => book('hashes', n, () => crypto.pbkdf2('a', 'b', 10, 16, 'sha1', resolve)))) },
    // Messages to a thread and its answers, which tell whom they are for.
    'worker': { book: 'time', span: 'message', async begin() {
        const worker = shared('worker', () => new Worker("require('worker_threads').parentPort.on('message', function (m) { this.postMessage({ id: m.id }); })", { eval: true })), asked = shared('asked', () => new Map());
        worker.on('message', ({ id }) => asked.get(id)());
        await once(worker, 'online');
    }, run: (c, n) => steps(() => new Promise((resolve) => { made.get('asked').set(++last, resolve); made.get('worker').postMessage({ kind: 'worker', n, id: last }); })) },
    'piscina': { book: 'time', span: 'message', begin: () => shared('piscina', () => new (installed('piscina').Piscina)({ filename: __filename, maxThreads: 2, minThreads: 2, idleTimeout: 1e6, atomics: 'disabled' })).run({ n: -1 }),
        run: (c, n) => steps(() => made.get('piscina').run({ kind: 'piscina', n })) },
    // Messages to a child process, the same.
    'child': { book: 'time', span: 'message', async begin() {
        const child = shared('child', () => fork(__filename, ['--child'])), told = shared('told', () => new Map());
        child.on('message', ({ id }) => told.get(id)());
        child.send({ id: -1 });
        await new Promise((resolve) => told.set(-1, resolve));
    }, run: (c, n) => steps(() => new Promise((resolve) => { const id = ++last; made.get('told').set(id, resolve); book('child', n, () => made.get('child').send({ id })); })) },
    // A pipe that is full most of the time: what requests write stands in Node's buffer, and is written where earlier bytes were.
    'full pipe': { book: 'size', span: 'message', begin: () => void shared('reader', () => fork(__filename, ['--reader'], { stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'] })),
        run: (c, n) => steps((i) => new Promise((resolve) => made.get('reader').stdio[3].write(Buffer.alloc(CHUNK + filler(n, i).length), resolve))), base: CHUNK },
    // Behind a lock: what is sent is sent in the code of who had it before.
    'child behind a lock': { book: 'time', span: 'message', operations: 1, begin: () => (made.has('child') ? null : KINDS.child.begin()), async run(c, n) {
        if (shared('busy', () => ({ now: false, queue: [] })).now) await new Promise((resolve) => made.get('busy').queue.push(resolve));
        made.get('busy').now = true;
        await new Promise((resolve) => { const id = ++last; made.get('told').set(id, resolve); book('child behind a lock', n, () => made.get('child').send({ id })); });
        const next = made.get('busy').queue.shift();
        if (next) next();
        else made.get('busy').now = false;
        await later(1);
    } },
};

// ---- the server ----

// All bytes that sockets have been given.
const written = () => process._getActiveHandles().reduce((sum, handle) => sum + (handle.bytesWritten || 0), 0);

async function prepare(config, name) {
    const kind = KINDS[name];
    if (kind.needs && !config[kind.needs]) return { missing: `no ${kind.needs}` };
    try {
        if (kind.begin) await kind.begin(config);
        if (kind.needs === 'redis') await ioredis(config, 'redis').ping();
        if (name.startsWith('pg')) for (const client of await Promise.all(Array.from({ length: 5 }, () => pgPool(config).connect()))) client.release();
        let base = kind.base || key(0, 0).length + (kind.book === 'size' ? '*2\r\n$3\r\nget\r\n$1003\r\n\r\n'.length : 'get'.length);
        if (kind.ask) {
            await Promise.all(Array.from({ length: 20 }, () => kind.ask(config))); // all connections are made
            base = Infinity;
            for (let i = 0; i < 5; i++) { // another connection may be opened meanwhile
                const before = written();
                await kind.ask(config);
                base = Math.min(base, written() - before);
            }
        }
        return { book: kind.book, operations: kind.operations || STEPS, layer: kind.layer, span: kind.span, ...(kind.book !== 'path' && kind.book !== 'time' && { base, grain: GRAIN, steps: STEPS }) };
    } catch (error) {
        return { missing: error.message.split('\n')[0] };
    }
}

async function main(config) {
    let own = null, mixed = 0;
    const server = http.createServer(async (request, response) => {
        const [, name, text, number] = decodeURIComponent(request.url).split('/'), n = Number(number || text);
        if (name === 'own') {
            if (text === 'make') own = new AsyncLocalStorage();
            return response.end(String(mixed));
        }
        if (name === 'up') return setTimeout(() => response.end('ok'), n % 3);
        if (name === 'again') {
            for (const kind of config.kinds) if (KINDS[kind].again) await KINDS[kind].again(config);
            return response.end('ok');
        }
        if (name === 'book') return response.end(JSON.stringify(booked));
        const storage = own, serve = async () => {
            await KINDS[name].run(config, n);
            if (storage && storage.getStore() !== n) mixed++;
            response.end('ok');
        };
        if (storage) storage.run(n, serve);
        else serve();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    config.upstream = server.address().port;
    const kinds = {};
    for (const name of config.kinds || Object.keys(KINDS)) kinds[name] = await prepare(config, name);
    console.log(`ready ${config.upstream} ${JSON.stringify(kinds)}`);
}

module.exports = () => null; // piscina's task
module.exports.KINDS = Object.keys(KINDS);
if (require.main === module && process.argv[2] === '--reader') {
    const input = new net.Socket({ fd: 3, writable: false }).pause();
    setInterval(() => { while (input.read() !== null); }, 10);
    process.on('disconnect', () => process.exit());
} else if (require.main === module && process.argv[2] === '--child') process.on('message', (message) => process.send(message));
else if (require.main === module) main(JSON.parse(process.argv[2]));
