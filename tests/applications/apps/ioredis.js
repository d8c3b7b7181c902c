// ioredis: KEYS beside GETs on one connection; a script that takes long.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const Redis = require('ioredis');
const { begin, ready, trouble } = require('./truth.js');

const redis = new Redis(Number(process.env.DB_PORT), '127.0.0.1');
const app = express();
app.get('/item', async (request, response) => {
    const end = begin('item');
    const value = await redis.get('key:1');
    end();
    response.json({ value });
});
app.get('/report', async (request, response) => {
    const end = begin('report');
    const found = trouble === 'keys' ? (await redis.keys('*99999*')).length
        : trouble === 'script' ? await redis.eval('local n = 0 for i = 1, 6000000 do n = n + i % 7 end return n', 0) : await redis.dbsize();
    end();
    response.json({ found });
});
const server = app.listen(0, '127.0.0.1', async () => {
    await redis.call('DEBUG', 'POPULATE', trouble === 'keys' ? 500_000 : 1000);
    ready(server);
});
