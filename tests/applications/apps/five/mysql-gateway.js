// The MySQL gateway: the only one that talks to the database.
// Troubles: `sql` reports by a search without an index, `pool` has too few connections for its slow statements, `lock` keeps a
// row of the stock locked while it does something else.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const mysql = require('mysql2/promise');
const { answer, begin, serve, trouble } = require('./service.js');

const CONNECTIONS = trouble === 'pool' ? 3 : 12;
const app = express(), pool = mysql.createPool({ host: '127.0.0.1', port: Number(process.env.DB_PORT), user: 'shop', password: 'secret', database: 'shop', connectionLimit: CONNECTIONS });

async function query(name, text, values) {
    const waited = begin('connection');
    const connection = await pool.getConnection();
    waited();
    const asked = begin(name);
    try {
        return (await connection.query(text, values))[0];
    } finally {
        asked();
        connection.release();
    }
}

async function place(id) {
    const connection = await pool.getConnection();
    try {
        await connection.query('BEGIN');
        const asked = begin('update');
        await connection.query('UPDATE stock SET amount = amount - 1 WHERE product = 1');
        asked();
        if (trouble === 'lock') await new Promise((resolve) => setTimeout(resolve, 150));
        await connection.query('COMMIT');
    } finally {
        connection.release();
    }
    return { placed: id };
}

app.use(express.json());
app.get('/users/:id', answer(async ({ id }) => (await query('user', 'SELECT id, name FROM users WHERE id = ?', [id]))[0]));
app.get('/orders/:id', answer(({ id }) => (trouble === 'pool' ? query('orders', 'SELECT SLEEP(0.2)') : query('orders', 'SELECT id, amount FROM movements WHERE id = ?', [id]))));
app.get('/report', answer(() => query('report', trouble === 'sql' ? "SELECT COUNT(*) FROM movements WHERE note LIKE '%1%2%of%3%x%'" : 'SELECT MAX(id) FROM movements')));
app.post('/place', answer((_, { id }) => place(id)));
Promise.all(Array.from({ length: CONNECTIONS }, () => query('warm', 'SELECT 1'))).then(() => serve(app));
