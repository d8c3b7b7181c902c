// restify: a handler derives a key on the event loop; a large answer is encoded by restify's own formatter.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto');
const restify = require('restify');
const { begin, ready, trouble } = require('./truth.js');

const server = restify.createServer({ name: 'parts' });
const parts = Array.from({ length: trouble === 'encode' ? 250_000 : 50 }, (_, id) => ({ id, name: `part ${id}`, fits: ['left', 'right'] }));

server.get('/quick', (request, response, next) => {
    response.send({ ok: true });
    next();
});
server.get('/key', (request, response, next) => { // planted derive
    const end = begin('derive');
    const key = crypto.pbkdf2Sync('secret', 'salt', trouble === 'derive' ? 200_000 : 10, 64, 'sha512');
    end();
    response.send({ key: key.toString('hex') });
    next();
}); // end derive
server.get('/parts', (request, response, next) => { // planted encode
    const end = begin('encode');
    response.send(parts);
    end();
    next();
}); // end encode
server.listen(0, '127.0.0.1', () => ready(server.server));
