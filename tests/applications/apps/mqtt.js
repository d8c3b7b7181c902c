// MQTT, with a broker (aedes) and a worker in processes of their own: requests publish an order and wait for the answer; the worker
// takes one at a time, and pauses or computes for it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { once } = require('node:events');
const { fork } = require('node:child_process');
const mqtt = require('mqtt');
const { begin, book, ready, save, trouble } = require('./truth.js');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
function compute() { // planted work
    const end = begin('work');
    let n = 0;
    for (let i = 0; i < (trouble === 'work' ? 120_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end work

async function broker() {
    const { Aedes } = require('aedes');
    const server = require('node:net').createServer((await Aedes.createBroker()).handle);
    server.listen(0, '127.0.0.1', () => process.send(server.address().port));
    process.on('message', () => process.exit(0));
}

async function worker() {
    const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${process.argv[3]}`);
    let last = Promise.resolve();
    client.on('message', (topic, message) => {
        last = last.then(async () => {
            const end = begin('job'), { id } = JSON.parse(message);
            const total = compute();
            if (trouble === 'queue') await sleep(100);
            end();
            client.publish(`answers/${id}`, JSON.stringify({ total }));
        });
    });
    await client.subscribeAsync('orders');
    process.send('ready');
    process.on('message', () => process.send(book(), () => process.exit(0)));
}

async function web() {
    const first = fork(__filename, ['broker']), [port] = await once(first, 'message');
    const second = fork(__filename, ['worker', String(port)]);
    await once(second, 'message');
    const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`), waiting = new Map();
    client.on('message', (topic, message) => waiting.get(topic)(message.toString()));
    await client.subscribeAsync('answers/+');
    let count = 0;
    const app = require('express')();
    app.get('/order', async (request, response) => {
        const end = begin('order'), id = ++count;
        const total = await new Promise((resolve) => {
            waiting.set(`answers/${id}`, resolve);
            client.publish('orders', JSON.stringify({ id }));
        });
        waiting.delete(`answers/${id}`);
        end();
        response.type('json').send(total);
    });
    app.get('/quick', (request, response) => response.json({ quick: true }));
    const server = app.listen(0, '127.0.0.1', () => ready(server, () => {
        second.once('message', (sums) => (book(sums), first.send('end'), save()));
        second.send('end');
    }));
}
({ broker, worker })[process.argv[2]]?.() ?? web();
