// A server of which there are two versions: the second one hashes before it answers /account, and reads no file there.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');

const second = process.argv[2] === 'second';

function account(res) {
    const answer = () => res.end('an account\n');
    if (second) crypto.pbkdf2('secret', 'salt', 60000, 32, 'sha256', answer);
    else fs.readFile(__filename, answer);
}

const server = http.createServer((req, res) => {
    if (req.url === '/end') return res.end('bye\n', () => process.exit(0));
    if (req.url === '/account') return account(res);
    res.end('hello\n');
});
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
