// What sampling costs the sampled: a fixed amount of work, its CPU time alone, under a bare timer, under sonde, under perf
// record with frame pointers and with copies of the stack, and under bpftrace, interleaved; medians and spread.
//   node bench/profile.mjs TARGET TIMER SONDE [RATES] [RUNS]
// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [target, timer, sonde, rates = '20,99,1000,10000', runs = '5', rounds = '600'] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const have = (p) => spawnSync('sh', ['-c', `command -v ${p}`]).status === 0;
const median = (l) => [...l].sort((a, b) => a - b)[l.length >> 1];
const spread = (l) => `${Math.min(...l).toFixed(2)}..${Math.max(...l).toFixed(2)}`;

function run(command, args) {
    const started = process.hrtime.bigint(), r = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    const cpu = Number((/^(\d{6,})$/m.exec(r.stdout) || [])[1]);
    if (!cpu) throw new Error(`${command} ${args.join(' ')}: ${r.status} ${r.stderr.slice(0, 500)}`);
    return { cpu, wall: Number(process.hrtime.bigint() - started), stderr: r.stderr };
}
const ways = {
    nothing: () => run(target, [rounds]),
    timer: (f) => run(timer, [f, target, rounds]),
    sonde: (f) => run(sonde, ['profile', '-F', f, '-o', path.join(folder, 'x.folded'), '--', target, rounds]),
};
if (have('perf')) {
    const perf = (graph) => (f) => run('perf', ['record', '-q', '-e', 'cpu-clock', '-F', f, '--call-graph', graph, '-o', path.join(folder, 'perf.data'), '--', target, rounds]);
    ways['perf fp'] = perf('fp');
    ways['perf dwarf'] = perf('dwarf,8192');
}
if (have('bpftrace'))
    ways.bpftrace = (f) => run('bpftrace', ['-q', '-e', `profile:hz:${f} /pid == cpid/ { @[ustack(127)] = count(); } END { clear(@); }`, '-c', `${target} ${rounds}`]);

console.log('CPU time of the target above running alone, in %: median (spread); 36 frames, ' + runs + ' runs each, interleaved');
for (const rate of rates.split(',')) {
    const costs = {}, notes = [];
    for (let i = 0; i < Number(runs); i++) {
        const alone = ways.nothing().cpu;
        for (const [name, way] of Object.entries(ways)) {
            if (name === 'nothing' || (name === 'bpftrace' && Number(rate) > 5000)) continue;
            try {
                const r = way(rate);
                (costs[name] ||= []).push(100 * (r.cpu / alone - 1));
                if (name === 'sonde') notes.push(r.stderr.trim().split('\n').pop());
            } catch (e) { if (i === 0) console.log(`  ${name}: ${e.message.slice(0, 120)}`); }
        }
    }
    const own = costs.sonde.map((c, i) => c - costs.timer[i]);
    console.log(`${rate} Hz: ` + Object.entries(costs).map(([n, l]) => `${n} ${median(l).toFixed(2)} (${spread(l)})`).join('; ') + `; sonde above the timer ${median(own).toFixed(2)} (${spread(own)})`);
    console.log(`  ${notes[notes.length - 1]}`);
}
fs.rmSync(folder, { recursive: true });
