// workerpool: more tasks than its two workers; or the main thread prepares them for so long that everybody waits.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const workerpool = require('workerpool');
const { begin, ready, trouble } = require('./truth.js');

const pool = workerpool.pool({ minWorkers: 2, maxWorkers: 2, workerType: 'thread' });
function shrink(ms) {
    const end = Date.now() + ms;
    let n = 0;
    while (Date.now() < end) n++;
    return n > 0;
}
function prepare() { // planted prepare
    const end = begin('prepare');
    let n = 0;
    for (let i = 0; i < (trouble === 'prepare' ? 150_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end prepare

const app = express();
app.get('/image', async (request, response) => {
    prepare();
    const end = begin('task');
    await pool.exec(shrink, [trouble === 'starved' ? 100 : 1]);
    end();
    response.json({ shrunk: true });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', async () => {
    await Promise.all([pool.exec(shrink, [20]), pool.exec(shrink, [20])]);
    ready(server);
});
