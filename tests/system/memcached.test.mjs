// What Memcached servers do, as their events have it, against what they say themselves (stats) and what a client has sent and got.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { SONDE, eventually, finish, freePort, isRoot, manifestOf, outline, reportOf, root, sonde, start, temporary } from './helper.mjs';
import { certificate } from './redis.mjs';

const OPTIONS = ['-l', '127.0.0.1', '-U', '0', '-t', '2', ...(isRoot ? ['-u', 'root'] : [])];

// A client that counts what it sends and gets.
class Client {
    sent = 0;
    got = '';
    constructor(t, socket) {
        this.socket = socket.setEncoding('latin1');
        this.socket.on('data', (text) => { this.got += text; this.waiting?.(); });
        this.socket.on('error', () => {});
        t.after(() => this.socket.destroy());
    }
    write(text) {
        this.sent += Buffer.byteLength(text);
        return new Promise((resolve) => this.socket.write(text, resolve));
    }
    // Sends commands, and waits for an answer that ends so.
    async ask(text, end) {
        const from = this.got.length;
        await this.write(text);
        while (!this.got.slice(from).endsWith(end)) await new Promise((resolve) => { this.waiting = resolve; });
        return this.got.slice(from);
    }
    async stats() {
        const lines = await this.ask('stats\r\n', 'END\r\n');
        return Object.fromEntries([...lines.matchAll(/^STAT (\S+) (\d+)\r$/gm)].map(([, name, value]) => [name, Number(value)]));
    }
    close() {
        return new Promise((resolve) => this.socket.on('close', resolve).end());
    }
}

const connects = async (t, port) => {
    await eventually('the server listens', () => new Promise((resolve) => {
        const probe = net.connect({ port, host: '127.0.0.1' }, () => { probe.destroy(); resolve(true); });
        probe.on('error', () => resolve(false));
    }));
    return new Client(t, net.connect({ port, host: '127.0.0.1' }));
};

async function modelOf(t, trace) {
    const { status, stdout, stderr } = await finish(t, SONDE, ['memcached', '--json', trace]);
    assert.equal(status, 0, `nothing is lost: ${stderr}${stdout.slice(-500)}`);
    const { servers } = JSON.parse(stdout);
    assert.equal(servers.length, 1);
    return { server: servers[0], of: (name) => servers[0].commands.find((c) => c.name === name) };
}

// What the states over time say at their ends.
async function statesOf(t, trace) {
    const { status, stdout, stderr } = await finish(t, SONDE, ['trace', 'states', '--json', '-a', 'Memcached/**', trace]);
    assert.equal(status, 0, stderr);
    const states = stdout.trim().split('\n').map((line) => JSON.parse(line)).filter((state) => state.value !== null);
    return (name) => states.filter((state) => state.attribute.split('/').slice(2).join('/') === name).at(-1)?.value;
}

// Commands of all kinds, and what must be counted of them.
async function mixed(client) {
    const set = (n, size, more = '') => `set key${n} 0 0 ${size}${more}\r\n${'x'.repeat(size)}\r\n`;
    for (let n = 0; n < 20; n++) await client.ask(set(n, 100), 'STORED\r\n');
    await client.ask(set('large', 300_000), 'STORED\r\n'); // more than one read
    await client.write(set('silent', 10, ' noreply'));
    for (let n = 0; n < 30; n++) await client.ask(`get key${n}\r\n`, 'END\r\n'); // 20 hits, 10 misses
    await client.ask('get key1 key2 nothing keylarge\r\n', 'END\r\n'); // 3 hits, 1 miss
    await client.ask('gets key1\r\nget nothing\r\nversion\r\n', '\r\n'); // together
    await eventually('all three are answered', () => /END\r\nEND\r\nVERSION .*\r\n$/.test(client.got));
    await client.ask('add key1 0 0 1\r\nx\r\n', 'NOT_STORED\r\n');
    await client.ask('set number 0 0 1\r\n5\r\n', 'STORED\r\n');
    await client.ask('incr number 2\r\n', '7\r\n');
    await client.ask('incr nothing 2\r\n', 'NOT_FOUND\r\n');
    await client.ask('delete key1\r\n', 'DELETED\r\n');
    await client.ask('delete key1\r\n', 'NOT_FOUND\r\n');
    await client.ask('touch key2 100\r\n', 'TOUCHED\r\n');
    await client.ask('nonsense\r\n', 'ERROR\r\n');
    // meta commands: of those with q only what is there is answered
    await client.ask('mg key2 v\r\n', 'x\r\n');
    await client.ask('mg nothing v\r\n', 'EN\r\n');
    await client.ask('mg key3 v q\r\nmg nothing v q\r\nmn\r\n', 'MN\r\n');
    await client.ask('ms meta 2\r\nab\r\n', 'HD\r\n');
    await client.ask('md meta\r\n', 'HD\r\n');
    await client.ask('get value-that-is-a-command\r\n', 'END\r\n');
    await client.ask('set trap 0 0 12\r\nget trap\r\n\r\n\r\n', 'STORED\r\n');
    await client.ask(Array.from({ length: 200 }, (_, n) => `get key${n % 25}\r\n`).join(''), 'END\r\n');
    await eventually('the pipeline is answered', async () => (await client.stats()).cmd_get >= 30 + 4 + 2 + 4 + 1 + 200);
}

