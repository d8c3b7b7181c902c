// The HTTP service of bench/overhead.mjs: answers every request with a short text after one asynchronous step.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('http');
const server = http.createServer((req, res) => {
    setImmediate(() => {
        res.writeHead(200, { 'content-type': 'text/plain' });
        res.end('hello, world\n');
    });
});
server.listen(0, '127.0.0.1', () => console.log(`${process.pid} ${server.address().port}`));
process.on('SIGTERM', () => process.exit(0));
