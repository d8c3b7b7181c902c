// The critical path of a thread through wake-ups, of small programs that are recorded: each notes who worked for whom and when, so that
// the path is known without the trace.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, isRoot, root, temporary } from './helper.mjs';

const missing = (() => {
    if (!isRoot) return 'needs root, to load eBPF programs';
    const doctor = spawnSync(SONDE, ['doctor', '--json'], { encoding: 'utf8', maxBuffer: 1 << 24 });
    const check = JSON.parse(doctor.stdout || '{"checks":[]}').checks.find((c) => c.what.includes('eBPF'));
    return check && check.verdict !== 'fails' ? false : `eBPF programs cannot be loaded: ${check?.why}`;
})();

// Both clocks are CLOCK_MONOTONIC; a switch is timed to some hundred nanoseconds, and a call to go into or out of the kernel lies between.
const EXACT_NS = 5000;
const GOES_ON = ['running', 'runnable', 'preempted', 'switching', '']; // the last: not known, as before a thread's first switch
const NO_CPU = ['runnable', 'preempted'];
const ALLOWED = { runs: GOES_ON, sleeps: [...GOES_ON, 'blocked'], disk: [...GOES_ON, 'blocked', 'uninterruptible'] };

async function record(t, level, scenario) {
    const base = temporary(t), program = path.join(base, 'paths'), folder = path.join(base, 'trace');
    const built = await finish(t, 'cc', ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-pthread', '-o', program, path.join(root, 'tests/system/programs/paths.c')]);
    assert.equal(built.status, 0, built.stderr);
    // A path needs every switch: what a loaded machine lost some of is recorded again.
    let run;
    for (let attempt = 0; attempt < 4 && run?.status !== 0; attempt++) {
        fs.rmSync(folder, { recursive: true, force: true });
        run = await finish(t, SONDE, ['record', '-o', folder, '--level', level, '--', program, scenario, path.join(base, 'data')]);
        assert.ok(run.status === 0 || run.status === 4, run.stderr);
    }
    assert.equal(run.status, 0, run.stderr);
    const { stdout } = run;
    const lines = stdout.trim().split('\n').map((l) => l.split(' ')), first = Number(lines.shift()[0]);
    const pieces = lines.map(([from, to, tid, what]) => ({ from: Number(from), to: Number(to), tid: Number(tid), what })).sort((a, b) => a.from - b.from);
    return { folder, first, pieces };
}

// A time for --from and --to, of seconds since 1970 or since the trace began.
function pathOf(folder, tid) {
    const said = spawnSync(SONDE, ['trace', 'states', '--json', '--path', String(tid), folder], { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(said.status, 0, said.stderr);
    return said.stdout.trim().split('\n').map((l) => JSON.parse(l)).map((s) => ({ from: s.from_ns, to: s.to_ns, tid: s.tid, state: s.state, waker: s.waker }));
}

const within = (found, from, to) => found.filter((s) => s.to > from && s.from < to).map((s) => ({ ...s, from: Math.max(s.from, from), to: Math.min(s.to, to) }));

const told = (list, from) => list.map((s) => `${((s.from - from) / 1e6).toFixed(3)}-${((s.to - from) / 1e6).toFixed(3)} ${s.tid} ${s.state ?? s.what}${s.waker === undefined || s.waker === null ? '' : ` <- ${s.waker}`}`).join('\n');

function check({ folder, first, pieces }) {
    const found = pathOf(folder, first), begin = pieces[0].from, end = pieces.at(-1).to;
    const all = `${first}\nexpected:\n${told(pieces, begin)}\nfound:\n${told(within(found, begin, end), begin)}`;
    found.slice(1).forEach((s, i) => assert.equal(s.from, found[i].to, `a path without gaps ${all}`));
    let asker = null; // of what comes, if it was not seen to wait yet
    for (const [i, piece] of pieces.entries()) {
        const here = within(found, piece.from + EXACT_NS, piece.to - EXACT_NS);
        assert.ok(here.length, `${JSON.stringify(piece)} ${all}`);
        // Who asked for it may have had more to do, or no CPU, before it waited: perhaps for longer than the first piece took.
        if (i && pieces[i - 1].tid !== piece.tid) asker = pieces[i - 1].tid;
        while (here.length && here[0].tid === asker && GOES_ON.includes(here[0].state)) here.shift();
        if (here.length) asker = null;
        // Who would have waited for it, but had no CPU to begin to wait, waited for the CPU alone.
        const later = pieces[i + 1]?.tid;
        while (here.length && here.at(-1).tid === later && later !== piece.tid && NO_CPU.includes(here.at(-1).state)) here.pop();
        for (const s of here) {
            assert.equal(s.tid, piece.tid, `${JSON.stringify(s)} in ${JSON.stringify(piece)} ${all}`);
            assert.ok(ALLOWED[piece.what].includes(s.state), `${JSON.stringify(s)} in ${JSON.stringify(piece)} ${all}`);
            if (!GOES_ON.includes(s.state)) assert.match(s.waker, /^(interrupt|irq|softirq|unknown|\d+$)/, all);
        }
    }
    const threads = new Set(pieces.map((p) => p.tid));
    return { here: within(found, begin, end), threads, all };
}

const HAS = {
    timer: ({ here, all }) => assert.ok(here.some((s) => s.state === 'blocked' && /^(interrupt|unknown)$/.test(s.waker) && s.to - s.from > 10e6), `a sleep that a timer ends ${all}`),
    preempted: ({ here, all }) => assert.ok(here.some((s) => s.state === 'preempted'), `another has the CPU ${all}`),
};

for (const scenario of ['futex', 'pipe', 'epoll', 'timer', 'disk', 'fork', 'join', 'preempted', 'broadcast', 'loopback', 'nested', 'made'])
    for (const level of ['usual', 'everything'])
        test(`the path of ${scenario}, at level ${level}`, { skip: missing }, async (t) => {
            const checked = check(await record(t, level, scenario));
            HAS[scenario]?.(checked);
            // Nobody else but for handing over.
            for (const s of checked.here) assert.ok(checked.threads.has(s.tid) || scenario === 'epoll' || scenario === 'broadcast', `${JSON.stringify(s)} ${checked.all}`);
        });
