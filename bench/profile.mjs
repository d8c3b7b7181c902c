// What sampling takes from the sampled: one process watches for gaps in its time (profile_target.c, ProfileTarget.java), alone
// and in turn under a bare timer, sonde, perf record with frame pointers and with copies of the stack, bpftrace, and for Java
// async-profiler, each attached to it while it stands still. From 1,000 Hz on most gaps are the sampler's ticks, and their
// median times the rate is what they take. Below that they are few among the kernel's own (250 Hz), and only the kernel's count
// of the time in sonde's program is left (the mean of all ticks: those of the other CPU and of other programs are
// cheaper). The target runs on one CPU, the samplers on the other. Also the CPU time and memory of the samplers,
// and what they lost; and how long it takes from the start of the command to the first stack with names.
//   node bench/profile.mjs TARGET TIMER SONDE [RATES] [ROUNDS] [PARTS]
// PARTS: c,java,first. async-profiler is not packaged: ASYNC_PROFILER=/path/to/bin/asprof names one that was built beside.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const [target, timer, sonde, rates = '20,99,1000,10000', rounds = '5', parts = 'c,java,first'] = process.argv.slice(2);
const asprof = process.env.ASYNC_PROFILER;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-')), data = path.join(folder, 'perf.data');
const have = (p) => spawnSync('sh', ['-c', `command -v ${p}`]).status === 0;
const median = (l) => [...l].sort((a, b) => a - b)[l.length >> 1];
const show = (l, digits) => `${median(l).toFixed(digits)} (${Math.min(...l).toFixed(digits)}..${Math.max(...l).toFixed(digits)})`;
const PHASE_MS = 1000;

/* A sampler that runs until it is told to stop: its pid, and a stop that gives what it wrote. */
function sampler(command, args, signal = 'SIGINT') {
    const child = spawn('taskset', ['-c', '0', command, ...args], { stdio: ['ignore', 'pipe', 'pipe'] }), ended = once(child, 'exit');
    let output = '';
    for (const s of [child.stdout, child.stderr]) s.on('data', (d) => { output += d; });
    return { pid: child.pid, stop: async () => { child.kill(signal); await ended; return output; } };
}
/* async-profiler works inside of the target. */
function inside(f, pid) {
    execFileSync(asprof, ['start', '-e', 'cpu', '-i', `${Math.round(1e9 / f)}ns`, '-j', '256', String(pid)], { stdio: 'ignore' });
    return { stop: async () => execFileSync(asprof, ['stop', '-o', 'collapsed', String(pid)], { encoding: 'utf8', maxBuffer: 1 << 26 }) };
}

/* name -> [what starts it, the lost samples by its output] */
const ways = (f, pid, java) => ({
    timer: [() => sampler(timer, [f], 'SIGTERM')],
    sonde: [() => sampler(sonde, ['profile', '-F', f, '-o', path.join(folder, 'x.folded'), pid]), (o) => /; (\d+) lost/.exec(o)?.[1]],
    ...java && asprof && { 'async-profiler': [() => inside(f, pid)] },
    ...!java && have('perf') && Object.fromEntries([['perf fp', 'fp'], ['perf dwarf', 'dwarf,8192']].map(([name, graph]) => [name,
        [() => sampler('perf', ['record', '-e', 'cpu-clock', '-F', f, '--call-graph', graph, '-o', data, '-p', pid]),
            () => /LOST_SAMPLES events: +(\d+)/.exec(spawnSync('perf', ['report', '--stats', '-i', data], { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout)?.[1] || 0]])),
    ...!java && have('bpftrace') && Number(f) <= 5000 && { bpftrace: [() => sampler('bpftrace', ['-e', `profile:hz:${f} /pid == ${pid}/ { @[ustack(127)] = count(); }`]), (o) => /Lost (\d+)/.exec(o)?.[1] || 0] },
});

/* Processor seconds and MB of memory of its own. */
function used(pid) {
    if (!pid) return { cpu: 0, anon: 0 };
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return { cpu: (Number(stat[11]) + Number(stat[12])) / 100, anon: Number(/RssAnon:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024 };
}

async function cost(title, command, args, java) {
    const worker = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] }), lines = createInterface({ input: worker.stdout })[Symbol.asyncIterator]();
    const watch = async (ms) => {
        worker.stdin.write(`${ms}\n`);
        return (await lines.next()).value.split(' ').filter(Boolean).map(Number);
    };
    for (let i = 0; java && i < 3; i++) await watch(700); // until it is compiled
    console.log(`${title}, ${rounds} rounds of ${PHASE_MS} ms each: median (range)`);
    for (const rate of rates.split(',')) {
        const ticks = {}, agents = {}, said = [];
        for (let round = 0; round < Number(rounds); round++)
            for (const [name, [start, lost]] of Object.entries(ways(rate, String(worker.pid), java))) {
                const it = start();
                await sleep(name === 'bpftrace' ? 1500 : 500); // the target waits: nothing is sampled yet
                const before = used(it.pid), gaps = await watch(PHASE_MS), after = used(it.pid), output = await it.stop();
                (ticks[name] ||= []).push(median(gaps));
                (agents[name] ||= []).push([1e5 * (after.cpu - before.cpu) / PHASE_MS, after.anon, Number(lost?.(output) || 0)]);
                if (name === 'sonde') said.push(output.trim().split('\n')[0]);
            }
        console.log(`${rate} Hz`);
        for (const [name, list] of Object.entries(ticks)) {
            const share = (l) => show(l.map((ns) => ns * Number(rate) / 1e7), 2);
            const took = Number(rate) < 1000 ? '' : ` ${show(list, 0)} ns a tick, ${share(list)} %` + (name === 'timer' ? ',' : `, above the timer ${share(list.map((ns, i) => ns - ticks.timer[i]))} %,`);
            const agent = name === 'async-profiler' ? 'in the target itself' : `agent ${median(agents[name].map((a) => a[0])).toFixed(1)} % CPU, ${median(agents[name].map((a) => a[1])).toFixed(0)} MB, ${agents[name].reduce((n, a) => n + a[2], 0)} lost`;
            console.log(`  ${name.padEnd(14)}${took} ${agent}`);
        }
        const own = said.map((s) => Number(/sampler (\d+) ns a tick/.exec(s)?.[1]));
        console.log(`  sonde's program by the kernel's count: ${show(own, 0)} ns a tick, ${show(own.map((ns) => ns * Number(rate) / 1e7), 3)} %`);
    }
    worker.stdin.end();
    await once(worker, 'exit');
}

