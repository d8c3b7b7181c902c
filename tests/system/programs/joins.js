// A server over one pipelined Redis connection, its Redis, and its callers: 50 requests in flight at a time. Each
// command's arguments have a length of their own, so that whose it is can be told from its size alone.
//   node joins.js ROUNDS [REDIS-SERVER]
// In every round the Redis connection and all HTTP connections are new, so that descriptors and ports are used
// again. In one round of three Redis is held up first, so that all replies come at once; in another the requests come
// one after the other, so that replies come alone.
'use strict';
const http = require('http');
const net = require('net');
const path = require('path');
const { fork, spawn } = require('child_process');

const IN_FLIGHT = 50;

// Argument bytes of command number step (0 to 2) of request number n: unique among all commands.
const size = (n, step) => 200 + n * 3 + step;

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

// ---- the callers: a process of their own ----

function ask(port, n) {
    return new Promise((resolve, reject) => {
        http.get({ host: '127.0.0.1', port, path: `/n/${n}`, agent: false }, (response) => {
            response.resume().on('end', resolve);
        }).on('error', reject);
    });
}

async function call(port, first, apartMs) {
    await Promise.all(Array.from({ length: IN_FLIGHT }, async (_, i) => {
        await new Promise((resolve) => setTimeout(resolve, i * apartMs));
        await ask(port, first + i);
    }));
    process.send('done');
}

// ---- the server ----

async function main(rounds, program) {
    const Redis = require(require.resolve('ioredis', { paths: [path.join(__dirname, '../../../examples/shop')] }));
    const redisPort = await freePort();
    const redis = spawn(program, ['--port', redisPort, '--bind', '127.0.0.1', '--save', '', '--enable-debug-command', 'yes'],
        { stdio: 'ignore' });
    const connect = () => new Redis({ port: redisPort, host: '127.0.0.1', retryStrategy: () => 50 });
    await new Promise((resolve) => { // until it listens
        const knock = () => net.connect(redisPort, '127.0.0.1').on('connect', function () { this.destroy(); resolve(); })
            .on('error', () => setTimeout(knock, 20));
        knock();
    });
    let client;
    const server = http.createServer(async (request, response) => {
        const n = Number(request.url.slice(3));
        await client.get('k'.repeat(size(n, 0) - 3));
        await client.set('k', 'v'.repeat(size(n, 1) - 4));
        await client.get('k'.repeat(size(n, 2) - 3));
        response.end('ok');
    });
    server.keepAliveTimeout = 1;
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const callers = fork(__filename, ['--callers']);
    for (let round = 0; round < rounds; round++) {
        client = connect();
        await client.ping();
        const blocker = connect();
        await blocker.ping();
        const held = round % 3 === 1 ? blocker.call('DEBUG', 'SLEEP', '0.3') : null;
        const done = new Promise((resolve) => callers.once('message', resolve));
        callers.send({ port: server.address().port, first: round * IN_FLIGHT, apartMs: round % 3 === 2 ? 5 : 0 });
        await done;
        await held;
        blocker.disconnect();
        client.disconnect();
    }
    callers.disconnect();
    server.close();
    redis.kill();
    await new Promise((resolve) => redis.once('exit', resolve));
    console.log(JSON.stringify({ requests: rounds * IN_FLIGHT, commands: rounds * IN_FLIGHT * 3 }));
}

if (process.argv[2] === '--callers') process.on('message', ({ port, first, apartMs }) => call(port, first, apartMs));
else main(Number(process.argv[2] || 4), process.argv[3] || 'redis-server');
