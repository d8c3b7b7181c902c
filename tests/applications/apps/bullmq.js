// BullMQ: requests wait for jobs that a worker in the same process does, four at a time; a job computes, or has Redis list all keys
// over the connection that requests use, too. Or there are more jobs than the worker's two places: each pauses, or asks a slow service.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const express = require('express');
const Redis = require('ioredis');
const { Queue, QueueEvents, Worker } = require('bullmq');
const { begin, ready, trouble } = require('./truth.js');

const connection = { port: Number(process.env.DB_PORT), host: '127.0.0.1' };
const redis = new Redis({ ...connection });
const queue = new Queue('jobs', { connection }), events = new QueueEvents('jobs', { connection });

async function work() { // planted job
    const end = begin('job');
    let n = 0;
    for (let i = 0; i < (trouble === 'job' ? 150_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end job
const queued = async () => {
    const end = begin('held');
    if (trouble === 'calls') await fetch(`http://127.0.0.1:${peer.address().port}/`).then((answer) => answer.text());
    else await sleep(150);
    end();
};
const count = async () => (trouble === 'keys' ? (await redis.keys('*99999*')).length : redis.dbsize());
const full = trouble === 'full' || trouble === 'calls';
const does = { count, work, queued };
const worker = new Worker('jobs', (job) => does[job.name](), { connection, concurrency: full ? 2 : 4 });
const peer = http.createServer((request, response) => setTimeout(() => response.end('late'), 150)).listen(0, '127.0.0.1');

const app = express();
app.get('/job/:name', async (request, response) => {
    const end = begin(`job ${request.params.name}`);
    const job = await queue.add(request.params.name, {});
    const result = await job.waitUntilFinished(events);
    end();
    response.json({ result });
});
app.get('/size', async (request, response) => response.json({ size: await redis.dbsize() }));
const server = app.listen(0, '127.0.0.1', async () => {
    await Promise.all([worker.waitUntilReady(), events.waitUntilReady()]);
    if (trouble === 'keys') await redis.call('DEBUG', 'POPULATE', 500_000);
    ready(server);
});
