// The kernel's side of a recording: system calls as strace counts them, waits and who ends them, connections and disks,
// losses counted, nothing left behind, and everything else working without it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, kill, manifestOf, reportOf, root, sonde, start, temporary } from './helper.mjs';

const PROGRAMS = path.join(root, 'tests', 'system', 'programs');
const CALLS = path.join(PROGRAMS, 'calls.js');

// Why kernel events cannot be had here; false when they can.
const missing = (() => {
    if (!isRoot) return 'needs root, to load eBPF programs';
    const doctor = spawnSync(SONDE, ['doctor', '--json'], { encoding: 'utf8', maxBuffer: 1 << 24 });
    const check = JSON.parse(doctor.stdout || '{"checks":[]}').checks.find((c) => c.what.includes('eBPF'));
    return check && check.verdict !== 'fails' ? false : `eBPF programs cannot be loaded: ${check?.why}`;
})();
const has = (command) => spawnSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' }).status === 0;

function events(folder, ...options) {
    const run = spawnSync(SONDE, ['trace', 'events', '--json', ...options, folder], { encoding: 'utf8', maxBuffer: 1 << 30 });
    assert.ok(run.status === 0 || run.status === 4, run.stderr);
    return run.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line)).map(({ time_ns, name, fields }) => {
        const words = Object.entries(fields).filter(([key]) => key.endsWith('.label')).map(([key, label]) => [key.slice(0, -6), label]);
        return { name, end: time_ns, start: time_ns - (fields.duration ?? 0), ...fields, ...Object.fromEntries(words) };
    });
}

test('system calls are counted as strace counts them', { skip: missing || (!has('strace') && 'strace is not installed') }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), counts = path.join(base, 'counts'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    const { status, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--kernel=sys', '--', 'strace', '-f', '-c', '-U', 'calls,errors,name', '-o', counts, process.execPath, CALLS, work, 41]);
    assert.equal(status, 0, stderr);
    const said = fs.readFileSync(counts, 'utf8');
    const strace = new Map(said.split('\n').map((line) => /^\s*(\d+)\s+(?:(\d+)\s+)?([a-z]\w+)\s*$/.exec(line)).filter(Boolean).map(([, calls, errors, name]) => [name, { calls: Number(calls), errors: Number(errors ?? 0) }]));
    const calls = events(folder, '--name', 'sys:call');
    for (const name of ['rename', 'link', 'symlink', 'mkdir', 'rmdir', 'fsync', 'pwrite64']) {
        const ours = calls.filter((e) => e.call === name);
        assert.ok(strace.has(name), said);
        assert.deepEqual({ name, calls: ours.length, errors: ours.filter((e) => e.outcome === 'error').length }, { name, ...strace.get(name) });
    }
    const failed = calls.filter((e) => e.call === 'rmdir' && e.outcome === 'error');
    assert.ok(failed.length === 41 && failed.every((e) => e.result === -2), 'ENOENT');
    assert.equal(manifestOf(folder).kernel.families.sys.lost, 0);
});

