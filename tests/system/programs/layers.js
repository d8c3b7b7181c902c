// An HTTP service whose one endpoint reads a file, resolves a name and hashes, and its only client: a request crosses all
// layers.   layers.js FILE
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('crypto');
const dns = require('dns');
const fs = require('fs');
const http = require('http');
const REQUESTS = 20;

const server = http.createServer((req, res) => {
    fs.readFile(process.argv[2], (error, bytes) => {
        dns.lookup('localhost', (unknown, address) => {
            crypto.pbkdf2('word', 'salt', 20_000, 32, 'sha256', (failed, key) => {
                if (error || unknown || failed) res.statusCode = 500;
                res.end(`${bytes?.length} ${address} ${key?.toString('hex')}`);
            });
        });
    });
});
server.listen(0, '127.0.0.1', () => {
    let answered = 0;
    const next = () => http.get({ host: '127.0.0.1', port: server.address().port, path: '/all' }, (res) => {
        res.resume().on('end', () => (++answered < REQUESTS ? next() : server.close()));
    });
    next();
});
