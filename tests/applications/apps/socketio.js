// socket.io over WebSocket: the handler of an event computes; a pattern backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const server = require('node:http').createServer((request, response) => response.end('ok'));
const { Server } = require('socket.io');
const { begin, ready, trouble } = require('./truth.js');

function rank(amount) { // planted rank
    const end = begin('rank');
    let n = 0;
    for (let i = 0; i < amount * 1_000_000; i++) n += i % 7;
    end();
    return n;
} // end rank

function isName(text) { // planted name
    const end = begin('name');
    const good = /^(\w+\s?)*$/.test(text);
    end();
    return good;
} // end name

new Server(server).on('connection', (socket) => {
    socket.on('hello', (answer) => answer('hello'));
    socket.on('rank', (answer) => answer(rank(trouble === 'rank' ? 150 : 0)));
    socket.on('name', (answer) => answer(isName(trouble === 'name' ? 'a'.repeat(25) + '!' : 'anna')));
});
server.listen(0, '127.0.0.1', () => ready(server));
