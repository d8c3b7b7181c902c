// ExcelJS: a workbook is made for each request, in many small steps of streams and promises; one that came is summed up.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { Workbook } = require('exceljs');
const { begin, during, ready, trouble } = require('./truth.js');

function made(rows) {
    const book = new Workbook(), sheet = book.addWorksheet('orders');
    for (let i = 0; i < rows; i++) sheet.addRow([i, `customer ${i % 90}`, i * 3, new Date(i)]);
    return book;
}
const sheet = made(trouble === 'sum' ? 20_000 : 20).getWorksheet('orders');

const app = express();
app.get('/orders', async (request, response) => { // planted write
    const book = made(trouble === 'write' ? 4000 : 20);
    const file = await book.xlsx.writeBuffer();
    response.json({ bytes: file.length });
}); // end write
app.get('/sum', (request, response) => { // planted sum
    const end = begin('sum');
    let sum = 0;
    const more = during(trouble === 'sum' ? 150 : 0);
    do sheet.eachRow((row) => (sum += row.getCell(3).value));
    while (more());
    end();
    response.json({ sum });
}); // end sum
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
