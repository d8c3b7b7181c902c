// Nanoseconds per event: sonde's wrapper against an LTTng-UST tracepoint and eBPF uprobes, in one run of
// bench_event (event.c). The peers are set up in their favour: LTTng as flight recorder (nothing is consumed),
// the uprobes only count.
//   node bench/event.mjs build/bench/bench_event
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { has, pinned, spread, table } from './measure.mjs';

const program = process.argv[2];
const undo = [];

// A flight-recorder session with the two tracepoints; an own session daemon only if none runs.
function startLttng() {
    const lttng = (...args) => execFileSync('lttng', ['-n', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    if (spawnSync('lttng', ['-n', 'list'], { stdio: 'ignore' }).status !== 0) {
        const daemon = spawn('lttng-sessiond', ['--quiet'], { stdio: 'ignore' });
        undo.push(() => daemon.kill('SIGTERM'));
        for (let i = 0; i < 100 && spawnSync('lttng', ['-n', 'list'], { stdio: 'ignore' }).status !== 0; i++) spawnSync('sleep', ['0.1']);
    }
    const session = `sonde-bench-${process.pid}`;
    lttng('create', session, '--snapshot');
    undo.unshift(() => lttng('destroy', session));
    lttng('enable-channel', '-u', '--subbuf-size=1M', '--num-subbuf=4', 'events');
    lttng('enable-event', '-u', 'sonde_bench:*', '-c', 'events');
    lttng('start');
}

// bpftrace on both functions; resolves once it is attached.
function startUprobes() {
    const script = `uprobe:${program}:subject_uprobe { @entries = count(); }
        uprobe:${program}:subject_uretprobe { @start[tid] = nsecs; }
        uretprobe:${program}:subject_uretprobe { @spans = count(); @start[tid] = 0; }
        interval:s:1 { printf("up\\n"); }`;
    const bpftrace = spawn('bpftrace', ['-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
    undo.unshift(() => new Promise((resolve) => { bpftrace.on('exit', resolve); bpftrace.kill('SIGINT'); }));
    return new Promise((resolve, reject) => {
        let said = '';
        bpftrace.stderr.on('data', (part) => (said += part));
        bpftrace.stdout.on('data', (part) => /up/.test(part) && resolve());
        bpftrace.on('exit', () => reject(new Error(said.trim())));
    });
}

const kinds = ['sonde'], without = [];
if (!has('lttng')) without.push('LTTng-UST: not installed (tools/install-deps bench)');
else try {
    startLttng();
    kinds.push('lttng', 'lttng-span');
} catch (error) {
    without.push(`LTTng-UST: ${String(error.stderr || error.message).trim()}`);
}
if (!has('bpftrace') || process.getuid() !== 0) without.push('uprobes: bpftrace and root are needed');
else try {
    await startUprobes();
    kinds.push('uprobe', 'uretprobe');
} catch (error) {
    without.push(`uprobes: ${error.message}`);
}

try {
    const [command, ...args] = pinned(0, program, ...kinds);
    const output = execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    const samples = Object.fromEntries(kinds.map((kind) => [kind, []]));
    for (const line of output.trim().split('\n')) {
        const [kind, , ns] = line.split(' ');
        samples[kind].push(Number(ns));
    }
    const text = { sonde: 'sonde, a span with 9 fields', lttng: 'LTTng-UST, a tracepoint with them', 'lttng-span': 'LTTng-UST, a span: one before, one after', uprobe: 'eBPF uprobe, counting entries', uretprobe: 'eBPF uprobe + uretprobe' };
    const mine = spread(samples.sonde).median;
    table('Cost of one event in the traced program, ns (31 rounds, taking turns)', ['', 'median', 'min', 'max', 'sonde / it'],
        kinds.map((kind) => {
            const { median, min, max } = spread(samples[kind]);
            return [text[kind], median.toFixed(1), min.toFixed(1), max.toFixed(1), kind === 'sonde' ? '' : (mine / median).toFixed(3)];
        }));
    for (const line of without) console.log(`not measured: ${line}`);
} finally {
    for (const step of undo) await step();
}
