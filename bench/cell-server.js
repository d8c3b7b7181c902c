// More services of bench/overhead.mjs, one a kind: node cell-server.js KIND [PORT of PostgreSQL, its user]. Each answers GET / on the
// port that it prints behind its pid: pg (two queries over a pool of ten connections), ssr (a page of 200 rows rendered from
// components), nest (a controller of NestJS with a service), http2 (a short text), websocket (each message comes back with its length).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('http');
const path = require('path');
const [kind, storePort, user] = process.argv.slice(2);
const load = (name, folder) => require(require.resolve(name, { paths: [path.join(__dirname, '..', folder)] }));
const ready = ({ port }) => console.log(`${process.pid} ${port}`);
const listen = (server) => server.listen(0, '127.0.0.1', () => ready(server.address()));
process.on('SIGTERM', () => process.exit(0));

const KINDS = {
    pg() {
        const { Pool } = load('pg', 'tests/applications'), pool = new Pool({ host: '127.0.0.1', port: Number(storePort), user, database: 'postgres', max: 10 });
        listen(http.createServer(async (request, response) => {
            const { rows: [{ n }] } = await pool.query('SELECT $1::int AS n', [17]), { rows } = await pool.query('SELECT generate_series(1, $1::int) AS n', [n]);
            response.end(JSON.stringify(rows));
        }));
    },
    // Strings from nested components, and their escaping: what rendering on a server is, without one library's name for it.
    ssr() {
        const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
        const h = (name, attributes, ...children) => (typeof name === 'function' ? name({ ...attributes, children }) : { name, attributes: attributes ?? {}, children });
        const render = (node) => (Array.isArray(node) ? node.map(render).join('') : typeof node !== 'object' ? escape(node)
            : `<${node.name}${Object.entries(node.attributes).map(([key, value]) => ` ${key}="${escape(value)}"`).join('')}>${render(node.children)}</${node.name}>`);
        const Price = ({ cents }) => h('td', { class: 'price' }, (cents / 100).toFixed(2)), Row = ({ n }) => h('tr', { id: `row-${n}` }, h('td', null, `Item "${n}"`), h(Price, { cents: n * 37 }));
        const items = async () => { await null; return Array.from({ length: 200 }, (_, n) => n); };
        listen(http.createServer(async (request, response) => {
            const rows = (await items()).map((n) => h(Row, { n }));
            response.setHeader('content-type', 'text/html');
            response.end(render(h('html', null, h('body', null, h('table', null, rows)))));
        }));
    },
    async nest() {
        load('reflect-metadata', 'tests/applications');
        const { Controller, Get, Injectable, Module } = load('@nestjs/common', 'tests/applications'), { NestFactory } = load('@nestjs/core', 'tests/applications');
        class Orders { async newest() { await null; return [{ id: 17, total: 4200 }]; } }
        class Root { constructor(orders) { this.orders = orders; } index() { return this.orders.newest(); } }
        class App {}
        Injectable()(Orders);
        Reflect.defineMetadata('design:paramtypes', [Orders], Root);
        Get()(Root.prototype, 'index', Object.getOwnPropertyDescriptor(Root.prototype, 'index'));
        Controller()(Root);
        Module({ controllers: [Root], providers: [Orders] })(App);
        const app = await NestFactory.create(App, { logger: false });
        await app.listen(0, '127.0.0.1');
        ready(app.getHttpServer().address());
    },
    http2() {
        listen(require('http2').createServer((request, response) => setImmediate(() => response.end('hello, world\n'))));
    },
    websocket() {
        const { WebSocketServer } = load('ws', 'tests/applications'), server = http.createServer();
        new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data) => setImmediate(() => socket.send(`${data.length}: ${data}`))));
        listen(server);
    },
};
KINDS[kind]();
