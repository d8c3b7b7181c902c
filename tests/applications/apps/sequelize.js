// Sequelize (over pg): objects are made of many rows; a pool of two connections and slow queries.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { DataTypes, QueryTypes, Sequelize } = require('sequelize');
const { begin, ready, trouble } = require('./truth.js');

const database = new Sequelize('postgres', process.env.DB_USER, '', { host: '127.0.0.1', port: Number(process.env.DB_PORT), dialect: 'postgres', logging: false, pool: { min: 2, max: trouble === 'healthy' ? 10 : 2, idle: 60_000, acquire: 60_000 } });
const Article = database.define('article', { name: DataTypes.TEXT, price: DataTypes.INTEGER }, { timestamps: false });
const ask = async (text, name) => {
    const end = begin(name);
    await database.query(text, { type: QueryTypes.SELECT });
    end();
};

const app = express();
app.get('/articles', async (request, response) => {
    const articles = await Article.findAll();
    response.json({ count: articles.length });
});
app.get('/slowq', async (request, response) => {
    await ask(trouble === 'starved' ? 'select pg_sleep(0.25)' : 'select 1', 'slowq');
    response.json({});
});
app.get('/fastq', async (request, response) => {
    await ask('select 1', 'fastq');
    response.json({});
});
const server = app.listen(0, '127.0.0.1', async () => {
    await Article.sync();
    await database.query(`insert into articles (name, price) select 'article ' || n, n from generate_series(1, ${trouble === 'rows' ? 60_000 : 30}) n`);
    await Promise.all([1, 2].map(() => database.query('select pg_sleep(0.05)')));
    ready(server);
});
