// Holds requests of /held until one of /release comes; then each reads a file and is answered. Prints where it listens, and
// each request that it holds or has answered.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs'), http = require('http'), held = [];

const server = http.createServer((request, response) => {
    if (request.url.startsWith('/held')) return held.push(response), console.log(request.url);
    if (request.url === '/release') for (const one of held.splice(0)) fs.readFile(__filename, () => one.end('held'));
    response.end('done');
    setImmediate(() => console.log(`answered ${request.url}`));
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
