// Sends get, set, subscribe and publish to the nodes of a cluster, one at a time on each connection, and measures every
// latency itself; of publish also until each subscriber has the message: one on the same node, one on the next.
//   node redis-cluster-client.mjs OUT COUNT HOST:PORT...
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import net from 'node:net';
import { command } from './redis.mjs';

const [out, count, ...addresses] = process.argv.slice(2);
const COUNT = Number(count), SLOTS = 16384;
const now = () => Number(process.hrtime.bigint());
const latencies = { get: [], set: [], subscribe: [], publish: [], 'message, same node': [], 'message, other node': [] };

// CRC16 (XMODEM), by which a cluster distributes keys.
function slot(key) {
    let crc = 0;
    for (const byte of Buffer.from(key)) {
        crc ^= byte << 8;
        for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
    }
    return crc % SLOTS;
}

function connect(address, onData) {
    const [host, port] = address.split(':');
    return new Promise((resolve, reject) => {
        const socket = net.connect(Number(port), host, () => resolve(socket)).setNoDelay(true).setEncoding('latin1');
        socket.on('error', reject);
        socket.on('data', onData);
    });
}

// One connection, one request at a time: a reply is whatever ends with a line and has as many of them as asked for.
async function requester(address) {
    let text = '', lines = 0, wake;
    const socket = await connect(address, (data) => {
        text += data;
        if (text.split('\r\n').length <= lines) return;
        const reply = text, resume = wake;
        text = '';
        resume(reply);
    });
    const ask = (bytes, expected) => new Promise((resolve) => {
        lines = expected;
        wake = resolve;
        socket.write(bytes);
    });
    return { ask, socket };
}

const sentAt = new Map();
let awaited = 0, whenAll;

async function subscriber(address, channel, kind) {
    let text = '', subscribed;
    const ready = new Promise((resolve) => { subscribed = resolve; });
    const socket = await connect(address, (data) => {
        const at = now();
        text += data;
        const lines = text.split('\r\n');
        text = lines.pop();
        for (const line of lines) {
            if (line === 'subscribe') subscribed();
            const sent = sentAt.get(line);
            if (sent === undefined) continue;
            latencies[kind].push(at - sent);
            if (!--awaited) whenAll();
        }
    });
    socket.write(command('SUBSCRIBE', channel));
    await ready;
    return socket;
}

const keys = addresses.map((_, n) => {
    for (let i = 0; ; i++) if (Math.floor((slot(`k${i}`) * addresses.length) / SLOTS) === n) return `k${i}`;
});
const rounds = Math.ceil(COUNT / addresses.length), sockets = [];

async function repeat(kind, request, lines) {
    await Promise.all(addresses.map(async (address, n) => {
        const { ask, socket } = await requester(address);
        sockets.push(socket);
        for (let i = 0; i < rounds; i++) {
            const bytes = request(n, i), start = now(), reply = await ask(bytes, lines);
            latencies[kind].push(now() - start);
            if (reply.startsWith('-')) throw new Error(reply);
        }
    }));
}

await repeat('set', (n, i) => command('SET', keys[n], `value ${i}`), 1);
const at = now(); // while messages come and go
await repeat('get', (n) => command('GET', keys[n]), 2);
await repeat('subscribe', (n, i) => command('SUBSCRIBE', `own:${n}:${i}`), 6);
for (let n = 0; n < addresses.length; n++) {
    sockets.push(await subscriber(addresses[n], `c${n}`, 'message, same node'));
    sockets.push(await subscriber(addresses[(n + 1) % addresses.length], `c${n}`, 'message, other node'));
}
awaited = rounds * addresses.length * 2;
const all = new Promise((resolve) => { whenAll = resolve; });
await repeat('publish', (n, i) => {
    const id = `message ${n} ${i} `.padEnd(100, 'x'), bytes = command('PUBLISH', `c${n}`, id);
    sentAt.set(id, now());
    return bytes;
}, 1);
await all;
for (const socket of sockets) socket.destroy();
fs.writeFileSync(out, JSON.stringify({ ...latencies, at }));
