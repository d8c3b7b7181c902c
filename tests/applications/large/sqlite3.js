// Express and SQLite, whose queries run on the thread pool, one after the other on their connection.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express'), { Database } = require('@appthreat/sqlite3');
const { begin, ready, trouble } = require('../apps/truth.js');

const app = express(), db = new Database(':memory:');
const sum = (rounds) => new Promise((resolve, reject) => db.get('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT sum(i) AS sum FROM n', rounds, (error, row) => (error ? reject(error) : resolve(row.sum))));

app.get('/quick', (request, response) => response.json({ ok: true }));
app.get('/sum', async (request, response) => {
    const end = begin('sum');
    const answer = await sum(trouble === 'query' ? 2_500_000 : 100);
    end();
    response.json({ answer });
});
app.get('/rank', (request, response) => { // planted rank
    const end = begin('rank'), list = Array.from({ length: trouble === 'rank' ? 14_000 : 100 }, (_, i) => (i * 7919) % 10_007);
    for (let i = 0; i < list.length; i++) for (let k = i + 1; k < list.length; k++) if (list[k] < list[i]) [list[i], list[k]] = [list[k], list[i]];
    end();
    response.json(list.slice(0, 3));
}); // end rank

const server = app.listen(0, '127.0.0.1', () => ready(server));
