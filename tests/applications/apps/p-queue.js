// p-queue and bottleneck: no more than so many calls of a service at once, and no more than so many in a time: requests wait in the
// program itself.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const express = require('express');
const Bottleneck = require('bottleneck');
const { begin, ready, trouble } = require('./truth.js');

const agent = new http.Agent({ keepAlive: true });
const call = (path) => new Promise((resolve, reject) => http.get({ agent, host: '127.0.0.1', port: process.env.DB_PORT, path }, (answer) => answer.resume().on('end', resolve)).on('error', reject));
const limiter = new Bottleneck({ minTime: trouble === 'spaced' ? 100 : 0 });

async function start() {
    const { default: PQueue } = await import('p-queue');
    const queue = new PQueue({ concurrency: trouble === 'full' ? 2 : 50 });
    const app = express();
    app.get('/price', async (request, response) => {
        const end = begin('price');
        await queue.add(async () => {
            const held = begin('held');
            await call(trouble === 'full' ? '/120' : '/0');
            held();
        });
        end();
        response.json({ price: 1 });
    });
    app.get('/rate', async (request, response) => {
        const end = begin('rate');
        await limiter.schedule(() => call('/0'));
        end();
        response.json({ rate: 1 });
    });
    app.get('/quick', (request, response) => response.json({ ok: true }));
    const server = app.listen(0, '127.0.0.1', () => ready(server));
}
start();
