// Writes kernel traces in LTTng's layout, for tests: one stream for each CPU.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';

// [type, name]: i32, i64, u32, u64, name (16 characters), text.
const SHAPES = {
    sched_switch: [['name', 'prev_comm'], ['i32', 'prev_tid'], ['i32', 'prev_prio'], ['i64', 'prev_state'], ['name', 'next_comm'], ['i32', 'next_tid'], ['i32', 'next_prio']],
    sched_wakeup: [['name', 'comm'], ['i32', 'tid'], ['i32', 'prio'], ['i32', 'target_cpu']],
    sched_process_fork: [['name', 'parent_comm'], ['i32', 'parent_tid'], ['i32', 'parent_pid'], ['name', 'child_comm'], ['i32', 'child_tid'], ['i32', 'child_pid']],
    sched_process_exit: [['name', 'comm'], ['i32', 'tid'], ['i32', 'prio']],
    sched_process_free: [['name', 'comm'], ['i32', 'tid'], ['i32', 'prio']],
    lttng_statedump_process_state: [['i32', 'tid'], ['i32', 'pid'], ['i32', 'ppid'], ['name', 'name'], ['i32', 'status']],
    irq_handler_entry: [['i32', 'irq'], ['text', 'name']],
    irq_handler_exit: [['i32', 'irq'], ['i32', 'ret']],
    irq_softirq_entry: [['u32', 'vec']],
    irq_softirq_exit: [['u32', 'vec']],
    power_cpu_frequency: [['u32', 'state'], ['u32', 'cpu_id']],
    block_rq_insert: [['u32', 'dev'], ['u64', 'sector']],
    block_rq_issue: [['u32', 'dev'], ['u64', 'sector']],
    block_rq_complete: [['u32', 'dev'], ['u64', 'sector']],
    lttng_statedump_block_device: [['u32', 'dev'], ['text', 'diskname']],
    syscall_entry_read: [['u32', 'fd']],
    syscall_exit_read: [['i64', 'ret']],
    syscall_entry_futex: [['u32', 'op']],
    syscall_exit_futex: [['i64', 'ret']],
    syscall_entry_exit_group: [['i32', 'error_code']],
    syscall_entry_exit: [['i32', 'error_code']],
    inet_sock_local_out: [['u32', 'seq'], ['u32', 'ack_seq'], ['u32', 'flags']],
    inet_sock_local_in: [['u32', 'seq'], ['u32', 'ack_seq'], ['u32', 'flags']],
};
const TSDL = {
    i32: (n) => `integer { size = 32; align = 8; signed = 1; } _${n};`,
    i64: (n) => `integer { size = 64; align = 8; signed = 1; } _${n};`,
    u32: (n) => `integer { size = 32; align = 8; signed = 0; } _${n};`,
    u64: (n) => `integer { size = 64; align = 8; signed = 0; } _${n};`,
    name: (n) => `integer { size = 8; align = 8; signed = 0; encoding = UTF8; } _${n}[16];`,
    text: (n) => `string _${n};`,
};

function encode(type, value) {
    if (type === 'text') return Buffer.from(`${value ?? ''}\0`);
    const bytes = Buffer.alloc(type === 'name' ? 16 : type.endsWith('64') ? 8 : 4);
    if (type === 'name') bytes.write(value ?? '', 0, 15);
    else if (type === 'i32') bytes.writeInt32LE(value ?? 0);
    else if (type === 'u32') bytes.writeUInt32LE(value ?? 0);
    else bytes.writeBigInt64LE(BigInt(value ?? 0));
    return bytes;
}

// events: [{ at (ns), cpu, event, ...fields }] in order of time; only shapes of `names` (default: those used) are declared.
export function writeKernelTrace(folder, { release, events, names, tracer = 'lttng-modules', host = 'made' }) {
    fs.mkdirSync(folder, { recursive: true });
    const used = names ?? [...new Set(events.map((e) => e.event))];
    const u = (bits) => `integer { size = ${bits}; align = 8; signed = 0; }`;
    fs.writeFileSync(path.join(folder, 'metadata'), `/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { ${u(32)} magic; ${u(32)} stream_id; }; };
env { hostname = "${host}"; domain = "kernel"; sysname = "Linux"; kernel_release = "${release}"; tracer_name = "${tracer}"; };
clock { name = monotonic; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; signed = 0; map = clock.monotonic.value; } := stamp_t;
stream { id = 0; event.header := struct { ${u(16)} id; stamp_t timestamp; };
 packet.context := struct { stamp_t timestamp_begin; stamp_t timestamp_end; ${u(64)} content_size; ${u(64)} packet_size; ${u(32)} cpu_id; }; };
${used.map((name, id) => `event { name = "${name}"; id = ${id}; stream_id = 0; fields := struct { ${SHAPES[name].map(([type, field]) => TSDL[type](field)).join(' ')} }; };`).join('\n')}
`);
    const last = events.at(-1).at;
    for (const cpu of new Set(events.map((e) => e.cpu))) {
        const parts = [];
        for (const event of events.filter((e) => e.cpu === cpu)) {
            const head = Buffer.alloc(10);
            head.writeUInt16LE(used.indexOf(event.event));
            head.writeBigUInt64LE(BigInt(event.at), 2);
            parts.push(head, ...SHAPES[event.event].map(([type, field]) => encode(type, event[field])));
        }
        const body = Buffer.concat(parts), packet = Buffer.alloc(44);
        packet.writeUInt32LE(0xc1fc1fc1);
        packet.writeBigUInt64LE(BigInt(events[0].at), 8);
        packet.writeBigUInt64LE(BigInt(last), 16);
        packet.writeBigUInt64LE(BigInt((44 + body.length) * 8), 24);
        packet.writeBigUInt64LE(BigInt((44 + body.length) * 8), 32);
        packet.writeUInt32LE(cpu, 40);
        fs.writeFileSync(path.join(folder, `channel_${cpu}`), Buffer.concat([packet, body]));
    }
}

