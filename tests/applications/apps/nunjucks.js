// Nunjucks: a long list is rendered; a filter of the application's own turns a title into an address with a pattern that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const Koa = require('koa');
const nunjucks = require('nunjucks');
const { begin, ready, trouble } = require('./truth.js');

const environment = new nunjucks.Environment(null, { autoescape: true });
environment.addFilter('slug', (title) => title.replace(/(-+ ?)+$/, '')); // planted slug
// end slug
const list = nunjucks.compile('<ul>{% for row in rows %}<li class="{% if row.odd %}odd{% endif %}">{{ row.name }} ({{ row.id }})</li>{% endfor %}</ul>', environment);
const title = nunjucks.compile('<a href="/{{ title | slug }}">', environment);
const rows = Array.from({ length: trouble === 'list' ? 80_000 : 20 }, (_, id) => ({ id, odd: id % 2, name: `row <${id}>` }));
const heading = `${'-'.repeat(trouble === 'slug' ? 25 : 3)}x`;

const app = new Koa();
app.use(async (context) => {
    if (context.path === '/quick') return (context.body = { ok: true });
    if (context.path === '/list') { // planted list
        const end = begin('list');
        context.body = String(list.render({ rows }).length);
        return end();
    } // end list
    const end = begin('slug');
    context.body = title.render({ title: heading });
    end();
});
const server = app.listen(0, '127.0.0.1', () => ready(server));
