// Bee-Queue: requests wait for jobs that a worker in the same process does; each job computes, or there are more of them than the
// worker's two places, and each pauses.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const express = require('express');
const Queue = require('bee-queue');
const { begin, ready, trouble } = require('./truth.js');

const queue = new Queue('letters', { redis: { host: '127.0.0.1', port: Number(process.env.DB_PORT) } });

function count() { // planted count
    const end = begin('count');
    let n = 0;
    for (let i = 0; i < (trouble === 'count' ? 150_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end count

queue.process(2, async () => {
    const end = begin('held'), result = count();
    if (trouble === 'full') await sleep(150);
    end();
    return result;
});

const app = express();
app.get('/letter', async (request, response) => {
    const end = begin('letter');
    const job = queue.createJob({ to: 'everybody' });
    const done = new Promise((resolve) => job.on('succeeded', resolve));
    await job.save();
    const result = await done;
    end();
    response.json({ result });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => queue.ready(() => ready(server)));
