// undici: a pool of two connections to a service that is not traced, for more requests than those; a service that is slow.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { Pool } = require('undici');
const fastify = require('fastify')();
const { begin, ready, trouble } = require('./truth.js');

const upstream = new Pool(`http://127.0.0.1:${process.env.DB_PORT}`, { connections: trouble === 'pool' ? 2 : 20, pipelining: 1 });
fastify.get('/price', async () => {
    const end = begin('price');
    const { body } = await upstream.request({ method: 'GET', path: trouble === 'healthy' ? '/0' : trouble === 'pool' ? '/100' : '/300' });
    const price = await body.json();
    end();
    return price;
});
fastify.get('/quick', async () => ({ ok: true }));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(() => ready(fastify.server));
