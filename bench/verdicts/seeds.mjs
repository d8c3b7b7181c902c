// The benchmark of verdicts on several seeds, on an idle machine and beside programs that compute, in parts: what came of each
// part is appended to bench/results/verdicts.jsonl with the commit, and a part that is there for this commit is not run again.
//   node bench/verdicts/seeds.mjs [--seeds 41,42,43,44,45] [--busy 0,2,6] [--minutes 5] [--part 10] [--last 162] [--every 1] [--with COMMIT,...]
// --busy: how many programs compute beside it; a part begins once nothing else does, as the load says. --minutes: no part begins
// later than this; --minutes 0 prints the sums only. --every: of N scenarios one, another one with each seed, so that N
// seeds have them all. The sums of each state are printed, then those of each cause. --with: results of these commits, which say the same of a recording, count, too.
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { commit } from '../commit.mjs';
import { causeTable, sentence, summarise } from './score.mjs';

const here = path.dirname(fileURLToPath(import.meta.url)), root = path.join(here, '..', '..');
const { values: options } = parseArgs({ options: { seeds: { type: 'string', default: '41,42,43,44,45' }, busy: { type: 'string', default: '0,2,6' }, with: { type: 'string', default: '' }, minutes: { type: 'string', default: '5' }, part: { type: 'string', default: '10' }, last: { type: 'string', default: '162' }, every: { type: 'string', default: '1' } } });
const RESULTS = path.join(root, 'bench', 'results', 'verdicts.jsonl');
const numbers = (text) => text.split(',').map(Number), end = Date.now() + Number(options.minutes) * 60_000;

const known = () => (fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((line) => JSON.parse(line)) : []).filter((one) => one.commit === commit || options.with.split(',').includes(one.commit)).filter((one) => (one.every || 1) === Number(options.every));

function runPart(seed, busy, from, to) {
    const file = path.join(os.tmpdir(), `sonde-verdicts-${process.pid}.json`);
    const others = Array.from({ length: busy }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
    try {
        spawnSync(process.execPath, [path.join(here, 'run.mjs'), '--seed', seed, '--from', from, '--to', to, '--every', options.every, '--json', file].map(String), { stdio: ['ignore', 'ignore', 'inherit'] });
        if (!fs.existsSync(file)) throw new Error(`seed ${seed}, scenarios ${from} to ${to}: it did not end well`);
        const results = JSON.parse(fs.readFileSync(file)).results.map(({ number, failed, verdicts, alarms, far }) => ({ number, failed, far, verdicts: verdicts.map(({ cause, kind, place, time }) => ({ cause, kind, place, time })), alarms: alarms.map(({ title }) => title) }));
        fs.appendFileSync(RESULTS, JSON.stringify({ commit, seed, busy, from, to, every: Number(options.every), load: os.loadavg()[0], results }) + '\n');
    } finally {
        others.forEach((other) => other.kill('SIGKILL'));
        fs.rmSync(file, { force: true });
    }
}

// The load is a mean of the last minute or so: what ended before this still counts for a while.
async function becomesQuiet(busy) {
    while (os.loadavg()[0] >= busy + 2 && Date.now() < end) await sleep(5000);
    return Date.now() < end;
}

for (const busy of numbers(options.busy))
    for (const seed of numbers(options.seeds))
        for (let from = 1; from <= Number(options.last); from += Number(options.part)) {
            const to = Math.min(from + Number(options.part) - 1, Number(options.last));
            if (!known().some((one) => one.seed === seed && one.busy === busy && one.from === from && one.to === to) && (await becomesQuiet(busy))) runPart(seed, busy, from, to);
        }
const counted = [];
for (const busy of numbers(options.busy)) {
    const newest = new Map(known().filter((one) => one.busy === busy).map((one) => [`${one.seed} ${one.from}`, one]));
    const parts = [...newest.values()], results = parts.flatMap((one) => one.results).filter((one) => !one.failed);
    counted.push(...results);
    const seeds = [...new Set(parts.map((one) => one.seed))].join(', '), commits = [...new Set(parts.map((one) => one.commit))].join(', ');
    console.log(`${busy} busy programs: ${results.length ? `${sentence(summarise(results))} (seeds ${seeds}; ${commits})` : 'nothing yet'}`);
}
console.log(counted.length ? `\n${causeTable(counted)}` : '');
