// A server in which everything goes wrong that its own commands do not show, and the same server with the same load and
// none of it: the findings about forks, the append-only file, evictions, expiry, large replies and slow commands, with
// figures by what the server and its clients say; and none on the healthy one.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { eventually, finish, freePort, sonde, SONDE, start, temporary } from './helper.mjs';

const CLIENTS = 30;
const cli = (port, args, input) => execFileSync('redis-cli', ['-p', port, ...args], { encoding: 'utf8', input, timeout: 60_000, maxBuffer: 1 << 28 });
const info = (port) => Object.fromEntries([...cli(port, ['info', 'all']).matchAll(/^([^:\r\n]+):(.*?)\r?$/gm)].map(([, key, value]) => [key, value]));
const number = (port, key) => Number(info(port)[key]);

async function serve(t, ...options) {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--enable-debug-command', 'local', ...options);
    await eventually('the server answers', () => { try { return cli(port, ['ping']).includes('PONG'); } catch { return false; } });
    return { port, trace, run, end: async () => { start(t, 'redis-cli', ['-p', port, 'shutdown', 'nosave']); await run.ended; } };
}

async function findingsOf(t, trace, ...options) {
    const { status, stdout, stderr } = await finish(t, SONDE, ['redis', '--json', ...options, trace]);
    assert.ok([0, 4].includes(status), stderr);
    const { findings, losses } = JSON.parse(stdout);
    if (losses.length) t.diagnostic(JSON.stringify(losses));
    return Object.assign(findings, { losses });
}

// Connections that send one GET after the other, each with the times of its own.
function getters(t, port) {
    const clients = Array.from({ length: CLIENTS }, () => {
        const socket = net.connect(port, '127.0.0.1'), client = { socket, sent: 0, over: false, slowest: 0, replies: 0 };
        const send = () => { client.sent = performance.now(); socket.write('GET key\r\n'); };
        socket.setNoDelay(true).on('error', () => {}).on('connect', send).on('data', () => {
            client.slowest = Math.max(client.slowest, performance.now() - client.sent);
            client.replies++;
            if (!client.over) send();
        });
        t.after(() => socket.destroy());
        return client;
    });
    return { clients, forget: () => { for (const client of clients) client.slowest = 0; }, end: () => { for (const client of clients) { client.over = true; client.socket.end(); } } };
}

test('what a slow command made others wait, by their own times', async (t) => {
    const server = await serve(t);
    cli(server.port, ['debug', 'populate', '1000000', 'key', '10']);
    const load = getters(t, server.port);
    await eventually('all are served', () => load.clients.every((client) => client.replies));
    load.forget();
    await start(t, 'redis-cli', ['-p', server.port, 'keys', 'nothing*']).ended;
    const before = load.clients.map((client) => client.replies); // the reply that waited may not have been read yet
    await eventually('all are served again', () => load.clients.every((client, n) => client.replies > before[n] + 1));
    const times = load.clients.map((client) => client.slowest).sort((a, b) => a - b), middle = times[CLIENTS / 2];
    load.end();
    await server.end();
    const slow = (await findingsOf(t, server.trace)).find((f) => f.evidence.command === 'KEYS');
    assert.ok(slow, 'KEYS is found');
    const ran = slow.evidence.worst_ns / 1e6, wait = slow.evidence.longest_wait_ns / 1e6;
    assert.equal(times.filter((time) => time > ran / 2).length, CLIENTS, `${times} against ${ran}`);
    assert.equal(slow.evidence.waiting_clients_count, CLIENTS);
    assert.ok(wait > ran / 2 && wait < times.at(-1) * 1.1, `${wait} ms of ${ran} against ${times}`);
    t.diagnostic(`KEYS ${ran} ms, waits of up to ${wait} ms; the clients' own: ${middle} ms in the middle`);
    assert.match(slow.remedy, /never shows who waited/);
});

