// How right the steering of profiles is (src/steer), in simulations whose truth is known: false triggers in hours of steady load,
// changes seen in how many windows, slow drifts, how often stated intervals of 95 % hold. Half of the intervals' profiles are made,
// the other half replay samples of real processes: pass profiles of them that keep every sample, made for example by
//   sonde profile -F 997 -d 120 -o DIR/name.firefox.json --process NAME
// or those that node bench/steer-loads.mjs --record-only --keep DIR leaves in DIR.
// Resumable: each case appends one line to bench/results/steer.jsonl with the commit, and is not run again at the same commit.
//   node bench/steer.mjs [--quick] [--only 'PART OF A CASE'] [PROFILE.firefox.json...]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { quick: { type: 'boolean' }, only: { type: 'string', default: '' }, build: { type: 'string', default: path.join(root, 'build') } } });
const results = path.join(root, 'bench/results/steer.jsonl');
const git = (...args) => spawnSync('git', ['-C', root, ...args], { encoding: 'utf8' }).stdout.trim();
// The commit of what is measured: a change elsewhere makes no result old.
const commit = git('log', '-1', '--format=%h', '--', 'src/steer', 'src/profile', 'bench/steer_simulation.c') + (git('status', '--porcelain', '--', 'src/steer', 'src/profile', 'bench/steer_simulation.c') ? '+' : '');
execFileSync('ninja', ['-C', options.build, 'bench/steer_simulation'], { stdio: 'ignore' });
const program = path.join(options.build, 'bench/steer_simulation');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-steer-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));

// When a load of steer-loads.mjs did its work, by its truth beside the profile: how a program begins and ends (PyTorch takes 3.5 s of CPU time to
// end) is no part of the load that is replayed. Profiles of others are replayed as a whole.
function workOf(file, profileStart) {
    const truth = file.replace(/\.firefox\.json$/, '.truth');
    if (truth === file || !fs.existsSync(truth)) return [-Infinity, Infinity];
    const times = fs.readFileSync(truth, 'utf8').trim().split('\n').map((line) => Number(line.split(' ')[0]) - profileStart);
    return [times[0], times.at(-1)];
}

// The samples of a profile's busiest process by second and innermost function, as the simulation reads them.
function history(file) {
    const profile = JSON.parse(fs.readFileSync(file, 'utf8')), { stackTable, frameTable, funcTable, stringArray } = profile.shared;
    const byProcess = new Map();
    for (const thread of profile.threads) {
        const list = byProcess.get(thread.pid) ?? [];
        const times = thread.samples.time ?? thread.samples.timeDeltas.map(((sum) => (delta) => (sum += delta))(0));
        thread.samples.stack.forEach((stack, i) => stack !== null && list.push([times[i], stringArray[funcTable.name[frameTable.func[stackTable.frame[stack]]]]]));
        byProcess.set(thread.pid, list);
    }
    const [from, until] = workOf(file, profile.meta.startTime), samples = [...byProcess.values()].sort((a, b) => b.length - a.length)[0].filter(([time]) => time >= from && time <= until), start = samples.reduce((least, [t]) => Math.min(least, t), Infinity);
    const functions = new Map(), counts = new Map();
    for (const [time, name] of samples) {
        if (!functions.has(name)) functions.set(name, functions.size);
        const key = `${Math.floor((time - start) / 1000)} ${functions.get(name)}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const to = path.join(folder, `${path.basename(file)}.txt`);
    fs.writeFileSync(to, [...counts].map(([key, n]) => `${key} ${n}\n`).join(''));
    return to;
}

const q = options.quick ? 0.1 : 1, runs = (n) => Math.max(20, Math.round(n * q)), hours = Math.round(100 * q);
const loads = { independent: [], 'runs of 4': ['burst=4'], wandering: ['wander=0.1'], both: ['wander=0.1', 'burst=3'] };
const cases = [];
for (const [load, settings] of Object.entries(loads)) {
    for (const samples of [400, 2000, 20000]) cases.push({ what: 'false triggers in steady load', load, args: ['steady', `samples=${samples}`, `hours=${hours}`, ...settings] });
    cases.push({ what: 'false triggers, the rate follows', load, args: ['steady', `hours=${hours}`, ...settings] });
    cases.push({ what: 'intervals, made', load, args: ['coverage', `runs=${runs(1000)}`, ...settings] });
    cases.push({ what: 'a fifth more in 5 %', load, args: ['change', 'samples=20000', `runs=${runs(100)}`, ...settings] });
}
for (const preset of ['paper', 'paper-fine'])
    for (const load of ['independent', 'both']) {
        for (const samples of [100, 2000]) cases.push({ what: 'false triggers in steady load', load, args: ['steady', `preset=${preset}`, `samples=${samples}`, `hours=${hours}`, ...loads[load]] });
        cases.push({ what: 'a fifth more in 5 %', load, args: ['change', `preset=${preset}`, 'samples=20000', `runs=${runs(100)}`, ...loads[load]] });
        cases.push({ what: 'drift', load, args: ['change', `preset=${preset}`, 'samples=20000', 'drift=0.1', 'limit=1440', `runs=${runs(20)}`, ...loads[load]] });
    }
for (const samples of [2000, 6000, 12000, 50000]) cases.push({ what: 'a fifth more in 5 %', load: 'independent', args: ['change', `samples=${samples}`, `runs=${runs(100)}`] });
for (const [samples, drift] of [[20000, 0.1], [2000, 0.2]]) cases.push({ what: 'drift', load: 'independent', args: ['change', `samples=${samples}`, `drift=${drift}`, 'limit=1440', `runs=${runs(20)}`] });
for (const load of ['independent', 'runs of 4', 'both']) cases.push({ what: 'intervals when an error is reached', load, args: ['stopping', `runs=${runs(300)}`, 'limit=2000', ...loads[load]] });
for (const file of positionals) cases.push({ what: 'intervals, replayed', load: path.basename(file), args: ['coverage', `runs=${runs(1000)}`, `file=${history(file)}`] });

const known = fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
for (const { what, load, args } of cases.filter(({ what, load }) => `${what} ${load}`.includes(options.only))) {
    const settings = args.filter((a) => !a.startsWith('file=')).join(' ');
    let row = known.find((k) => k.commit === commit && k.what === what && k.load === load && k.settings === settings);
    if (!row) {
        const { seed, case: name, ...result } = JSON.parse(execFileSync(program, [args[0], '1', ...args.slice(1)], { encoding: 'utf8' }));
        row = { commit, what, load, settings, ...result };
        fs.appendFileSync(results, `${JSON.stringify(row)}\n`);
    }
    const says = row.coverage !== undefined ? `${(100 * row.coverage).toFixed(1)} % hold${row.mean_seconds ? `, ${row.mean_seconds.toFixed(0)} s` : ''}${row.bands ? ` (by share: ${row.bands.filter((b) => b.intervals).map((b) => `from ${100 * b.from} % ${(100 * b.coverage).toFixed(1)}`).join(', ')})` : ''}`
        : row.triggers !== undefined ? `${row.triggers} in ${row.hours} h (stated ${row.allowed_per_hour * row.hours}), ${row.mean_hz.toFixed(0)} Hz, dispersion ${row.dispersion}`
        : `${(100 * row.within_3).toFixed(0)} % within 3 windows, ${(100 * row.seen).toFixed(0)} % in all${row.seen ? `, after ${row.mean_windows} windows` : ''}, ${row.false_before} false before`;
    console.log(`${what.padEnd(36)} ${load.padEnd(12)} ${settings.padEnd(48)} ${says}`);
}
