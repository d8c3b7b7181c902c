// Builds a start-up snapshot (node --snapshot-blob FILE --build-snapshot snapshot.js) after work of several turns; the program
// that starts from it serves a few requests of its own.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const { startupSnapshot } = require('v8');

let turns = 0;
setTimeout(() => {
    turns++;
    fs.stat('/', () => turns++);
}, 5);

startupSnapshot.setDeserializeMainFunction(() => {
    const http = require('http'); // may not be in a snapshot
    let answers = 0;
    const server = http.createServer((request, response) => fs.stat('/', () => response.end())).listen(0, '127.0.0.1', function again() {
        http.get({ host: '127.0.0.1', port: server.address().port, agent: false }, (response) => {
            response.resume().on('end', () => {
                if (++answers < 10) return again();
                server.close();
                console.log(`${turns} turns, ${answers} answers`);
            });
        });
    });
});
