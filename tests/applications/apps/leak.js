// A service that keeps something of every request (as in the well-known examples of memory leaks), or computes for some.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { begin, ready, trouble } = require('./truth.js');

const kept = [];
function remember(request) { // planted leak
    const item = { at: Date.now(), url: request.url, parts: Array.from({ length: 3000 }, (_, i) => ({ i, name: `part ${i}` })) };
    if (trouble === 'leak') kept.push(item);
    return item.parts.length;
} // end leak
function fibonacci(n) { // planted cpu
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
} // end cpu
function count() {
    const end = begin('cpu');
    const value = fibonacci(trouble === 'cpu' ? 37 : 5);
    end();
    return value;
}
const server = require('node:http').createServer((request, response) => {
    const value = request.url === '/leak' ? remember(request) : request.url === '/cpu' ? count() : 1;
    response.end(JSON.stringify({ value }));
}).listen(0, '127.0.0.1', () => ready(server));
