// xml2js: a feed is parsed at once, and a catalogue is written as XML.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { Builder, parseString } = require('xml2js');
const { begin, ready, trouble } = require('./truth.js');

const feed = `<feed>${'<entry id="7"><title>a title</title><text>some words &amp; more</text></entry>'.repeat(trouble === 'parse' ? 10_000 : 10)}</feed>`;
const goods = { goods: { article: Array.from({ length: trouble === 'build' ? 20_000 : 10 }, (_, i) => ({ $: { id: i }, name: `article ${i}`, price: i % 90 })) } };

const app = express();
app.get('/feed', (request, response) => { // planted parse
    const end = begin('parse');
    parseString(feed, (error, tree) => {
        end();
        response.json({ count: tree.feed.entry.length });
    });
}); // end parse
app.get('/goods', (request, response) => { // planted build
    const end = begin('build');
    const text = new Builder().buildObject(goods);
    end();
    response.json({ length: text.length });
}); // end build
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
