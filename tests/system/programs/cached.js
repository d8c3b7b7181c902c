// A service over one connection to its Memcached, that Memcached, and its callers. What its commands took and how large they
// were is the service's own record, printed at the end.
//   node cached.js REQUESTS [SIZE [alone]]   of each value (1000 bytes); one command at a time
'use strict';
const http = require('http');
const net = require('net');
const { fork, spawn } = require('child_process');

const SIZE = Number(process.argv[3]) || 1000, ALONE = process.argv.includes('alone');

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

// Commands on one connection: each is answered in its order, by a text that ends so.
class Cache {
    waiting = [];
    text = '';
    record = { commands: 0, sent: 0, got: 0, took_ns: 0 };
    constructor(socket) {
        this.socket = socket.setNoDelay(true).setEncoding('latin1');
        socket.on('data', (text) => {
            const now = process.hrtime.bigint();
            this.record.got += text.length;
            this.text += text;
            for (let at; this.waiting.length && (at = this.text.indexOf(this.waiting[0].end)) >= 0;) {
                const { end, resolve, began } = this.waiting.shift();
                this.record.took_ns += Number(now - began);
                resolve(this.text.slice(0, at + end.length));
                this.text = this.text.slice(at + end.length);
            }
        });
    }
    ask(text, end) {
        this.record.commands++;
        this.record.sent += text.length;
        return new Promise((resolve) => {
            this.waiting.push({ end, resolve, began: process.hrtime.bigint() });
            this.socket.write(text);
        });
    }
}

async function main(requests) {
    const port = await freePort();
    const user = process.getuid() === 0 ? ['-u', 'root'] : [];
    const memcached = spawn('memcached', ['-l', '127.0.0.1', '-p', port, '-U', '0', '-t', '2', ...user], { stdio: 'ignore' });
    const socket = await new Promise((resolve) => {
        const knock = () => {
            const s = net.connect(port, '127.0.0.1').on('connect', () => resolve(s)).on('error', () => setTimeout(knock, 20));
        };
        knock();
    });
    const cache = new Cache(socket);
    const server = http.createServer(async (request, response) => {
        const n = Number(request.url.slice(3));
        const one = await cache.ask(`get key${n % 10}\r\n`, 'END\r\n');
        if (one === 'END\r\n') await cache.ask(`set key${n % 10} 0 0 ${SIZE}\r\n${'x'.repeat(SIZE)}\r\n`, 'STORED\r\n');
        if (!ALONE) await Promise.all([cache.ask(`get key${n % 10}\r\n`, 'END\r\n'), cache.ask('get nothing\r\n', 'END\r\n')]);
        response.end('ok');
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const callers = fork(__filename, ['--callers', server.address().port, requests, ...(ALONE ? ['alone'] : [])]);
    await new Promise((resolve) => callers.once('exit', resolve));
    socket.end();
    await new Promise((resolve) => socket.once('close', resolve));
    server.close();
    memcached.kill();
    await new Promise((resolve) => memcached.once('exit', resolve));
    console.log(JSON.stringify({ requests, ...cache.record }));
}

// Five at a time, so that commands of several requests are under way on the one connection.
async function call(port, requests) {
    const agent = new http.Agent({ keepAlive: true });
    let next = 0;
    await Promise.all(Array.from({ length: ALONE ? 1 : 5 }, async () => {
        for (let n; (n = next++) < requests;)
            await new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port, path: `/n/${n}`, agent }, (response) => response.resume().on('end', resolve)).on('error', reject));
    }));
    agent.destroy();
}

if (process.argv[2] === '--callers') call(Number(process.argv[3]), Number(process.argv[4]));
else main(Number(process.argv[2] || 100));
