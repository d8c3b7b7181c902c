// A service of bench/overhead.mjs: reads a file and answers with its hash.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const server = http.createServer((req, res) => {
    fs.readFile(__filename, (error, data) => {
        if (error) throw error;
        res.end(crypto.createHash('sha256').update(data).digest('hex'));
    });
});
server.listen(0, '127.0.0.1', () => console.log(`${process.pid} ${server.address().port}`));
process.on('SIGTERM', () => process.exit(0));
