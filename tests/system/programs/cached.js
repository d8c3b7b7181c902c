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

// How long the answer is that begins so; 0: that is not to be seen yet.
function answerLength(bytes) {
    const line = bytes.indexOf('\r\n');
    if (line < 0) return 0;
    const [word, , , size] = bytes.latin1Slice(0, line).split(' ');
    return line + 2 + (word === 'VALUE' ? Number(size) + '\r\nEND\r\n'.length : 0);
}

// Commands on one connection: each is answered in its order.
class Cache {
    waiting = [];
    parts = [];
    need = 0;
    record = { commands: 0, sent: 0, got: 0, took_ns: 0, below_ns: 0 };
    began = [];
    constructor(socket) {
        this.socket = socket.setNoDelay(true);
        this.below(socket._handle);
        socket.on('data', (bytes) => this.take(bytes, process.hrtime.bigint()));
    }
    // The same times below Node's own streams: from the handle's method that writes to its callback when something was read.
    below(handle) {
        const { writeBuffer, onread } = handle, cache = this;
        handle.writeBuffer = function (...args) {
            cache.began.push(process.hrtime.bigint());
            return writeBuffer.apply(this, args);
        };
        handle.onread = function (...args) {
            cache.read = process.hrtime.bigint();
            return onread.apply(this, args);
        };
    }
    take(bytes, now) {
        this.record.got += bytes.length;
        this.parts.push(bytes);
        for (;;) {
            const have = this.parts.reduce((sum, part) => sum + part.length, 0);
            this.need ||= have && answerLength(this.parts.length > 1 ? Buffer.concat(this.parts) : this.parts[0]);
            if (!this.need || have < this.need) return;
            const all = Buffer.concat(this.parts), { resolve, began } = this.waiting.shift();
            this.record.took_ns += Number(now - began);
            this.record.below_ns += Number(this.read - this.began.shift());
            resolve(all.latin1Slice(0, Math.min(this.need, 64)));
            this.parts = all.length > this.need ? [all.subarray(this.need)] : [];
            this.need = 0;
        }
    }
    ask(text) {
        const bytes = Buffer.from(text, 'latin1');
        this.record.commands++;
        this.record.sent += bytes.length;
        return new Promise((resolve) => {
            this.waiting.push({ resolve, began: process.hrtime.bigint() });
            this.socket.write(bytes);
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
        const one = await cache.ask(`get key${n % 10}\r\n`);
        if (one === 'END\r\n') await cache.ask(`set key${n % 10} 0 0 ${SIZE}\r\n${'x'.repeat(SIZE)}\r\n`);
        if (!ALONE) await Promise.all([cache.ask(`get key${n % 10}\r\n`), cache.ask('get nothing\r\n')]);
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
