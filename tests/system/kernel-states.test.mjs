// States of kernel traces of several kernels, against an account made here of what babeltrace2 prints.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, root, temporary } from './helper.mjs';
import { layoutOf, randomKernelEvents, writeKernelTrace } from './kernel-trace.mjs';

const data = path.join(process.env.SONDE_DATA ?? path.join(root, '../shared/data'), 'ctf/many-threads.tar.zst');
const noData = fs.existsSync(data) ? false : `no recorded trace at ${data} (SONDE_DATA)`;

function sonde(...args) {
    const r = spawnSync(SONDE, args, { encoding: 'utf8', maxBuffer: 1 << 29, timeout: 120_000 });
    assert.equal(r.status, 0, r.stderr);
    return r.stdout;
}

// { tid: [[from, state], ...] } as an account of babeltrace2's text, ns as BigInt.
function account(folder, release) {
    const r = spawnSync('babeltrace2', ['--clock-seconds', '--no-delta', folder], { encoding: 'utf8', maxBuffer: 1 << 29 });
    assert.equal(r.status, 0, r.stderr);
    const layout = layoutOf(release), changes = new Map(), all = r.stdout.trim().split('\n');
    const now = (tid) => changes.get(tid)?.at(-1)[1];
    let start, end;
    const note = (tid, time, state) => {
        if (tid <= 0 || now(tid) === state) return;
        if (!changes.has(tid)) changes.set(tid, []);
        const list = changes.get(tid);
        if (list.length && list.at(-1)[0] === time) list.pop();
        if (list.at(-1)?.[1] !== state) list.push([time, state]);
    };
    for (const line of all) {
        const time = BigInt(/^\[([\d.]+)\]/.exec(line)[1].replace('.', '')), name = /(\S+): \{/.exec(line)[1];
        const f = Object.fromEntries([...line.matchAll(/(\w+) = (-?\d+)\b/g)].map((m) => [m[1], Number(m[2])]));
        start ??= time;
        end = time + 1n;
        if (name === 'sched_switch') {
            assert.ok(f.prev_state in layout, `${f.prev_state} in ${release}`);
            note(f.prev_tid, time, layout[f.prev_state]);
            note(f.next_tid, time, 'running');
        } else if (/^sched_wak/.test(name) && !['running', 'preempted', 'runnable'].includes(now(f.tid))) note(f.tid, time, 'runnable');
        else if (name === 'sched_process_fork') note(f.child_tid, time, 'runnable');
        else if (name === 'sched_process_free' && !changes.has(f.tid)) note(f.tid, time, 'ended'); // it had ended before
        else if (name === 'lttng_statedump_process_state' && !changes.has(f.tid) && f.status === 5) note(f.tid, start, 'blocked');
        else if (name === 'lttng_statedump_process_state' && !changes.has(f.tid) && [1, 2].includes(f.status)) note(f.tid, time, 'runnable');
    }
    return { changes, end };
}

function compare(folder, release) {
    const { changes, end } = account(folder, release), expected = new Set(), found = new Set();
    for (const [tid, list] of changes) list.forEach(([from, state], i) => expected.add(`${tid} ${from} ${list[i + 1]?.[0] ?? end} ${state}`));
    const text = sonde('trace', 'states', '--json', '-a', 'Threads/*/State', folder);
    for (const line of text.trim().split('\n')) {
        const [, tid, from, to, value] = /Threads\/(\d+)\/State","from_ns":(\d+),"to_ns":(\d+),"value":(.*)\}$/.exec(line);
        if (value !== 'null') found.add(`${tid} ${from} ${to} ${JSON.parse(value)}`);
    }
    assert.deepEqual([...expected].filter((e) => !found.has(e)).slice(0, 5), [], 'states that babeltrace2 shows');
    assert.deepEqual([...found].filter((e) => !expected.has(e)).slice(0, 5), [], 'states that only sonde shows');
    return expected.size;
}

for (const release of ['3.6.11-1-ARCH', '4.4.3-1-ARCH', '4.9.0-8-amd64', '4.19.0-27-amd64', '5.10.0-34-amd64', '6.1.0-28-amd64', '6.12.48+deb13-amd64'])
    test(`threads' states of Linux ${release}`, (t) => {
        const folder = path.join(temporary(t), 'kernel');
        writeKernelTrace(folder, { release, events: randomKernelEvents(release, 7) });
        assert.ok(compare(folder, release) > 1000);
    });

test("a recorded trace's threads", { skip: noData }, (t) => {
    const folder = temporary(t);
    assert.equal(spawnSync('tar', ['--zstd', '-xf', data, '-C', folder]).status, 0);
    const trace = path.join(folder, 'many-threads');
    assert.ok(compare(trace, '4.4.3') > 40_000);
    // 8,003 threads end in it, and two had ended before.
    const at = [...sonde('trace', 'states', '--json', '-a', 'Threads/*/State', trace).matchAll(/Threads\/(\d+)\/State.*"value":"(\w+)"/g)];
    const last = new Map(at.map(([, tid, state]) => [tid, state]));
    assert.equal([...last.values()].filter((s) => s === 'ended').length, 8005);
});

test('processors, interrupts, wakers, system calls, disks and the ends of threads', (t) => {
    const folder = path.join(temporary(t), 'kernel');
    const sw = (at, cpu, prev, state, next) => ({ at, cpu, event: 'sched_switch', prev_tid: prev, prev_state: state, prev_comm: `t${prev}`, prev_prio: 20, next_tid: next, next_comm: `t${next}`, next_prio: prev === 5 ? -2 : 20 });
    writeKernelTrace(folder, {
        release: '6.1.0',
        events: [
            sw(1000, 0, 0, 0, 5),
            { at: 1100, cpu: 0, event: 'syscall_entry_read', fd: 3 },
            { at: 1200, cpu: 1, event: 'irq_handler_entry', irq: 26 },
            { at: 1250, cpu: 1, event: 'sched_wakeup', tid: 7 },
            { at: 1300, cpu: 1, event: 'irq_handler_exit', irq: 26 },
            { at: 1310, cpu: 1, event: 'irq_softirq_entry', vec: 3 },
            { at: 1320, cpu: 1, event: 'sched_wakeup', tid: 8 },
            { at: 1330, cpu: 1, event: 'irq_softirq_exit', vec: 3 },
            sw(1400, 0, 5, 1, 7),
            { at: 1450, cpu: 0, event: 'sched_wakeup', tid: 5 },
            sw(1500, 0, 7, 1, 5),
            { at: 1600, cpu: 0, event: 'syscall_exit_read', ret: 1 },
            { at: 1610, cpu: 1, event: 'power_cpu_frequency', state: 2_400_000, cpu_id: 0 },
            { at: 1620, cpu: 1, event: 'lttng_statedump_block_device', dev: (8 << 20) | 1, diskname: 'sda1' },
            { at: 1630, cpu: 1, event: 'block_rq_insert', dev: (8 << 20) | 1, sector: 77 },
            { at: 1640, cpu: 1, event: 'block_rq_issue', dev: (8 << 20) | 1, sector: 77 },
            { at: 1650, cpu: 1, event: 'block_rq_complete', dev: (8 << 20) | 1, sector: 77 },
            { at: 1700, cpu: 0, event: 'syscall_entry_exit_group' },
            { at: 1750, cpu: 0, event: 'sched_process_exit', tid: 5 },
            sw(1800, 0, 5, 128, 0), // a tracer that shows task->state
            { at: 1900, cpu: 0, event: 'sched_process_free', tid: 5 },
        ],
    });
    const states = (pattern) => sonde('trace', 'states', '--json', '-a', pattern, folder).trim().split('\n').map((l) => JSON.parse(l)).filter((s) => s.value !== null).map((s) => `${s.from_ns}-${s.to_ns} ${s.value}`);
    assert.deepEqual(states('Threads/5/State'), ['1000-1400 running', '1400-1450 blocked', '1450-1500 runnable', '1500-1800 running', '1800-1901 ended']);
    assert.deepEqual(states('Threads/5/System call'), ['1100-1600 read', '1700-1800 exit_group']);
    assert.deepEqual(states('Threads/5/Waker'), ['1450-1500 7']);
    assert.deepEqual(states('Threads/7/Waker'), ['1250-1400 irq 26']);
    assert.deepEqual(states('Threads/8/Waker'), ['1320-1901 softirq NET_RX']);
    assert.deepEqual(states('Threads/7/Priority'), ['1400-1500 98', '1500-1901 120'], "LTTng's numbers lack the real-time priorities");
    assert.deepEqual(states('Processors/0/System call'), ['1100-1400 read', '1500-1600 read', '1700-1800 exit_group']);
    assert.deepEqual(states('Processors/1/IRQ'), ['1200-1300 26']);
    assert.deepEqual(states('Processors/1/Softirq'), ['1310-1330 NET_RX']);
    assert.deepEqual(states('Processors/0/Frequency'), ['1610-1901 2400000']);
    assert.deepEqual(states('Disks/8:1/Waiting'), ['1630-1640 1', '1640-1901 0']);
    assert.deepEqual(states('Disks/8:1/In flight'), ['1630-1640 0', '1640-1650 1', '1650-1901 0']);
    assert.deepEqual(states('Disks/8:1/Name'), ['1620-1901 sda1']);
});

test('attributes are listed in order, with the names of threads', (t) => {
    const folder = path.join(temporary(t), 'kernel');
    const events = [10, 9, 100].map((tid, i) => ({ at: 1000 + i, cpu: 0, event: 'sched_switch', prev_tid: 0, prev_comm: 'swapper', prev_state: 0, next_tid: tid, next_comm: `worker ${tid}` }));
    writeKernelTrace(folder, { release: '6.1.0', events });
    const names = sonde('trace', 'states', folder).split('\n').filter((l) => l.includes('/State'));
    assert.deepEqual(names, ['Threads/9/State (worker 9)', 'Threads/10/State (worker 10)', 'Threads/100/State (worker 100)']);
});

test('where switches are not traced, exit and exit_group end threads', (t) => {
    const folder = path.join(temporary(t), 'kernel');
    const events = [{ at: 1000, cpu: 0, event: 'sched_wakeup', tid: 9 }, { at: 1100, cpu: 0, event: 'sched_process_exit', tid: 9 }, { at: 1200, cpu: 0, event: 'sched_wakeup', tid: 3 }];
    writeKernelTrace(folder, { release: '6.1.0', events });
    const text = sonde('trace', 'states', '--at', '+150ns', '-a', 'Threads/9/State', folder);
    assert.match(text, /ended/);
});

test('the critical path of a thread through wake-ups', (t) => {
    // 5 asks 7, which reads from a disk and computes, and is preempted by 9; then 7 answers, and 5 goes on. Found by hand.
    const folder = path.join(temporary(t), 'kernel');
    const sw = (at, cpu, prev, state, next) => ({ at, cpu, event: 'sched_switch', prev_tid: prev, prev_state: state, prev_comm: `t${prev}`, next_tid: next, next_comm: `t${next}` });
    writeKernelTrace(folder, {
        release: '6.1.0',
        events: [
            sw(1000, 0, 0, 0, 5),
            { at: 1100, cpu: 0, event: 'sched_wakeup', tid: 7 },
            sw(1150, 1, 0, 0, 7),
            sw(1200, 0, 5, 1, 0),
            sw(1300, 1, 7, 2, 0),
            { at: 1500, cpu: 1, event: 'irq_handler_entry', irq: 26 },
            { at: 1510, cpu: 1, event: 'sched_wakeup', tid: 7 },
            { at: 1520, cpu: 1, event: 'irq_handler_exit', irq: 26 },
            sw(1550, 1, 0, 0, 7),
            sw(1600, 1, 7, 256, 9),
            sw(1700, 1, 9, 0, 7),
            { at: 1800, cpu: 1, event: 'sched_wakeup', tid: 5 },
            sw(1850, 0, 0, 0, 5),
            sw(1950, 0, 5, 1, 0),
        ],
    });
    const found = sonde('trace', 'states', '--json', '--path', '5', folder).trim().split('\n').map((l) => JSON.parse(l)).map((s) => `${s.from_ns}-${s.to_ns} ${s.name} ${s.state}${s.waker === null ? '' : ` <- ${s.waker}`}`);
    assert.deepEqual(found, [
        '1000-1200 t5 running',
        '1200-1300 t7 running',
        '1300-1510 t7 uninterruptible <- irq 26',
        '1510-1550 t7 runnable',
        '1550-1600 t7 running',
        '1600-1700 t7 preempted',
        '1700-1800 t7 running',
        '1800-1850 t5 runnable',
        '1850-1950 t5 running',
        '1950-1951 t5 blocked <- ',
    ]);
    const none = spawnSync(SONDE, ['trace', 'states', '--path', '77', folder], { encoding: 'utf8' });
    assert.equal(none.status, 1);
    assert.match(none.stderr, /Threads\/77 has no states/);
});

test('a critical path leads to who made a thread, through a number that was used before', (t) => {
    // 5 waits for 8, which 7 makes meanwhile; another 8 had ended. Found by hand.
    const folder = path.join(temporary(t), 'kernel');
    const sw = (at, cpu, prev, state, next) => ({ at, cpu, event: 'sched_switch', prev_tid: prev, prev_state: state, prev_comm: `t${prev}`, next_tid: next, next_comm: `t${next}` });
    writeKernelTrace(folder, {
        release: '6.1.0',
        events: [
            sw(1000, 0, 0, 0, 5),
            sw(1010, 1, 0, 0, 8),
            sw(1050, 1, 8, 16, 7),
            sw(1100, 0, 5, 1, 0),
            { at: 1300, cpu: 1, event: 'sched_process_fork', parent_tid: 7, child_tid: 8, child_pid: 7, parent_pid: 7, child_comm: 't8' },
            sw(1350, 0, 0, 0, 8),
            { at: 1400, cpu: 0, event: 'sched_wakeup', tid: 5 },
            sw(1450, 0, 8, 1, 5),
            sw(1500, 0, 5, 1, 0),
        ],
    });
    const found = sonde('trace', 'states', '--json', '--path', '5', folder).trim().split('\n').map((l) => JSON.parse(l)).map((s) => `${s.from_ns}-${s.to_ns} ${s.name} ${s.state}`);
    assert.deepEqual(found, ['1000-1100 t5 running', '1100-1300 t7 running', '1300-1350 t8 runnable', '1350-1400 t8 running', '1400-1450 t5 runnable', '1450-1500 t5 running', '1500-1501 t5 blocked']);
});
