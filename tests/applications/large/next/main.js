// A Next.js application in its production build (Turbopack), with handlers and a page in TypeScript.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const next = require('next');
const truth = (globalThis.truth = require('../../apps/truth.js'));

const app = next({ dev: false, dir: __dirname });
app.prepare().then(() => {
    const handle = app.getRequestHandler(), server = http.createServer((request, response) => handle(request, response));
    server.listen(0, '127.0.0.1', () => truth.ready(server));
});
