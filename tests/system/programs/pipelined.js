// A server whose client sends seven requests at once on one connection; answers of three kinds, after a file operation each.
// Every second request carries a W3C traceparent.
//   node pipelined.js COUNT
'use strict';
const http = require('http');
const net = require('net');
const fs = require('fs');

const server = http.createServer(async (request, response) => {
    const n = Number(request.url.split('/')[2]);
    await new Promise((resolve) => setTimeout(resolve, 7 - (n % 7)));
    await fs.promises.stat(__filename);
    if (n % 3 === 0) {
        response.statusCode = 404;
        response.end();
    } else if (n % 3 === 1) {
        response.write('a'); // in chunks
        await null;
        response.end('b'.repeat(5000));
    } else {
        response.setHeader('Content-Length', 3).end('abc');
    }
}).listen(0, '127.0.0.1', () => {
    const client = net.connect(server.address().port, '127.0.0.1');
    const count = Number(process.argv[2]);
    let sent = 0, text = '';
    const more = () => {
        if (sent >= count) return client.end();
        let batch = '';
        for (const end = sent + 7; sent < end; sent++)
            batch += `${sent % 3 ? 'POST' : 'GET'} /p/${sent} HTTP/1.1\r\nHost: x\r\n` +
                (sent % 2 ? '' : `TraceParent: 00-4bf92f3577b34da6a3ce929d0e0e4736-${sent.toString(16).padStart(16, '0')}-01\r\n`) +
                (sent % 3 ? 'Content-Length: 5\r\n\r\nhello' : '\r\n');
        client.write(batch);
    };
    client.on('data', (part) => {
        text += part;
        if (text.match(/HTTP\/1\.1 \d+/g)?.length === sent) setTimeout(more, 20);
    }).on('close', () => server.close());
    more();
});
