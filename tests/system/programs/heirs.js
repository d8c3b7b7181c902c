// A service whose /lose starts a worker thread that makes more calls than a ring has room for, and whose /next starts one
// that makes a few; both answer with the thread's number when it has ended. /end ends it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

if (!isMainThread) {
    for (let i = 0; i < workerData; i++) fs.readFileSync(__filename);
    parentPort.postMessage(Number(fs.readlinkSync('/proc/thread-self').split('/').pop()));
} else {
    const server = http.createServer((request, response) => {
        let tid;
        const calls = { '/lose': 10_000, '/next': 3 }[request.url];
        if (calls) {
            const worker = new Worker(__filename, { workerData: calls });
            worker.once('message', (message) => (tid = message));
            worker.once('exit', () => response.end(String(tid)));
            return;
        }
        response.end('done\n');
        server.close();
        server.closeAllConnections();
    });
    server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
}
