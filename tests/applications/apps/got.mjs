// got through an agent of three sockets, to a service that is not traced: more requests than sockets; a service that errs and
// is asked again.
// SPDX-License-Identifier: Apache-2.0
import http from 'node:http';
import express from 'express';
import got from 'got';
import truth from './truth.js';

const { begin, ready, trouble } = truth;
const PATHS = { healthy: '0', sockets: '120', retries: 'status/503' };
const upstream = got.extend({
    prefixUrl: `http://127.0.0.1:${process.env.DB_PORT}`, agent: { http: new http.Agent({ keepAlive: true, maxSockets: trouble === 'sockets' ? 3 : 50 }) },
    retry: { limit: 3, calculateDelay: ({ computedValue }) => (computedValue ? 20 : 0) },
});
const app = express();
app.get('/price', async (request, response) => {
    const end = begin('price');
    try {
        const { body } = await upstream.get(PATHS[trouble]);
        response.send(body);
    } catch (error) {
        response.status(502).send(error.code);
    }
    end();
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
