// http-proxy in front of a service that is not traced: slow, or out of order.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const proxies = require('http-proxy');
const { begin, ready, trouble } = require('./truth.js');

const proxy = proxies.createProxyServer({ target: `http://127.0.0.1:${process.env.DB_PORT}`, agent: new http.Agent({ keepAlive: true }) });
proxy.on('error', (error, request, response) => response.writeHead(502).end(error.code));

const server = http.createServer((request, response) => {
    if (request.url === '/quick') return response.end('{"ok":true}');
    const end = begin('price');
    response.on('finish', end);
    request.url = { slow: '/140', errs: '/status/500' }[trouble] || '/0';
    proxy.web(request, response);
});
server.listen(0, '127.0.0.1', () => ready(server));
