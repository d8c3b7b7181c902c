// A hook that never fires because the compiler inlined its function is told, by the manifest and in a warning. The
// Redis is the one that layout.test.mjs builds, or one of tools/runtimes, built with -O3, where writeToClient is copied, and
// stripped of the name of its copy.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { SONDE, finish, freePort, kill, manifestOf, root, start, temporary } from './helper.mjs';

const RUNTIMES = process.env.SONDE_RUNTIMES || path.join(os.homedir(), '.cache', 'sonde', 'runtimes');
const inlined = [path.join(RUNTIMES, 'redis-O3/src/redis-server'), path.join(RUNTIMES, 'redis-7.0.15-O3/src/redis-server'), path.join(root, 'build/redis-padded/server/src/redis-server')];

async function pings(port, count) {
    const socket = await new Promise((resolve, reject) => {
        const s = net.connect(port, '127.0.0.1', () => resolve(s)).on('error', reject);
    });
    for (let i = 0; i < count; i++) {
        socket.write('PING\r\n');
        await new Promise((resolve) => socket.once('data', resolve));
    }
    socket.destroy();
}

async function record(t, server) {
    const folder = temporary(t), trace = path.join(folder, 'trace'), port = await freePort();
    const recording = start(t, SONDE, ['record', '-o', trace, '--', server, '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder]);
    await recording.until(/Ready to accept connections/, { stream: 'stdout' });
    await pings(port, 400);
    kill(recording.pid, 'SIGINT');
    const { stderr } = await recording.ended;
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:write_reply', trace]);
    return { stderr, replies: stdout.split('\n').filter(Boolean).length, missing: manifestOf(trace).processes.find((p) => p.runtime === 'redis').missing.filter((m) => /is hooked and gave no/.test(m.why)) };
}

test('a build whose functions all fire has no silent hook', async (t) => {
    const { stderr, replies, missing } = await record(t, 'redis-server');
    assert.ok(replies >= 400);
    assert.deepEqual(missing, []);
    assert.doesNotMatch(stderr, /not seen/);
});

test('a build that has inlined a hooked function: the manifest and a warning say what is not seen', async (t) => {
    const server = inlined.find((file) => fs.existsSync(file));
    if (!server) return t.skip('there is no Redis built with -O3 (tools/runtimes install)');
    const stripped = path.join(temporary(t), 'redis-server');
    assert.equal((await finish(t, 'strip', ['-o', stripped, server])).status, 0);
    const { stderr, replies, missing } = await record(t, stripped);
    if (replies) return t.skip('this compiler has not inlined writeToClient');
    assert.deepEqual(missing.map((m) => m.what), ['when replies are written']);
    assert.match(missing[0].why, /writeToClient is hooked and gave no redis:write_reply in more than \d+ events redis:command/);
    assert.match(stderr, /not seen: when replies are written: writeToClient is hooked/);
});

test('a copy of a hooked function that the compiler made and named is hooked too', async (t) => {
    const server = inlined.find((file) => fs.existsSync(file) && execFileSync('nm', [file], { encoding: 'utf8', maxBuffer: 1 << 26 }).includes('writeToClient.constprop.0'));
    if (!server) return t.skip('there is no Redis with such a copy (tools/runtimes install)');
    const { replies, missing } = await record(t, server);
    assert.ok(replies >= 400);
    assert.deepEqual(missing, []);
});
