// A gateway that asks a service over one WebSocket connection, many messages at a time, each answered after a time of its
// own. The number of a question is in the gateway's path.
//   node websocket.js ROUNDS
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { WebSocket, WebSocketServer } = require('ws');

const TOGETHER = 8;

async function answer(socket, data) {
    const { n, padding } = JSON.parse(data);
    await fs.promises.readFile(__filename);
    await new Promise((resolve) => setTimeout(resolve, 20 + ((n * 7) % 40)));
    socket.send(JSON.stringify({ n, length: padding.length }));
}

function service() {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', path: '/chat' });
    server.on('listening', () => process.send(server.address().port));
    server.on('connection', (socket) => socket.on('message', (data) => answer(socket, data)));
    process.on('disconnect', () => process.exit());
}

async function gateway() {
    const other = fork(__filename);
    const [port] = await once(other, 'message');
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat?secret=1`);
    await once(socket, 'open');
    const waiting = new Map();
    socket.on('message', (data) => {
        const { n } = JSON.parse(data);
        waiting.get(n)();
        waiting.delete(n);
    });
    const server = http.createServer((request, response) => {
        const n = Number(request.url.split('/')[2]);
        waiting.set(n, () => response.end(String(n)));
        socket.send(JSON.stringify({ n, padding: 'x'.repeat(n % 5 ? 10 : 70000) }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const ask = (n) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path: `/ask/${n}` }, (r) => r.resume().on('end', resolve)));
    for (let round = 0, n = 0; round < Number(process.argv[2]); round++) {
        const all = [];
        for (let i = 0; i < TOGETHER; i++) all.push(ask(n++));
        await Promise.all(all);
    }
    socket.close();
    await once(socket, 'close');
    other.disconnect();
    process.exit();
}

if (process.send) service();
else gateway();
