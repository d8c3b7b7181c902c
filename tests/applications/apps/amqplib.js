// amqplib: requests give RabbitMQ a job and wait for its answer; a worker, a process of its own, takes one job at a time. It
// waits for something with the next job behind it, or it computes. Without noDelay its acknowledgements would take 40 ms longer.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { once } = require('node:events');
const { fork } = require('node:child_process');
const amqp = require('amqplib');
const { begin, book, ready, save, trouble } = require('./truth.js');

const url = `amqp://guest:guest@127.0.0.1:${process.env.DB_PORT}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function compute() { // planted work
    const end = begin('work');
    let n = 0;
    for (let i = 0; i < (trouble === 'work' ? 120_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end work

async function worker() {
    const channel = await (await amqp.connect(url, { noDelay: true })).createChannel();
    await channel.assertQueue('orders');
    await channel.prefetch(1);
    await channel.consume('orders', async (message) => {
        const end = begin('job');
        const total = compute();
        if (trouble === 'queue') await sleep(100);
        end();
        channel.sendToQueue(message.properties.replyTo, Buffer.from(String(total)), { correlationId: message.properties.correlationId });
        channel.ack(message);
    });
    process.send('ready');
    process.on('message', () => process.send(book(), () => process.exit(0)));
}

async function web() {
    const child = fork(__filename, ['worker']);
    await once(child, 'message');
    const channel = await (await amqp.connect(url, { noDelay: true })).createChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const waiting = new Map();
    await channel.consume(queue, (message) => waiting.get(message.properties.correlationId)(message.content.toString()), { noAck: true });
    let count = 0;
    const app = require('express')();
    app.get('/order', async (request, response) => {
        const end = begin('order'), correlationId = String(++count);
        const total = await new Promise((resolve) => {
            waiting.set(correlationId, resolve);
            channel.sendToQueue('orders', Buffer.from(JSON.stringify({ order: count })), { correlationId, replyTo: queue });
        });
        waiting.delete(correlationId);
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
