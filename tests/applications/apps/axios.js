// axios through an agent of two sockets, to a service that is not traced: more requests than sockets; a service that is slow.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const axios = require('axios');
const fastify = require('fastify')();
const { begin, ready, trouble } = require('./truth.js');

const upstream = axios.create({ baseURL: `http://127.0.0.1:${process.env.DB_PORT}`, httpAgent: new http.Agent({ keepAlive: true, maxSockets: trouble === 'sockets' ? 2 : 50 }) });
fastify.get('/price', async () => {
    const end = begin('price');
    const { data } = await upstream.get(trouble === 'healthy' ? '/0' : trouble === 'sockets' ? '/100' : '/300');
    end();
    return { data };
});
fastify.get('/quick', async () => ({ ok: true }));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(() => ready(fastify.server));
