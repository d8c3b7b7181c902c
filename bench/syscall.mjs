// What one system call of a traced program costs more: a Node program asks for its parent's process id over and over (the
// cheapest call there is), untraced, with each family of sonde's kernel events, and under strace, perf trace and bpftrace.
// The best of 25 slices in each run, so that what else the machine does falls away; all variants take turns.
//   node bench/syscall.mjs build/sonde [ROUNDS]    5 rounds; needs root
// SPDX-License-Identifier: Apache-2.0
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { has, spread, table } from './measure.mjs';

const [sonde, rounds = '5'] = process.argv.slice(2);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
// Begins when a tracer that attaches has had its time.
const PROGRAM = `setTimeout(() => {
    let best = Infinity, sum = 0;
    for (let slice = 0; slice < 25; slice++) {
        const start = process.hrtime.bigint();
        for (let i = 0; i < 5000; i++) sum += process.ppid;
        best = Math.min(best, Number(process.hrtime.bigint() - start) / 5000);
    }
    console.log('best ' + best);
}, Number(process.argv[1]))`;
const BPFTRACE = `
tracepoint:raw_syscalls:sys_enter /pid == PID/ { @start[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @calls[args->id] = count(); @took[args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); }`;
const withTracefs = (...command) => ['unshare', '-m', 'sh', '-c', 'mount -t tracefs none /sys/kernel/tracing && exec "$@"', 'sh', ...command];
const recorded = (...options) => ({ before: [sonde, 'record', '--quiet', '--budget', '100,4096', ...options, '-o', path.join(work, 'trace'), '--'] });
const VARIANTS = {
    untraced: { before: [] },
    'sonde, no kernel events': recorded('--no-kernel'),
    'sonde, sched,block (the usual)': recorded('--kernel=sched,block'),
    'sonde, sys': recorded('--kernel=sys'),
    'sonde, sys,sched,block': recorded('--kernel=sys,sched,block'),
    'sonde, all': recorded('--kernel=all'),
    'bpftrace, calls counted and summed': { needs: 'bpftrace', beside: (pid) => withTracefs('bpftrace', '-e', BPFTRACE.replaceAll('PID', pid)) },
    'perf trace': { needs: 'perf', beside: (pid) => withTracefs('perf', 'trace', '-o', path.join(work, 'perf.out'), '-p', String(pid)) },
    'strace -f -c': { needs: 'strace', before: ['strace', '-f', '-c', '-o', path.join(work, 'strace.out')] },
    'strace -f': { needs: 'strace', before: ['strace', '-f', '-o', path.join(work, 'strace.out')] },
};

function ended(child) {
    return new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.on('exit', resolve) : resolve()));
}

async function measure({ before = [], beside }) {
    const words = [...before, process.execPath, '-e', PROGRAM, beside ? '2500' : '50'];
    const child = spawn(words[0], words.slice(1), { stdio: ['ignore', 'pipe', 'ignore'] });
    let said = '';
    child.stdout.on('data', (part) => (said += part));
    const [command, ...args] = beside ? beside(child.pid) : [];
    const tracer = beside && spawn(command, args, { stdio: 'ignore' });
    await new Promise((resolve) => child.on('close', resolve));
    const alive = tracer && tracer.exitCode === null;
    if (alive) tracer.kill('SIGINT');
    if (tracer) await ended(tracer);
    fs.rmSync(path.join(work, 'trace'), { recursive: true, force: true });
    const best = Number(/best ([\d.]+)/.exec(said)?.[1]);
    if (!(best > 0)) throw new Error(`${words[0]}: no figure`);
    return best;
}

if (process.getuid() !== 0) {
    console.log('not measured: kernel events need root');
    process.exit(0);
}
try {
    const all = {};
    for (let round = 0; round < Number(rounds); round++)
        for (const [name, variant] of Object.entries(VARIANTS)) if (!variant.needs || has(variant.needs)) (all[name] ??= []).push(await measure(variant));
    const base = spread(all.untraced).median;
    table(`One getppid() of a Node program, ${rounds} rounds`, ['', 'ns', 'spread', 'more', 'times sonde sys'], Object.entries(all).map(([name, values]) => {
        const { median, min, max } = spread(values), more = median - base;
        return [name, median.toFixed(0), `${min.toFixed(0)}..${max.toFixed(0)}`, more.toFixed(0), (more / (spread(all['sonde, sys']).median - base)).toFixed(1)];
    }));
    for (const [name, { needs }] of Object.entries(VARIANTS)) if (!all[name]) console.log(`  not measured: ${name}: ${needs} is not installed`);
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
