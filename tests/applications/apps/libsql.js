// libsql, with the interface of better-sqlite3: a query without an index on the event loop's thread; a loop over its rows.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const Database = require('libsql');
const { begin, ready, trouble } = require('./truth.js');

const database = new Database(':memory:');
database.exec('create table orders (id integer primary key, customer text, total integer)');
const ROWS = trouble === 'healthy' ? 100 : 1_000_000;
database.exec(`insert into orders with recursive n(i) as (select 1 union all select i + 1 from n where i < ${ROWS}) select i, 'customer ' || (i % 1000), i % 97 from n`);

const app = express();
app.get('/quick', (request, response) => response.json({ ok: true }));
app.get('/best', (request, response) => { // planted statement
    const end = begin('statement');
    const row = database.prepare("select customer, sum(total) as total from orders where customer like '%9%' group by customer order by total desc limit 1").get();
    end();
    response.json(row);
}); // end statement
function ranked(rows) { // planted rank
    const end = begin('rank');
    const best = rows.map((row) => ({ ...row, rank: rows.filter((other) => other.total > row.total).length })).sort((a, b) => a.rank - b.rank);
    end();
    return best;
} // end rank
app.get('/rank', (request, response) => response.json(ranked(database.prepare('select customer, total from orders limit ?').all(trouble === 'rank' ? 6000 : 10)).slice(0, 3)));
const server = app.listen(0, '127.0.0.1', () => ready(server));