const sums = (server) => Object.fromEntries(['hits_count', 'misses_count', 'bytes', 'reply_bytes'].map((what) => [what, server.commands.map((c) => c[what]).reduce((a, b) => a + b, 0)]));

function check({ server, of }, stats, client) {
    const sum = (names, what) => names.map((name) => of(name)?.[what] ?? 0).reduce((a, b) => a + b, 0);
    const gets = ['get', 'gets', 'mg'];
    assert.equal(sum(gets, 'keys_count'), stats.cmd_get);
    assert.equal(sum(gets, 'hits_count'), stats.get_hits);
    assert.equal(sum(gets, 'misses_count'), stats.get_misses);
    assert.equal(sum(['set', 'add', 'ms'], 'commands_count'), stats.cmd_set);
    assert.equal(of('set').commands_count, 24);
    assert.equal(of('add').refused_count, 1);
    assert.deepEqual([of('delete').hits_count, of('delete').misses_count], [1, 1]);
    assert.deepEqual([of('incr').hits_count, of('incr').misses_count], [stats.incr_hits, stats.incr_misses]);
    assert.equal(of('touch').commands_count, stats.cmd_touch);
    assert.deepEqual([of('other').commands_count, of('other').errors_count], [1, 1]);
    assert.equal(of('mg').commands_count, 4);
    assert.equal(of('ms').refused_count, 0);
    assert.equal(of('version').commands_count, 1);
    assert.equal(server.unread_bytes, 0);
    assert.deepEqual([sums(server).bytes, sums(server).reply_bytes], [client.sent, client.got.length]);
    assert.ok(server.commands.every((c) => c.executed_ns > 0 && c.worst_ns >= c.p50_ns), JSON.stringify(server.commands));
    const threads = server.threads.filter((thread) => thread.commands_count);
    assert.equal(threads.length, 1, 'one connection is one thread\'s');
    assert.ok(threads[0].waits_count > 50);
}

test('a stripped memcached that is started: commands, hits and misses, bytes, by its own counters', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'memcached', '-p', port, ...OPTIONS);
    const client = await connects(t, port);
    await mixed(client);
    const stats = await client.stats();
    await client.close();
    run.child.kill('SIGINT');
    await run.ended;
    const [program] = manifestOf(trace).processes;
    assert.equal(program.runtime, 'memcached');
    assert.deepEqual(program.missing.map(({ what }) => what), ["Memcached's evictions"]);
    const model = await modelOf(t, trace);
    check(model, stats, client);
    assert.equal(model.server.name, `memcached:${port}`);
    assert.doesNotMatch((await finish(t, SONDE, ['report', trace])).stdout, /Redis commands/);
    const last = await statesOf(t, trace), { hits_count: hits, misses_count: misses } = sums(model.server);
    assert.deepEqual(['Keys/Hits', 'Keys/Misses', 'Bytes in', 'Bytes out', 'Connections'].map(last), [hits, misses, client.sent, client.got.length, 0]);
    const { tid } = model.server.threads.find((thread) => thread.commands_count);
    assert.equal(last(`Threads/${tid}/Command`), 'stats');
    const { stdout } = await finish(t, SONDE, ['memcached', trace]);
    assert.match(stdout, /keys that were asked for/);
    assert.match(stdout, /\n +get +233 /);
});

