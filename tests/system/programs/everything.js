// A small program that makes Node do everything sonde has an event for, again and again, in the main thread and in
// worker threads. Prints "round N" after each round; ends after the round given as argument.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('crypto'), dns = require('dns'), fs = require('fs'), http = require('http'), http2 = require('http2'), zlib = require('zlib');
const { Worker, isMainThread, parentPort } = require('worker_threads');

const work = () => Promise.all([
    new Promise((resolve, reject) => fs.readFile(__filename, (error) => (error ? reject(error) : resolve()))),
    new Promise((resolve) => crypto.pbkdf2('password', 'salt', 100, 32, 'sha256', resolve)),
    new Promise((resolve) => dns.lookup('localhost', resolve)),
    new Promise((resolve) => dns.lookupService('127.0.0.1', 22, resolve)),
    new Promise((resolve) => zlib.gzip(Buffer.alloc(10000), resolve)),
    new Promise((resolve) => setTimeout(resolve, 5)),
    new Promise((resolve) => setImmediate(resolve)),
]);

let patterns = 0;
function garbage() {
    let kept = [];
    for (let i = 0; i < 20000; i++) kept.push({ i, text: 'x' + i });
    return new RegExp(`^(a|b)*c${patterns++}$`).test('ab'.repeat(10) + kept.length); // compiled patterns pass no function
}

if (!isMainThread) {
    setInterval(() => { garbage(); work(); }, 20);
    parentPort.on('message', (message) => parentPort.postMessage(message));
} else {
    const [worker] = [1, 2].map(() => new Worker(__filename));
    const streams = http2.createServer((request, response) => response.end('ok')).listen(0, '127.0.0.1');
    let session;
    const stream = () => new Promise((resolve, reject) => {
        session = session || http2.connect(`http://127.0.0.1:${streams.address().port}`);
        session.request({ ':path': '/stream?secret=1' }).on('error', reject).resume().on('end', resolve).end();
    });
    const message = () => new Promise((resolve) => {
        worker.once('message', resolve);
        worker.postMessage('ping');
    });
    const server = http.createServer(async (request, response) => {
        await work();
        garbage();
        response.write('first part,');
        response.end('then the rest');
    }).on('upgrade', (request, socket) => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        socket.on('data', () => socket.write(Buffer.from([0x82, 1, 0])));
    }).listen(0, '127.0.0.1', async () => {
        const rounds = Number(process.argv[2] || Infinity), agent = new http.Agent({ keepAlive: true });
        for (let round = 1; round <= rounds; round++) {
            await new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: server.address().port, path: `/round/${round}?secret=1`, agent },
                (response) => response.resume().on('end', resolve)).on('error', reject));
            await Promise.all([stream(), message(), new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: server.address().port, path: '/socket', headers: { Connection: 'Upgrade', Upgrade: 'websocket' } }).on('error', reject).on('upgrade', (response, socket) => {
                socket.on('data', () => { socket.destroy(); resolve(); });
                socket.write(Buffer.from([0x82, 0x81, 1, 2, 3, 4, 5]));
            }))]);
            console.log(`round ${round}`);
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
        process.exit(0);
    });
}
