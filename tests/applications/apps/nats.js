// NATS: requests ask a worker, a process of its own, which computes or waits for something.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { once } = require('node:events');
const { fork } = require('node:child_process');
const { connect, StringCodec } = require('nats');
const { begin, book, ready, save, trouble } = require('./truth.js');

const text = StringCodec(), servers = `127.0.0.1:${process.env.DB_PORT}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function compute() { // planted work
    const end = begin('work');
    let n = 0;
    for (let i = 0; i < (trouble === 'work' ? 120_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end work

async function worker() {
    const client = await connect({ servers });
    client.subscribe('prices.list', { queue: 'workers', callback: async (error, message) => {
        const end = begin('job');
        const total = compute();
        if (trouble === 'slow') await sleep(200);
        end();
        message.respond(text.encode(String(total)));
    } });
    await client.flush();
    process.send('ready');
    process.on('message', () => process.send(book(), () => process.exit(0)));
}

async function web() {
    const child = fork(__filename, ['worker']);
    await once(child, 'message');
    const client = await connect({ servers });
    let count = 0;
    const app = require('express')();
    app.get('/price', async (request, response) => {
        const end = begin('price');
        const answer = await client.request('prices.list', text.encode(JSON.stringify({ price: ++count })), { timeout: 20_000 });
        end();
        response.json({ total: text.decode(answer.data) });
    });
    app.get('/quick', (request, response) => response.json({ quick: true }));
    const server = app.listen(0, '127.0.0.1', () => ready(server, () => {
        child.once('message', (sums) => (book(sums), save()));
        child.send('end');
    }));
}
(process.argv[2] === 'worker' ? worker : web)();
