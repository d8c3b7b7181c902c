// Handlebars: a template is compiled anew for each request; a long table is rendered.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const handlebars = require('handlebars');
const { begin, during, ready, trouble } = require('./truth.js');

const LINE = '<li class="{{kind}}">{{#if price}}{{name}}: {{price}}{{else}}{{name}}{{/if}}</li>';
const text = trouble === 'compile' ? LINE.repeat(400) : LINE;
const table = handlebars.compile('<table>{{#each rows}}<tr><td>{{id}}</td><td>{{name}}</td><td>{{{word}}}</td></tr>{{/each}}</table>');
const rows = Array.from({ length: trouble === 'render' ? 20_000 : 20 }, (_, id) => ({ id, name: `row <${id}>`, word: 'word' }));
table({ rows: [] });

const app = express();
app.get('/article', (request, response) => { // planted compile
    const end = begin('compile');
    const html = handlebars.compile(text)({ kind: 'good', name: 'Rake', price: 12 });
    end();
    response.send(String(html.length));
}); // end compile
app.get('/table', (request, response) => { // planted render
    const end = begin('render'), more = during(trouble === 'render' ? 200 : 0);
    let html;
    do html = table({ rows });
    while (more());
    end();
    response.send(String(html.length));
}); // end render
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
