// A service that answers after as many milliseconds as its path says, or with the status that it names (/status/503). It is
// not traced.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const server = require('node:http').createServer((request, response) => {
    const [, what, status] = request.url.split('/');
    if (what === 'status') response.writeHead(Number(status)).end();
    else setTimeout(() => response.end('{"price":1}'), Number(what) || 0);
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