test('one request: callback, operation, worker thread and its system calls, nested within a microsecond', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), file = path.join(base, 'data');
    fs.writeFileSync(file, Buffer.alloc(300_000, 1));
    const { status, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--level', 'everything', '--', process.execPath, path.join(PROGRAMS, 'layers.js'), file]);
    assert.equal(status, 0, stderr);
    const said = spawnSync(SONDE, ['spans', '--json', '--slowest', '100', folder], { encoding: 'utf8', maxBuffer: 1 << 28 });
    const requests = JSON.parse(said.stdout).requests;
    assert.ok(requests.length >= 20, said.stderr);
    const raw = events(folder, '--name', 'sys:call', '--name', 'uv:run'), calls = raw.filter((e) => e.name === 'sys:call');
    const EXPECTED = { fs_open: /^open/, fs_fstat: /stat/, fs_read: /^p?read/, fs_close: /^close$/, getaddrinfo: /^(openat|newfstatat|socket)$/ };
    for (const request of requests) {
        const { spans } = request;
        for (const [name, call] of Object.entries(EXPECTED)) {
            const index = spans.findIndex((s) => s.kind === 'pool' && s.name === name);
            assert.ok(index > 0, `${name} in ${request.id}`);
            const operation = spans[index];
            assert.equal(spans[operation.parent].kind, 'callback', 'started by a callback');
            const below = spans.filter((s) => s.parent === index && s.layer === 'kernel');
            assert.ok(below.some((s) => call.test(s.name)), `${name}: ${below.map((s) => s.name)}`);
            for (const s of below) {
                assert.ok(s.start_ns >= operation.work_start_ns - 1000 && s.end_ns <= operation.work_end_ns + 1000, `${name}: ${s.name} ${s.start_ns - operation.work_start_ns} ${operation.work_end_ns - s.end_ns}`);
                assert.equal(s.peer_thread, operation.peer_thread, 'on the thread that ran it');
                assert.ok(s.running_ns + s.runnable_ns + s.blocked_ns === s.duration_ns, 'its times add up');
            }
            // As many as the kernel saw, none twice.
            const own = calls.filter((e) => e.tid === operation.peer_thread && (e.start + e.end) / 2 >= operation.work_start_ns && (e.start + e.end) / 2 <= operation.work_end_ns);
            assert.equal(below.length + (operation.calls_left_out_count ?? 0), own.length);
            assert.ok(operation.running_ns + operation.runnable_ns + operation.blocked_ns === operation.work_ns, 'the worker thread ran, waited or was blocked');
        }
        const work = spans.find((s) => s.kind === 'pool' && s.name === 'work');
        assert.ok(work && work.running_ns > 0, 'the hash kept a processor busy');
        const loop = request.threads.find((thread) => thread.role === 'event loop');
        assert.equal(loop.thread, request.thread);
        assert.equal(loop.running_ns + loop.runnable_ns + loop.blocked_ns, request.latency_ns);
        assert.ok(loop.running_ns > 0, JSON.stringify(request.threads));
        assert.ok(request.threads.some((thread) => thread.role === 'pool' && thread.thread === work.peer_thread));
        // On the critical path the same facts: of each step on a thread, in total not more than the request took.
        const { critical_path: critical } = request, timed = critical.steps.filter((s) => s.running_ns !== undefined);
        assert.ok(timed.some((s) => s.what === 'runs') && timed.some((s) => s.what === 'at work on a pool thread'), JSON.stringify(critical));
        for (const s of timed) assert.equal(s.running_ns + s.runnable_ns + s.blocked_ns, s.duration_ns, s.what);
        for (const key of ['running_ns', 'runnable_ns', 'blocked_ns']) assert.equal(critical[key], timed.reduce((sum, s) => sum + s[key], 0), key);
        // The answer leaves in a call of the loop's own thread.
        assert.ok(spans.some((s) => s.layer === 'kernel' && /^write|^send/.test(s.name) && spans[s.parent].kind === 'callback' && s.peer_thread === request.thread));
    }
    assert.ok(requests.some((request) => request.threads[0].blocked_ns > 0), 'a loop that waits for the pool sleeps');
    const text = spawnSync(SONDE, ['spans', '--slowest', '1', folder], { encoding: 'utf8' });
    assert.match(text.stdout, /runs on pool thread \d+[^\n]*\n[^\n]*kernel\s+\w+/);
    assert.match(text.stdout.replace(/\s+/g, ' '), /in that time its event loop's thread ran .* waited .* for a CPU, was blocked/);
});

// The dirty way in: what runs is cut off in the middle of its calls.
test('a thread that ends in a call, and calls that are open at the end', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    const run = start(t, SONDE, ['record', '-o', folder, '--kernel=all', '--', process.execPath, CALLS, work, 3, 'wait'], { stdio: ['pipe', 'pipe', 'pipe'] });
    await run.until(/done/, { stream: 'stdout' });
    const pid = await eventually('the program is known', () => manifestOf(folder).processes[0]?.pid);
    run.child.stdin.end();
    await run.ended;
    const calls = events(folder, '--name', 'sys:call').filter((e) => e.pid === pid);
    const open = calls.filter((e) => e.outcome === 'unfinished');
    assert.ok(open.some((e) => e.call === 'exit_group' && e.tid === pid), JSON.stringify(open));
    // Pool threads that slept in futex() ended there.
    assert.ok(calls.every((e) => e.duration >= 0 && e.tid > 0), 'no call without a thread');
});

