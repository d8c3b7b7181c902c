// generic-pool: a few clients of a service, one of which each request takes for a call.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const express = require('express');
const { createPool } = require('generic-pool');
const { begin, ready, trouble } = require('./truth.js');

const ANSWERS_AFTER = { starved: 120, slow: 150 }[trouble] || 0;
const pool = createPool({ create: async () => new http.Agent({ keepAlive: true, maxSockets: 1 }), destroy: async (agent) => agent.destroy() }, { max: trouble === 'starved' ? 2 : 20 });
const call = (agent) => new Promise((resolve, reject) => http.get({ agent, host: '127.0.0.1', port: process.env.DB_PORT, path: `/${ANSWERS_AFTER}` }, (answer) => answer.resume().on('end', resolve)).on('error', reject));

const app = express();
app.get('/price', async (request, response) => {
    const waited = begin('wait'), client = await pool.acquire();
    waited();
    const end = begin('call');
    await call(client);
    end();
    await pool.release(client);
    response.json({ price: 1 });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
