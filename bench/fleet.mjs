// Days of a simulated fleet (bench/fleet_simulation.c): precision and recall at 1.3 times with six hosts a side for each
// kind of day, false alarms of a year of 200 services that deploy daily, and the time to an alarm. Every day is a line of
// bench/results/fleet.jsonl with the commit, so that it can be stopped and goes on where it was.
//   node bench/fleet.mjs build/bench/fleet_simulation [detect|year|time|print] [DAYS] [EPOCH]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';

const [, , simulation, what = 'print', days = '10', epoch = '0'] = process.argv;
const here = path.dirname(new URL(import.meta.url).pathname), results = path.join(here, 'results', 'fleet.jsonl');
const git = (...args) => execFileSync('git', ['-C', here, ...args], { encoding: 'utf8' }).trim();
// COMMIT: what a program was built from that is not what lies here.
const commit = process.env.COMMIT || git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '../src') ? '+' : '');
// WITH=COMMIT,...: lines of these commits count, too, when what lies between them changed no judgement.
const counted = [commit, ...(process.env.WITH || '').split(',').filter(Boolean)];
const KINDS = ['plain', 'drift', 'mix', 'load', 'shared', 'canary', 'sequential', 'all'];
const read = () => (fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : []).filter((line) => counted.includes(line.commit));

// Seeds of an epoch are its own: what was looked at while tuning is not what is reported.
function run(kind, factor, timed) {
    const done = new Set(read().filter((l) => l.kind === kind && l.factor === factor && Boolean(l.time) === timed).map((l) => l.seed));
    for (let seed = Number(epoch) * 1e6 + 1; seed <= Number(epoch) * 1e6 + Number(days); seed++) {
        if (done.has(seed)) continue;
        const line = JSON.parse(execFileSync(simulation, [...(timed ? ['time'] : []), kind, String(seed), String(factor)], { encoding: 'utf8' }));
        fs.mkdirSync(path.dirname(results), { recursive: true });
        fs.appendFileSync(results, `${JSON.stringify({ commit, ...line })}\n`);
    }
}

if (what === 'detect') for (const kind of KINDS) run(kind, 1.3, false);
if (what === 'year') run('all', 1, false);
if (what === 'time') for (const factor of [1.3, 1.5, 2]) run('canary', factor, true);

const share = (n, of) => (of ? (n / of).toFixed(3) : '-');
const all = read();
for (const kind of KINDS)
    for (const factor of [...new Set(all.filter((l) => l.kind === kind && !l.time).map((l) => l.factor))]) {
        const lines = all.filter((l) => l.kind === kind && l.factor === factor && !l.time);
        const sum = (key) => lines.reduce((n, l) => n + l[key], 0);
        if (factor > 1) console.log(`${kind}, ${factor} times: ${lines.length} days, recall ${share(sum('found'), sum('slow'))}, precision ${share(sum('found'), sum('found') + sum('false'))} (${sum('false')} false), ${share(sum('cannot_tell'), lines.length * 200)} of the rollouts cannot be told`);
        else console.log(`${kind}, nothing slower: ${lines.length} days, ${sum('false')} false alarms, ${((7 * sum('false')) / lines.length).toFixed(2)} a week of 200 services; ${share(sum('cannot_tell'), lines.length * 200)} of the rollouts cannot be told`);
    }
for (const factor of [...new Set(all.filter((l) => l.time).map((l) => l.factor))]) {
    const minutes = all.filter((l) => l.time && l.factor === factor).flatMap((l) => l.minutes).sort((a, b) => a - b), found = minutes.filter((m) => m >= 0);
    console.log(`time to alarm, canaries, ${factor} times: ${found.length} of ${minutes.length} rollouts, after ${found[Math.floor(found.length / 2)]} minutes in the middle, ${found[Math.floor(found.length * 0.9)]} for nine of ten`);
}