test('forks, files, evictions, expiry and large replies; and a healthy twin', async (t) => {
    const sick = await serve(t, '--appendfsync', 'always', '--client-output-buffer-limit', 'normal 8mb 0 0');
    cli(sick.port, ['debug', 'populate', '300000', 'key', '500']);
    const load = getters(t, sick.port);
    await eventually('all are served', () => load.clients.every((client) => client.replies));
    cli(sick.port, ['bgsave']);
    await eventually('it is saved', () => info(sick.port).rdb_bgsave_in_progress === '0');
    const fork = number(sick.port, 'latest_fork_usec');
    load.end();
    // an element of a thousand bytes, five thousand times: 5 MB
    cli(sick.port, ['eval', 'for i = 1, 5000 do redis.call("rpush", "list", string.rep("x", 1000)) end', '0']);
    assert.ok(cli(sick.port, ['lrange', 'list', '0', '-1']).length > 5e6);
    // somebody who asks for more than the limit and takes nothing
    const deaf = net.connect(sick.port, '127.0.0.1').on('error', () => {});
    await new Promise((resolve) => deaf.once('connect', resolve));
    deaf.pause();
    deaf.write('LRANGE list 0 -1\r\n'.repeat(20));
    await eventually('it is closed', () => !/qbuf=.*cmd=lrange/.test(cli(sick.port, ['client', 'list'])));
    deaf.destroy();
    cli(sick.port, ['eval', 'for i = 1, 200000 do redis.call("set", "short" .. i, "v", "px", 200) end', '0']);
    await eventually('they have expired', () => number(sick.port, 'expired_keys') === 200000);
    cli(sick.port, ['config', 'set', 'maxmemory-policy', 'allkeys-random']);
    cli(sick.port, ['config', 'set', 'maxmemory', String(number(sick.port, 'used_memory') - 20e6)]);
    cli(sick.port, [], Array.from({ length: 4000 }, (_, n) => `set new${n} ${'x'.repeat(1000)}\n`).join(''));
    cli(sick.port, ['config', 'set', 'maxmemory', '0']);
    cli(sick.port, ['flushall']);
    cli(sick.port, ['config', 'set', 'appendonly', 'yes']);
    await eventually('the file is written', () => info(sick.port).aof_rewrite_in_progress === '0');
    cli(sick.port, [], Array.from({ length: 3000 }, (_, n) => `set file${n} value\n`).join(''));
    const after = info(sick.port);
    await sick.end();
    const findings = await findingsOf(t, sick.trace, '--slow-command-ms', '2'), of = (kind) => findings.find((f) => f.kind === kind);
    const said = JSON.stringify(findings.map((f) => f.title), null, 1);
    for (const kind of ['redis-fork-stall', 'redis-fsync-stall', 'redis-eviction-storm', 'redis-expiry-storm', 'redis-big-reply', 'redis-slow-client', 'redis-slow-command']) assert.ok(of(kind), `${kind} in ${said}`);
    const forked = of('redis-fork-stall');
    // The server's own figure begins and ends within ours, and on a busy machine it may lose its CPU in between.
    const longest = Math.max(fork, Number(after.latest_fork_usec)); // of both forks
    assert.ok(forked.evidence.worst_ns / 1000 >= fork && forked.evidence.worst_ns / 1000 < longest * 1.1 + 100_000, `${forked.evidence.worst_ns} against ${longest} us`);
    assert.match(forked.detail, /SLOWLOG does not show it/);
    if (!findings.losses.length) assert.equal(of('redis-eviction-storm').evidence.evicted_count, Number(after.evicted_keys));
    if (!findings.losses.length) assert.equal(of('redis-expiry-storm').evidence.expired_count + of('redis-expiry-storm').evidence.expired_on_access_count, Number(after.expired_keys));
    const reply = findings.find((f) => f.kind === 'redis-big-reply' && f.evidence.command === 'LRANGE');
    assert.ok(reply.evidence.reply_bytes > 5e6, said);
    assert.equal(of('redis-slow-client').evidence.closed_count, 1);
    assert.ok(of('redis-fsync-stall').evidence.syncs_count >= 1000 || of('redis-fsync-stall').evidence.writes_count, said);
    assert.ok(!findings.some((f) => f.evidence.command === 'BGSAVE'), 'BGSAVE did nothing but fork');

    const well = await serve(t);
    const calm = getters(t, well.port);
    await eventually('all are served', () => calm.clients.every((client) => client.replies));
    for (let n = 0; n < 20; n++) cli(well.port, ['set', `key${n}`, 'x'.repeat(1000), 'ex', '100']);
    cli(well.port, ['get', 'key1']);
    calm.end();
    await well.end();
    assert.deepEqual((await findingsOf(t, well.trace, '--slow-command-ms', '1000')).map((f) => f.title), []);
});
