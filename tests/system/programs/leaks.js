// An HTTP server that leaks in one of four ways, or its healthy twin, under load of its own:
//   node leaks.js cache|closure|global|promises leak|healthy [REQUESTS]
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');

const [kind, twin, requests = '500'] = process.argv.slice(2);
const leak = twin === 'leak';

// About 200 KB that the collector has to walk.
const make = (n) => Array.from({ length: 2500 }, (_, i) => ({ n, i, text: `order ${n} line ${i}` }));

const LIMIT = 20;
const cache = new Map();
function remember(n, value) {
    cache.set(`/orders/${n}?at=${process.hrtime.bigint()}`, value);
    if (!leak && cache.size > LIMIT) cache.delete(cache.keys().next().value);
}

const events = new (require('node:events').EventEmitter)().setMaxListeners(0);
function listen(request, value) {
    const done = () => value.length + request.url.length;
    events.on('end of day', done);
    if (!leak) request.on('close', () => events.off('end of day', done));
}

globalThis.audit = [];
function note(value) {
    globalThis.audit.push(value);
    if (!leak && globalThis.audit.length > LIMIT) globalThis.audit.shift();
}

const waiting = [];
async function promise(value) {
    const answer = new Promise((resolve) => (leak ? waiting.push(resolve) : setImmediate(resolve)));
    answer.then(() => value.length);
    return value;
}

const server = http.createServer(async (request, response) => {
    const n = Number(request.url.slice(1)), value = make(n);
    if (kind === 'cache') remember(n, value);
    else if (kind === 'closure') listen(request, value);
    else if (kind === 'global') note(value);
    else await promise(value);
    response.end(`${value.length}\n`);
});

const ask = (n) =>
    new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: server.address().port, path: `/${n}`, agent }, (response) => response.resume().on('end', resolve)).on('error', reject));
const agent = new http.Agent({ keepAlive: true });

// A leak goes on until it has been collected often enough to show: a busy machine collects less often.
let majors = 0;
const { PerformanceObserver, constants } = require('node:perf_hooks');
new PerformanceObserver((list) => (majors += list.getEntries().filter((entry) => entry.detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length)).observe({ entryTypes: ['gc'] });

server.listen(0, '127.0.0.1', async () => {
    for (let n = 0; n < Number(requests) || (leak && majors < 3 && n < 4 * Number(requests)); n++) {
        await ask(n);
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
    }
    server.close();
    agent.destroy();
});
