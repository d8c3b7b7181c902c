// Streams of Redis: requests add an order and wait for its result; a worker, a process of its own, reads one order at a time.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { once } = require('node:events');
const { fork } = require('node:child_process');
const Redis = require('ioredis');
const { begin, book, ready, save, trouble } = require('./truth.js');

const connect = () => new Redis(Number(process.env.DB_PORT), '127.0.0.1');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function compute() { // planted work
    const end = begin('work');
    let n = 0;
    for (let i = 0; i < (trouble === 'work' ? 120_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end work

async function worker() {
    const reader = connect(), redis = connect();
    await reader.xgroup('CREATE', 'orders', 'workers', '$', 'MKSTREAM');
    process.send('ready');
    process.on('message', () => process.send(book(), () => process.exit(0)));
    for (;;) {
        const found = await reader.xreadgroup('GROUP', 'workers', 'one', 'COUNT', 1, 'BLOCK', 1000, 'STREAMS', 'orders', '>');
        for (const [id, [, order]] of found ? found[0][1] : []) {
            const end = begin('job');
            const total = compute();
            if (trouble === 'queue') await sleep(100);
            end();
            await redis.xadd('results', '*', 'order', order, 'total', total);
            await redis.xack('orders', 'workers', id);
        }
    }
}

async function web() {
    const child = fork(__filename, ['worker']);
    await once(child, 'message');
    const redis = connect(), results = connect(), waiting = new Map();
    (async () => {
        for (let last = '0'; ; ) {
            const found = await results.xread('BLOCK', 1000, 'STREAMS', 'results', last);
            for (const [id, [, order, , total]] of found ? found[0][1] : []) waiting.get(order)(total), (last = id);
        }
    })();
    let count = 0;
    const app = require('express')();
    app.get('/order', async (request, response) => {
        const end = begin('order'), order = String(++count);
        const result = new Promise((resolve) => waiting.set(order, resolve));
        await redis.xadd('orders', '*', 'order', order);
        const total = await result;
        waiting.delete(order);
        end();
        response.json({ total });
    });
    app.get('/quick', (request, response) => response.json({ quick: true }));
    const server = app.listen(0, '127.0.0.1', () => ready(server, () => {
        child.once('message', (sums) => (book(sums), save()));
        child.send('end');
    }));
}
(process.argv[2] === 'worker' ? worker : web)();
