// Whom `sonde profile` watches: descendants that run already, programs and containers by name; and what it says of nothing.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, isRoot, start, temporary } from './helper.mjs';

const skip = isRoot ? false : 'needs root, to load eBPF programs';
const sonde = (...args) => spawnSync(SONDE, args, { encoding: 'utf8', timeout: 60_000 });
const BUSY = 'def burn():\n  s = 0\n  while True: s += 1\nprint("started", flush=True)\nburn()';

test('children and grandchildren that run already are followed', { skip }, async (t) => {
    const script = path.join(temporary(t), 'work.py');
    fs.writeFileSync(script, BUSY);
    // A parent that waits for a child, which waits for the one that works: as the master of a server.
    const parent = start(t, 'bash', ['-c', `bash -c "python3 '${script}'; true"; true`]);
    await parent.until(/started/, { stream: 'stdout' });
    const result = sonde('profile', '-d', '1', '-F', '199', '-f', 'folded', String(parent.pid));
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, /^python3[^;]*;.*burn/m);
    const top = sonde('top', '-n', '1', '-F', '199', String(parent.pid));
    assert.match(top.stdout, /burn/);
});

test('processes by the name of their program or script', { skip }, async (t) => {
    const script = path.join(temporary(t), 'till-clerk.py');
    fs.writeFileSync(script, BUSY);
    const clerk = start(t, 'python3', [script]);
    await clerk.until(/started/, { stream: 'stdout' });
    const result = sonde('profile', '--process', 'till-clerk', '-d', '1', '-F', '199', '-f', 'folded');
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, new RegExp(`\\(${clerk.pid}\\);.*burn`));
    const none = sonde('profile', '--process', 'till-nobody', '-d', '1');
    assert.equal(none.status, 5);
    assert.match(none.stderr, /no process runs a program or script called 'till-nobody'/);
});

test('containers by name, and one that is not there', { skip }, async (t) => {
    const none = sonde('profile', '--container', 'nosuch', '-d', '60');
    assert.equal(none.status, 5, 'and at once');
    assert.match(none.stderr, /no process is in a container or cgroup called 'nosuch'/);
    // A cgroup of its own stands for the container, and a folder of Docker's for what it is called.
    const base = ['/sys/fs/cgroup', '/sys/fs/cgroup/pids', '/sys/fs/cgroup/cpu'].find((p) => fs.existsSync(path.join(p, 'cgroup.procs')));
    const id = `c0ffee${process.pid}`, group = base && path.join(base, id);
    try {
        fs.mkdirSync(group);
    } catch (error) {
        return t.skip(`no cgroup can be made here: ${error.message}`);
    }
    const busy = start(t, 'python3', ['-c', BUSY]);
    t.after(async () => {
        busy.kill?.('SIGKILL');
        await busy.end;
        try { fs.rmdirSync(group); } catch { /* it is still in use: empty, and harmless */ }
    });
    await busy.until(/started/, { stream: 'stdout' });
    fs.writeFileSync(path.join(group, 'cgroup.procs'), String(busy.pid));
    const inside = `mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/docker/containers/${id} && printf '{"Name":"/till"}' > /var/lib/docker/containers/${id}/config.v2.json && exec "$0" "$@"`;
    const result = spawnSync('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', inside, SONDE, 'profile', '--container', 'till', '-d', '1', '-F', '199', '-f', 'folded'], { encoding: 'utf8' });
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, /burn/);
    fs.writeFileSync(path.join(base, 'cgroup.procs'), String(busy.pid));
});

test('a thread has one CPU at most', { skip }, async (t) => {
    const busy = start(t, 'python3', ['-c', BUSY]);
    await busy.until(/started/, { stream: 'stdout' });
    const top = sonde('top', '-v', 'threads', '-i', '0.2', '-n', '10', String(busy.pid));
    const shares = [...top.stdout.matchAll(/^ +([\d.]+)% +([\d.]+)%  python3/gm)].flatMap((m) => [Number(m[1]), Number(m[2])]);
    assert.ok(shares.length >= 10, top.stdout);
    assert.ok(Math.max(...shares) <= 100, `${Math.max(...shares)} %`);
});

test('nothing to show: a status of its own, and a sentence that fits the event', { skip }, async (t) => {
    const busy = start(t, 'python3', ['-c', BUSY]);
    await busy.until(/started/, { stream: 'stdout' });
    const idle = start(t, 'sh', ['-c', 'echo started; read never'], { stdio: ['pipe', 'pipe', 'pipe'] });
    await idle.until(/started/, { stream: 'stdout' });
    for (const [event, watched, sentence] of [
        ['cpu', idle, /did not run on a CPU/],
        ['page-faults', busy, /had no page fault/],
        ['major-faults', busy, /had to read from a disk/],
        ['migrations', idle, /did not move to another CPU/],
        ['off-cpu', idle, /no wait .* ended/],
    ]) {
        const result = sonde('profile', '-e', event, '-d', '0.3', String(watched.pid));
        assert.equal(result.status, 5, `${event}: ${result.stderr}`);
        assert.match(result.stderr, sentence);
        if (event !== 'cpu') assert.doesNotMatch(result.stderr, /did not run on a CPU/);
    }
});
