// The child of ipc.js: answers messages, some of them late, and reads its extra pipe now and then.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const net = require('node:net');

const delayMs = Number(process.argv[2]);
process.on('message', ({ id, late }) => (late ? setTimeout(() => process.send({ id }), delayMs) : process.send({ id })));
const input = new net.Socket({ fd: 3, writable: false });
input.pause();
setInterval(() => { while (input.read() !== null); }, delayMs);
process.send({ up: true });
