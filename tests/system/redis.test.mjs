// What `sonde redis` says of a stock server: a conflict between its threads that ends it, who waited behind a slow
// command by the clients' own times, and that a healthy server has no finding.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { eventually, finish, freePort, kill, outline, reportOf, root, sonde, SONDE, start, temporary } from './helper.mjs';
import { AFFECTED, VERSION, cli, command, halfClose, tlsOptions } from './redis.mjs';

// A connection on which one call waits for its reply (the whole reply in one piece of text that ends).
async function connect(t, port) {
    const socket = net.connect(port, '127.0.0.1');
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    socket.setNoDelay(true).on('error', () => {});
    t.after(() => socket.destroy());
    const call = (...words) => new Promise((resolve, reject) => {
        const began = process.hrtime.bigint();
        socket.once('close', () => reject(new Error(`closed before the reply to ${words[0]}`)));
        socket.once('data', (data) => resolve({ ns: Number(process.hrtime.bigint() - began), text: data.toString() }));
        socket.write(command(...words));
    });
    return { call, socket };
}

async function listens(port) {
    await eventually(`port ${port}`, () => new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); }).on('error', () => resolve(false));
    }));
}

async function redisOf(folder, allowed = [0, 4]) {
    const { status, stdout, stderr } = await finish({ after() {} }, SONDE, ['redis', '--json', folder]);
    assert.ok(allowed.includes(status), stderr);
    return JSON.parse(stdout);
}

async function tlsServer(t, folder, ...options) {
    const [port, plain] = [await freePort(), await freePort()];
    const trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '-o', trace, '--', 'redis-server', '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--port', plain, ...tlsOptions(folder, port), '--io-threads', 4, ...options);
    await listens(plain);
    return { run, port, plain, trace };
}

test('a connection that two threads come to own is found before the server crashes of it', { skip: !AFFECTED && `redis-server ${VERSION} does not have the fault` }, async (t) => {
    const server = await tlsServer(t, temporary(t), '--io-threads-do-reads', 'yes');
    const load = start(t, 'redis-benchmark', ['-p', server.plain, '-c', '64', '-n', '100000000', '-t', 'set', '-d', '100', '-q']);
    await eventually('the server is gone', async () => { // sooner or later: both threads must come to it at one time
        await halfClose(t, server.port).catch(() => {});
        return server.run.over;
    }, 300_000);
    kill(load.pid, 'SIGTERM');
    const report = await reportOf(t, server.trace, [0, 4]);
    const conflicts = report.findings.filter((f) => f.kind === 'redis-connection-conflict');
    assert.equal(conflicts.length, 1, outline(report));
    const [{ evidence, severity, detail }] = conflicts;
    assert.equal(severity, 'critical');
    assert.ok(evidence.second_added_ns > evidence.first_added_ns, JSON.stringify(evidence));
    assert.ok(evidence.tls_left_bytes > 0, JSON.stringify(evidence));
    assert.match(detail, /TLS buffer/);
    const killed = report.findings.find((f) => f.kind === 'server-killed');
    assert.match(killed?.evidence.signal, /^SIG(ABRT|SEGV|BUS)$/, outline(report)); // by an assertion, or by what it does to memory
    assert.match(killed.detail, evidence.conflicts_count > 1 ? /client \d+ / : new RegExp(`client ${evidence.client_id} `)); // the newest of several
    const { servers, findings } = await redisOf(server.trace);
    assert.deepEqual(findings.map((f) => f.kind).sort(), report.findings.map((f) => f.kind).sort());
    assert.ok(servers[0].threads.length > 1, 'the I/O threads are seen');
});

