// A server whose requests wait in all the ways that programs wait in, over one pipelined Redis connection, its Redis, and its
// callers: many requests in flight. Each command's arguments have a length of their own, so that whose it is can be told from
// its size alone.
//   node contexts.js PATTERN,... COUNT [REDIS-SERVER]
// OWN in the environment says when it begins to use an AsyncLocalStorage of its own: "each" (the default: in each request),
// "before" (and before the first), "late" (in the second half of each pattern's requests), "none".
// Requests are GET /PATTERN/N; command number step (0 to 2) of request N has 200 + 4 * N + step bytes of arguments.
'use strict';
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');
const vm = require('vm');
const { AsyncLocalStorage, AsyncResource, executionAsyncId } = require('async_hooks');
const { EventEmitter, once } = require('events');
const { Readable, Writable, pipeline } = require('stream');
const { Worker } = require('worker_threads');
const { fork, spawn } = require('child_process');

let client, lazy, worker;
const OWN = process.env.OWN || 'each';
const own = new AsyncLocalStorage(); // the program's: it must work as without sonde
const key = (n, step) => 'k'.repeat(200 + n * 4 + step - 3);
const get = (n, step) => client.get(key(n, step));

// ---- pools and queues as people write them ----

const idle = [], waiting = []; // a pool of connections
async function acquire() {
    return idle.pop() || new Promise((resolve) => waiting.push(resolve));
}
function release(connection) {
    if (waiting.length) waiting.shift()(connection);
    else idle.push(connection);
}

const idleBound = [], waitingBound = [];
function acquireBound(use) {
    const connection = idleBound.pop();
    if (connection) use(connection, () => releaseBound(connection));
    else waitingBound.push(AsyncResource.bind((free) => use(free, () => releaseBound(free))));
}
function releaseBound(connection) {
    if (waitingBound.length) waitingBound.shift()(connection);
    else idleBound.push(connection);
}

const elsewhere = vm.runInNewContext('(async (ask) => { await null; await ask(); await null; })');

const jobs = []; // a queue of functions with at most four at work
let working = 0;
function enqueue(job) {
    return new Promise((resolve) => {
        jobs.push(async () => resolve(await job()));
        work();
    });
}
async function work() {
    if (working === 4 || !jobs.length) return;
    working++;
    await jobs.shift()();
    working--;
    work();
}

const calls = []; // the same with callbacks
let calling = 0;
function enqueueCall(call, done) {
    calls.push((next) => call((error, value) => { done(error, value); next(); }));
    nextCall();
}
function nextCall() {
    if (calling === 4 || !calls.length) return;
    calling++;
    calls.shift()(() => { calling--; nextCall(); });
}

const asked = new Map(); // of the worker
function askWorker(n) {
    return new Promise((resolve) => {
        asked.set(n, resolve);
        worker.postMessage(n);
    });
}

// A lock: who waits for it goes on in the code of who has had it.
let locked = false;
const waitingForLock = [];
async function lock() {
    if (!locked) locked = true;
    else await new Promise((resolve) => waitingForLock.push(resolve));
}
function unlock() {
    if (waitingForLock.length) waitingForLock.shift()();
    else locked = false;
}

// Requests that wait until as many have come as go on together.
const TOGETHER = 5, coming = [];
let meeting = 0;
const go = () => coming.splice(0).forEach((resolve) => resolve());
async function meet() {
    if (coming.length + 1 >= Math.min(TOGETHER, meeting)) go();
    else await new Promise((resolve) => coming.push(resolve));
}
// Who has met for the last time is not waited for.
async function meets(times, after) {
    meeting++;
    for (let i = 0; i < times; i++) { await meet(); await after(i); }
    meeting--;
    if (coming.length >= meeting) go();
}

// Work of no request's, which takes connections from the same pool.
const NOBODY = 900;
let stopped = false;
async function background() {
    for (let step = 0; !stopped; step = (step + 1) % 3) {
        const connection = await acquire();
        await connection.get(key(NOBODY, step));
        release(connection);
    }
}

const later = (how) => new Promise((resolve) => how(resolve));