test('what has not ended when sonde leaves a program is told', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    const program = start(t, process.execPath, [CALLS, work, 3, 'wait'], { stdio: ['pipe', 'pipe', 'pipe'] });
    await program.until(/done/, { stream: 'stdout' });
    const run = sonde(t, 'attach', '-o', folder, '--kernel=all', program.pid);
    await run.until(/attached to 1/);
    kill(program.pid, 'SIGWINCH'); // it goes through its loop once
    program.child.stdin.write('');
    await eventually('the loop sleeps again', () => events(folder, '--name', 'sched:switch').length >= 0);
    process.kill(run.pid, 'SIGINT');
    await run.ended;
    const sched = events(folder, '--name', 'sched:switch').filter((e) => e.unfinished);
    assert.ok(sched.every((e) => e.pid === program.pid), JSON.stringify(sched));
    program.child.stdin.end();
    assert.equal((await program.ended).status, 0, program.describe());
});

// Two threads that share one CPU: one works and sleeps in turns, and reads what the kernel has counted for it.
const SHARED = `
const { Worker } = require('worker_threads'), fs = require('fs');
const now = () => Number(process.hrtime.bigint()), read = () => fs.readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ').map(Number);
const waited = () => [now(), read(), now()];
const sleeper = new Int32Array(new SharedArrayBuffer(4));
new Worker('require("worker_threads").parentPort.postMessage(0); for (;;);', { eval: true }).on('message', () => {
    const before = waited();
    for (let i = 0; i < 60; i++) {
        for (const until = Date.now() + 2; Date.now() < until; );
        Atomics.wait(sleeper, 0, 0, 1);
    }
    console.log(JSON.stringify([before, waited()]));
    process.exit();
});`;

