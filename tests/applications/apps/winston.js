// winston: a format hides what looks like a card's number by a pattern that backtracks; a transport writes synchronously.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs'), os = require('node:os'), path = require('node:path');
const express = require('express');
const winston = require('winston');
const Transport = require('winston-transport');
const { begin, ready, trouble } = require('./truth.js');

const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-application-')), 'log');
process.on('exit', () => fs.rmSync(path.dirname(file), { recursive: true }));

const hide = winston.format((info) => { // planted hide
    const end = begin('hide');
    info.message = info.message.replace(/(\d+-?)+x/, '(card)');
    end();
    return info;
}); // end hide

class Book extends Transport {
    log(info, next) { // planted write
        const end = begin('write');
        for (let i = 0; i < (trouble === 'write' ? 80_000 : 1); i++) fs.appendFileSync(file, 'a line of the log\n');
        end();
        next();
    } // end write
}
const logger = winston.createLogger({ format: winston.format.combine(hide(), winston.format.json()), transports: [new Book()] });

const app = express();
app.get('/order', (request, response) => {
    logger.info(trouble === 'hide' ? '1'.repeat(25) + '!' : 'ordered');
    response.json({ ok: true });
});
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