// ---- the first stack with names ----

const BUSY = {
    C: () => [target, [1], '100000\n'],
    Python: () => ['/usr/bin/python3', ['-c', 'def busy():\n while True: pass\nbusy()']],
    'Node.js': () => [process.execPath, ['-e', 'function busy() { for (;;); } busy()']],
    Java: () => ['java', ['-cp', folder, 'ProfileTarget'], '100000\n'],
};
async function first() {
    console.log('from the start of the command to the first stack with names, at 99 Hz, ms: median (range)');
    const exec = median(Array.from({ length: 9 }, () => { const t = performance.now(); spawnSync(sonde, ['--version']); return performance.now() - t; }));
    const one = (args) => Number(/first stack after (\d+) ms/.exec(spawnSync(sonde, ['profile', '-d', '0.6', '-o', path.join(folder, 'x.folded'), ...args], { encoding: 'utf8' }).stderr)?.[1]) + exec;
    for (const [name, how] of Object.entries(BUSY)) {
        const [command, args, input] = how();
        if (!have(command)) continue;
        const child = spawn(command, args, { stdio: ['pipe', 'ignore', 'inherit'] });
        if (input) child.stdin.write(input);
        await sleep(3000);
        const times = Array.from({ length: Number(rounds) }, () => one([String(child.pid)]));
        const all = name === 'C' && Array.from({ length: Number(rounds) }, () => one(['--all']));
        console.log(`  ${name.padEnd(14)} ${show(times, 0)}`);
        if (all) console.log(`  ${'whole machine'.padEnd(14)} ${show(all, 0)}`);
        if (name === 'C' && have('bpftrace')) {
            const peer = [];
            for (let i = 0; i < Number(rounds); i++) {
                const start = performance.now(), b = spawn('bpftrace', ['-q', '-e', `profile:hz:99 /pid == ${child.pid}/ { printf("%s", ustack(127)); exit(); }`], { stdio: ['ignore', 'pipe', 'ignore'] });
                await once(b.stdout, 'data');
                peer.push(performance.now() - start);
                await once(b, 'exit');
            }
            console.log(`  ${'C, bpftrace'.padEnd(14)} ${show(peer, 0)}`);
        }
        child.kill('SIGKILL');
        await once(child, 'exit');
    }
}

const wanted = parts.split(',');
if (wanted.includes('c')) await cost('a target in C, 36 frames deep', target, [1], false);
if (have('javac')) {
    execFileSync('javac', ['-d', folder, path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), 'ProfileTarget.java')]);
    if (wanted.includes('java')) {
        if (!asprof) console.log('async-profiler is not measured: ASYNC_PROFILER does not name one');
        await cost('a target in Java, 36 methods deep', 'taskset', ['-c', '1', 'java', '-XX:+UseSerialGC', '-Xmx256m', '-cp', folder, 'ProfileTarget'], true);
    }
}
if (wanted.includes('first')) await first();
fs.rmSync(folder, { recursive: true });