// What the numbers mean, from each series' include/linux/sched.h: [first version, names of values].
const LAYOUTS = [
    [[3, 0], { 0: 'preempted', 1: 'blocked', 2: 'uninterruptible', 4: 'stopped', 8: 'stopped', 64: 'ended', 130: 'uninterruptible', 512: 'preempted' }],
    [[4, 2], { 0: 'preempted', 1: 'blocked', 2: 'uninterruptible', 4: 'stopped', 8: 'stopped', 64: 'ended', 130: 'uninterruptible', 512: 'parked', 1026: 'idle', 2048: 'preempted' }],
    [[4, 8], { 0: 'preempted', 1: 'blocked', 2: 'uninterruptible', 4: 'stopped', 8: 'stopped', 64: 'ended', 130: 'uninterruptible', 512: 'parked', 1026: 'idle', 4096: 'preempted' }],
    [[4, 14], { 0: 'preempted', 1: 'blocked', 2: 'uninterruptible', 4: 'stopped', 8: 'stopped', 16: 'ended', 32: 'ended', 64: 'parked', 128: 'idle', 256: 'preempted' }],
];
export const layoutOf = (release) => {
    const [major, minor] = release.split('.').map(Number);
    return LAYOUTS.filter(([[a, b]]) => major > a || (major === a && minor >= b)).at(-1)[1];
};

// A random schedule on two CPUs with every state of the layout, forks, ends, and a dump of what sleeps: an event in up to
// `step` nanoseconds.
export function randomKernelEvents(release, seed, { steps = 3000, from = 1_000_000_000, step = 1000 } = {}) {
    const layout = layoutOf(release), values = Object.keys(layout).map(Number), events = [], running = [0, 0];
    const next = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff, (seed >> 8) % n);
    const states = new Map();
    for (let tid = 1; tid <= 20; tid++) states.set(tid, 'blocked');
    let at = from, fresh = 100;
    const add = (cpu, event, fields) => events.push({ at: at += 10 + next(step), cpu, event, ...fields });
    for (let i = 0; i < steps; i++) {
        const cpu = next(2), was = running[cpu], ready = [...states].filter(([tid, s]) => ['runnable', 'preempted'].includes(s) && !running.includes(tid));
        if (i === 50) for (let tid = 1; tid <= 30; tid++) add(cpu, 'lttng_statedump_process_state', { tid, pid: tid, ppid: 1, name: `t${tid}`, status: tid % 7 ? 5 : 2 });
        if (next(8) === 0) {
            const tid = fresh++;
            add(cpu, 'sched_process_fork', { parent_tid: was || 1, parent_pid: was || 1, child_tid: tid, child_pid: tid, child_comm: `f${tid}` });
            states.set(tid, 'runnable');
        } else if (next(2) && (ready.length || was)) {
            const state = was ? values[next(values.length)] : 0, [tid] = ready.length ? ready[next(ready.length)] : [0];
            if (was && layout[state] === 'ended') add(cpu, 'sched_process_exit', { tid: was });
            add(cpu, 'sched_switch', { prev_tid: was, prev_comm: `t${was}`, prev_state: state, prev_prio: 20, next_tid: tid, next_comm: `t${tid}`, next_prio: 20 });
            if (was) states.set(was, layout[state]);
            if (was && layout[state] === 'ended') {
                states.delete(was);
                if (next(2)) add(cpu, 'sched_process_free', { tid: was });
            }
            if (tid) states.set(tid, 'running');
            running[cpu] = tid;
        } else {
            const asleep = [...states].filter(([, s]) => !['running', 'runnable', 'preempted'].includes(s)).map(([tid]) => tid);
            if (!asleep.length) continue;
            const tid = asleep[next(asleep.length)];
            add(cpu, 'sched_wakeup', { tid, prio: 20, target_cpu: cpu });
            states.set(tid, 'runnable');
        }
    }
    return events;
}
