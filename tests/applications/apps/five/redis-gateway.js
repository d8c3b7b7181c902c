// The Redis gateway: the only one that talks to Redis.
// Troubles: `keys` searches with KEYS, `eval` ranks in a script, `reply` answers the whole history, `fanout` publishes large
// messages (to many subscribers elsewhere).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const Redis = require('ioredis');
const { answer, serve, trouble } = require('./service.js');

const app = express(), redis = new Redis(Number(process.env.REDIS_PORT), '127.0.0.1');
const RANKED = "local sum = 0 for i = 1, tonumber(ARGV[1]) do sum = (sum * 31 + i) % 65537 end return sum";
const MESSAGE = 'x'.repeat(trouble === 'fanout' ? 200_000 : 100);
app.use(express.json());
app.get('/get/:key', answer(({ key }) => redis.get(key)));
app.post('/set', answer((_, { key, value }) => redis.set(key, value)));
app.get('/search/:text', answer(async ({ text }) => (trouble === 'keys' ? (await redis.keys(`*${text}*`)).length : redis.scard(`names:${text}`))));
app.get('/top', answer(() => (trouble === 'eval' ? redis.eval(RANKED, 0, 4_000_000) : redis.zrevrange('top', 0, 9))));
app.get('/history', answer(() => redis.lrange('history', 0, trouble === 'reply' ? -1 : 9)));
app.post('/publish', answer(async (_, { id }) => {
    await redis.set(`placed:${id}`, 'yes');
    return redis.publish('orders', `${id} ${MESSAGE}`);
}));
serve(app);
