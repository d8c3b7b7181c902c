// Nodemailer, and a mail server in a process of its own that is slow to take letters: each request sends one, over two connections or
// over as many as there are requests.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { once } = require('node:events');
const { fork } = require('node:child_process');
const { begin, ready, save, trouble } = require('./truth.js');

function post() {
    const { SMTPServer } = require('smtp-server');
    const server = new SMTPServer({
        authOptional: true, disabledCommands: ['STARTTLS'],
        onData: (stream, session, done) => stream.resume().on('end', () => (trouble === 'healthy' ? done() : setTimeout(done, 150))),
    });
    server.listen(0, '127.0.0.1', () => process.send(server.server.address().port));
    process.on('message', () => process.exit(0));
}

async function web() {
    const child = fork(__filename, ['post']), [port] = await once(child, 'message');
    const mail = require('nodemailer').createTransport({ host: '127.0.0.1', port, pool: true, maxConnections: trouble === 'starved' ? 2 : 20, ignoreTLS: true });
    const app = require('express')();
    app.get('/letter', async (request, response) => {
        const end = begin('letter');
        await mail.sendMail({ from: 'shop@example.com', to: 'customer@example.com', subject: 'Thank you', text: 'It is on its way.' });
        end();
        response.json({ sent: true });
    });
    app.get('/quick', (request, response) => response.json({ ok: true }));
    const server = app.listen(0, '127.0.0.1', async () => {
        await Promise.all([1, 2].map((n) => mail.sendMail({ from: 'shop@example.com', to: 'customer@example.com', subject: String(n), text: 'We begin.' })));
        ready(server, () => (child.send('end'), save()));
    });
}
process.argv[2] === 'post' ? post() : web();
