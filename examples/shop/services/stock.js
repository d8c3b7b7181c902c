// The stock: how many of a product are left. A Fastify application that asks MariaDB over a few connections.
// Fault `database`: it is summed up over the notes of every movement there ever was, for which there is no index.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fastify = require('fastify');
const mysql = require('mysql2/promise');
const { faults, setFault, serve } = require('./service');

const pool = mysql.createPool({ host: '127.0.0.1', port: Number(process.env.SHOP_DATABASE_PORT), user: 'shop', password: 'shop', database: 'shop', connectionLimit: 4 });
const app = fastify({ keepAliveTimeout: 60_000 });

app.get('/stock/:id', async (request, reply) => {
    const { id } = request.params;
    const [rows] = faults.has('database')
        ? await pool.query('SELECT SUM(amount) AS amount FROM movements WHERE note REGEXP ?', [`of product ${Number(id)}$`])
        : await pool.query('SELECT amount FROM stock WHERE product = ?', [Number(id)]);
    if (!rows.length || rows[0].amount === null)
        return reply.code(404).send({ error: 'no such product' });
    return { product: Number(id), left: Number(rows[0].amount) };
});

app.post('/admin/faults', async (request) => ({ faults: setFault(request.query.fault, request.query.on === '1') }));

// The database is this service's: it ends with it when the shop was killed.
const stopDatabase = () => pool.query('SHUTDOWN');

app.listen({ port: Number(process.env.SHOP_PORT || 0), host: '127.0.0.1' }).then(() => {
    serve(app.server.address().port, stopDatabase);
});
