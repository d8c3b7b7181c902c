// Fills the shop: users, products, coupons and past sales in Redis; pages and descriptions as files.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const path = require('path');
const Redis = require('ioredis');

const PRODUCTS = 60, USERS = 40, COUPONS = 1500, SALES = 1_000_000, AT_ONCE = 500;

function writeFiles(folder) {
    fs.mkdirSync(path.join(folder, 'products'), { recursive: true });
    fs.writeFileSync(path.join(folder, 'index.html'), '<!doctype html><title>The shop</title>' + '<p>Welcome.</p>'.repeat(500));
    for (let id = 0; id < PRODUCTS; id++)
        fs.writeFileSync(path.join(folder, 'products', `${id}.txt`), `Product ${id} is very useful. `.repeat(200));
}

// Small commands only, so that filling does not look like one of the faults.
async function fillRedis(port) {
    const redis = new Redis({ host: '127.0.0.1', port, retryStrategy: () => 50 });
    redis.on('error', () => {});
    for (let id = 0; id < PRODUCTS; id++) {
        const sold = (id * 7919) % 1000;
        redis.hset(`product:${id}`, { name: `Product ${id}`, price: 500 + ((id * 137) % 5000), sold });
        redis.rpush('products', id);
        redis.zadd('bestsellers', sold, id);
    }
    for (let id = 0; id < USERS; id++) redis.hset(`user:user${id}`, { salt: `salt${id}` });
    for (let id = 0; id < COUPONS; id++) redis.hset('coupons', `SALE-${id}`, id % 2 ? 0.1 : 0.2);
    for (let id = 0; id < SALES; id += AT_ONCE)
        await redis.rpush('sold', ...Array.from({ length: AT_ONCE }, (_, i) => ((id + i) * 31) % PRODUCTS));
    await redis.quit();
}

module.exports = { writeFiles, fillRedis };