// Waits that are too short for a record of their own are in a sum.
for (const families of ['sched', 'sched,wakeup'])
    test(`the times that a thread ran and waited are what the kernel counts (${families})`, { skip: missing || (!has('taskset') && 'taskset is not installed') }, async (t) => {
        const folder = path.join(temporary(t), 'trace');
        const run = start(t, SONDE, ['record', '-o', folder, `--kernel=${families}`, '--', 'taskset', '-c', '0', process.execPath, '-e', SHARED], { stdio: ['ignore', 'pipe', 'pipe'] });
        await run.ended;
        // The thread may lose its CPU while it reads: what was counted lies between what is told of the shorter and the longer time.
        const [[first, [ranBefore, waitedBefore], from], [to, [ranAfter, waitedAfter], last]] = JSON.parse(/^\[\[.*$/m.exec(run.stdout)[0]);
        const pid = manifestOf(folder).processes[0].pid, sum = (list, of) => list.reduce((all, e) => all + of(e), 0);
        const waitsIn = (start, end) => {
            const mine = (name) => events(folder, '--name', name).filter((e) => e.tid === pid && e.end > start && e.end <= end);
            const waits = mine('sched:switch'), brief = mine('sched:brief');
            return { waits, brief, runnable: sum(waits, (e) => e.runnable_ns) + sum(brief, (e) => e.runnable_ns), off: sum(waits, (e) => e.duration) + sum(brief, (e) => e.off_ns) };
        };
        const { waits, brief, runnable, off } = waitsIn(from, to), longer = waitsIn(first, last);
        const counted = waitedAfter - waitedBefore, ran = ranAfter - ranBefore, ranTold = last - first - longer.off;
        assert.ok(waits.some((e) => e.reason === 'blocked' && e.runnable_ns > 0), 'a sleeper that has to wait when it wakes');
        assert.ok(waits.every((e) => e.runnable_ns <= e.duration));
        assert.ok(counted >= 0.95 * runnable - 5e6 && counted <= 1.05 * longer.runnable + 5e6, `${runnable} to ${longer.runnable} ns told, ${counted} ns counted`);
        // What a virtual machine did not get, the kernel does not count as having run. Each of 60 sleeps takes 1 ms or more.
        assert.ok(ranTold >= 0.95 * ran - 5e6, `it ran for ${ranTold} ns of ${last - first}, ${ran} ns counted`);
        assert.ok(off - runnable >= 55e6, `it slept for ${off - runnable} ns`);
        assert.ok(brief.every((e) => e.count > 0 && e.runnable_ns <= e.off_ns && e.off_ns <= e.duration && e.off_ns < e.count * 50_000), JSON.stringify(brief));
        if (families !== 'sched') assert.deepEqual(brief, [], 'each has a record');
        else assert.ok(waits.every((e) => e.duration >= 50_000 || e.reason === 'stopped'));
    });

// Two threads that wake each other have only brief waits.
const IN_TURNS = `
const { Worker, isMainThread, workerData } = require('worker_threads');
const words = isMainThread ? new Int32Array(new SharedArrayBuffer(8)) : workerData, me = isMainThread ? 0 : 1;
if (isMainThread) new Worker(__filename, { workerData: words });
Atomics.wait(words, 0, 0, isMainThread ? 10000 : 0);
for (let i = 0; i < 3000; i++) {
    if (!isMainThread || i) { Atomics.add(words, 1 - me, 1); Atomics.notify(words, 1 - me); }
    if (!isMainThread && i === 2999) break; // nobody wakes it any more
    for (let seen; (seen = Atomics.load(words, me)) <= i && Atomics.wait(words, me, seen, 10000) !== 'timed-out'; );
}`;

test('brief waits are summed', { skip: missing || (!has('taskset') && 'taskset is not installed') }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), script = path.join(base, 'in-turns.js');
    fs.writeFileSync(script, IN_TURNS);
    const run = start(t, SONDE, ['record', '-o', folder, '--kernel=sched', '--', 'taskset', '-c', '0', process.execPath, script], { stdio: ['ignore', 'pipe', 'pipe'] });
    assert.equal((await run.ended).status, 0, run.describe());
    const brief = events(folder, '--name', 'sched:brief'), waits = events(folder, '--name', 'sched:switch');
    const summed = brief.reduce((all, e) => all + e.count, 0);
    assert.ok(brief.some((e) => e.count > 1) && summed + waits.length >= 3000, `${summed} waits in ${brief.length} records, ${waits.length} of their own`);
    // One thread's waits and sums follow each other, but for the few whose record came too late for its place: a CPU stood still.
    const last = new Map(), all = [...brief, ...waits].sort((a, b) => a.end - b.end || a.start - b.start);
    const misplaced = all.filter((e) => {
        const before = last.get(e.tid) ?? 0;
        last.set(e.tid, e.end - (e.since_ns ?? 0));
        return e.start < before;
    });
    assert.ok(misplaced.length <= all.length / 20, JSON.stringify(misplaced));
});

// The main thread waits 40 times for 30 ms, in which a worker, whose number it says, works. Two others wake each other all the time,
// tens of thousands of times a second if they have a CPU.
const LOCKED = `
const { Worker, isMainThread, parentPort, workerData: shared } = require('worker_threads'), fs = require('fs');
if (isMainThread) {
    const word = new Int32Array(new SharedArrayBuffer(4)), turns = new Int32Array(new SharedArrayBuffer(4));
    for (const me of [0, 1]) new Worker('const { me, turns } = require("worker_threads").workerData; for (;;) { Atomics.wait(turns, 0, 1 - me); Atomics.store(turns, 0, 1 - me); Atomics.notify(turns, 0); }', { eval: true, workerData: { me, turns } });
    new Worker(__filename, { workerData: word }).on('message', (tid) => {
        console.log('worker ' + tid);
        let left = 40;
        const turn = () => {
            Atomics.store(word, 0, 1);
            Atomics.notify(word, 0);
            Atomics.wait(word, 0, 1);
            left-- ? setTimeout(turn, 1) : process.exit();
        };
        turn();
    });
} else {
    parentPort.postMessage(Number(fs.readlinkSync('/proc/thread-self').split('/').pop()));
    for (;;) {
        Atomics.wait(shared, 0, 0);
        for (const until = Date.now() + 30; Date.now() < until; );
        Atomics.store(shared, 0, 0);
        Atomics.notify(shared, 0);
    }
}`;

