// What servers are called: by the ports that they listen on, as the kernel says, or by what they were told before they do.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { eventually, freePort, manifestOf, sonde, start, temporary } from './helper.mjs';

const answers = (at) => eventually(`an answer at ${at}`, () => new Promise((resolve) => {
    const socket = net.connect(at, () => { socket.destroy(); resolve(true); }).on('error', () => resolve(false));
}));

// Servers of all kinds: their commands, where they answer, and what they are to be called.
async function servers(t) {
    const folder = temporary(t), [first, second, third, fourth] = [await freePort(), await freePort(), await freePort(), await freePort()];
    const configured = path.join(folder, 'redis.conf'), redisSocket = path.join(folder, 'r.sock'), memcachedSocket = path.join(folder, 'm.sock');
    fs.writeFileSync(configured, `# port 1\n\tPORT   ${third}\nsave ""\ndir ${folder}\n`);
    const redis = (...words) => ['redis-server', ...words, '--save', '', '--dir', folder];
    const user = process.getuid() === 0 ? ['-u', 'root'] : [];
    return [
        { command: redis('--port', first), at: first, name: `redis:${first}` },
        { command: redis('--port', '1', '--PORT', second), at: second, name: `redis:${second}` },
        { command: ['redis-server', configured], at: third, name: `redis:${third}` },
        { command: redis('--port', '0', '--unixsocket', redisSocket), at: redisSocket, name: `redis:${redisSocket}` },
        { command: ['memcached', '-p', fourth, ...user], at: fourth, name: `memcached:${fourth}` },
        { command: ['memcached', '-s', memcachedSocket, ...user], at: memcachedSocket, name: `memcached:${memcachedSocket}` },
    ].map((server) => ({ ...server, command: server.command.map(String) }));
}

const namesIn = (trace) => manifestOf(trace).processes.map(({ name }) => name).sort();

test('servers that start are called by what they were told, since none listens yet', async (t) => {
    for (const { command, at, name } of await servers(t)) {
        const trace = path.join(temporary(t), 'trace');
        const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', ...command);
        await answers(at);
        run.child.kill('SIGINT');
        const { stderr } = await run.ended;
        assert.deepEqual(namesIn(trace), [name], stderr);
    }
});

test('servers that are there are called by where they listen', async (t) => {
    const trace = path.join(temporary(t), 'trace'), list = await servers(t);
    const pids = list.map(({ command: [program, ...words] }) => start(t, program, words).pid);
    for (const { at } of list) await answers(at);
    const attached = sonde(t, 'attach', '--quiet', '--no-kernel', '-o', trace, ...pids);
    await eventually('all are attached to', () => {
        assert.ok(!attached.over, attached.describe());
        return pids.every((pid) => fs.readFileSync(`/proc/${pid}/maps`, 'utf8').includes('memfd:sonde'));
    });
    attached.child.kill('SIGINT');
    const { stderr } = await attached.ended;
    assert.deepEqual(namesIn(trace), list.map(({ name }) => name).sort(), stderr);
});