const PATTERNS = {
    async await(n) { for (let i = 0; i < 3; i++) await get(n, i); },
    async all(n) { await Promise.all([0, 1, 2].map(async (i) => { await null; await get(n, i); })); },
    callback: (n) => new Promise((resolve) => client.get(key(n, 0), () => client.get(key(n, 1), () => client.get(key(n, 2), resolve)))),
    async emitter(n) {
        const events = new EventEmitter();
        events.on('go', async (i) => { await get(n, i); events.emit(i < 2 ? 'go' : 'end', i + 1); });
        events.emit('go', 0);
        await once(events, 'end');
    },
    stream: (n) => new Promise((resolve, reject) => pipeline(
        Readable.from((async function* () { for (let i = 0; i < 3; i++) { await null; yield i; } })()),
        new Writable({ objectMode: true, write(i, _, done) { get(n, i).then(() => done(), done); } }),
        (error) => (error ? reject(error) : resolve()))),
    async timers(n) {
        await later((f) => setTimeout(f, n % 7));
        await get(n, 0);
        await later(setImmediate);
        await later(process.nextTick);
        await get(n, 1);
        await later(queueMicrotask);
        await get(n, 2);
    },
    // What the program keeps no promise for.
    immediate: (n) => new Promise((resolve) => setImmediate(() => client.get(key(n, 0), () => setImmediate(() => client.get(key(n, 1), () => setImmediate(() => client.get(key(n, 2), resolve))))))),
    ticks: (n) => new Promise((resolve) => {
        let waiting = 3;
        const done = () => --waiting || resolve();
        process.nextTick(() => client.get(key(n, 0), done));
        setTimeout(() => client.get(key(n, 1), done), n % 5);
        new AsyncResource('of a request').runInAsyncScope(() => setImmediate(() => client.get(key(n, 2), done)));
    }),
    async worker(n) { for (let i = 0; i < 3; i++) { await askWorker(n); await get(n, i); } },
    // The connection is made while the first request is served, and serves all.
    async lazy(n) {
        lazy ||= connect();
        for (let i = 0; i < 3; i++) await lazy.get(key(n, i));
    },
    async pool(n) {
        for (let i = 0; i < 3; i++) {
            const connection = await acquire();
            await connection.get(key(n, i));
            release(connection);
        }
    },
    // Connections are given back in what a file operation calls.
    async files(n) {
        for (let i = 0; i < 3; i++) {
            const connection = await acquire();
            await connection.get(key(n, i));
            await fs.promises.stat(__filename);
            release(connection);
        }
    },
    // Every other one finds that the one before has done its work, and answers at once.
    async lock(n) {
        await lock();
        if (n % 2) return unlock();
        await get(n, 0);
        unlock();
        await later((f) => setTimeout(f, 5));
        await get(n, 1);
        await get(n, 2);
    },
    meet: (n) => meets(3, (i) => get(n, i)),
    background: (n) => PATTERNS.pool(n),
    // Query builders: what is awaited is no promise, and asks only when it is.
    async thenable(n) {
        for (let i = 0; i < 3; i++) await { then: (resolve, reject) => get(n, i).then(resolve, reject) };
    },
    // A pool that calls those who wait within the one who gives back, in their own asynchronous context.
    bound: (n) => new Promise((resolve) => {
        const step = (i) => acquireBound((connection, release) => connection.get(key(n, i), async () => {
            await null;
            if (i === 2) resolve();
            else step(i + 1);
            release();
        }));
        step(0);
    }),
    // Code of another V8 context.
    async vm(n) { for (let i = 0; i < 3; i++) await elsewhere(() => get(n, i)); },
    async queue(n) { for (let i = 0; i < 3; i++) await enqueue(() => get(n, i)); },
    calls: (n) => new Promise((resolve) => enqueueCall((f) => client.get(key(n, 0), f), () =>
        enqueueCall((f) => client.get(key(n, 1), f), () => enqueueCall((f) => client.get(key(n, 2), f), resolve)))),
};

// ---- the callers: a process of their own ----

function ask(port, where) {
    return new Promise((resolve, reject) => {
        http.get({ host: '127.0.0.1', port, path: where, agent: false }, (response) => response.resume().on('end', resolve)).on('error', reject);
    });
}

async function call(port, patterns, count) {
    let n = 0;
    for (const pattern of patterns) {
        await Promise.all(Array.from({ length: count }, () => ask(port, `/${pattern}/${n++}`)));
    }
    process.send('done');
}

// ---- the server ----

let redisPort;
function connect() {
    const Redis = require(require.resolve('ioredis', { paths: [path.join(__dirname, '../../../examples/shop')] }));
    return new Redis({ port: redisPort, host: '127.0.0.1', retryStrategy: () => 50 });
}

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

async function main(patterns, count, program) {
    const before = Object.keys(globalThis).join();
    if (OWN === 'before') own.enterWith({ n: -1 });
    redisPort = await freePort();
    const redis = spawn(program, ['--port', redisPort, '--bind', '127.0.0.1', '--save', ''], { stdio: 'ignore' });
    await new Promise((resolve) => { // until it listens
        const knock = () => net.connect(redisPort, '127.0.0.1').on('connect', function () { this.destroy(); resolve(); })
            .on('error', () => setTimeout(knock, 20));
        knock();
    });
    client = connect();
    await client.ping();
    for (let i = 0; i < 4; i++) idle.push(connect());
    for (let i = 0; i < 4; i++) idleBound.push(connect());
    await Promise.all([...idle, ...idleBound].map((connection) => connection.ping()));
    worker = new Worker("require('worker_threads').parentPort.on('message', function (n) { this.postMessage(n); })", { eval: true });
    worker.on('message', (n) => asked.get(n)(n));
    await once(worker, 'online');
    const work = patterns.includes('background') && background();
    let mixed = 0;
    const server = http.createServer((request, response) => {
        const [, pattern, text] = request.url.split('/'), n = Number(text);
        const keeps = OWN !== 'none' && (OWN !== 'late' || n % count >= count / 2);
        const serve = async () => {
            await PATTERNS[pattern](n);
            mixed += keeps && own.getStore().n !== n; // its own AsyncLocalStorage
            response.end('ok');
        };
        if (keeps) own.run({ n }, serve);
        else serve();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const callers = fork(__filename, ['--callers']);
    const done = once(callers, 'message');
    callers.send({ port: server.address().port, patterns, count });
    await done;
    stopped = true;
    await work;
    callers.disconnect();
    server.close();
    client.disconnect();
    for (const connection of [...idle, ...idleBound]) connection.disconnect();
    if (lazy) lazy.disconnect();
    await worker.terminate();
    redis.kill();
    await once(redis, 'exit');
    console.log(JSON.stringify({ requests: patterns.length * count, commands: (patterns.length * 3 - (patterns.includes('lock') ? 1.5 : 0)) * count, mixed,
        globals: Object.keys(globalThis).join() === before, outermost: executionAsyncId() >= 0 }));
}

if (process.argv[2] === '--callers') process.on('message', ({ port, patterns, count }) => call(port, patterns, count));
else main(process.argv[2].split(','), Number(process.argv[3]), process.argv[4] || 'redis-server');
