// Are the bytes, the amplification on the cluster bus and the times of blocked clients true? Against what the kernel counts for each
// socket (TCP_INFO), the formula of the bus, and the clients' own clocks. Each part that is asked for appends a line to
// bench/results/redis-volume.jsonl.
//   node bench/redis-volume.mjs [sockets|amplification|blocked]...   which parts (all). sockets takes a minute
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cluster } from '../tests/system/redis-cluster.mjs';
import { VERSION, command } from '../tests/system/redis.mjs';
import { freePort, pause, spread } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-volume.jsonl');
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();
const SOCKETS_MS = 60_000, PUBLISHED = 200, BATCH = 50;
const wrong = [];

async function within(nodes, use) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-volume-')), ports = [];
    while (ports.length < nodes + 1) {
        const port = await freePort();
        if (port < 55_000 && !ports.includes(port)) ports.push(port);
    }
    const cluster = new Cluster(SONDE, folder, nodes, (n) => ({ address: '127.0.0.1', port: ports[n], within: [] }), ['--no-kernel', '--budget', '90,1024']);
    try {
        return await use(cluster, folder);
    } finally {
        cluster.end();
        fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    }
}

function serversOf(trace) {
    const { servers } = JSON.parse(execFileSync(SONDE, ['redis', '--json', trace], { encoding: 'utf8', maxBuffer: 1 << 28 }));
    return servers[0];
}

// A client that sends the same bytes so many at a time, and goes on when all their replies have come.
class Client {
    rounds = 0;
    constructor(port, bytes, expected, everyMs) {
        Object.assign(this, { bytes, expected, everyMs, got: 0 });
        this.socket = net.connect(port, '127.0.0.1').setNoDelay(true);
        this.socket.on('data', (data) => { this.got += data.length; if (this.got >= this.expected) { this.got = 0; this.resume?.(); } });
        this.connected = new Promise((resolve, reject) => this.socket.once('connect', resolve).on('error', reject));
    }
    async run(until) {
        await this.connected;
        while (Date.now() < until) {
            const replied = new Promise((resolve) => { this.resume = resolve; });
            this.socket.write(this.bytes);
            await replied;
            this.rounds++;
            await pause(this.everyMs);
        }
    }
}

async function sockets() {
    return within(1, async (cluster, folder) => {
        const [node] = cluster.nodes;
        node.recorder = cluster.record([], 'node', 'redis-server', '--bind', node.address, '--port', node.port, '--save', '', '--dir', folder);
        for (;;) try { if (cluster.cli(node, 'ping').includes('PONG')) break; } catch { await pause(50); }
        const value = (size) => 'x'.repeat(size), bulk = (size) => `$${size}\r\n`.length + size + 2;
        for (const size of [10, 1000, 100_000]) cluster.cli(node, 'set', `k${size}`, value(size));
        const repeat = (bytes, times) => Buffer.concat(Array(times).fill(bytes));
        const clients = [
            [command('GET', 'k10'), bulk(10), 2], [command('GET', 'k1000'), bulk(1000), 3], [command('GET', 'k100000'), bulk(100_000), 20],
            [command('SET', 'a', value(10)), 5, 2], [command('SET', 'b', value(1000)), 5, 3], [command('SET', 'c', value(100_000)), 5, 20],
            [repeat(command('GET', 'k10'), 16), 16 * bulk(10), 10], [repeat(command('SET', 'd', value(1000)), 50), 250, 30], [command('PING'), 7, 1], [command('INCR', 'n', ''), 1, 50],
        ].map(([bytes, expected, everyMs]) => new Client(node.port, bytes, expected, everyMs));
        const until = Date.now() + SOCKETS_MS;
        await Promise.all(clients.map((client) => client.run(until)));
        const info = new Map();
        for (const text of execFileSync('ss', ['-tinHO', 'state', 'established', `( sport = :${node.port} )`], { encoding: 'utf8' }).trim().split('\n')) {
            const peer = /\s\S+:\d+\s+\S*?127\.0\.0\.1\]?:(\d+)/.exec(text);
            if (peer) info.set(Number(peer[1]), { in: Number(/bytes_received:(\d+)/.exec(text)?.[1] || 0), out: Number(/bytes_acked:(\d+)/.exec(text)?.[1] || 0) });
        }
        const ports = clients.map(({ socket }) => socket.localPort);
        for (const { socket } of clients) socket.destroy();
        cluster.cli(node, 'shutdown', 'nosave');
        await node.recorder.ended;
        const seen = serversOf(path.join(folder, 'node')).connections;
        const rows = ports.map((port) => {
            const tcp = info.get(port), own = seen.find(({ peer }) => peer === `127.0.0.1:${port}`), off = (a, b) => +(100 * Math.abs(a / b - 1)).toFixed(4);
            return { in_bytes: own.in_bytes, tcp_in: tcp.in, out_bytes: own.out_bytes, tcp_out: tcp.out, off_percent: Math.max(off(own.in_bytes, tcp.in), off(own.out_bytes, tcp.out)) };
        });
        const worst = Math.max(...rows.map((row) => row.off_percent));
        if (!(worst <= 0.5)) wrong.push(`sockets: ${worst} % off`);
        return { seconds: SOCKETS_MS / 1000, worst_percent: worst, sockets: rows };
    });
}

