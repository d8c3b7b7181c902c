// Objection (over knex and pg): a query for each row of another one; a transaction that keeps a row locked while others want it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const knex = require('knex')({ client: 'pg', connection: { host: '127.0.0.1', port: Number(process.env.DB_PORT), user: process.env.DB_USER, database: 'postgres' }, pool: { min: 10, max: 10 } });
const { Model } = require('objection');
const { begin, ready, trouble } = require('./truth.js');

Model.knex(knex);
class Author extends Model {
    static tableName = 'authors';
    static relationMappings = { books: { relation: Model.HasManyRelation, modelClass: () => Book, join: { from: 'authors.id', to: 'books.author' } } };
}
class Book extends Model {
    static tableName = 'books';
}

const app = express();
app.get('/authors', async (request, response) => {
    const end = begin('authors');
    let authors;
    if (trouble === 'each') {
        authors = await Author.query();
        for (const author of authors) author.books = await author.$relatedQuery('books').whereRaw("(select pg_sleep(0.004)) is not null");
    } else authors = await Author.query().withGraphFetched('books');
    end();
    response.json(authors);
});
app.get('/sold', async (request, response) => {
    const end = begin('sold');
    await Author.transaction(async (transaction) => {
        const wanted = begin('locked');
        await Author.query(transaction).findById(1).increment('sold', 1);
        wanted();
        if (trouble === 'locked') await knex.raw('select pg_sleep(0.1)').transacting(transaction);
    });
    end();
    response.json({ sold: true });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', async () => {
    await knex.raw('create table authors (id int primary key, name text, sold int); create table books (id int, author int, title text)');
    await knex.raw("insert into authors select n, 'author ' || n, 0 from generate_series(1, 40) n; insert into books select n, 1 + n % 40, 'book ' || n from generate_series(1, 200) n");
    ready(server);
});