// The race of the Redis microservices paper: while one thread is stopped within its read of a connection, another one reads it, too.
// The server dies of the first conflict, whose two entries may as well be one thread's: another server has its turn then.
test('reads of I/O threads that a debugger delays bring two threads into one connection', { skip: !AFFECTED && `redis-server ${VERSION} does not have the fault` }, async (t) => {
    const delays = path.join(temporary(t), 'delays');
    execFileSync('cc', ['-O1', '-D_GNU_SOURCE', '-o', delays, path.join(root, 'tests/system/programs/delays.c')]);
    for (let servers = 1, atOnce = false; !atOnce; servers++) {
        const server = await tlsServer(t, temporary(t), '--io-threads-do-reads', 'yes');
        const pid = Number(/process_id:(\d+)/.exec(cli(server.plain, ['info', 'server']))[1]);
        const load = start(t, 'redis-benchmark', ['-p', server.plain, '-c', '64', '-n', '100000000', '-t', 'set', '-d', '100', '-q']);
        const debug = start(t, delays, [pid, 300]);
        await debug.until(/delaying 3 threads/, { stream: 'stdout' });
        await eventually('the server is gone', async () => {
            await halfClose(t, server.port).catch(() => {});
            return server.run.over;
        }, 300_000);
        kill(load.pid, 'SIGTERM');
        const report = await reportOf(t, server.trace, [0, 4]), conflict = report.findings.find((f) => f.kind === 'redis-connection-conflict');
        assert.ok(conflict, outline(report));
        const { first_thread: first, second_thread: second } = conflict.evidence, said = JSON.stringify(conflict.evidence);
        t.diagnostic(said);
        assert.ok(first && conflict.evidence.second_added_ns > conflict.evidence.first_added_ns, said);
        atOnce = conflict.evidence.used_at_once_count > 0;
        if (atOnce) assert.ok(second && first !== second, said);
        if (atOnce) assert.match(conflict.detail, new RegExp(`Threads (${first} and ${second}|${second} and ${first}) were inside the same connection for`));
        assert.ok(atOnce || servers < 12, 'never two at once');
    }
});

test('the same server without the option has no conflict', async (t) => {
    const server = await tlsServer(t, temporary(t), '--io-threads-do-reads', 'no');
    const load = start(t, 'redis-benchmark', ['-p', server.plain, '-c', '64', '-n', '40000', '-t', 'set', '-d', '100', '-q']);
    for (let n = 0; n < 20; n++) await halfClose(t, server.port);
    await load.ended;
    await start(t, 'redis-cli', ['-p', server.plain, 'shutdown', 'nosave']).ended;
    await server.run.ended;
    const { findings, servers } = await redisOf(server.trace);
    assert.deepEqual(findings.filter((f) => f.kind !== 'redis-slow-command'), []);
    assert.ok(servers[0].commands_count >= 40000);
});

test('who waited behind a slow command, by the clients\' own times', async (t) => {
    const CLIENTS = 20, port = await freePort(), trace = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '--quiet', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '');
    await listens(port);
    const slow = await connect(t, port), clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect(t, port)));
    for (const { call } of clients) await call('GET', 'key');
    // The script runs for a while by the server's own clock; each client sends once it runs, which the log says.
    const held = slow.call('EVAL', "redis.log(redis.LOG_WARNING, 'the script runs'); local t = redis.call('TIME'); local e = t[1] * 1000000 + t[2] + 1000000; repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e", '0');
    await run.until(/the script runs/, { stream: 'stdout' });
    const waits = await Promise.all(clients.map(({ call }) => call('GET', 'key')));
    await held;
    await slow.call('CLIENT', 'NO-EVICT', 'off');
    slow.socket.write(command('SHUTDOWN', 'NOSAVE'));
    await run.ended;
    const { findings, servers } = await redisOf(trace);
    const finding = findings.find((f) => f.kind === 'redis-slow-command');
    assert.ok(finding, JSON.stringify(findings));
    assert.equal(finding.evidence.command, 'EVAL');
    assert.equal(finding.evidence.waiting_clients_count, CLIENTS);
    const longest = Math.max(...waits.map(({ ns }) => ns));
    assert.ok(finding.evidence.longest_wait_ns >= longest * 0.5, `${finding.evidence.longest_wait_ns} against ${longest}`);
    assert.ok(finding.evidence.longest_wait_ns <= finding.evidence.worst_ns);
    const get = servers[0].commands.find((c) => c.name === 'get'), time = servers[0].commands.find((c) => c.name === 'time');
    assert.equal(get.calls_count, 2 * CLIENTS);
    assert.ok(time.inner_calls_count > 0 && time.calls_count === 0);
    const text = await finish(t, SONDE, ['redis', trace]);
    assert.match(text.stdout, /20 other connections had a request waiting/);
    assert.match(text.stdout, /127\.0\.0\.1 \(not traced\)/);
});

test('a recording without a server says so, with what to do', async (t) => {
    const trace = path.join(temporary(t), 'trace');
    await sonde(t, 'run', '--quiet', '-o', trace, '--', process.execPath, '-e', '0').ended;
    const { status, stdout } = await finish(t, SONDE, ['redis', trace]);
    assert.equal(status, 0);
    assert.match(stdout, /No Redis server is in this recording\. Record one with/);
});
