// jsonwebtoken and bcryptjs: tokens are signed on the event loop; passwords are hashed there too, in steps between which others have
// their turn.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto');
const express = require('express');
const jwt = require('jsonwebtoken');
const bcrypt = require('bcryptjs');
const { begin, ready, trouble } = require('./truth.js');

const { privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });

function token(count) { // planted sign
    const end = begin('sign');
    let last;
    for (let i = 0; i < count; i++) last = jwt.sign({ user: i }, privateKey, { algorithm: 'RS256' });
    end();
    return last;
} // end sign

const app = express();
app.get('/token', (request, response) => response.send(token(trouble === 'sign' ? 150 : 1)));
app.get('/password', async (request, response) => { // planted hash
    const end = begin('hash');
    const hash = await bcrypt.hash('correct horse', trouble === 'hash' ? 11 : 4);
    end();
    response.send(hash);
}); // end hash
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
