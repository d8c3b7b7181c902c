// A service whose /many makes more synchronous calls in one callback than a ring has room for; /end ends it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http = require('node:http');

const server = http.createServer((request, response) => {
    for (let i = 0; i < (request.url === '/many' ? 10_000 : 1); i++) fs.readFileSync(__filename);
    response.end('done\n');
    if (request.url === '/end') {
        server.close();
        server.closeAllConnections();
    }
});
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
