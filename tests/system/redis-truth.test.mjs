// What `sonde redis` counts, against what the clients themselves have: bytes through TLS, redirections of a cluster, the time
// in WAIT, and one connection that has most of a busy server.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { eventually, finish, freePort, kill, sonde, SONDE, start, temporary } from './helper.mjs';
import { answers, cli, command, lines, tlsOptions } from './redis.mjs';

const listens = (port) => eventually(`port ${port}`, () => new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); }).on('error', () => resolve(false));
}));

async function redisOf(t, trace, allowed = [0]) {
    const { status, stdout, stderr } = await finish(t, SONDE, ['redis', '--json', trace]);
    assert.ok(allowed.includes(status), stderr);
    return JSON.parse(stdout);
}

// Ends a server under `sonde run`, without a request.
async function terminate(run, pid) {
    kill(pid, 'SIGTERM');
    await run.ended;
}
const serverPid = (run) => eventually('the server runs', () => {
    const [pid] = execFileSync('ps', ['-o', 'pid=', '--ppid', String(run.pid)], { encoding: 'utf8' }).trim().split(/\s+/).map(Number);
    return pid;
});

test('bytes through TLS are the plain text that the client has, and no more on the wire than passed its socket', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', '--port', '0', '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...tlsOptions(folder, port));
    await listens(port);
    const raw = net.connect(port, '127.0.0.1'), socket = tls.connect({ socket: raw, rejectUnauthorized: false });
    t.after(() => raw.destroy());
    let sent = 0, received = 0;
    await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
    socket.on('data', (data) => { received += data.length; });
    const ask = async (bytes, expected) => {
        const before = received;
        sent += bytes.length;
        socket.write(bytes);
        await eventually(`a reply of ${expected} bytes`, () => received >= before + expected);
        assert.equal(received, before + expected);
    };
    for (const size of [1, 100, 5000, 16384, 40000, 300000]) {
        await ask(command('SET', 'key', 'x'.repeat(size)), '+OK\r\n'.length);
        await ask(command('GET', 'key'), `$${size}\r\n`.length + size + 2);
    }
    await ask(Buffer.concat(Array.from({ length: 50 }, () => command('PING'))), 50 * '+PONG\r\n'.length);
    const wire = { in: raw.bytesWritten, out: raw.bytesRead };
    await terminate(run, await serverPid(run));
    const { servers: [{ work }] } = await redisOf(t, trace);
    assert.equal(work.unknown_transfers_count, 0);
    assert.deepEqual([work.clients.in_bytes, work.clients.out_bytes], [sent, received]);
    assert.ok(work.clients.wire_in_bytes > sent && work.clients.wire_in_bytes <= wire.in, JSON.stringify([work.clients, wire]));
    assert.ok(work.clients.wire_out_bytes > received && work.clients.wire_out_bytes <= wire.out, JSON.stringify([work.clients, wire]));
});

