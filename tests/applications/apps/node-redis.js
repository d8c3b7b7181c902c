// node-redis: KEYS beside GETs on one connection; a sort of a large list.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fastify = require('fastify')();
const { createClient } = require('redis');
const { begin, ready, trouble } = require('./truth.js');

const redis = createClient({ socket: { port: Number(process.env.DB_PORT), host: '127.0.0.1' } });
fastify.get('/item', async () => {
    const end = begin('item');
    const value = await redis.get('key:1');
    end();
    return { value };
});
fastify.get('/report', async () => {
    const end = begin('report');
    const found = trouble === 'keys' ? (await redis.keys('*99999*')).length
        : trouble === 'sort' ? (await redis.sendCommand(['SORT', 'scores', 'LIMIT', '0', '3'])).length : await redis.dbSize();
    end();
    return { found };
});
(async () => {
    await redis.connect();
    await redis.sendCommand(['DEBUG', 'POPULATE', trouble === 'keys' ? '500000' : '1000']);
    for (let i = 0; i < (trouble === 'sort' ? 40 : 0); i++) await redis.rPush('scores', Array.from({ length: 10_000 }, (_, k) => String((i * 7919 + k * 104_729) % 1_000_003)));
    await fastify.listen({ port: 0, host: '127.0.0.1' });
    ready(fastify.server);
})();
