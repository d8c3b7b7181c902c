// Ajv: schemas are compiled anew for each request; one has a pattern that backtracks, and is checked by generated code.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fastify = require('fastify')();
const { default: Ajv } = require('ajv');
const { begin, ready, trouble } = require('./truth.js');

const fields = Array.from({ length: trouble === 'compile' ? 300 : 3 }, (_, i) => [`field${i}`, { type: 'object', properties: { name: { type: 'string', minLength: 1 }, count: { type: 'integer', minimum: i } }, required: ['name'] }]);
const schema = { type: 'object', properties: Object.fromEntries(fields) };
const isPerson = new Ajv().compile({ type: 'object', properties: { mail: { type: 'string', pattern: '^([a-z0-9]+)+@[a-z]+$' } }, required: ['mail'] });
const person = { mail: 'a'.repeat(trouble === 'pattern' ? 26 : 5) };
isPerson({ mail: 'a@b' });

fastify.get('/form', async () => { // planted compile
    const end = begin('compile');
    const valid = new Ajv().compile(schema)({ field0: { name: 'x' } });
    end();
    return { valid };
}); // end compile
fastify.get('/person', async () => { // planted pattern
    const end = begin('pattern');
    const valid = isPerson(person);
    end();
    return { valid };
}); // end pattern
fastify.get('/quick', async () => ({ ok: true }));
fastify.listen({ port: 0, host: '127.0.0.1' }).then(() => ready(fastify.server));
