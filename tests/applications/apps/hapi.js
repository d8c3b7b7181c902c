// hapi: a handler that compresses on the event loop, a validation that backtracks.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const zlib = require('node:zlib');
const Hapi = require('@hapi/hapi');
const { begin, ready, trouble } = require('./truth.js');

const PAGE = Buffer.alloc(trouble === 'zip' ? 40_000_000 : 10_000, 'The quick brown fox jumps over the lazy dog. ');
const NAME = 'x'.repeat(trouble === 'regexp' ? 26 : 3) + '!';

const server = Hapi.server({ port: 0, host: '127.0.0.1' });
server.route([
    { method: 'GET', path: '/quick', handler: () => ({ ok: true }) },
    { method: 'GET', path: '/page', handler: () => { // planted zip
        const end = begin('zip');
        const { length } = zlib.gzipSync(PAGE, { level: 9 });
        end();
        return { length };
    } }, // end zip
    { method: 'GET', path: '/name/{name}', handler: () => { // planted regexp
        const end = begin('regexp');
        const valid = /^(x+x+)+y$/.test(NAME);
        end();
        return { valid };
    } }, // end regexp
]);
server.start().then(() => ready(server.listener));
