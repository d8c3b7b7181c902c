// Redis 8 and Valkey, stock builds of newer Debian suites, each in a root directory of its own as in a container:
// attached to under load, every command is recorded, no finding on a healthy server, and it lives on.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { eventually, finish, freePort, isRoot, manifestOf, root, sonde, SONDE, start, temporary } from './helper.mjs';

const SERVERS = path.join(root, 'build', 'servers');
// replies: writes are seen; sid's Redis has a copy of writeToClient without a name. byThreads: what I/O threads read and write is seen as
// theirs. zeroLong: when they begin, but not how long they take.
const ROWS = [
    { name: 'trixie-redis-server', program: 'redis-server', replies: true },
    { name: 'sid-valkey-server', program: 'valkey-server', replies: true, byThreads: true },
    ...(process.env.SONDE_ALL_SERVERS ? [
        { name: 'sid-redis-server', program: 'redis-server', replies: false },
        { name: 'trixie-valkey-server', program: 'valkey-server', replies: true, byThreads: true, zeroLong: true }] : []),
];

// Where they cannot be had, the reason.
function fetchServers() {
    if (!isRoot) return 'needs root, to run a server in a root directory of its own';
    const wanted = ROWS.map(({ name }) => name.replace('-', '/'));
    try {
        execFileSync(path.join(root, 'tools', 'newer-servers'), [SERVERS, ...wanted], { stdio: ['ignore', 'ignore', 'pipe'], timeout: 240_000 });
    } catch (error) {
        return `the packages cannot be fetched: ${String(error.stderr || error.message).trim().split('\n').pop()}`;
    }
    return false;
}
const unavailable = fetchServers();

const cli = (port, ...args) => execFileSync('redis-cli', ['-p', port, ...args], { encoding: 'utf8', timeout: 20_000 });
const calls = (port) => Object.fromEntries([...cli(port, 'info', 'commandstats').matchAll(/cmdstat_(\S+):calls=(\d+)/g)].map(([, name, count]) => [name, Number(count)]));

for (const { name, program, replies, byThreads, zeroLong } of ROWS)
    test(`${name}: attached to under load`, { skip: unavailable }, async (t) => {
        const port = await freePort(), trace = path.join(temporary(t), 'trace');
        const server = start(t, 'chroot', [path.join(SERVERS, name), `/usr/bin/${program}`, '--port', port, '--bind', '127.0.0.1', '--save', '', '--io-threads', 3], { env: { ...process.env, LC_ALL: 'C' } });
        await eventually('the server answers', () => { try { return cli(port, 'ping').includes('PONG'); } catch { return false; } });
        const load = start(t, 'redis-benchmark', ['-p', port, '-c', 20, '-n', 100_000_000, '-t', 'get', '-q']);
        await eventually('it is under load', () => (calls(port).get || 0) > 1000);
        const recorder = sonde(t, 'attach', '--no-kernel', '-o', trace, server.pid);
        await recorder.until(/Ctrl-C/);
        const before = calls(port);
        await eventually('commands are executed', () => calls(port).get > before.get + 5000);
        for (let n = 0; n < 100; n++) cli(port, 'set', `key${n}`, 'value');
        process.kill(load.pid, 'SIGTERM');
        await load.ended;
        const after = calls(port);
        process.kill(recorder.pid, 'SIGINT');
        await recorder.ended;
        assert.ok(!server.over, 'it lives on');
        assert.match(cli(port, 'ping'), /PONG/);
        const { status, stdout, stderr } = await finish(t, SONDE, ['redis', '--json', trace]);
        assert.ok([0, 4].includes(status), stderr);
        const { servers: [seen], findings, losses } = JSON.parse(stdout);
        assert.deepEqual(findings.filter((f) => f.severity !== 'info' && f.kind !== 'redis-slow-command'), []);
        const count = (command) => seen.commands.find((c) => c.name === command)?.calls_count || 0;
        if (!losses.length) {
            assert.equal(count('set'), after.set - (before.set || 0));
            assert.ok(count('get') >= after.get - before.get, `${count('get')} of ${after.get - before.get}`);
        }
        assert.equal(seen.name, `${program.replace('-server', '')}:${port}`);
        assert.ok(seen.connections_count >= 100);
        assert.ok(seen.iterations_count > 100);
        assert.deepEqual(seen.callers.map((c) => c.name), ['127.0.0.1'], 'also those that were connected before');
        if (replies) assert.ok(seen.threads.reduce((sum, thread) => sum + thread.replies_count, 0) > 1000, JSON.stringify(seen.threads));
        // How many threads are in use depends on the load: as soon as there is one, it has records of its own.
        if (byThreads && seen.threads.length > 1) assert.ok(seen.threads.some(({ reads_count: reads, commands_count: commands }) => reads && !commands), JSON.stringify(seen.threads));
        const missing = manifestOf(trace).processes[0].missing.map((m) => m.what);
        assert.equal(missing.some((what) => /I\/O thread/.test(what)), !!zeroLong, String(missing));
        assert.ok(fs.existsSync(path.join(SERVERS, name, '.complete')));
    });
