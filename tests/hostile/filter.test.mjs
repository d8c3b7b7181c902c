// Programs that forbid themselves system calls after sonde has come.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { SONDE, eventually, manifestOf, start, temporary } from '../system/helper.mjs';
import { compile, isAlive } from './helper.mjs';

const talk = (socket, text) => new Promise((resolve, reject) => {
    const connection = net.connect(socket, () => connection.write(text));
    connection.on('data', (data) => {
        connection.destroy();
        resolve(data.toString());
    });
    connection.on('error', reject);
});

for (const [how, ...options] of [['', '--no-kernel'], [', as the kernel says']]) test(`a program that sandboxes itself later is not killed for a call of the probe${how}`, async (t) => {
    const folder = temporary(t), socket = path.join(folder, 'socket'), now = path.join(folder, 'now'), trace = path.join(folder, 'trace');
    const library = await compile(t, folder, 'sandbox_later', '-shared', '-fPIC');
    const redis = start(t, 'redis-server', ['--port', '0', '--unixsocket', socket, '--save', '', '--io-threads', '2', '--dir', folder], { env: { LD_PRELOAD: library, SANDBOX_NOW: now } });
    await redis.until(/Ready to accept connections|The server is now ready/, { stream: 'stdout' });
    const sonde = start(t, SONDE, ['attach', ...options, '-o', trace, redis.pid]);
    await sonde.until(/attached to 1 process/);
    fs.writeFileSync(now, '');
    const filtered = () => /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${redis.pid}/status`, 'utf8'));
    await eventually('the filter is there', filtered);
    await sonde.until(/has a new system call filter/);
    for (let i = 0; i < 300; i++) assert.equal(await talk(socket, `SET key${i} value\r\n`), '+OK\r\n');
    assert.ok(isAlive(redis.pid));
    sonde.child.kill('SIGINT');
    const { status, stderr } = await sonde.ended;
    assert.equal(status, 0, stderr);
    const [process_] = manifestOf(trace).processes;
    assert.ok(process_.events_written > 300, 'it is recorded all the same');
    assert.ok(process_.missing.some(({ what }) => what === 'addresses of new connections'));
    assert.equal(await talk(socket, 'PING\r\n'), '+PONG\r\n', 'it lives on');
});
