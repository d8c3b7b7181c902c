// passport and express-session: who signs in is verified on the event loop; the store of the sessions is another service.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto'), http = require('node:http');
const express = require('express');
const session = require('express-session');
const passport = require('passport');
const { Strategy } = require('passport-local');
const { begin, ready, trouble } = require('./truth.js');

passport.use(new Strategy((user, password, done) => { // planted verify
    const end = begin('verify');
    crypto.pbkdf2Sync(password, 'salt', trouble === 'verify' ? 250_000 : 100, 32, 'sha512');
    end();
    done(null, { user });
})); // end verify

const agent = new http.Agent({ keepAlive: true });
class Sessions extends session.Store {
    get(id, done) {
        const end = begin('stored');
        http.get({ agent, host: '127.0.0.1', port: process.env.DB_PORT, path: trouble === 'store' ? '/150' : '/0' }, (answer) => answer.resume().on('end', () => {
            end();
            done(null, { cookie: {}, user: 'anna' });
        })).on('error', done);
    }
    set(id, data, done) {
        done();
    }
    touch(id, data, done) {
        done();
    }
}

const app = express();
app.get('/login', passport.authenticate('local', { session: false }), (request, response) => response.json(request.user));
const signed = `connect.sid=s:one.${crypto.createHmac('sha256', 'secret').update('one').digest('base64').replace(/=+$/, '')}`;
app.get('/account', (request, response, next) => {
    request.headers.cookie = signed;
    next();
}, session({ secret: 'secret', store: new Sessions(), resave: false, saveUninitialized: false }), (request, response) => response.json({ user: request.session.user }));
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
