// The load of bench/overhead.mjs for WebSockets: node websocket-load.js PORT SECONDS. Twenty connections, on each of which a message
// follows the answer to the one before. Prints how many were answered, and how many a second.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const path = require('path');
const { WebSocket } = require(require.resolve('ws', { paths: [path.join(__dirname, '../tests/applications')] }));
const [port, seconds] = process.argv.slice(2).map(Number);
let answered = 0, open = 20;
const began = process.hrtime.bigint(), until = began + BigInt(seconds * 1e9);
for (let i = open; i > 0; i--) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
    const ask = () => socket.send('what is the state of order 17?');
    socket.on('open', ask).on('message', () => {
        answered++;
        if (process.hrtime.bigint() < until) return ask();
        socket.close();
        if (!--open) console.log(`${answered} requests in, Requests/sec: ${(answered / (Number(process.hrtime.bigint() - began) / 1e9)).toFixed(2)}`);
    });
}
