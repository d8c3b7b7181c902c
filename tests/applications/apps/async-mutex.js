// async-mutex: all requests change one balance, each in turn, and the service that is asked meanwhile is slow; a semaphore of
// three for a dear service.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const express = require('express');
const { Mutex, Semaphore } = require('async-mutex');
const { begin, ready, trouble } = require('./truth.js');

const agent = new http.Agent({ keepAlive: true });
const call = (path) => new Promise((resolve, reject) => http.get({ agent, host: '127.0.0.1', port: process.env.DB_PORT, path }, (answer) => answer.resume().on('end', resolve)).on('error', reject));
const balance = new Mutex(), dear = new Semaphore(3);

const app = express();
app.get('/pay', async (request, response) => {
    const end = begin('pay');
    await balance.runExclusive(async () => {
        const held = begin('held');
        await call(trouble === 'lock' ? '/80' : '/0');
        held();
    });
    end();
    response.json({ paid: true });
});
app.get('/route', async (request, response) => {
    const end = begin('route');
    await dear.runExclusive(async () => {
        const held = begin('asked');
        await call(trouble === 'permits' ? '/120' : '/0');
        held();
    });
    end();
    response.json({ route: 1 });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
