// What following the load costs and how right it is, against fixed rates: the evaluation of Atys, section 6.4, on a program that measures
// its functions with its thread's clock. The mean absolute error of the functions' shares, stacks taken and the sampler's processor time,
// each against 997 Hz in the same round. Resumable: each run appends a line to bench/results/steer-rates.jsonl with the commit.
//   node bench/steer-rates.mjs [--seconds 60] [--rounds 3] [--window 2] [--phase 10]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: o } = parseArgs({ options: { seconds: { type: 'string', default: '60' }, rounds: { type: 'string', default: '3' }, window: { type: 'string', default: '2' }, phase: { type: 'string', default: '10' }, sonde: { type: 'string', default: path.join(root, 'build/sonde') } } });
const results = path.join(root, 'bench/results/steer-rates.jsonl');
const commit = spawnSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src/steer', 'src/profile', 'src/cli/profile_sampling.c'], { encoding: 'utf8' }).stdout.trim();
const program = path.join(path.dirname(o.sonde), 'bench-steer-target');
execFileSync('cc', ['-O1', '-o', program, path.join(root, 'bench/steer_target.c')]);

const MODES = { '997 Hz': ['-F', '997'], '499 Hz': ['-F', '499'], '99 Hz': ['-F', '99'], '20 Hz': ['-F', '20'], adaptive: ['--adaptive'], paper: ['--adaptive=paper'], 'paper-fine': ['--adaptive=paper-fine'] };
function run(mode, load) {
    const window = MODES[mode][0].startsWith('--adaptive') ? ['--window', o.window] : [];
    const r = spawnSync(o.sonde, ['profile', '--json', '-n', '1000', ...MODES[mode], ...window, '--', program, o.seconds, load === 'steady' ? '0' : o.phase], { encoding: 'utf8', maxBuffer: 1 << 26 });
    if (r.status) throw new Error(r.stderr);
    const { profile } = JSON.parse(r.stdout), truth = [...r.stderr.matchAll(/^(work_\d) ([\d.]+)$/gm)].map(([, name, s]) => [name, Number(s)]), all = truth.reduce((sum, [, s]) => sum + s, 0);
    const own = truth.map(([name]) => profile.functions.find((f) => f.function === name)?.total ?? 0), sampled = own.reduce((sum, x) => sum + x, 0);
    const mae = truth.reduce((sum, [, s], i) => sum + Math.abs(own[i] / sampled - s / all), 0) / truth.length;
    return { mae, stacks: profile.quality.stacks_count, agent_percent: Number(/agent ([\d.]+) % CPU/.exec(r.stderr)[1]), changes: profile.rate?.changes_count, mean_hz: profile.rate?.mean_hz };
}

const known = fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
const rows = [];
for (let round = 0; round < Number(o.rounds); round++)
    for (const load of ['periodic', 'steady'])
        for (const mode of Object.keys(MODES)) {
            const settings = `${o.seconds} s, windows of ${o.window} s, phases of ${o.phase} s`;
            let row = known.find((k) => k.commit === commit && k.round === round && k.load === load && k.mode === mode && k.settings === settings);
            if (!row) {
                row = { commit, round, load, mode, settings, ...run(mode, load) };
                fs.appendFileSync(results, `${JSON.stringify(row)}\n`);
            }
            rows.push(row);
        }
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
console.log('load      mode        error of shares (points)   of 997 Hz   stacks of 997 Hz   sampler');
for (const load of ['periodic', 'steady'])
    for (const mode of Object.keys(MODES)) {
        const of = (m, key) => median(rows.filter((r) => r.load === load && r.mode === m).map((r) => r[key]));
        const errors = rows.filter((r) => r.load === load && r.mode === mode).map((r) => 100 * r.mae);
        console.log(`${load.padEnd(10)}${mode.padEnd(12)}${median(errors).toFixed(3).padStart(8)} (${Math.min(...errors).toFixed(3)} to ${Math.max(...errors).toFixed(3)})${(of(mode, 'mae') / of('997 Hz', 'mae')).toFixed(2).padStart(12)}${((100 * of(mode, 'stacks')) / of('997 Hz', 'stacks')).toFixed(1).padStart(17)} %${of(mode, 'agent_percent').toFixed(1).padStart(9)} %`);
    }
