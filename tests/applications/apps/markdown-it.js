// markdown-it on Node's own HTTP server: a long text is rendered; lines are cut by a pattern that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const { begin, ready, trouble } = require('./truth.js');

const PART = '## A heading\n\nSome *text* with `code`, a [link](http://example.com) and\n\n- a list\n- of **things**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n';
const text = PART.repeat(trouble === 'render' ? 2500 : 2);
const line = `${'# '.repeat(trouble === 'cut' ? 14 : 2)}\t.`;

async function start() {
    const { default: MarkdownIt } = await import('markdown-it');
    const markdown = new MarkdownIt();
    const page = () => { // planted render
        const end = begin('render');
        const html = markdown.render(text);
        end();
        return String(html.length);
    }; // end render
    const heading = () => { // planted cut
        const end = begin('cut');
        const good = /^((#\s*)+\s?)*$/.test(line);
        end();
        return String(good);
    }; // end cut
    const routes = { '/page': page, '/heading': heading, '/quick': () => 'ok' };
    const server = http.createServer((request, response) => response.end(routes[request.url]()));
    server.listen(0, '127.0.0.1', () => ready(server));
}
start();