test('who ends a wait for a lock is known', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), script = path.join(base, 'locked.js');
    fs.writeFileSync(script, LOCKED);
    const run = start(t, SONDE, ['record', '-o', folder, '--kernel=sched', '--', process.execPath, script], { stdio: ['ignore', 'pipe', 'pipe'] });
    assert.equal((await run.ended).status, 0, run.describe());
    const worker = Number(/^worker (\d+)$/m.exec(run.stdout)[1]), main = manifestOf(folder).processes[0].pid;
    const waits = events(folder, '--name', 'sched:switch').filter((e) => e.tid === main && e.call === 'futex' && e.reason === 'blocked' && e.duration >= 25e6);
    const known = waits.filter((e) => e.woken_by === 'thread');
    // Of the first ones, until sonde has seen that there are some, it is not; nor where sonde looked into the thread meanwhile.
    assert.ok(known.length > 0 && known.every((e) => e.waker_pid === main), JSON.stringify(waits));
    assert.ok(known.filter((e) => e.waker_tid === worker).length >= known.length / 2, JSON.stringify(known));
});

const IDLE = "let left = 60; const next = () => { if (left--) require('fs').stat('/', () => setTimeout(next, 2)); }; next();";

test('what is not known of who ended a wait is said', { skip: missing }, async (t) => {
    const base = temporary(t);
    const waits = (families) => {
        const folder = path.join(base, families);
        const { status, stderr } = spawnSync(SONDE, ['record', '-o', folder, `--kernel=${families}`, '--', process.execPath, '-e', IDLE], { encoding: 'utf8' });
        assert.equal(status, 0, stderr);
        return events(folder, '--name', 'sched:switch').filter((e) => e.reason === 'blocked' && !e.unfinished);
    };
    const usual = waits('sched'), all = waits('sched,wakeup');
    // Whether the program's start was held up by a lock for long depends on the machine; the other answer must not be "nobody".
    assert.ok(usual.length > 60 && usual.filter((e) => e.woken_by === 'nobody').length <= usual.length / 20, JSON.stringify(usual));
    assert.ok(all.filter((e) => e.woken_by === 'thread' || e.woken_by === 'interrupt').length >= all.length / 2, JSON.stringify(all));
});

// sonde's table of threads has 1024 places.
test('more threads than there are places for them', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    const run = start(t, SONDE, ['record', '-o', folder, '--kernel=sched', '--', process.execPath, CALLS, work, 3, 'wait'], { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, UV_THREADPOOL_SIZE: '1024' } });
    await run.until(/done/, { stream: 'stdout' });
    const pid = await eventually('the program is known', () => manifestOf(folder).processes[0]?.pid);
    const threads = fs.readdirSync(`/proc/${pid}/task`).map(Number);
    assert.ok(threads.length > 1024);
    run.child.stdin.end();
    await run.ended;
    const told = new Set(events(folder, '--name', 'sched:*').map((e) => e.tid));
    assert.deepEqual(threads.filter((tid) => !told.has(tid)), []);
    assert.deepEqual(manifestOf(folder).losses.filter((loss) => /^kernel/.test(loss.reason)), []);
});

