// How right profiles are whose rate follows the load, and what they take, against fixed rates: the evaluation of Atys, section 6.4, on a
// program that measures its functions with its thread's clock. All rates sample the same run, so that their truth is the same. For each:
// the mean absolute error of the functions' shares; how many shares are off by no more than the interval that 997 Hz states in the same
// run, and by no more than the one that the profile itself states; stacks against 997 Hz. "as many" is the error that 997 Hz has when as
// few samples are taken, by 1 / sqrt(n). Resumable: each run appends lines to bench/results/steer-rates.jsonl with the commit.
//   node bench/steer-rates.mjs [--seconds 300] [--rounds 3] [--window 10] [--phase 30]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const text = (value) => ({ type: 'string', default: value });
const { values: o } = parseArgs({ options: { seconds: text('300'), rounds: text('3'), window: text('10'), phase: text('30'), sonde: text(path.join(root, 'build/sonde')) } });
const results = path.join(root, 'bench/results/steer-rates.jsonl');
const MEASURED = ['src/steer', 'src/profile', 'src/cli/profile_sampling.c', 'bench/steer-rates.mjs'], git = (...args) => spawnSync('git', ['-C', root, ...args, '--', ...MEASURED], { encoding: 'utf8' }).stdout.trim();
const commit = git('log', '-1', '--format=%h') + (git('status', '--porcelain') ? '+' : '');
const program = path.join(path.dirname(o.sonde), 'bench-steer-target');
execFileSync('cc', ['-O1', '-o', program, path.join(root, 'bench/steer_target.c')]);
const MODES = { '997 Hz': ['-F', '997'], '99 Hz': ['-F', '99'], '20 Hz': ['-F', '20'], adaptive: ['--adaptive', '--window', o.window], 'paper-fine': ['--adaptive=paper-fine', '--window', o.window] };

const collect = (stream) => { const parts = []; stream.setEncoding('utf8').on('data', (part) => parts.push(part)); return () => parts.join(''); };
async function run(load) {
    const target = spawn(program, [o.seconds, load === 'steady' ? '0' : o.phase, 'wait'], { stdio: ['pipe', 'ignore', 'pipe'] }), measured = collect(target.stderr);
    const profilers = Object.entries(MODES).map(([mode, args]) => {
        const child = spawn(o.sonde, ['profile', '--json', '-n', '1000', ...args, String(target.pid)]);
        return { mode, child, out: collect(child.stdout), err: collect(child.stderr) };
    });
    await new Promise((resolve) => setTimeout(resolve, 3000)); // all of them sample
    target.stdin.end('\n');
    await Promise.all([once(target, 'close'), ...profilers.map(({ child }) => once(child, 'close'))]);
    const truth = [...measured().matchAll(/^(work_\d) ([\d.]+)$/gm)].map(([, name, s]) => [name, Number(s)]), all = truth.reduce((sum, [, s]) => sum + s, 0);
    const rows = profilers.map(({ mode, out, err }) => {
        const { profile } = JSON.parse(out()), found = truth.map(([name]) => profile.functions.find((f) => f.function === name)), sampled = found.reduce((sum, f) => sum + f.total_share, 0);
        const shares = truth.map(([, s], i) => ({ error: Math.abs(found[i].total_share / sampled - s / all), half: (found[i].total_high_share - found[i].total_low_share) / 2 / sampled }));
        return { mode, shares, stacks: profile.quality.stacks_count, agent_percent: Number(/agent ([\d.]+) % CPU/.exec(err())[1]), changes: profile.rate?.changes_count, regimes: profile.rate?.regimes_count, mean_hz: profile.rate?.mean_hz };
    });
    const fixed = rows[0].shares;
    return rows.map(({ shares, ...row }) => ({ ...row, mae: shares.reduce((sum, s) => sum + s.error, 0) / shares.length, of: shares.length, within_fixed: shares.filter((s, i) => s.error <= fixed[i].half).length, within_own: shares.filter((s) => s.error <= s.half).length }));
}

const known = fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
const settings = `${o.seconds} s, windows of ${o.window} s, phases of ${o.phase} s, one run`, rows = [];
for (let round = 0; round < Number(o.rounds); round++)
    for (const load of ['periodic', 'steady']) {
        let done = known.filter((k) => k.commit === commit && k.round === round && k.load === load && k.settings === settings);
        if (done.length !== Object.keys(MODES).length) {
            done = (await run(load)).map((row) => ({ commit, round, load, settings, ...row }));
            fs.appendFileSync(results, done.map((row) => `${JSON.stringify(row)}\n`).join(''));
        }
        rows.push(...done);
    }
const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length, sum = (list) => list.reduce((a, b) => a + b, 0);
console.log('load      rate        error of shares (points)     as many   within the interval of 997 Hz, its own   stacks of 997 Hz   sampler');
for (const load of ['periodic', 'steady'])
    for (const mode of Object.keys(MODES)) {
        const mine = rows.filter((r) => r.load === load && r.mode === mode), fixed = rows.filter((r) => r.load === load && r.mode === '997 Hz'), errors = mine.map((r) => 100 * r.mae);
        const taken = sum(mine.map((r) => r.stacks)) / sum(fixed.map((r) => r.stacks)), counted = (key) => `${sum(mine.map((r) => r[key]))} of ${sum(mine.map((r) => r.of))}`;
        console.log(`${load.padEnd(10)}${mode.padEnd(12)}${mean(errors).toFixed(3).padStart(8)} (${Math.min(...errors).toFixed(3)} to ${Math.max(...errors).toFixed(3)})${((100 * mean(fixed.map((r) => r.mae))) / Math.sqrt(taken)).toFixed(3).padStart(10)}${counted('within_fixed').padStart(20)}${counted('within_own').padStart(12)}${(100 * taken).toFixed(1).padStart(22)} %${mean(mine.map((r) => r.agent_percent)).toFixed(1).padStart(9)} %`);
    }
