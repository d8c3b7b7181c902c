// jsonwebtoken and bcryptjs: tokens are signed on the event loop; passwords are hashed there too, in steps between which others have
// their turn.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto');
const express = require('express');
const jwt = require('jsonwebtoken');
const bcrypt = require('bcryptjs');
const { begin, during, ready, trouble } = require('./truth.js');

const { privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });

function token(ms) { // planted sign
    const end = begin('sign'), more = during(ms);
    let last, user = 0;
    do last = jwt.sign({ user: user++ }, privateKey, { algorithm: 'RS256' });
    while (more());
    end();
    return last;
} // end sign

const app = express();
app.get('/token', (request, response) => response.send(token(trouble === 'sign' ? 200 : 0)));
app.get('/password', async (request, response) => { // planted hash
    const end = begin('hash');
    const hash = await bcrypt.hash('correct horse', trouble === 'hash' ? 14 : 4); // many steps of 100 ms: the last one may be too short for a stall
    end();
    response.send(hash);
}); // end hash
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