test('a memcached that runs is attached to and left as it was', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const server = start(t, 'memcached', ['-p', port, ...OPTIONS]);
    const early = await connects(t, port); // is there before sonde is
    await early.ask('get nothing\r\n', 'END\r\n');
    const before = await early.stats();
    const attached = sonde(t, 'attach', '--no-kernel', '-o', trace, server.pid);
    await eventually('sonde is attached', () => /attached/.test(attached.stderr));
    const client = await connects(t, port);
    await mixed(client);
    const stats = await client.stats();
    await client.close();
    attached.child.kill('SIGINT');
    const { status, stderr } = await attached.ended;
    assert.equal(status, 0, stderr);
    for (const name of Object.keys(stats)) stats[name] -= before[name] ?? 0;
    const model = await modelOf(t, trace);
    check(model, stats, client);
    assert.match(model.server.name, new RegExp(`^memcached:${port}$`));
    assert.match(await early.ask('get nothing\r\n', 'END\r\n'), /^END/, 'it goes on');
});

// A command of the binary protocol.
function binary(code, key = '', extras = '', value = '') {
    const head = Buffer.alloc(24);
    head.set([0x80, code, 0, key.length, extras.length]);
    head.writeUInt32BE(extras.length + key.length + value.length, 8);
    return Buffer.concat([head, Buffer.from(extras + key + value, 'latin1')]);
}

test('the binary protocol is counted like text; what is neither is said to be unknown', async (t) => {
    const GET = 0, SET = 1, DELETE = 4, QUIET_GET = 9, NOOP = 10, HEADER = 24, FLAGS = 4;
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'memcached', '-p', port, ...OPTIONS);
    const client = await connects(t, port), value = 'x'.repeat(30_000);
    const ask = async (command, bytes) => {
        const from = client.got.length;
        client.sent += command.length;
        client.socket.write(command);
        await eventually('the answer is whole', () => client.got.length - from >= bytes);
        assert.equal(client.got.length - from, bytes);
    };
    const miss = HEADER + 'Not found'.length;
    await ask(binary(SET, 'key', '\0'.repeat(8), value), HEADER);
    await ask(binary(GET, 'key'), HEADER + FLAGS + value.length);
    await ask(binary(GET, 'nothing'), miss);
    await ask(Buffer.concat([binary(QUIET_GET, 'nothing'), binary(QUIET_GET, 'key'), binary(QUIET_GET, 'nothing'), binary(NOOP)]), HEADER + FLAGS + value.length + HEADER);
    await ask(binary(DELETE, 'key'), HEADER);
    await ask(binary(DELETE, 'key'), miss);
    await client.close();
    const stranger = await connects(t, port);
    stranger.socket.write(Buffer.from([0x16, 3, 1, 0, 5, 1, 2, 3, 4, 10])); // as TLS begins
    await eventually('it was read', () => stranger.got.length || stranger.socket.destroyed);
    stranger.socket.destroy();
    const last = await connects(t, port);
    const stats = await last.stats();
    await last.close();
    run.child.kill('SIGINT');
    await run.ended;
    const { server, of } = await modelOf(t, trace);
    assert.equal(server.unread_bytes, 10);
    assert.deepEqual([of('get').commands_count, of('get').hits_count, of('get').misses_count], [5, stats.get_hits, stats.get_misses]);
    assert.deepEqual([of('set').commands_count, of('set').keys_count, of('set').refused_count], [1, 0, 0]);
    assert.deepEqual([of('delete').commands_count, of('delete').hits_count, of('delete').refused_count], [2, 1, 1]);
    assert.equal(of('other').commands_count, 1);
    const bytes = (what) => server.commands.filter((c) => c.name !== 'stats').map((c) => c[what]).reduce((a, b) => a + b);
    assert.deepEqual([bytes('bytes'), bytes('reply_bytes')], [client.sent, client.got.length]);
    const { stdout } = await finish(t, SONDE, ['memcached', trace]);
    assert.match(stdout, /10 B from clients were not understood/);
});

test('TLS: the commands and bytes that the client has', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const { certificate: chain, key } = certificate(folder);
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'memcached', '-p', port, ...OPTIONS, '-Z', '-o', `ssl_chain_cert=${chain},ssl_key=${key}`);
    await connects(t, port);
    const client = new Client(t, tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }));
    await mixed(client);
    const stats = await client.stats();
    await client.close();
    run.child.kill('SIGINT');
    await run.ended;
    check(await modelOf(t, trace), stats, client);
});

