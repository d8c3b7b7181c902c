// How much is recorded: what each level leaves alone, and changing it while a program is recorded.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, isRoot, kill, manifestOf, reportOf, root, sonde, temporary } from './helper.mjs';

const BUSY = path.join(root, 'tests', 'system', 'programs', 'busy.js');

function events(folder, name) {
    const run = spawnSync(SONDE, ['trace', 'events', '--json', '--name', name, folder], { encoding: 'utf8', maxBuffer: 1 << 30 });
    return run.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

// Why kernel events cannot be had here; false when they can.
const missing = (() => {
    if (!isRoot) return 'needs root, to load eBPF programs';
    const doctor = spawnSync(SONDE, ['doctor', '--json'], { encoding: 'utf8', maxBuffer: 1 << 24 });
    const check = JSON.parse(doctor.stdout || '{"checks":[]}').checks.find((c) => c.what.includes('eBPF'));
    return check && check.verdict !== 'fails' ? false : `eBPF programs cannot be loaded: ${check?.why}`;
})();

// The programs that a process keeps attached in the kernel, by name, and what else of BPF it has open.
function attachedBy(pid) {
    const names = new Set(), kinds = new Set();
    for (const fd of fs.readdirSync(`/proc/${pid}/fd`)) {
        let kind, info;
        try {
            kind = fs.readlinkSync(`/proc/${pid}/fd/${fd}`);
            info = fs.readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8');
        } catch {
            continue; // it has just been closed
        }
        kinds.add(kind);
        const id = /bpf_link|bpf-link/.test(kind) && /^prog_id:\s+(\d+)$/m.exec(info)?.[1];
        if (!id) continue;
        const shown = spawnSync('bpftool', ['-j', 'prog', 'show', 'id', id], { encoding: 'utf8', env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } });
        names.add(JSON.parse(shown.stdout).name);
    }
    return { names, kinds };
}

// BUSY under sonde: { run, end() }, once its first answers were counted.
async function record(t, ...options) {
    const base = temporary(t), folder = path.join(base, 'trace'), stop = path.join(base, 'stop');
    const run = sonde(t, 'run', '-o', folder, '--budget', '100,1024', ...options, '--', process.execPath, BUSY, stop);
    await eventually('it answers', () => fs.existsSync(`${stop}.count`));
    const answered = () => Number(fs.readFileSync(`${stop}.count`, 'utf8'));
    const end = async () => {
        fs.writeFileSync(stop, '');
        const { status } = await run.ended;
        assert.ok([0, 4].includes(status), run.describe());
        assert.match(run.stdout, /answers were right/);
    };
    const goesOn = async () => {
        const before = answered();
        await eventually('it answers on', () => answered() > before + 200);
    };
    return { run, folder, end, goesOn };
}

test('at the usual level the host\'s system calls and BPF statistics are left alone', { skip: missing }, async (t) => {
    const usual = await record(t);
    await usual.goesOn();
    const { names, kinds } = attachedBy(usual.run.pid);
    assert.ok([...names].some((name) => name.startsWith('on_switch')), [...names].join());
    assert.ok(!names.has('on_enter') && !names.has('on_exit'), [...names].join());
    assert.ok(![...kinds].some((kind) => /stats/.test(kind)), [...kinds].join());
    await usual.end();
    const manifest = manifestOf(usual.folder);
    assert.equal(manifest.level, 'usual');
    assert.deepEqual(Object.keys(manifest.kernel.families).sort(), ['block', 'connect', 'sched']);
    // What its programs took is measured all the same.
    assert.ok(manifest.kernel.families.sched.runs > 0 && manifest.kernel.families.sched.run_ns > 0, JSON.stringify(manifest.kernel));
    assert.equal(events(usual.folder, 'sys:call').length, 0);
    const waits = events(usual.folder, 'sched:switch');
    assert.ok(waits.some((e) => /^epoll_p?wait/.test(e.fields['call.label'])), 'the call that a thread slept in is known');
});

