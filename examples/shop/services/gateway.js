// The gateway: what customers talk to. Plain http; it knows sessions (Redis), pages (files) and log-ins, and
// passes everything else to the other services over connections that it keeps open.
// Fault `pool`: passwords are hashed so dearly that a few log-ins fill the thread pool, and files must wait.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('http');
const fs = require('fs');
const path = require('path');
const crypto = require('crypto');
const { promisify } = require('util');
const { faults, setFault, connectRedis, serve } = require('./service');

const pbkdf2 = promisify(crypto.pbkdf2);
const ROUNDS = 2_000, DEAR_ROUNDS = 400_000;
const files = process.env.SHOP_FILES;
const services = { orders: Number(process.env.SHOP_ORDERS_PORT), catalogue: Number(process.env.SHOP_CATALOGUE_PORT), stock: Number(process.env.SHOP_STOCK_PORT) };
const redis = connectRedis();
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

function send(res, status, body) {
    const text = JSON.stringify(body);
    res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
    res.end(text);
}

function readBody(req) {
    return new Promise((resolve, reject) => {
        const parts = [];
        req.on('data', (part) => parts.push(part));
        req.on('end', () => resolve(Buffer.concat(parts)));
        req.on('error', reject);
    });
}

// Asks another service; answers { status, body }.
function ask(service, method, target, body) {
    return new Promise((resolve, reject) => {
        const headers = body ? { 'content-type': 'application/json', 'content-length': body.length } : {};
        const req = http.request({ host: '127.0.0.1', port: services[service], method, path: target, agent, headers }, async (res) => {
            resolve({ status: res.statusCode, body: await readBody(res) });
        });
        req.on('error', reject);
        req.end(body);
    });
}

async function pass(req, res, service, target) {
    const body = req.method === 'POST' ? await readBody(req) : undefined;
    const answer = await ask(service, req.method, target, body);
    res.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': answer.body.length });
    res.end(answer.body);
}

async function page(req, res) {
    const html = await fs.promises.readFile(path.join(files, 'index.html'));
    res.writeHead(200, { 'content-type': 'text/html', 'content-length': html.length });
    res.end(html);
}

async function login(req, res) {
    const { user, password } = JSON.parse(await readBody(req));
    const salt = await redis.hget(`user:${user}`, 'salt');
    const key = await pbkdf2(password, salt || 'unknown', faults.has('pool') ? DEAR_ROUNDS : ROUNDS, 32, 'sha256');
    const session = key.subarray(0, 8).toString('hex');
    await redis.set(`session:${session}`, user, 'EX', 3600);
    send(res, 200, { session });
}

async function myOrders(req, res, url) {
    const user = await redis.get(`session:${url.searchParams.get('session')}`);
    await pass(req, res, 'orders', `/orders?user=${encodeURIComponent(user || 'guest')}`);
}

async function switchFault(req, res, url) {
    const query = `/admin/faults?fault=${encodeURIComponent(url.searchParams.get('fault'))}&on=${url.searchParams.get('on')}`;
    await Promise.all(Object.keys(services).map((service) => services[service] && ask(service, 'POST', query)));
    send(res, 200, { faults: setFault(url.searchParams.get('fault'), url.searchParams.get('on') === '1') });
}

function route(req, res) {
    const url = new URL(req.url, 'http://gateway');
    const where = `${req.method} ${url.pathname}`;
    if (where === 'GET /') return page(req, res);
    if (where === 'POST /login') return login(req, res);
    if (where === 'GET /my-orders') return myOrders(req, res, url);
    if (where === 'POST /orders') return pass(req, res, 'orders', '/orders');
    if (where === 'GET /bestsellers') return pass(req, res, 'catalogue', '/bestsellers');
    if (/^GET \/products(\/\d+)?$/.test(where)) return pass(req, res, 'catalogue', url.pathname);
    if (services.stock && /^GET \/stock\/\d+$/.test(where)) return pass(req, res, 'stock', url.pathname);
    if (where === 'POST /admin/faults') return switchFault(req, res, url);
    return send(res, 404, { error: 'no such page' });
}

const server = http.createServer(async (req, res) => {
    try {
        await route(req, res);
    } catch (error) {
        if (!res.headersSent) send(res, 502, { error: error.message });
    }
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.env.SHOP_PORT || 0), '127.0.0.1', () => serve(server.address().port));
