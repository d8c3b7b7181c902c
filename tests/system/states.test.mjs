// States over time from a kernel trace, against an account of the same events made here.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, temporary } from './helper.mjs';
import { randomKernelEvents, writeKernelTrace } from './kernel-trace.mjs';

function sonde(...args) {
    const r = spawnSync(SONDE, args, { encoding: 'utf8', maxBuffer: 1 << 29, timeout: 120_000 });
    return { status: r.status, out: r.stdout, err: r.stderr };
}
// Times are beyond what a number holds exactly: they stay texts.
const lines = (out) => out.trim().split('\n').map((line) => JSON.parse(line.replace(/"((?:from|to)_ns|time_ns|ns|time)":(\d+)/g, '"$1":"$2"')));

test('threads and processors are what the scheduler events say', (t) => {
    const folder = temporary(t), trace = path.join(folder, 'kernel'), kept = path.join(folder, 'states.history'), release = '6.1.0-28-amd64';
    writeKernelTrace(trace, { release, events: randomKernelEvents(release, 3, { steps: 8000, from: 1e15, step: 100_000 }) });
    const events = sonde('trace', 'events', '--json', '--name', 'sched_switch', trace);
    const running = sonde('trace', 'states', '--json', '-o', kept, '-a', 'Threads/*/State', trace);
    assert.equal(running.status, 0, running.err);
    const nowhere = spawnSync(SONDE, ['trace', 'states', trace], { encoding: 'utf8', env: { ...process.env, TMPDIR: '/nonexistent' } });
    assert.equal(nowhere.status, 1, 'what is not kept is built where TMPDIR says');
    assert.match(nowhere.stderr, /\/nonexistent\/sonde-data/);

    // Naive: every stretch of a thread on a CPU, from one switch to the next of its CPU.
    const expected = [], on = new Map();
    for (const line of events.out.trim().split('\n')) {
        const time = /"[a-z_]*ns":(\d{16,})/.exec(line)[1], e = JSON.parse(line);
        const from = on.get(e.fields.prev_tid);
        if (e.fields.prev_tid > 0 && from) expected.push(`${e.fields.prev_tid} ${from} ${time}`);
        on.delete(e.fields.prev_tid);
        if (e.fields.next_tid > 0) on.set(e.fields.next_tid, time);
    }
    const found = new Set();
    for (const s of lines(running.out))
        if (s.value === 'running') found.add(`${/Threads\/(\d+)\//.exec(s.attribute)[1]} ${s.from_ns} ${s.to_ns}`);
    assert.ok(expected.length > 1000);
    const absent = expected.filter((e) => !found.has(e));
    assert.deepEqual(absent.slice(0, 5), []);
    assert.ok(found.size <= expected.length + on.size, `${found.size} stretches, ${expected.length} expected`);

    // The kept history answers alike without the trace: range, full state, and samples.
    assert.equal(sonde('trace', 'states', '--json', '-a', 'Threads/*/State', kept).out, running.out);
    const at = '+0.2s', full = lines(sonde('trace', 'states', '--json', '--at', at, '-a', 'Threads/*/State', kept).out);
    const first = lines(sonde('trace', 'states', '--json', kept).out).length;
    assert.ok(full.length > 100 && first > full.length);
    const all = lines(running.out), start = BigInt(all.reduce((a, s) => (BigInt(s.from_ns) < BigInt(a) ? s.from_ns : a), all[0].from_ns));
    const moment = start + 200_000_000n;
    const naive = all.filter((s) => s.value !== null && BigInt(s.from_ns) <= moment && moment < BigInt(s.to_ns));
    assert.deepEqual(full.map((s) => s.attribute), naive.map((s) => s.attribute));
    // A file that nobody finished says so, and answers from its whole parts.
    for (const bytes of [fs.statSync(kept).size - 1, 100]) {
        const cut = path.join(folder, `cut-${bytes}.history`);
        fs.copyFileSync(kept, cut);
        fs.truncateSync(cut, bytes);
        const part = sonde('trace', 'states', '--json', '-a', 'Threads/*/State', cut);
        assert.equal(part.status, 4);
        assert.match(part.err, /cut-\d+\.history is incomplete: .* of the first \d/);
        assert.ok(part.out.length <= running.out.length);
    }
    const sampled = lines(sonde('trace', 'states', '--json', '--columns', '7', '-a', 'Threads/*/State', kept).out);
    const known = new Set(all.map((s) => JSON.stringify(s)));
    assert.ok(sampled.length > 0 && sampled.every((s) => known.has(JSON.stringify(s))));
});

test('what cannot be answered says why', (t) => {
    const folder = temporary(t);
    assert.equal(sonde('trace', 'states').status, 2);
    assert.equal(sonde('trace', 'states', '--columns', '0', folder).status, 2);
    const none = sonde('trace', 'states', folder);
    assert.equal(none.status, 1);
    assert.match(none.err, /no trace/);
    fs.writeFileSync(path.join(folder, 'x.history'), 'no history at all');
    const bad = sonde('trace', 'states', path.join(folder, 'x.history'));
    assert.equal(bad.status, 1);
    assert.match(bad.err, /x\.history/);
});
