// csv-parse: a list of orders is parsed at once; a column's cast checks telephone numbers with a pattern that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { parse } = require('csv-parse/sync');
const { begin, ready, trouble } = require('./truth.js');

const row = (i, phone) => `${i},article ${i},"a name, with a comma",${phone}\n`;
const orders = Array.from({ length: trouble === 'orders' ? 40_000 : 20 }, (_, i) => row(i, '0351 123')).join('');
const people = row(1, trouble === 'phone' ? '1'.repeat(25) + '!' : '0351 123');

const app = express();
app.get('/orders', (request, response) => { // planted orders
    const end = begin('orders');
    const list = parse(orders, { columns: ['id', 'article', 'name', 'phone'] });
    end();
    response.json({ count: list.length });
}); // end orders

function cast(value, { column }) { // planted phone
    if (column !== 3) return value;
    const end = begin('phone');
    const valid = /^(\d+ ?)+$/.test(value);
    end();
    return valid;
} // end phone
app.get('/people', (request, response) => response.json({ valid: parse(people, { cast })[0][3] }));
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
