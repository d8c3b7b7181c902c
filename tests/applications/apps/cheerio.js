// cheerio: a page is parsed for its links; addresses in its text are looked for with a pattern that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const cheerio = require('cheerio');
const { begin, ready, trouble } = require('./truth.js');

const ITEM = (_, i) => `<li class="c${i % 7}"><a href="/article/${i}">article <b>${i}</b></a> &amp; more</li>`;
const page = `<html><body><ul>${Array.from({ length: trouble === 'links' ? 6000 : 20 }, ITEM).join('')}</ul></body></html>`;
const word = `<p>${'a'.repeat(trouble === 'addresses' ? 25 : 5)}!</p>`;

function linksOf(html) { // planted links
    const $ = cheerio.load(html);
    return $('li > a').map((_, a) => $(a).attr('href')).get();
} // end links

const app = express();
app.get('/links', (request, response) => {
    const end = begin('links');
    const links = linksOf(page).length;
    end();
    response.json({ links });
});
app.get('/addresses', (request, response) => { // planted addresses
    const text = cheerio.load(word)('p').text();
    const end = begin('addresses');
    const valid = /^([a-z]+)+@/.test(text);
    end();
    response.json({ valid });
}); // end addresses
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
