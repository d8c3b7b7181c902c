// Peers that are not traced and answer late by construction: HTTP, Redis' protocol, lines over TCP. And the Redis
// data that slow commands work on.
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';

function listen(server) {
    return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
}

// Late by about delayMs, a little different each time. late(): from when until when each time, ns of the clock that the
// program's notes are of.
export async function startPeer({ kind, delayMs, chance }) {
    const late = [];
    const later = (f) => {
        const since = Number(process.hrtime.bigint());
        setTimeout(() => {
            late.push([since, Number(process.hrtime.bigint())]);
            f();
        }, delayMs * chance.between(0.9, 1.1));
    };
    let server;
    if (kind === 'http') {
        server = http.createServer((req, res) => later(() => res.end('{"answer":42}\n')));
        server.keepAliveTimeout = 60_000;
    } else {
        server = net.createServer((socket) => {
            socket.on('error', () => {});
            let text = '';
            socket.on('data', (part) => {
                text += part;
                for (let end; (end = kind === 'redis' ? text.search(/GET\r\n\$\d+\r\n[^\r]*\r\n/i) : text.indexOf('\n')) >= 0;) {
                    text = kind === 'redis' ? text.slice(end).replace(/^GET\r\n\$\d+\r\n[^\r]*\r\n/i, '') : text.slice(end + 1);
                    later(() => socket.write(kind === 'redis' ? '$5\r\nvalue\r\n' : 'answer\n'));
                }
                // What a Redis client says when it connects is answered at once.
                for (let hello; kind === 'redis' && (hello = /^(\*\d+\r\n\$\d+\r\n(?:client|info)\r\n(?:\$\d+\r\n[^\r]*\r\n)*)/i.exec(text));) {
                    text = text.slice(hello[1].length);
                    socket.write('+OK\r\n');
                }
            });
        });
    }
    const port = await listen(server);
    return { port, late: () => late, stop: () => (server.closeAllConnections?.(), server.close()) };
}

export function freePort() {
    const server = net.createServer();
    return listen(server).then((port) => new Promise((resolve) => server.close(() => resolve(port))));
}

const redisCli = (port, ...args) => spawnSync('redis-cli', ['-p', String(port), ...args], { encoding: 'utf8' }).stdout;

export async function untilRedis(port) {
    for (let i = 0; i < 400; i++) {
        if (redisCli(port, 'ping').includes('PONG')) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('redis-server does not answer');
}

// Writes dump.rdb into folder: `key:N`, a list, a set.
export async function makeFixture(folder) {
    const port = await freePort();
    fs.mkdirSync(folder, { recursive: true });
    const server = spawn('redis-server', ['--port', String(port), '--dir', folder, '--save', '', '--bind', '127.0.0.1'], { stdio: 'ignore' });
    try {
        await untilRedis(port);
        redisCli(port, 'eval', `for i = 1, 250000 do redis.call('SET', 'key:' .. i, 'value ' .. i) redis.call('RPUSH', 'list', i) redis.call('SADD', 'set', 'member ' .. i) end`, '0');
        redisCli(port, 'save');
    } finally {
        server.kill('SIGKILL');
    }
    return path.join(folder, 'dump.rdb');
}

// What Redis itself noted as slow: [{ command, us }].
export function slowlog(port) {
    const text = redisCli(port, '--json', 'slowlog', 'get', '-1');
    try {
        return JSON.parse(text).map((entry) => ({ command: String(entry[3][0]).toUpperCase(), us: entry[2] }));
    } catch {
        return [];
    }
}
