// memcached: the cache stands still for a while; a value is worked on for long.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { promisify } = require('node:util');
const express = require('express');
const Memcached = require('memcached');
const { begin, ready, trouble } = require('./truth.js');

const cache = new Memcached(`127.0.0.1:${process.env.DB_PORT}`, { poolSize: 4, timeout: 300_000 }), storePid = Number(process.env.DB_PID);
const get = promisify(cache.get.bind(cache)), set = promisify(cache.set.bind(cache));

const app = express();
app.get('/item', async (request, response) => {
    if (trouble === 'stopped' && request.query.stop) {
        process.kill(storePid, 'SIGSTOP');
        setTimeout(() => process.kill(storePid, 'SIGCONT'), 300);
    }
    const end = begin('item');
    const item = await get('item');
    end();
    response.json({ item });
});

function rank(values) { // planted rank
    const end = begin('rank');
    let sum = 0;
    for (let i = 0; i < (trouble === 'rank' ? 3e8 : 1e3); i++) sum = (sum * 31 + values[i % values.length]) % 1_000_003;
    end();
    return sum;
} // end rank
app.get('/rank', async (request, response) => response.json({ rank: rank(JSON.parse(await get('numbers'))) }));

const server = app.listen(0, '127.0.0.1', async () => {
    await set('item', 'chair', 600);
    await set('numbers', JSON.stringify([3, 1, 4, 1, 5]), 600);
    ready(server);
});