test('the ring of the kernel overflows because sonde stands still', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace');
    const script = "const fs=require('fs');let n=0;const go=()=>{for(let i=0;i<1e4;i++)fs.statSync('/');fs.writeFileSync(process.argv[2],String(n+=1e4));if(!fs.existsSync(process.argv[1]))setImmediate(go)};go()";
    const stop = path.join(base, 'stop'), count = path.join(base, 'count');
    const run = sonde(t, 'run', '-o', folder, '--kernel=sys', '--', process.execPath, '-e', script, stop, count);
    await eventually('the program is traced', () => fs.existsSync(path.join(folder, 'manifest.json')) && manifestOf(folder).processes[0]?.pid);
    const made = () => fs.existsSync(count) ? Number(fs.readFileSync(count, 'utf8')) : 0;
    kill(run.pid, 'SIGSTOP');
    t.after(() => kill(run.pid, 'SIGCONT'));
    const before = made();
    await eventually('the program has made more calls than the ring takes', () => made() >= before + 3e5); // 14 bytes would be left to each
    fs.writeFileSync(stop, '');
    kill(run.pid, 'SIGCONT');
    const { status } = await run.ended;
    assert.equal(status, 4, run.describe());
    const loss = manifestOf(folder).losses.find((l) => l.reason === 'kernel-ring-full-sys');
    assert.ok(loss?.count > 0, JSON.stringify(manifestOf(folder).losses));
    assert.equal(manifestOf(folder).kernel.families.sys.lost, loss.count);
    const report = await reportOf(t, folder, [4]);
    assert.ok(report.losses.some((l) => l.reason === 'kernel-ring-full-sys' && l.count === loss.count), JSON.stringify(report.losses));
});

// The numbers of the programs that a process has loaded, and whether one is still in the kernel.
function loadedBy(pid) {
    return fs.readdirSync(`/proc/${pid}/fdinfo`).map((fd) => {
        try {
            return /^prog_id:\s+(\d+)$/m.exec(fs.readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1];
        } catch (error) {
            if (error.code === 'ENOENT') return undefined; // closed since it was listed
            throw error;
        }
    }).filter(Boolean);
}
const isLoaded = (id) => spawnSync('bpftool', ['prog', 'show', 'id', id], { env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } }).status === 0;

test('sonde killed leaves no program in the kernel', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    const run = start(t, SONDE, ['record', '-o', folder, '--kernel=all', '--', process.execPath, CALLS, work, 3, 'wait'], { stdio: ['pipe', 'pipe', 'pipe'] });
    await run.until(/done/, { stream: 'stdout' });
    const loaded = loadedBy(run.pid);
    assert.ok(loaded.length > 5 && loaded.every(isLoaded), 'they are there while it runs');
    const pid = await eventually('the program is known', () => manifestOf(folder).processes[0]?.pid);
    kill(run.pid, 'SIGKILL');
    await eventually('they are gone', () => !loaded.some(isLoaded));
    assert.ok(fs.existsSync(`/proc/${pid}`), 'the program lives on');
    run.child.stdin.end(); // it ends
    await eventually('the program has ended', () => !fs.existsSync(`/proc/${pid}`));
});

// A sonde that every user may read, wherever this one was built.
function everybodys(folder) {
    for (const name of ['sonde', 'libsonde-probe.so']) fs.copyFileSync(path.join(path.dirname(SONDE), name), path.join(folder, name));
    return path.join(folder, 'sonde');
}

test('without the privilege everything else works, and the report says what to grant', { skip: !isRoot && 'needs root, to become somebody else' }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), work = path.join(base, 'work');
    fs.mkdirSync(work);
    for (const at of [base, work]) fs.chmodSync(at, 0o777);
    const calls = path.join(base, 'calls.js');
    fs.copyFileSync(CALLS, calls);
    const env = { ...process.env, TMPDIR: base, HOME: base };
    const { status, stdout, stderr } = await finish(t, 'setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', everybodys(base), 'run', '--json', '-o', folder, '--', process.execPath, calls, work, 5], { env });
    assert.equal(status, 0, stderr);
    const report = JSON.parse(stdout.slice(stdout.indexOf('{')));
    const line = report.missing.find((m) => m.what.startsWith("the kernel's side"));
    assert.ok(line && /cap_bpf,cap_perfmon/.test(line.remedy) && /eBPF/.test(line.why), JSON.stringify(report.missing));
    assert.ok(manifestOf(folder).processes[0].events_written > 0, 'the probe recorded');
    assert.equal(events(folder, '--name', 'sys:call').length, 0);
});

