// What sampling takes from the sampled: one process watches for gaps in its time (profile_target.c), alone and in turn
// under a bare timer, sonde, perf record with frame pointers and with copies of the stack, and bpftrace, each attached to it
// while it stands still. From 1,000 Hz on most gaps are the sampler's ticks, and their median times the rate is what they
// take. Below that they are few among the kernel's own (250 Hz), and only the kernel's count of the time in sonde's program is
// left (the mean of all ticks: those of the other processor and of other programs are cheaper). The target runs on one processor, the samplers on the other. Also the processor time and memory of the
// samplers, and what they lost.
//   node bench/profile.mjs TARGET TIMER SONDE [RATES] [ROUNDS]
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const [target, timer, sonde, rates = '20,99,1000,10000', rounds = '5'] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-')), data = path.join(folder, 'perf.data');
const have = (p) => spawnSync('sh', ['-c', `command -v ${p}`]).status === 0;
const median = (l) => [...l].sort((a, b) => a - b)[l.length >> 1];
const show = (l, digits) => `${median(l).toFixed(digits)} (${Math.min(...l).toFixed(digits)}..${Math.max(...l).toFixed(digits)})`;
const PHASE_MS = 1000;

/* name -> [command, arguments, what tells the lost samples by its output] */
const ways = (f, pid) => ({
    timer: [timer, [f]],
    sonde: [sonde, ['profile', '-F', f, '-o', path.join(folder, 'x.folded'), pid], (o) => /; (\d+) lost/.exec(o)?.[1]],
    ...have('perf') && Object.fromEntries([['perf fp', 'fp'], ['perf dwarf', 'dwarf,8192']].map(([name, graph]) => [name,
        ['perf', ['record', '-e', 'cpu-clock', '-F', f, '--call-graph', graph, '-o', data, '-p', pid],
            () => /LOST_SAMPLES events: +(\d+)/.exec(spawnSync('perf', ['report', '--stats', '-i', data], { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout)?.[1] || 0]])),
    ...have('bpftrace') && Number(f) <= 5000 && { bpftrace: ['bpftrace', ['-e', `profile:hz:${f} /pid == ${pid}/ { @[ustack(127)] = count(); }`], (o) => /Lost (\d+)/.exec(o)?.[1] || 0] },
});

/* Processor seconds and MB of memory of its own. */
function used(pid) {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return { cpu: (Number(stat[11]) + Number(stat[12])) / 100, anon: Number(/RssAnon:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024 };
}

const worker = spawn(target, [1], { stdio: ['pipe', 'pipe', 'inherit'] }), lines = createInterface({ input: worker.stdout })[Symbol.asyncIterator]();
async function watch() {
    worker.stdin.write(`${PHASE_MS}\n`);
    return (await lines.next()).value.split(' ').filter(Boolean).map(Number);
}

console.log(`a target 36 frames deep, ${rounds} rounds of ${PHASE_MS} ms each: median (range)`);
for (const rate of rates.split(',')) {
    const ticks = {}, agents = {}, said = [];
    for (let round = 0; round < Number(rounds); round++)
        for (const [name, [command, args, lost]] of Object.entries(ways(rate, String(worker.pid)))) {
            const sampler = spawn('taskset', ['-c', '0', command, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
            let output = '';
            for (const s of [sampler.stdout, sampler.stderr]) s.on('data', (d) => { output += d; });
            await sleep(name === 'bpftrace' ? 1500 : 500); // the target waits: nothing is sampled yet
            const start = used(sampler.pid), gaps = await watch(), end = used(sampler.pid), ended = once(sampler, 'exit');
            sampler.kill(name === 'timer' ? 'SIGTERM' : 'SIGINT');
            await ended;
            (ticks[name] ||= []).push(median(gaps));
            (agents[name] ||= []).push([1e5 * (end.cpu - start.cpu) / PHASE_MS, end.anon, Number(lost?.(output) || 0)]);
            if (name === 'sonde') said.push(output.trim().split('\n')[0]);
        }
    console.log(`${rate} Hz`);
    for (const [name, list] of Object.entries(ticks)) {
        const share = (l) => show(l.map((ns) => ns * Number(rate) / 1e7), 2);
        const cost = Number(rate) < 1000 ? '' : ` ${show(list, 0)} ns a tick, ${share(list)} %` + (name === 'timer' ? ',' : `, above the timer ${share(list.map((ns, i) => ns - ticks.timer[i]))} %,`);
        console.log(`  ${name.padEnd(10)}${cost} agent ${median(agents[name].map((a) => a[0])).toFixed(1)} % CPU, ${median(agents[name].map((a) => a[1])).toFixed(0)} MB, ${agents[name].reduce((n, a) => n + a[2], 0)} lost`);
    }
    const own = said.map((s) => Number(/sampler (\d+) ns a tick/.exec(s)?.[1]));
    console.log(`  sonde's program by the kernel's count: ${show(own, 0)} ns a tick, ${show(own.map((ns) => ns * Number(rate) / 1e7), 3)} %`);
}
worker.stdin.end();
fs.rmSync(folder, { recursive: true });
