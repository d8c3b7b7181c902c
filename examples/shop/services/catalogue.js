// The catalogue: products, their descriptions (files) and the bestsellers. A Fastify application.
// Fault `redis`: bestsellers are found by sorting every sale there ever was, inside Redis.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs/promises');
const path = require('path');
const fastify = require('fastify');
const { faults, setFault, connectRedis, serve } = require('./service');

const redis = connectRedis();
const app = fastify({ keepAliveTimeout: 60_000 });
const files = process.env.SHOP_FILES;

app.get('/products', async () => {
    const ids = await redis.lrange('products', 0, 11);
    return Promise.all(ids.map((id) => redis.hgetall(`product:${id}`)));
});

app.get('/products/:id', async (request, reply) => {
    const { id } = request.params;
    const product = await redis.hgetall(`product:${id}`);
    if (!product.name)
        return reply.code(404).send({ error: 'no such product' });
    redis.incr(`views:${id}`).catch(() => {});
    const description = await fs.readFile(path.join(files, 'products', `${Number(id)}.txt`), 'utf8');
    return { ...product, description };
});

app.get('/bestsellers', async () => {
    const ids = faults.has('redis')
        ? [...new Set(await redis.sort('sold', 'BY', 'product:*->sold', 'LIMIT', 0, 10, 'DESC'))]
        : await redis.zrevrange('bestsellers', 0, 9);
    return Promise.all(ids.map((id) => redis.hget(`product:${id}`, 'name')));
});

app.post('/admin/faults', async (request) => ({ faults: setFault(request.query.fault, request.query.on === '1') }));

// This service owns the data: when the shop was killed, its Redis and its files go too.
async function removeData() {
    redis.options.retryStrategy = null;
    await redis.shutdown('NOSAVE').catch(() => {});
    await fs.rm(files, { recursive: true, force: true });
}

app.listen({ port: Number(process.env.SHOP_PORT || 0), host: '127.0.0.1' }).then(() => {
    serve(app.server.address().port, removeData);
});
