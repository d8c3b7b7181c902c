// node:cluster with two workers that share a port: a handler computes; a worker ends because of an exception that nobody catches.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const cluster = require('node:cluster');
const express = require('express');
const { begin, book, ready, save, trouble } = require('./truth.js');

function score() { // planted score
    const end = begin('score');
    let n = 0;
    for (let i = 0; i < (trouble === 'score' ? 150_000_000 : 1000); i++) n += i % 7;
    end();
    return n;
} // end score

if (cluster.isPrimary) {
    const ports = [];
    for (let i = 0; i < 2; i++)
        cluster.fork().on('listening', ({ port }) => ports.push(port) === 2 && ready({ address: () => ({ port }) }, finish));
    // What each worker knows is written down by the primary process.
    const finish = () => {
        const running = Object.values(cluster.workers);
        let left = running.length;
        for (const worker of running) worker.on('message', (sums) => (book(sums), --left || save())).send('sums');
        if (!left) save();
    };
} else {
    process.on('message', (what) => what === 'sums' && process.send(book()));
    process.on('SIGTERM', () => {});
    const app = express();
    app.get('/score', (request, response) => response.json({ score: score() }));
    app.get('/quick', (request, response) => response.json({ ok: true }));
    app.get('/basket', (request, response) => {
        if (trouble === 'exits') setImmediate(() => { throw new Error('nobody catches this'); });
        else response.json([]);
    });
    app.listen(0, '127.0.0.1');
}
