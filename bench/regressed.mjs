// How well a function whose share of its service's CPU has grown is found, and how often one is found by chance
// (src/steer/regressed.h), in simulations: months without a change, and deployments that add half a per cent of the service's CPU to one function.
// Resumable: each case appends one line to bench/results/regressed.jsonl with the commit, and is not run again at the same commit.
//   node bench/regressed.mjs [--months N] [--deployments N]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: options } = parseArgs({ options: { months: { type: 'string', default: '8' }, deployments: { type: 'string', default: '120' }, build: { type: 'string', default: path.join(root, 'build') } } });
const results = path.join(root, 'bench/results/regressed.jsonl');
const git = (...args) => spawnSync('git', ['-C', root, ...args], { encoding: 'utf8' }).stdout.trim();
const measured = ['src/steer', 'src/diagnose/profile_difference.c', 'bench/regressed_simulation.c'];
const commit = git('log', '-1', '--format=%h', '--', ...measured) + (git('status', '--porcelain', '--', ...measured) ? '+' : '');
execFileSync('ninja', ['-C', options.build, 'bench/regressed_simulation'], { stdio: 'ignore' });
const program = path.join(options.build, 'bench/regressed_simulation');

// By chance from day to day, quarter to quarter of a day, slot of three hours to slot, relative; what comes again every day (swing) and week.
const loads = {
    'one CPU at 20 Hz': [],
    'a tenth of a CPU': ['samples=7200'],
    'shares vary by 3 % a day': ['day=0.03', 'quarter=0.03', 'slot=0.05'],
    'by 10 % a day': ['day=0.1', 'quarter=0.05', 'slot=0.1'],
    'twice as much by day as by night': ['swing=0.5', 'weekend=0.2'],
    'a function doubles for three hours, weekly': ['odd=1'],
};
const known = fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
for (const [load, settings] of Object.entries(loads)) {
    const args = [`months=${options.months}`, `deployments=${options.deployments}`, ...settings], said = args.join(' ');
    let row = known.find((k) => k.commit === commit && k.load === load && k.settings === said);
    if (!row) {
        const { seed, ...result } = JSON.parse(execFileSync(program, ['1', ...args], { encoding: 'utf8' }));
        row = { commit, load, settings: said, ...result };
        fs.appendFileSync(results, `${JSON.stringify(row)}\n`);
    }
    const small = row.bands.filter((b) => b.share_from < 0.05), sum = (of) => small.reduce((all, b) => all + b[of], 0);
    console.log(`${load.padEnd(44)} ${row.false_a_month.toFixed(2)} false a month; of ${row.deployments} deployments ${(100 * row.found_12h).toFixed(0)} % within 12 h, ${(100 * row.found_24h).toFixed(0)} % within a day, in functions below 5 % ${sum('found')} of ${sum('deployments')}; ${(100 * row.coverage).toFixed(1)} % of ${row.intervals} intervals hold`);
}
