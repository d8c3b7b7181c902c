// The service of context.mjs: a request awaits two Redis commands. /await answers what an await costs, in ns.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('http');
const path = require('path');
const Redis = require(require.resolve('ioredis', { paths: [path.join(__dirname, '../examples/shop')] }));
const redis = new Redis({ port: Number(process.argv[2]), host: '127.0.0.1' });

const AWAITS = 200_000;
async function measureAwait() {
    const start = process.hrtime.bigint();
    for (let i = 0; i < AWAITS; i++) await null;
    return Number(process.hrtime.bigint() - start) / AWAITS;
}

const server = http.createServer(async (request, response) => {
    if (request.url === '/await') {
        await measureAwait();
        return response.end(String(await measureAwait()));
    }
    await redis.get('a');
    await redis.get('b');
    response.end('ok');
}).listen(0, '127.0.0.1', () => console.log(`${process.pid} ${server.address().port}`));
process.on('SIGTERM', () => process.exit(0));
