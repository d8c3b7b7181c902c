// The HTTP service of bench/overhead.mjs with files, names and a Redis: of three requests one reads a file, one
// resolves a name, and one asks Redis over one pipelined connection (port in the environment: REDIS_PORT).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const dns = require('dns');
const fs = require('fs');
const http = require('http');
const net = require('net');

const waiting = [];
let read = '';
const store = net.connect(Number(process.env.REDIS_PORT), '127.0.0.1');
store.setNoDelay(true);
store.setEncoding('latin1').on('data', (part) => {
    read += part;
    for (let end; (end = read.indexOf('\r\n')) >= 0;) { // GET of a key that is absent: $-1
        read = read.slice(end + 2);
        waiting.shift()();
    }
});

let turn = 0;
const WORK = [
    (done) => fs.readFile(__filename, done),
    (done) => dns.lookup('localhost', done),
    (done) => {
        waiting.push(done);
        store.write('*2\r\n$3\r\nGET\r\n$6\r\nabsent\r\n');
    },
];
const server = http.createServer((req, res) => {
    WORK[turn++ % WORK.length](() => {
        res.writeHead(200, { 'content-type': 'text/plain' });
        res.end('hello, world\n');
    });
});
server.listen(0, '127.0.0.1', () => console.log(`${process.pid} ${server.address().port}`));
process.on('SIGTERM', () => process.exit(0));
