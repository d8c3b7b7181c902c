// node-fetch, a new connection for each call: a service that is slow; one that errs, which is handed on.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { begin, ready, trouble } = require('./truth.js');

const PATHS = { healthy: '0', slow: '180', errs: 'status/500' };
async function start() {
    const { default: fetch } = await import('node-fetch');
    const app = express();
    app.get('/price', async (request, response) => {
        const end = begin('price');
        const answer = await fetch(`http://127.0.0.1:${process.env.DB_PORT}/${PATHS[trouble]}`);
        const text = await answer.text();
        end();
        response.status(answer.status).send(text);
    });
    app.get('/quick', (request, response) => response.json({ ok: true }));
    const server = app.listen(0, '127.0.0.1', () => ready(server));
}
start();