test('answers by UDP are counted, and their commands are said not to be', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'memcached', '-p', port, '-l', '127.0.0.1', '-U', port, '-t', '2', ...(isRoot ? ['-u', 'root'] : []));
    const client = await connects(t, port), socket = dgram.createSocket('udp4'), answers = [];
    t.after(() => socket.close());
    socket.on('message', (message) => answers.push(message.toString('latin1', 8)));
    for (let n = 0; n < 3; n++) {
        socket.send(Buffer.from(`\0${String.fromCharCode(n)}\0\0\0\x01\0\0get nothing\r\n`, 'latin1'), port, '127.0.0.1');
        await eventually('it is answered', () => answers.length > n);
    }
    assert.deepEqual(answers, Array(3).fill('END\r\n'));
    await client.close();
    run.child.kill('SIGINT');
    await run.ended;
    const { server } = await modelOf(t, trace);
    assert.deepEqual([server.udp_answers_count, server.commands.length], [3, 0]);
    assert.match((await finish(t, SONDE, ['memcached', trace])).stdout, /3 answers went out by UDP: those commands are not counted/);
});

test('keys that are suddenly missing are a finding, and those that never were are none', async (t) => {
    for (const flushed of [true, false]) {
        const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
        const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'memcached', '-p', port, ...OPTIONS);
        const client = await connects(t, port);
        const ask = async (count) => { for (let n = 0; n < count; n += 100) await client.ask(`get ${Array.from({ length: 100 }, (_, i) => `key${i}`).join(' ')}\r\n`, 'END\r\n'); };
        if (flushed) for (let n = 0; n < 95; n++) await client.ask(`set key${n} 0 0 1\r\nx\r\n`, 'STORED\r\n');
        await ask(5000);
        if (flushed) await client.ask('flush_all\r\n', 'OK\r\n');
        await ask(3000);
        await client.close();
        run.child.kill('SIGINT');
        await run.ended;
        for (const report of [await reportOf(t, trace), JSON.parse((await finish(t, SONDE, ['memcached', '--json', trace])).stdout)]) {
            assert.deepEqual(report.findings.map((f) => f.kind), flushed ? ['memcached-misses'] : [], outline(report));
            if (!flushed) continue;
            const [{ evidence, severity }] = report.findings;
            assert.equal(severity, 'warning');
            assert.deepEqual([evidence.asked_count, evidence.missed_count, evidence.missed_share], [3000, 3000, 1]);
            assert.ok(Math.abs(evidence.usual_share - 0.05) < 1e-9 && evidence.flushed_ns > 0, JSON.stringify(evidence));
        }
        const { stdout } = await finish(t, SONDE, ['memcached', trace]);
        if (flushed) assert.match(stdout.replace(/\s+/g, ' '), /memcached:\d+ did not have 3000 of 3000 keys that it was asked for: 100 % instead of 5 %/);
    }
});

test("a traced service's commands are joined to what the server did, and are those of its own record", async (t) => {
    const trace = path.join(temporary(t), 'trace'), program = path.join(root, 'tests/system/programs/cached.js');
    const run = await finish(t, SONDE, ['run', '--quiet', '--no-kernel', '-o', trace, '--', process.execPath, program, 60]);
    assert.equal(run.status, 0, run.describe());
    const record = JSON.parse(run.stdout.split('\n').find((line) => line.startsWith('{'))), { server } = await modelOf(t, trace);
    assert.deepEqual([server.commands.reduce((sum, c) => sum + c.commands_count, 0), sums(server).bytes, sums(server).reply_bytes], [record.commands, record.sent, record.got]);
    const { attribution } = await reportOf(t, trace);
    assert.equal(attribution.redis_joined_count, record.commands);
    const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '1000', trace])).stdout);
    const mine = requests.filter((r) => r.path.startsWith('/n/'));
    assert.equal(mine.length, record.requests);
    const took = mine.flatMap((r) => r.spans).filter((s) => s.layer === 'memcached').reduce((sum, s) => sum + s.duration_ns, 0);
    t.diagnostic(`of the ${(record.took_ns / 1e6).toFixed(2)} ms that the service measured for its commands the spans have ${(100 * took / record.took_ns).toFixed(1)} %`);
    for (const request of mine) {
        const spans = request.spans.filter((s) => s.layer === 'memcached');
        assert.ok(request.state === 'finished' && spans.length >= 3, JSON.stringify(request));
        for (const s of spans)
            assert.ok(s.start_ns <= s.work_start_ns && s.work_start_ns <= s.work_end_ns && s.peer_process === server.pid, JSON.stringify(s));
    }
});

