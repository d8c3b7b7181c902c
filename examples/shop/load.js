// The customers: a fixed rate of requests, whether or not earlier ones were answered (an open loop), so that a
// stall is felt by everyone who comes during it. Every run sends the same requests in the same order.
//   node load.js http://127.0.0.1:PORT RATE SECONDS [stock]
// On stdout: one JSON line with the counts and latencies. SIGTERM ends it early, with the line.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('http');

const [base, rate, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

const PRODUCTS = 60, USERS = 40, COUPONS = 1500;
// A code that a customer mistyped: no coupon, and expensive to refuse for a pattern that backtracks.
const MISTYPED = 'SUMMERSALE2026WEEKENDOFFERS?';

// Small and repeatable (mulberry32).
let seed = 20260101;
function random(below) {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
}

const get = (path) => ({ method: 'GET', path });
const post = (path, body) => ({ method: 'POST', path, body: JSON.stringify(body) });
const user = () => `user${random(USERS)}`;
const login = () => post('/login', { user: user(), password: 'correct horse' });
const order = (coupon) => post('/orders', { user: user(), product: random(PRODUCTS), coupon });

function anyRequest() {
    const n = random(100);
    if (n < 25) return get('/');
    if (n < 45) return get('/products');
    if (n < 75) return get(`/products/${random(PRODUCTS)}`);
    if (n < 85) return order(random(2) ? `SALE-${random(COUPONS)}` : undefined);
    if (n < 98) return get('/my-orders?session=none');
    return login();
}

// What does not come at random: every so many seconds, from a first moment on.
const OCCASIONS = [
    { first: 2.0, every: 4, requests: () => [order(MISTYPED)] },
    { first: 3.5, every: 3, requests: () => [get('/bestsellers')] },
    { first: 4.7, every: 5, requests: () => Array.from({ length: 10 }, login) },
    ...(process.argv[5] === 'stock' ? [{ first: 1.1, every: 0.9, requests: () => [get(`/stock/${random(PRODUCTS)}`)] }] : []),
];

const latencies = [];
let sent = 0, answered = 0, failed = 0;

function run({ method, path, body }) {
    sent++;
    const start = process.hrtime.bigint();
    const headers = body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {};
    const done = (ok) => {
        answered++;
        if (!ok) failed++;
        latencies.push(Number(process.hrtime.bigint() - start) / 1e6);
    };
    const req = http.request(base + path, { method, agent, headers }, (res) => {
        res.resume();
        res.on('end', () => done(res.statusCode < 500));
        res.on('error', () => done(false));
    });
    req.on('error', () => done(false));
    req.end(body);
}

// Everything that is to be sent, with its moment in seconds, in order.
function plan() {
    const all = [];
    for (let i = 0; i < rate * seconds; i++) all.push({ at: i / rate, request: anyRequest() });
    for (const { first, every, requests } of OCCASIONS)
        for (let at = first; at < seconds - 1; at += every)
            for (const request of requests()) all.push({ at, request });
    return all.sort((a, b) => a.at - b.at);
}

function report() {
    latencies.sort((a, b) => a - b);
    const at = (q) => latencies[Math.min(latencies.length - 1, Math.floor(q * latencies.length))] ?? 0;
    console.log(JSON.stringify({ sent, answered, failed, p50_ms: at(0.5), p99_ms: at(0.99), worst_ms: at(1) }));
}

function finish() {
    report();
    process.exit(0);
}

const requests = plan(), begin = process.hrtime.bigint();
let next = 0;
const ticker = setInterval(() => {
    const now = Number(process.hrtime.bigint() - begin) / 1e9;
    while (next < requests.length && requests[next].at <= now) run(requests[next++].request);
    if (now >= seconds && (answered === sent || now >= seconds + 30)) {
        clearInterval(ticker);
        finish();
    }
}, 5);
process.on('SIGINT', () => {});
process.on('SIGTERM', finish);
process.on('disconnect', finish);
