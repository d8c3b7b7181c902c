// A server whose requests wait for a forked child: for its answer to a message, and for it to read an extra pipe that
// fills. The quick requests ask the same child, which answers at once.
// A crowd is three at once that fill the pipe.
//   node ipc.js [late|full|quick|crowd]...
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const path = require('node:path');
const { fork } = require('node:child_process');

const DELAY_MS = 200;
const child = fork(path.join(__dirname, 'ipc-child.js'), [String(DELAY_MS)], { stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'] });
const asked = new Map();
let last = 0;

const routes = {
    '/late': (done) => {
        asked.set(++last, done);
        child.send({ id: last, late: true });
    },
    '/full': (done) => child.stdio[3].write(Buffer.alloc(700_000, 'x'), done),
    '/crowd': (done) => child.stdio[3].write(Buffer.alloc(300_000, 'x'), done),
    '/quick': (done) => {
        asked.set(++last, done);
        child.send({ id: last });
    },
};
const server = http.createServer((request, response) => routes[request.url](() => response.end('ok')));
const ask = (target) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path: target }, (answer) => answer.resume().on('end', resolve)));
child.once('message', () => { // it is up: nobody waits for its start
    child.on('message', ({ id }) => {
        asked.get(id)();
        asked.delete(id);
    });
    server.listen(0, '127.0.0.1');
});
server.on('listening', async () => {
    await ask('/quick');
    for (let round = 0; round < 5; round++)
        for (const target of process.argv.slice(2)) {
            await Promise.all(Array.from({ length: target === 'crowd' ? 3 : 1 }, () => ask(`/${target}`)));
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
        }
    child.kill();
    server.close();
    process.exit();
});