test('connections with their addresses, and who wakes whom', { skip: missing }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace');
    const refused = net.createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => refused.on('listening', resolve));
    const closed = refused.address().port;
    await new Promise((resolve) => refused.close(resolve));
    const script = `const net=require('net');const s=net.createServer(c=>{c.on('data',d=>c.end(Buffer.alloc(d.length,98)))}).listen(0,'127.0.0.1',()=>{
        const c=net.connect(s.address().port,'127.0.0.1',()=>c.write(Buffer.alloc(777,97)));
        c.resume().on('close',()=>{net.connect(${closed},'127.0.0.1').on('error',()=>s.close())});
        console.log('port '+s.address().port)})`;
    const { status, stdout, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--kernel=all', '--', process.execPath, '-e', script]);
    assert.equal(status, 0, stderr);
    const port = Number(/port (\d+)/.exec(stdout)[1]), all = events(folder, '--name', 'tcp:*');
    const LOOPBACK = 0xffff7f000001;
    const connect = all.find((e) => e.name === 'tcp:connect' && e.peer_port === port);
    assert.ok(connect && connect.result === 0 && connect.local_low === LOOPBACK && connect.peer_low === LOOPBACK && connect.fd > 2, JSON.stringify(all));
    const accept = all.find((e) => e.name === 'tcp:accept' && e.local_port === port);
    assert.equal(accept?.peer_port, connect.local_port);
    const sent = all.filter((e) => e.name === 'tcp:send' && e.peer_port === port).reduce((sum, e) => sum + e.result, 0);
    const received = all.filter((e) => e.name === 'tcp:recv' && e.peer_port === port).reduce((sum, e) => sum + e.result, 0);
    assert.deepEqual({ sent, received }, { sent: 777, received: 777 });
    assert.equal(all.find((e) => e.name === 'tcp:connect' && e.peer_port === closed)?.result, -111, 'ECONNREFUSED');
    // The listening end's own view of the same bytes.
    assert.equal(all.filter((e) => e.name === 'tcp:recv' && e.local_port === port).reduce((sum, e) => sum + e.result, 0), 777);
    const waits = events(folder, '--name', 'sched:switch');
    assert.ok(waits.every((e) => e.runnable_ns <= e.duration), 'waiting for a processor is part of the time off it');
    assert.ok(waits.some((e) => e.reason === 'blocked' && e.call === 'epoll_wait' || e.call === 'epoll_pwait' || e.call === 'futex'), JSON.stringify(waits.slice(0, 5)));
});

test('processes that are not traced leave no event', { skip: missing }, async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const script = `require('child_process').execFileSync('ls',['/']);require('child_process').execFileSync(process.execPath,['-e','0'],{env:{...process.env,LD_PRELOAD:''}})`;
    const { status, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--kernel=all', '--', process.execPath, '-e', script]);
    assert.equal(status, 0, stderr);
    const traced = new Set(manifestOf(folder).processes.map((p) => p.pid));
    assert.equal(traced.size, 1);
    for (const name of ['sys:call', 'sched:switch', 'sched:wakeup', 'block:io'])
        for (const e of events(folder, '--name', name)) assert.ok(traced.has(e.pid), JSON.stringify(e));
});

// The disk below a file: { device, start } as block:io has them, or why there is none to be held against.
function diskOf(file) {
    const { dev } = fs.statSync(file), major = (dev >> 8) & 0xfff, minor = (dev & 0xff) | ((dev >> 12) & 0xfff00);
    const sys = `/sys/dev/block/${major}:${minor}`;
    if (!fs.existsSync(sys) || fs.existsSync(`${sys}/dm`) || fs.existsSync(`${sys}/md`)) return { why: 'temporary files do not lie on a disk of their own' };
    const part = fs.existsSync(`${sys}/partition`), [M, m] = fs.readFileSync(part ? `${sys}/../dev` : `${sys}/dev`, 'utf8').split(':').map(Number);
    return { device: M * 2 ** 20 + m, start: part ? Number(fs.readFileSync(`${sys}/start`, 'utf8')) : 0 };
}

