// A server that asks a peer (its port is the first argument): over one connection that stays (/ask), or over a new one (/new).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const net = require('node:net');
const peer = Number(process.argv[2]);
const kept = net.connect(peer, '127.0.0.1');
function ask(socket, done) {
    socket.once('data', done);
    socket.write('?\n');
}
kept.once('connect', () => {
    const server = require('node:http').createServer((request, response) => {
        if (request.url === '/ask') return ask(kept, () => response.end('answered'));
        const socket = net.connect(peer, '127.0.0.1', () => ask(socket, () => {
            socket.end();
            response.end('answered');
        }));
    }).listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port} ${process.pid}`));
});
process.on('SIGTERM', () => process.exit(0));
