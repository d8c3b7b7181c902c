// Fastify: a password is hashed synchronously; the thread pool is full of hashes while a file is read.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto'), fs = require('node:fs/promises');
const fastify = require('fastify')();
const { begin, ready, trouble } = require('./truth.js');

const ROUNDS = trouble === 'healthy' ? 10 : 400_000;

fastify.get('/login', async (request) => { // planted hash
    if (trouble === 'pool') return { ok: await new Promise((resolve, reject) => crypto.pbkdf2('secret', 'salt', ROUNDS, 64, 'sha512', (error, key) => (error ? reject(error) : resolve(key.length)))) };
    const end = begin('hash');
    const key = crypto.pbkdf2Sync('secret', request.id, ROUNDS, 64, 'sha512');
    end();
    return { ok: key.length };
}); // end hash

fastify.get('/page', async () => {
    const end = begin('page');
    const page = await fs.readFile(__filename, 'utf8');
    end();
    return { length: page.length };
});

fastify.listen({ port: 0, host: '127.0.0.1' }).then(() => ready(fastify.server));
