// tRPC's standalone server: a procedure that asks a service that is slow, one that throws.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { initTRPC } = require('@trpc/server');
const { createHTTPServer } = require('@trpc/server/adapters/standalone');
const { begin, ready, trouble } = require('./truth.js');

const t = initTRPC.create();
const upstream = `http://127.0.0.1:${process.env.DB_PORT}/${trouble === 'slow' ? 300 : 0}`;
const router = t.router({
    quick: t.procedure.query(() => ({ ok: true })),
    price: t.procedure.query(async () => {
        const end = begin('price');
        const price = await (await fetch(upstream)).json();
        end();
        return price;
    }),
    basket: t.procedure.query(() => {
        if (trouble === 'throws') throw new Error('the basket is empty');
        return [];
    }),
});
const server = createHTTPServer({ router });
server.listen(0, '127.0.0.1', () => ready(server));
