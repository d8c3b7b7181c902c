// The gateway: what customers talk to.
// Trouble `gc`: baskets are built of so many small objects that the collector works most of the time.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { PerformanceObserver } = require('node:perf_hooks');
const express = require('express');
const { answer, book, peer, serve, trouble } = require('./service.js');

const app = express(), user = peer('USER'), order = peer('ORDER');
app.get('/users/:id', answer(({ id }) => user.get(`/users/${id}`)));
app.get('/search/:text', answer(({ text }) => user.get(`/search/${text}`)));
app.get('/picture/:id', answer(({ id }) => user.get(`/picture/${id}`)));
app.get('/orders/:id', answer(({ id }) => order.get(`/orders/${id}`)));
app.get('/place/:id', answer(({ id }) => order.post('/place', { id })));
app.get('/history', answer(() => order.pass('/history')));
for (const path of ['/top', '/report', '/price', '/invoice']) app.get(path, answer(() => order.get(path)));

const shelf = []; // what was built lately
app.get('/basket/:id', answer(async ({ id }) => {
    // planted gc
    const items = Array.from({ length: trouble === 'gc' ? 150_000 : 20 }, (_, n) => ({ id: `${id}-${n}`, price: { amount: n, currency: ['EUR', n % 7] } }));
    // end gc
    shelf.push(items);
    if (shelf.length > 8) shelf.shift();
    return { items: items.length };
}));

const collected = (book().collected = { count: 0, ns: 0, worst_ns: 0, cpu_ns: 0 });
if (trouble === 'gc')
    new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) {
            collected.count++;
            collected.ns += duration * 1e6;
        }
    }).observe({ entryTypes: ['gc'] });
serve(app);
