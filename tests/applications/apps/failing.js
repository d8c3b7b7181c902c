// fastify and axios: a service that refuses, errs or never answers; an exception in a handler; retries; a process that ends.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const axios = require('axios');
const fastify = require('fastify')();
const { begin, ready, trouble } = require('./truth.js');

const port = process.env[trouble === 'refused' ? 'CLOSED_PORT' : 'DB_PORT'];
const upstream = axios.create({ baseURL: `http://127.0.0.1:${port}`, timeout: trouble === 'silent' ? 300 : 10_000 });
const ATTEMPTS = trouble === 'retries' ? 5 : 1;
const PATHS = { errors: '/status/503', silent: '/3000', impatient: '/3000', retries: '/status/503' };

async function ask() {
    for (let i = 1; ; i++)
        try {
            return await upstream.get(PATHS[trouble] || '/5');
        } catch (error) {
            if (i === ATTEMPTS) throw error;
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
}

fastify.get('/price', async (request, reply) => {
    const end = begin('price');
    try {
        return (await ask()).data;
    } catch (error) {
        return reply.code(502).send({ error: error.code });
    } finally {
        end();
    }
});
fastify.get('/basket', async () => {
    if (trouble === 'throws') throw new Error('the basket is empty');
    if (trouble === 'exits') setImmediate(() => { throw new Error('nobody catches this'); });
    return trouble === 'exits' ? new Promise(() => {}) : { basket: [] };
});
fastify.get('/quick', async () => ({ ok: true }));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(() => ready(fastify.server));
