// Koa and Piscina: more tasks than workers; the main thread does the task itself.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const path = require('node:path');
const Koa = require('koa');
const { Piscina } = require('piscina');
const { begin, ready, trouble } = require('./truth.js');

const pool = new Piscina({ filename: path.join(__dirname, 'piscina-task.js'), minThreads: 2, maxThreads: 2 });
const TASK_MS = trouble === 'starved' ? 100 : 1;

function shrink(ms) { // planted inline
    const end = begin('inline');
    let n = 0;
    for (let i = 0; i < ms * 1_000_000; i++) n += i % 7;
    end();
    return n;
} // end inline

const app = new Koa();
app.use(async (context) => {
    if (context.path === '/quick') context.body = 'ok';
    else if (trouble === 'inline') context.body = String(shrink(120));
    else {
        const end = begin('task');
        context.body = String(await pool.run(TASK_MS));
        end();
    }
});
const server = app.listen(0, '127.0.0.1', async () => {
    await Promise.all([pool.run(1), pool.run(1)]);
    ready(server);
});
