// A service that calls another with fetch(), many requests at a time, over undici's pool of connections; both in this process.
//   node fetching.js COUNT
'use strict';
const http = require('http');
const { once } = require('events');

const listen = async (server) => { server.listen(0, '127.0.0.1'); await once(server, 'listening'); return server.address().port; };
const ask = (port, n) => new Promise((resolve, reject) => http.get({ port, host: '127.0.0.1', path: `/front/${n}`, agent: false },
    (response) => response.resume().on('end', resolve)).on('error', reject));

async function main(count) {
    const back = http.createServer((request, response) => setTimeout(() => response.writeHead(request.method === 'POST' ? 201 : 200).end(request.url), 3));
    const backPort = await listen(back);
    const front = http.createServer(async (request, response) => {
        const n = request.url.split('/')[2], url = `http://127.0.0.1:${backPort}/back/${n}`;
        await null;
        await (await fetch(url)).text();
        await (await fetch(url, { method: 'POST', body: 'x'.repeat(100) })).text();
        response.end();
    });
    const port = await listen(front);
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: count }, (_, i) => ask(port, round * count + i)));
    console.log(JSON.stringify({ calls: 6 * count }));
    process.exit(0);
}
main(Number(process.argv[2]));
