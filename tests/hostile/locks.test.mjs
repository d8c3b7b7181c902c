// A program that lies about its locks, beside one that does not: it misleads about its own ones at most.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { SONDE, finish, isRoot, root, start, temporary } from '../system/helper.mjs';
import { compile } from './helper.mjs';

test('a program that writes what it likes into its locks: others are accounted for, and none is named as their holder', { skip: !isRoot && 'needs root, to load eBPF programs' }, async (t) => {
    const folder = temporary(t), liar = await compile(t, folder, 'liar'), honest = path.join(folder, 'locks');
    execFileSync(process.env.CC || 'cc', ['-O1', '-g', '-pthread', '-o', honest, path.join(root, 'tests/system/programs/locks.c')]);
    const victim = start(t, 'sleep', ['1000']);
    const { status, stdout, stderr } = await finish(t, SONDE, ['profile', '--json', '-n', '100000', '--event', 'lock', '--',
        'sh', '-c', '"$0" 1 $2 $$ 4294967295 >/dev/null & "$1"; kill $!', liar, honest, victim.pid]);
    assert.ok(status === 0 || status === 4, stderr); // 4: it may fill the ring, which is said
    const at = stdout.indexOf('\n{\n') + 1, account = JSON.parse(stdout.slice(0, at)), { profile } = JSON.parse(stdout.slice(at));
    const lies = profile.locks.filter((l) => l.stack.some((f) => /liar/.test(f)));
    assert.ok(lies.length > 1000, `${lies.length} of its locks`);
    const pids = new Set(lies.map((l) => l.process));
    assert.equal(pids.size, 1);
    for (const l of lies)
        for (const h of l.held_by) {
            assert.ok(pids.has(h.process) && ![1, victim.pid].includes(h.thread), JSON.stringify(h));
            assert.match(h.name, /^[ -~]*$/);
        }
    for (const place of status === 0 ? ['looks_up', 'books', 'cancels'] : []) {
        const entry = profile.locks.find((l) => l.function === place), truth = account[place];
        assert.ok(entry, place);
        assert.equal(entry.address, truth.lock);
        assert.ok(Math.abs(entry.waited_ns - truth.waited_ns) <= truth.waited_ns / 20, `${place}: ${entry.waited_ns}, ${truth.waited_ns}`);
        assert.ok(entry.held_by.every((h) => !pids.has(h.process)), JSON.stringify(entry));
    }
});
