// A server whose requests post work to another thread and wait for its answer; /quick does not.
//   node threads.js ROUNDS
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');

const BUSY_MS = 15;

function work({ n }) {
    const end = process.hrtime.bigint() + BigInt(BUSY_MS) * 1000000n;
    while (process.hrtime.bigint() < end);
    parentPort.postMessage({ n });
}

function main() {
    const worker = new Worker(__filename);
    const waiting = new Map();
    worker.on('message', ({ n, ready }) => (ready ? serve() : waiting.get(n)()));
    const server = http.createServer((request, response) => {
        if (request.url === '/quick') return response.end('ok');
        const n = Number(request.url.split('/')[2]);
        waiting.set(n, () => response.end('ok'));
        worker.postMessage({ n });
    });
    const serve = () => server.listen(0, '127.0.0.1', async () => {
        const get = (path) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path }, (r) => r.resume().on('end', resolve)));
        for (let i = 0; i < Number(process.argv[2]); i++) await Promise.all([get(`/work/${i}`), get('/quick')]);
        await worker.terminate();
        process.exit();
    });
}

if (isMainThread) main();
else parentPort.on('message', work).postMessage({ ready: true });
