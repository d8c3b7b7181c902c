// Fills the shop: users, products, coupons and past sales in Redis; pages and descriptions as files; what is in stock in
// MariaDB.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const path = require('path');
const Redis = require('ioredis');

const PRODUCTS = 60, USERS = 40, COUPONS = 1500, SALES = 1_000_000, MOVEMENTS = 600_000, AT_ONCE = 500;

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

// What MariaDB executes when it starts: the account, what is in stock, and how it came to be.
function databaseScript() {
    return [
        'CREATE DATABASE IF NOT EXISTS shop;',
        "CREATE USER IF NOT EXISTS shop@'127.0.0.1' IDENTIFIED BY 'shop';",
        "GRANT ALL ON shop.* TO shop@'127.0.0.1';",
        "GRANT SHUTDOWN ON *.* TO shop@'127.0.0.1';",
        'CREATE TABLE shop.stock (product INT PRIMARY KEY, amount INT);',
        'CREATE TABLE shop.movements (id INT PRIMARY KEY, amount INT, note VARCHAR(100));',
        `INSERT INTO shop.movements SELECT seq, seq % 7 + 1, CONCAT('delivery ', seq, ' of product ', seq % ${PRODUCTS}) FROM shop.seq_1_to_${MOVEMENTS};`,
        `INSERT INTO shop.stock SELECT id % ${PRODUCTS}, SUM(amount) FROM shop.movements GROUP BY id % ${PRODUCTS};`,
        '',
    ].join('\n');
}

module.exports = { databaseScript, writeFiles, fillRedis };
