// What the three services have in common: settings from the environment, the switches of the planted faults,
// their life under the shop (ready, stop), and the Redis connection.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const Redis = require('ioredis');

// SHOP_FAULTS is a list of names; setFault() switches one while the service runs.
const faults = new Set((process.env.SHOP_FAULTS || '').split(',').filter(Boolean));

function setFault(name, on) {
    if (on) faults.add(name);
    else faults.delete(name);
    return [...faults];
}

// One connection per service; commands of all requests share it in a pipeline.
function connectRedis() {
    const redis = new Redis({ host: '127.0.0.1', port: Number(process.env.SHOP_REDIS_PORT || 6379), retryStrategy: (n) => Math.min(50 * n, 1000) });
    redis.on('error', () => {}); // commands fail with the error; here it would only be printed
    return redis;
}

// Tells the shop where the service listens, and ends with it: also when the shop was killed.
function serve(port, onShopGone = async () => {}) {
    if (!process.send) {
        console.log(`listening on http://127.0.0.1:${port}`);
        return;
    }
    process.on('SIGINT', () => {}); // Ctrl-C reaches the whole group; the shop decides when it is over
    process.on('disconnect', async () => {
        await onShopGone().catch(() => {});
        process.exit(0);
    });
    process.send({ port });
}

module.exports = { faults, setFault, connectRedis, serve };