test('the level is changed while the program runs', { skip: missing }, async (t) => {
    const { run, folder, end, goesOn } = await record(t, '--level', 'requests');
    await goesOn();
    assert.deepEqual([...attachedBy(run.pid).names], [], 'the kernel is left alone');
    for (const [signal, level] of [['SIGUSR1', 'usual'], ['SIGUSR1', 'everything'], ['SIGUSR2', 'usual'], ['SIGUSR2', 'requests']]) {
        kill(run.pid, signal);
        await eventually(`the level is ${level}`, () => run.stderr.split('\n').filter((line) => line.includes(`the level is '${level}'`)).length > (signal === 'SIGUSR2' ? (level === 'usual' ? 1 : 0) : 0));
        assert.equal(attachedBy(run.pid).names.has('on_enter'), level === 'everything');
        await goesOn();
    }
    await end();
    const levels = events(folder, 'trace:level');
    assert.deepEqual(levels.map((e) => e.fields['level.label']), ['requests', 'usual', 'everything', 'usual', 'requests']);
    const at = levels.map((e) => e.time_ns), in_ = (e, i) => e.time_ns > at[i] && e.time_ns < (at[i + 1] ?? Infinity);
    const count = (name, i) => events(folder, name).filter((e) => in_(e, i)).length;
    for (const i of [0, 1, 2, 3, 4]) assert.ok(count('http:request', i) > 0, `requests in part ${i}`);
    // A program's first moments may pass before it has been told.
    const told = at[1] - (at[1] - at[0]) / 4;
    assert.ok(!events(folder, 'uv:phase').some((e) => in_(e, 0) && e.time_ns > told), 'no phases with requests only');
    for (const i of [1, 2, 3]) assert.ok(count('uv:phase', i) > 0 && count('sched:switch', i) > 0, `part ${i}`);
    const calls = events(folder, 'sys:call').filter((e) => e.fields['outcome.label'] !== 'unfinished');
    assert.ok(calls.some((e) => in_(e, 2)));
    // A call that began before calls were seen has no record, nor has one whose end was not seen.
    assert.ok(calls.every((e) => e.time_ns - e.fields.duration >= at[1]), 'no call from before');
    assert.ok(events(folder, 'sched:switch').every((e) => e.time_ns - e.fields.duration >= at[0]));
    const report = await reportOf(t, folder, [0, 4]);
    assert.ok(report.missing.some((m) => /level of the recording was 'requests'/.test(m.why)), JSON.stringify(report.missing));
});

test('requests only: how long they took is known, and no more is claimed', async (t) => {
    const requests = await record(t, '--level', 'requests'), usual = await record(t, '--no-kernel');
    for (const recording of [requests, usual]) {
        await recording.goesOn();
        await recording.end();
    }
    const bytes = ({ folder }) => manifestOf(folder).events / events(folder, 'http:request').length;
    assert.ok(bytes(requests) < bytes(usual) / 2, 'far fewer events for a request');
    assert.equal(events(requests.folder, 'machine:cpu').length, 0, 'what explains waits is not recorded');
    assert.ok(events(usual.folder, 'machine:cpu').length > 0);
    const report = await reportOf(t, requests.folder, [0, 4]);
    // On a busy machine events may be lost, which is said.
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info' && !(f.kind === 'events-lost' && report.losses.length)).map((f) => f.kind), []);
    const text = spawnSync(SONDE, ['report', requests.folder], { encoding: 'utf8' }).stdout;
    assert.doesNotMatch(text, /no event loop was blocked/, 'that is not known');
    assert.match(text, /GET/);
});

test('a level that does not exist is refused', async (t) => {
    const run = spawnSync(SONDE, ['record', '--level', 'most', '-o', path.join(temporary(t), 'trace'), '--', 'true'], { encoding: 'utf8' });
    assert.equal(run.status, 2);
    assert.match(run.stderr, /'most' is no level; they are requests, usual and everything/);
});
