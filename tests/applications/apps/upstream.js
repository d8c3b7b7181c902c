// A service that answers after as many milliseconds as its path says. It is not traced.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const server = require('node:http').createServer((request, response) => setTimeout(() => response.end('{"price":1}'), Number(request.url.slice(1)) || 0));
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