test('what is written to a disk: device, sector and bytes as the file system has placed them', { skip: missing || (!has('filefrag') && 'filefrag is not installed') }, async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), { device, start, why } = diskOf(base);
    if (why) return t.skip(why);
    const files = Array.from({ length: 12 }, (_, i) => path.join(base, `data-${i}`)), BYTES = 192 << 10;
    const script = `const fs=require('fs');for(const file of process.argv.slice(1)){const fd=fs.openSync(file,'w');fs.writeSync(fd,Buffer.alloc(${BYTES},7));fs.fsyncSync(fd);fs.closeSync(fd)}`;
    const { status, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--kernel=all', '--', process.execPath, '-e', script, ...files]);
    assert.equal(status, 0, stderr);
    const disk = events(folder, '--name', 'block:io'), writes = disk.filter((e) => e.operation === 'write');
    assert.ok(disk.every((e) => e.device === device && e.error === 0 && e.bytes % 512 === 0 && e.duration > 0), JSON.stringify(disk.slice(0, 5)));
    // A request that another thread's work took along is not this program's; most are.
    const written = (sector) => writes.some((e) => sector >= e.sector && sector < e.sector + e.bytes / 512);
    const whole = files.filter((file) => {
        const listed = spawnSync('filefrag', ['-v', '-b512', file], { encoding: 'utf8' }).stdout;
        const extents = [...listed.matchAll(/^ *\d+: +(\d+)\.\. *(\d+): +(\d+)\.\./gm)].map(([, from, to, at]) => ({ at: Number(at) + start, count: to - from + 1 }));
        assert.equal(extents.reduce((sum, { count }) => sum + count, 0), BYTES / 512, listed);
        return extents.every(({ at, count }) => Array.from({ length: count }, (_, i) => at + i).every(written));
    });
    assert.ok(whole.length > 0, JSON.stringify(writes.slice(0, 20)));
    assert.ok(writes.reduce((sum, e) => sum + e.bytes, 0) >= whole.length * BYTES);
});

test('under sudo the command runs as who called it', { skip: !isRoot && 'needs root, to be somebody else' }, async (t) => {
    const base = temporary(t), said = ['-e', 'console.log(`${process.getuid()} ${process.getgid()}`)'], sonde = everybodys(base);
    fs.chmodSync(base, 0o755);
    const env = { ...process.env, SUDO_UID: '65534', TMPDIR: '/tmp' };
    const { status, stdout, stderr } = await finish(t, sonde, ['record', '-o', path.join(base, 'a'), '--', process.execPath, ...said], { env });
    assert.ok([0, 4].includes(status), stderr);
    assert.match(stdout, /^65534 65534$/m);
    assert.ok(manifestOf(path.join(base, 'a')).processes[0]?.events_written > 0, 'it is traced all the same');
    const asRoot = await finish(t, sonde, ['record', '-o', path.join(base, 'b'), '--user', 'root', '--', process.execPath, ...said], { env });
    assert.match(asRoot.stdout, /^0 0$/m, asRoot.stderr);
    const nobody = await finish(t, sonde, ['record', '-o', path.join(base, 'c'), '--user', 'no-such-user', '--', process.execPath, ...said], { env });
    assert.equal(nobody.status, 2);
    assert.match(nobody.stderr, /there is no user 'no-such-user'/);
    fs.chmodSync(path.join(base, 'libsonde-probe.so'), 0o600);
    const hidden = await finish(t, sonde, ['record', '-o', path.join(base, 'd'), '--', process.execPath, ...said], { env });
    assert.equal(hidden.status, 3, 'it is not run untraced without a word');
    assert.match(hidden.stderr, /user 65534, as whom the command would run, cannot read the probe/);
});
