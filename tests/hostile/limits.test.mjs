// A process whose control group has hardly any memory left.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { eventually, isRoot, manifestOf, sonde, start, temporary } from '../system/helper.mjs';
import { isAlive } from './helper.mjs';

const talk = (socket, text) => new Promise((resolve, reject) => {
    const connection = net.connect(socket, () => connection.write(text));
    connection.on('data', (data) => {
        connection.destroy();
        resolve(data.toString());
    });
    connection.on('error', reject);
});

// A control group of version 1 or 2 with the memory controller, removed at the end; null where none can be made.
function memoryGroup(t) {
    for (const [base, limit, usage] of [['/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'memory.usage_in_bytes'], ['/sys/fs/cgroup', 'memory.max', 'memory.current']]) {
        const folder = path.join(base, `sonde-test-${process.pid}`);
        try {
            fs.mkdirSync(folder);
        } catch {
            continue;
        }
        t.after(() => eventually('the group is empty', () => {
            try {
                fs.rmdirSync(folder);
                return true;
            } catch {
                return false;
            }
        }));
        if (fs.existsSync(path.join(folder, limit))) return { file: (name) => path.join(folder, name), limit, usage };
    }
    return null;
}

test('the rings are not charged to the process: one at its memory limit lives on', async (t) => {
    const folder = temporary(t), socket = path.join(folder, 'socket'), trace = path.join(folder, 'trace');
    const group = isRoot && memoryGroup(t);
    if (!group) return t.skip('needs root and a memory control group');
    const read = (name) => fs.readFileSync(group.file(name), 'utf8');
    const shared = () => Number(/^shmem (\d+)$/m.exec(read('memory.stat'))[1]);
    const redis = start(t, 'redis-server', ['--port', '0', '--unixsocket', socket, '--save', '', '--io-threads', '4', '--io-threads-do-reads', 'yes', '--dir', folder]);
    fs.writeFileSync(group.file('cgroup.procs'), String(redis.pid));
    await redis.until(/Ready to accept connections|The server is now ready/, { stream: 'stdout' });
    fs.writeFileSync(group.file(group.limit), String(Number(read(group.usage)) + (3 << 20)));
    const before = shared();
    const recorder = sonde(t, 'attach', '--no-kernel', '-o', trace, redis.pid);
    await recorder.until(/attached to 1 process/);
    const clients = Array.from({ length: 20 }, async (_, i) => {
        for (let k = 0; k < 20; k++) assert.equal(await talk(socket, `SET key${i} value${k}\r\n`), '+OK\r\n');
    });
    await Promise.all(clients);
    assert.equal(shared(), before, 'no page of what it shares with sonde is charged to its group');
    recorder.child.kill('SIGINT');
    const { status, stderr } = await recorder.ended;
    assert.equal(status, 0, stderr);
    assert.ok(isAlive(redis.pid), 'nobody killed it');
    assert.ok(manifestOf(trace).processes[0].events_written > 400);
    redis.child.kill('SIGTERM');
    await redis.ended;
});
