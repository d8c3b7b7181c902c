// The order service: orders and their history, reports, prices of a supplier, invoices.
// Trouble `loop`: an invoice is computed in JavaScript for as long as nothing else is served.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { answer, begin, peer, serve, trouble } = require('./service.js');

const app = express(), redis = peer('REDIS_GATEWAY'), mysql = peer('MYSQL_GATEWAY'), supplier = peer('SUPPLIER');
app.use(express.json());
app.get('/orders/:id', answer(({ id }) => mysql.get(`/orders/${id}`)));
app.post('/place', answer(async (_, { id }) => {
    await mysql.post('/place', { id });
    return redis.post('/publish', { id });
}));
app.get('/report', answer(() => mysql.get('/report')));
app.get('/top', answer(() => redis.get('/top')));
app.get('/history', answer(() => redis.pass('/history')));
app.get('/price', answer(async () => {
    const end = begin('price');
    const price = await supplier.get(trouble === 'supplier' ? '/180' : '/0');
    end();
    return price;
}));

// planted loop
function invoice(lines) {
    let sum = 1;
    for (let line = 0; line < lines; line++) sum = (sum * 1_103_515_245 + line) % 2_147_483_647;
    return sum;
}
// end loop
app.get('/invoice', answer(async () => {
    const end = begin('invoice');
    const sum = invoice(trouble === 'loop' ? 20_000_000 : 1000);
    end();
    return { sum };
}));
serve(app);
