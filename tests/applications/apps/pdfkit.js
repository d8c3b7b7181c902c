// pdfkit: an invoice of many lines is set on the event loop; a label is made smaller until its text fits.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const PDFDocument = require('pdfkit');
const { begin, ready, trouble } = require('./truth.js');

const LINES = trouble === 'lines' ? 4000 : 5, WORDS = 'some words of a label '.repeat(trouble === 'fit' ? 6000 : 1);

function send(response, write) {
    const document = new PDFDocument({ compress: false });
    document.on('data', () => {}).on('end', () => response.json({ ok: true }));
    write(document);
    document.end();
}

const app = express();
app.get('/invoice', (request, response) => send(response, (document) => { // planted lines
    const end = begin('lines');
    for (let i = 0; i < LINES; i++) document.text(`article ${i}: two pieces at a price that was agreed upon`);
    end();
})); // end lines
app.get('/label', (request, response) => send(response, (document) => { // planted fit
    const end = begin('fit');
    for (let size = 60; size > 4 && document.fontSize(size).heightOfString(WORDS, { width: 300 }) > 200; size--);
    end();
})); // end fit
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