test('large values, several of them under way at once: what the service reads is counted, and each command ends with its answer', async (t) => {
    const trace = path.join(temporary(t), 'trace'), program = path.join(root, 'tests/system/programs/cached.js');
    const run = await finish(t, SONDE, ['run', '--quiet', '--no-kernel', '-o', trace, '--', process.execPath, program, 60, 300_000]);
    assert.equal(run.status, 0, run.describe());
    const record = JSON.parse(run.stdout.split('\n').find((line) => line.startsWith('{')));
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '-n', 'uv:io', '-n', 'uv:write', '-n', 'memcached:command', trace]);
    const events = stdout.trim().split('\n').map((line) => JSON.parse(line)), place = ({ pid, fields: { fd, generation } }) => `${pid} ${fd} ${generation}`;
    const stores = new Set(events.filter((e) => e.fields['wire.label'] === 'memcached').map(place));
    assert.equal(stores.size, 1);
    const reads = events.filter((e) => e.name === 'uv:io' && stores.has(place(e)));
    assert.equal(reads.reduce((sum, e) => sum + e.fields.bytes, 0), record.got);
    // Each command's span ends within the read that has its answer's last byte. Their answers come in their order.
    const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '1000', trace])).stdout);
    const spans = requests.flatMap((r) => r.spans).filter((s) => s.layer === 'memcached').sort((a, b) => a.sequence - b.sequence);
    assert.equal(spans.length, record.commands);
    const executed = events.filter((e) => e.name === 'memcached:command');
    let answered = 0, read = 0, next = 0;
    for (const { fields: { commands, reply_bytes: bytes } } of executed) {
        answered += bytes;
        while (read < answered) read += reads[next++].fields.bytes;
        const { time_ns: end, fields: { duration } } = reads[next - 1];
        for (const span of spans.splice(0, commands))
            if (commands === 1) assert.ok(span.end_ns >= end - duration && span.end_ns <= end, JSON.stringify({ span, from: end - duration, to: end }));
    }
});

test('a recording without Memcached says so', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace');
    await finish(t, SONDE, ['run', '--quiet', '--no-kernel', '-o', trace, '--', process.execPath, '-e', '0']);
    const { stdout } = await finish(t, SONDE, ['memcached', trace]);
    assert.match(stdout, /No Memcached server is in this recording/);
});

test('a server that runs is attached to by its port, recorded, reported and left', async (t) => {
    const port = await freePort(), server = start(t, 'memcached', [...OPTIONS, '-p', port]), client = await connects(t, port);
    for (const [operand, gets] of [[port, 7], [`pid:${server.pid}`, 3]]) {
        const tracer = sonde(t, 'memcached', '--json', '--output', path.join(temporary(t), 'trace'), operand);
        await tracer.until(/attached to process/);
        await client.ask('set key 0 0 5\r\nvalue\r\n', 'STORED\r\n');
        for (let n = 0; n < gets; n++) await client.ask('get key\r\n', 'END\r\n');
        process.kill(tracer.pid, 'SIGINT');
        const { status, stdout } = await tracer.ended;
        assert.equal(status, 0, tracer.describe());
        const { servers: [{ commands }] } = JSON.parse(stdout), of = (name) => commands.find((c) => c.name === name);
        assert.equal(of('get').commands_count, gets);
        assert.equal(of('get').hits_count, gets);
        assert.equal(of('set').commands_count, 1);
    }
    const nobody = await finish(t, SONDE, ['memcached', `:${await freePort()}`]);
    assert.equal(nobody.status, 1);
    assert.match(nobody.stderr, /no process that sonde may look at listens on port/);
    const wrong = await finish(t, SONDE, ['memcached', '--duration', '1', temporary(t)]);
    assert.equal(wrong.status, 2);
});
