// A server whose requests take as much CPU time as their path says, in ms.
// SPDX-License-Identifier: Apache-2.0
'use strict';
function work(ms) {
    const until = process.cpuUsage().user + ms * 1000;
    let sum = 0;
    while (process.cpuUsage().user < until) for (let i = 0; i < 10_000; i++) sum += i % 7;
    return sum;
}
const server = require('node:http').createServer((request, response) => {
    work(Number(request.url.slice(1)) || 0);
    response.end('done');
}).listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port} ${process.pid}`));
process.on('SIGTERM', () => process.exit(0));
