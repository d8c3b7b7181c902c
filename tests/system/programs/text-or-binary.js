// A WebSocket server that sends files of 10 to 2000 KB, as JSON text or as binary, and its client in another
// process:
//   node text-or-binary.js text|binary [MESSAGES]
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { WebSocket, WebSocketServer } = require('ws');

const SIZES = [10, 50, 100, 200, 420, 500, 1000, 2000];
const [form = 'text', messages = '40', port] = process.argv.slice(2);

function serve() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'text-or-binary-'));
    for (const size of SIZES) fs.writeFileSync(path.join(folder, `${size}`), Buffer.alloc(size * 1024, 'content '));
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 }, () => {
        const client = spawn(process.execPath, [__filename, form, messages, server.address().port], { stdio: 'inherit' });
        client.on('exit', () => {
            fs.rmSync(folder, { recursive: true });
            server.close();
        });
    });
    server.on('connection', (socket) =>
        socket.on('message', async (name) => {
            const content = await fs.promises.readFile(path.join(folder, `${name}`));
            socket.send(form === 'text' ? JSON.stringify({ name: `${name}`, content }) : content);
        }));
}

function ask() {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    let sent = 0;
    const next = () => (sent < Number(messages) ? setTimeout(() => socket.send(String(SIZES[sent++ % SIZES.length])), Math.random() * 20) : socket.close());
    socket.on('open', next);
    socket.on('message', (data, binary) => {
        const content = binary ? data : Buffer.from(JSON.parse(data).content);
        if (!content.length) throw new Error('nothing came');
        next();
    });
}

if (port) ask();
else serve();
