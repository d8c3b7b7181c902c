// HTTP/2: a gateway that asks a service behind it, both with many streams at a time over one connection each. The number
// of a request is in both paths. /post sends a body; every third request is turned away by the service with 404; the
// gateway resets /reset.
//   node http2.js ROUNDS
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http2 = require('node:http2');
const { fork } = require('node:child_process');
const { once } = require('node:events');

const TOGETHER = 20;

async function read(stream) {
    let text = '';
    for await (const part of stream) text += part;
    return text;
}

async function ask(session, method, path, body) {
    const stream = session.request({ ':method': method, ':path': path });
    stream.end(body);
    const [headers] = await once(stream, 'response');
    return { status: headers[':status'], text: await read(stream) };
}

// Waits for a time of its own, so that answers come in another order than questions.
async function behind(stream, headers) {
    const n = Number(headers[':path'].split('/')[2]);
    const body = headers[':method'] === 'POST' ? await read(stream) : '';
    await new Promise((resolve) => setTimeout(resolve, 5 + ((n * 7) % 40)));
    stream.respond({ ':status': n % 3 ? 200 : 404 });
    stream.end(String(body.length));
}

async function gateway(session, stream, headers) {
    const path = headers[':path'];
    if (path === '/reset') return stream.on('error', () => {}).close(http2.constants.NGHTTP2_REFUSED_STREAM);
    const n = path.split('/')[2].split('?')[0];
    const body = headers[':method'] === 'POST' ? await read(stream) : undefined;
    await fs.promises.readFile(__filename);
    const answer = await ask(session, headers[':method'], `/inner/${n}`, body);
    stream.respond({ ':status': answer.status });
    stream.end(answer.text);
}

const listen = (handler) => {
    const server = http2.createServer().on('stream', handler);
    return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
};

async function main() {
    const other = fork(__filename);
    const [port] = await once(other, 'message');
    const session = http2.connect(`http://127.0.0.1:${port}`);
    const own = await listen((stream, headers) => gateway(session, stream, headers));
    const client = http2.connect(`http://127.0.0.1:${own}`);
    for (let round = 0, n = 0; round < Number(process.argv[2]); round++) {
        const all = [];
        for (let i = 0; i < TOGETHER; i++, n++)
            all.push(n % 4 ? ask(client, 'GET', `/outer/${n}?secret=1`) : ask(client, 'POST', `/outer/${n}`, 'x'.repeat(40000)));
        await Promise.all(all);
    }
    await ask(client, 'GET', '/reset').catch(() => {});
    session.close();
    client.close();
    other.disconnect();
    process.exit();
}

if (process.send) {
    listen(behind).then((port) => process.send(port));
    process.on('disconnect', () => process.exit());
} else {
    main();
}
