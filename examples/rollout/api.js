// The front door: a request to create a virtual machine goes to one of the agents in turn.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { stop } = require('./telemetry');
const http = require('node:http');

let agents = [], next = 0;
const keepAlive = new http.Agent({ keepAlive: true });

const server = http.createServer((request, response) => {
    const port = agents[next++ % agents.length];
    const call = http.request({ host: '127.0.0.1', port, path: '/disks', method: 'POST', agent: keepAlive }, (answer) => {
        response.statusCode = answer.statusCode;
        answer.pipe(response);
    });
    call.on('error', (error) => { response.statusCode = 502; response.end(String(error)); });
    call.end();
});
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
process.on('message', async (message) => {
    if (message.agents) { agents = message.agents; process.send({ ready: true }); return; }
    server.close();
    await stop();
    process.exit(0);
});
