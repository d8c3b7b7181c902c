// ws without anything above it: a message's handler computes, or asks a slow service.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { WebSocketServer } = require('ws');
const { begin, ready, trouble } = require('./truth.js');

const http = require('node:http');
const server = http.createServer((request, response) => response.end('ok'));

function score() { // planted score
    const end = begin('score');
    let n = 0;
    for (let i = 0; i < (trouble === 'score' ? 150_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end score

async function price() {
    const end = begin('price');
    const answer = await new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: process.env.DB_PORT, path: trouble === 'slow' ? '/200' : '/0' }, (answer) => answer.on('data', resolve)).on('error', reject));
    end();
    return answer;
}

new WebSocketServer({ server }).on('connection', (socket) => {
    socket.on('message', async (data) => {
        const what = data.toString();
        socket.send(String(what === 'score' ? score() : what === 'price' ? await price() : 'hello'));
    });
});
server.listen(0, '127.0.0.1', () => ready(server));