test('redirections are those that the client was given', async (t) => {
    const folder = temporary(t), ports = [await freePort(), await freePort()], buses = [await freePort(), await freePort()], trace = path.join(folder, 'trace');
    const options = (n) => ['--port', ports[n], '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--cluster-enabled', 'yes', '--cluster-port', buses[n], '--cluster-config-file', path.join(folder, `nodes${n}.conf`)];
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', ...options(0));
    start(t, 'redis-server', options(1));
    for (const port of ports) await answers(port);
    cli(ports[0], ['cluster', 'addslotsrange', '0', '8191']);
    cli(ports[1], ['cluster', 'addslotsrange', '8192', '16383']);
    cli(ports[0], ['cluster', 'meet', '127.0.0.1', String(ports[1]), String(buses[1])]);
    await eventually('the cluster is whole', () => ports.every((port) => cli(port, ['cluster', 'info']).includes('cluster_state:ok')));
    // A slot of its own moves away: what is not there is asked for at the other.
    const own = Array.from({ length: 50 }, (_, n) => `own${n}`).find((key) => Number(cli(ports[0], ['cluster', 'keyslot', key])) < 8192);
    cli(ports[0], ['cluster', 'setslot', cli(ports[0], ['cluster', 'keyslot', own]).trim(), 'migrating', cli(ports[1], ['cluster', 'myid']).trim()]);
    const replies = cli(ports[0], [], lines(60, (n) => `get key${n}`) + lines(7, () => `get ${own}`) + lines(20, (n) => `set key${n} value`));
    const moved = (replies.match(/^(\(error\) )?MOVED /gm) || []).length, asked = (replies.match(/^(\(error\) )?ASK /gm) || []).length;
    assert.ok(moved > 10 && asked === 7, replies);
    cli(ports[0], ['flushall']);
    await terminate(run, await serverPid(run));
    const { servers: [{ commands }] } = await redisOf(t, trace), of = (name) => commands.find((c) => c.name === name);
    assert.equal(of('get').redirected_count + of('set').redirected_count, moved + asked);
    assert.equal(of('get').calls_count + of('set').calls_count, 87 - moved - asked);
    assert.equal(of('get').refused_count + of('set').refused_count, 0);
});

test('the time in WAIT and BLPOP lies within what the client waited', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder);
    await answers(port);
    const socket = net.connect(port, '127.0.0.1'), took = {};
    t.after(() => socket.destroy());
    await new Promise((resolve) => socket.once('connect', resolve));
    for (const words of [['SET', 'key', 'value'], ['WAIT', '1', '150'], ['BLPOP', 'nothing', '0.2']]) {
        const began = process.hrtime.bigint();
        socket.write(command(...words));
        await new Promise((resolve) => socket.once('data', resolve));
        took[words[0]] = Number(process.hrtime.bigint() - began);
    }
    await terminate(run, await serverPid(run));
    const { servers: [{ commands }] } = await redisOf(t, trace);
    for (const [name, least] of [['wait', 150e6], ['blpop', 200e6]]) {
        const { blocked } = commands.find((c) => c.name === name);
        assert.equal(blocked.count, 1);
        assert.ok(blocked.took_ns >= least - 2e6, `${name}: ${blocked.took_ns}`); // the server's clock has milliseconds
        assert.ok(blocked.took_ns <= took[name.toUpperCase()], `${name}: ${blocked.took_ns} of ${took[name.toUpperCase()]}`);
    }
});

test('one connection with most of a busy server is found, and is not where the load is shared', async (t) => {
    for (const connections of [1, 5]) {
        const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
        start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder]);
        await answers(port);
        cli(port, ['setbit', 'bits', '4000000', '1']); // counting them keeps the server busy, and nobody else
        start(t, 'redis-benchmark', ['-p', port, '-c', connections, '-n', '100000000', '-P', '1000', '-q', 'bitcount', 'bits']);
        const calls = () => Number(/cmdstat_bitcount:calls=(\d+)/.exec(cli(port, ['info', 'commandstats']))?.[1] || 0);
        await eventually('the load runs', () => calls() > 100);
        const tracer = sonde(t, 'redis', '--json', '--output', trace, port), others = [];
        await tracer.until(/attached to process/);
        const before = calls();
        for (let n = 0; n < 5; n++) others.push(cli(port, [], 'ping\nget key\nget key\n'));
        await eventually('enough of it is recorded', () => calls() > before + 20_000);
        kill(tracer.pid, 'SIGINT');
        const { stdout } = await tracer.ended, { findings, servers: [server] } = JSON.parse(stdout), { commands } = server;
        const hot = findings.find((f) => f.kind === 'redis-hot-connection');
        assert.equal(!!hot, connections === 1, `busy ${server.busy_ns} ns: ${JSON.stringify(findings.map((f) => f.title))}`);
        assert.ok(commands.find((c) => c.name === 'bitcount').calls_count >= 20_000);
        if (hot) assert.ok(hot.evidence.executed_share > 0.9 && hot.evidence.commands_count >= 20_000, JSON.stringify(hot.evidence));
    }
});