// A message takes (receivers) * (2264 + channel + payload) bytes on the bus: to all other nodes, or with SPUBLISH to those of its shard.
async function amplification() {
    const HEAD = 2264, rows = [];
    for (const nodes of [3, 6, 12]) {
        rows.push(...await within(nodes, async (cluster, folder) => {
            const replicas = 2, masters = nodes / (1 + replicas), [first, ...others] = cluster.nodes;
            await cluster.start({ masters, recorded: 1 });
            const sizes = [32, 100, 1024, 10_240];
            const expected = { PUBLISH: 0, PUBLISHSHARD: 0 }, lines = [];
            const channel = Array.from({ length: 50 }, (_, n) => `channel${n}`).find((name) => Number(cluster.cli(first, 'cluster', 'keyslot', name)) < 16384 / masters);
            for (const size of sizes) {
                for (let i = 0; i < PUBLISHED; i++) lines.push(`publish ${channel} ${'x'.repeat(size)}`, `spublish ${channel} ${'x'.repeat(size)}`);
                expected.PUBLISH += PUBLISHED * (nodes - 1) * (HEAD + channel.length + size);
                expected.PUBLISHSHARD += PUBLISHED * replicas * (HEAD + channel.length + size);
            }
            for (let at = 0; at < lines.length; at += BATCH) { // a record for each message and node: no faster than they are taken away
                execFileSync('redis-cli', ['-p', String(first.port)], { input: lines.slice(at, at + BATCH).join('\n') + '\n', stdio: ['pipe', 'ignore', 'ignore'] });
                await pause(30);
            }
            cluster.cli(first, 'shutdown', 'nosave');
            await first.recorder.ended;
            for (const node of others) cluster.run([], 'redis-cli', '-p', node.port, 'shutdown', 'nosave', 'force');
            const { bus } = serversOf(path.join(folder, 'node-0'));
            return Object.entries(expected).map(([type, bytes]) => {
                const { sent_bytes: sent, sent_count: count } = bus.find((row) => row.type === type) || { sent_bytes: 0, sent_count: 0 }, payload = sizes.reduce((a, b) => a + b, 0) * PUBLISHED;
                const off = +(100 * Math.abs(sent / bytes - 1)).toFixed(4);
                if (!(off <= 1)) wrong.push(`${nodes} nodes, ${type}: ${sent} bytes in ${count} messages, ${bytes} by the formula`);
                return { nodes, type, sent, formula: bytes, off_percent: off, amplification: +(sent / payload).toFixed(2) };
            });
        }));
    }
    return { rows };
}
async function blocked() {
    const ROUNDS = 20;
    return within(1, async (cluster, folder) => {
        const [node] = cluster.nodes, own = { blpop: [], wait: [] };
        node.recorder = cluster.record([], 'node', 'redis-server', '--bind', node.address, '--port', node.port, '--save', '', '--dir', folder);
        for (;;) try { if (cluster.cli(node, 'ping').includes('PONG')) break; } catch { await pause(50); }
        const connect = () => new Promise((resolve) => { const socket = net.connect(node.port, '127.0.0.1', () => resolve(socket.setNoDelay(true))); });
        const one = await connect(), other = await connect();
        const ask = async (socket, ...words) => {
            const began = process.hrtime.bigint();
            socket.write(command(...words));
            await new Promise((resolve) => socket.once('data', resolve));
            return Number(process.hrtime.bigint() - began);
        };
        await ask(one, 'SET', 'key', 'value');
        for (let i = 0; i < ROUNDS; i++) {
            const waited = ask(one, 'BLPOP', 'list', '5');
            await pause(20 + i * 7);
            await ask(other, 'LPUSH', 'list', 'x');
            own.blpop.push(await waited);
            own.wait.push(await ask(one, 'WAIT', '1', String(30 + i)));
        }
        one.destroy(), other.destroy();
        cluster.cli(node, 'shutdown', 'nosave');
        await node.recorder.ended;
        const trace = path.join(folder, 'node'), { commands } = serversOf(trace), rows = {}, began = {}, each = { blpop: [], wait: [] };
        const blocks = execFileSync(SONDE, ['trace', 'events', '--json', '-n', 'redis:block', trace], { encoding: 'utf8', maxBuffer: 1 << 28 }).trim().split('\n').map((line) => JSON.parse(line));
        for (const { time_ns: time, fields } of blocks) {
            const name = fields['name.label'];
            if (fields.begins) began[name] = time;
            else each[name]?.push(time - began[name]);
        }
        // What a client measures has its own wake-ups in it, which on a busy machine take long once in a while: each wait is compared with
        // the client's time of that very one.
        for (const [name, times] of Object.entries(own)) {
            const { blocked: seen } = commands.find((one) => one.name === name), offs = times.map((ns, i) => +((ns - each[name][i]) / 1e6).toFixed(3)), off = spread(offs);
            rows[name] = { count: seen.count, seen_mean_ms: +(seen.took_ns / seen.count / 1e6).toFixed(3), own_spread_ms: spread(times.map((ns) => +(ns / 1e6).toFixed(3))), off_ms: off };
            if (seen.count !== ROUNDS || each[name].length !== ROUNDS || !(off.min >= 0 && off.median <= 1)) wrong.push(`${name}: ${seen.count} waits, ${JSON.stringify(off)} ms off`);
        }
        return rows;
    });
}

const parts = { sockets, amplification, blocked };
for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)) {
    const line = { commit, time: new Date().toISOString(), server: VERSION, part: name, ...await parts[name]() };
    fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line, null, 1));
}
for (const text of wrong) console.log(text);
process.exitCode = wrong.length ? 1 : 0;
