// A gateway that opens a connection for each question to another service, so that every exchange is a connection's first.
//   node fresh.js ROUNDS
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const { fork } = require('node:child_process');

const get = (port, path, done) => http.get({ host: '127.0.0.1', port, path, agent: false }, (answer) => answer.resume().on('end', done));
const listen = (handler, ready) => {
    const server = http.createServer(handler).listen(0, '127.0.0.1', () => ready(server.address().port));
};

if (process.send) {
    listen((request, response) => response.end('ok'), (port) => process.send(port));
    process.on('disconnect', () => process.exit());
} else {
    const other = fork(__filename);
    other.on('message', (behind) =>
        listen((request, response) => get(behind, '/inner', () => response.end('ok')), async (port) => {
            for (let i = 0; i < Number(process.argv[2]); i++) await new Promise((done) => get(port, '/outer', done));
            other.disconnect();
            process.exit();
        }));
}
