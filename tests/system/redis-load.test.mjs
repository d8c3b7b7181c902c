// How a server is loaded, and what a cluster's bus costs: what `sonde redis` finds of it on real servers, and not on their twins
// that have no such trouble.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { SONDE, eventually, finish, freePort, outline, sonde, start, temporary } from './helper.mjs';
import { answers, cli, command, lines } from './redis.mjs';
import { Cluster } from './redis-cluster.mjs';

const isFree = (port) => new Promise((resolve) => {
    const server = net.createServer().listen(port, '127.0.0.1', () => server.close(() => resolve(true))).on('error', () => resolve(false));
});

// What is found while the load runs.
async function foundOf(t, pid, load) {
    const trace = path.join(temporary(t), 'trace'), tracer = sonde(t, 'attach', '--no-kernel', '--budget', '80,512', '-o', trace, pid);
    await tracer.until(/Ctrl-C/);
    await load();
    process.kill(tracer.pid, 'SIGINT');
    await tracer.ended;
    const { status, stdout, describe } = await finish(t, SONDE, ['redis', '--json', trace]);
    assert.ok([0, 4].includes(status), describe());
    const report = JSON.parse(stdout);
    t.diagnostic(outline(report));
    return { ...report, of: (kind) => report.findings.filter((f) => f.kind === kind) };
}

const benchmark = (port, ...args) => execFileSync('redis-benchmark', ['-p', port, '-q', ...args].map(String), { encoding: 'utf8', timeout: 110_000, stdio: ['ignore', 'pipe', 'ignore'] });

// Clients that ask all at once: while the server is stopped. Each waits for its reply before the next round.
async function crowd(t, pid, port, clients, rounds, request, replyBytes) {
    const sockets = await Promise.all(Array.from({ length: clients }, () => new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1', () => resolve(socket)).once('error', reject);
        socket.got = 0;
        socket.on('data', (data) => { socket.got += data.length; });
        t.after(() => socket.destroy());
    })));
    for (let round = 1; round <= rounds; round++) {
        process.kill(pid, 'SIGSTOP');
        try {
            await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.write(request, resolve))));
        } finally {
            process.kill(pid, 'SIGCONT');
        }
        await eventually('everybody has a reply', () => sockets.every((socket) => socket.got === round * replyBytes));
    }
    for (const socket of sockets) socket.destroy();
}

test('requests that wait for each other though each is quick; a few clients do not', async (t) => {
    const port = await freePort(), CLIENTS = 2500, ROUNDS = 8, request = command('LRANGE', 'list', '0', '399');
    const server = start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', temporary(t)]);
    await answers(port);
    cli(port, ['--pipe'], lines(400, () => `RPUSH list ${'x'.repeat(20)}`));
    const bytes = '*400\r\n'.length + 400 * `$20\r\n${'x'.repeat(20)}\r\n`.length;
    const crowded = await foundOf(t, server.pid, () => crowd(t, server.pid, port, CLIENTS, ROUNDS, request, bytes)), [queueing] = crowded.of('redis-queueing');
    assert.ok(queueing, outline(crowded));
    const { evidence } = queueing;
    assert.ok(evidence.requests_count >= CLIENTS && evidence.requests_count <= CLIENTS * ROUNDS + CLIENTS, JSON.stringify(evidence));
    assert.ok(evidence.longest_wait_ns >= evidence.mean_wait_ns && evidence.delay_ns >= evidence.mean_wait_ns * evidence.requests_count, JSON.stringify(evidence));
    const few = await foundOf(t, server.pid, () => crowd(t, server.pid, port, 4, ROUNDS, request, bytes));
    assert.deepEqual(few.of('redis-queueing'), [], outline(few));
});

test('what PUBLISH puts on the bus is found by the formula; SPUBLISH is not; a node that only serves the bus is', async (t) => {
    const NODES = 3, MESSAGES = 60_000, PAYLOAD = 32, CHANNEL = 'news', ports = [];
    while (ports.length < NODES) {
        const port = await freePort();
        if (port < 55_000 && await isFree(port + 10_000)) ports.push(port);
    }
    const cluster = new Cluster(SONDE, temporary(t), NODES, (n) => ({ address: '127.0.0.1', port: ports[n], within: [] }));
    t.after(() => cluster.end());
    await cluster.start({ recorded: 0 });
    const received = () => Number(/cluster_stats_messages_publish_received:(\d+)/.exec(cli(ports[1], ['cluster', 'info']))?.[1] ?? 0), pid = (n) => Number(/process_id:(\d+)/.exec(cli(ports[n], ['info', 'server']))[1]);
    const publish = (command) => async () => {
        const before = received();
        benchmark(ports[0], '-c', 10, '-P', 50, '-n', MESSAGES, command, CHANNEL, 'x'.repeat(PAYLOAD));
        if (command === 'PUBLISH') await eventually('the other node has all messages', () => received() - before >= MESSAGES);
    };
    const [loud] = (await foundOf(t, pid(0), publish('PUBLISH'))).of('redis-publish-amplification');
    assert.ok(loud);
    // Each goes to both others, in an envelope of 2,264 bytes.
    const { evidence: { messages_count: messages, published_bytes: published, bus_bytes: bus, amplification, envelope_bytes: envelope, copies } } = loud;
    assert.ok(messages > MESSAGES / 10 && published === messages * (CHANNEL.length + PAYLOAD), JSON.stringify(loud.evidence));
    assert.ok(Math.abs(amplification / ((NODES - 1) * (2264 + CHANNEL.length + PAYLOAD) / (CHANNEL.length + PAYLOAD)) - 1) < 0.01 && envelope >= 2240 && envelope <= 2290 && Math.abs(copies - (NODES - 1)) < 0.02 && bus > 0, JSON.stringify(loud.evidence));
    // What part of its time that is depends on how fast it gets the messages, on a busy machine: several attempts.
    let served;
    for (let attempt = 0; attempt < 6 && !served; attempt++) [served] = (await foundOf(t, pid(1), publish('PUBLISH'))).of('redis-bus-overload');
    assert.ok(served && served.evidence.bus_bytes > served.evidence.client_bytes && /SPUBLISH/.test(served.remedy), JSON.stringify(served));
    const quiet = await foundOf(t, pid(0), publish('SPUBLISH'));
    assert.deepEqual([...quiet.of('redis-publish-amplification'), ...quiet.of('redis-bus-overload')], [], outline(quiet));
});
