// How often `sonde diff` is right about profiles: one program built at several paths, the same or with one function made
// 5, 10 and 20 % dearer, sampled many times, every pair compared as pprof (which says how shares vary) and as folded text.
// Resumable: profiles stay in DIRECTORY, and a second call goes on where the first ended; the summary goes to bench/results/difference.jsonl, too.
//   node bench/difference.mjs [--sonde PATH] [--pairs N: half of them] [--rounds N] [--frequency HZ] [DIRECTORY]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: { sonde: { type: 'string', default: path.join(root, 'build/sonde') }, pairs: { type: 'string', default: '25' }, rounds: { type: 'string', default: '10000' }, frequency: { type: 'string', default: '19999' } },
});
const folder = path.resolve(positionals[0] ?? path.join(root, 'build/bench-difference'));
const pairs = Number(options.pairs), CHANGES = [0, 5, 10, 20];

function build(change) {
    const place = path.join(folder, `v${change}`, 'bin'), program = path.join(place, change % 2 ? 'worker-next' : 'worker');
    if (!fs.existsSync(program)) {
        fs.mkdirSync(place, { recursive: true });
        execFileSync('cc', ['-O2', '-g', `-DPLANTED=${change}`, '-o', program, path.join(root, 'bench/difference_target.c')]);
    }
    return program;
}

function profile(kind, number) {
    const file = path.join(folder, `${kind}-${number}.pb.gz`), folded = file.replace('.pb.gz', '.folded');
    if (!fs.existsSync(folded)) {
        const program = kind === 'base' ? build(0) : build(Number(kind.slice(1)));
        const r = spawnSync(options.sonde, ['profile', '-q', '-F', options.frequency, '-o', `${file}.part`, '-f', 'pprof', '--', program, options.rounds], { encoding: 'utf8' });
        if (r.status) throw new Error(r.stderr);
        fs.renameSync(`${file}.part`, file);
        execFileSync(options.sonde, ['profile', '-q', '--merge', '-o', folded, file]);
    }
    return { pprof: file, folded };
}

function judge(before, after, change, how) {
    const { functions } = JSON.parse(execFileSync(options.sonde, ['diff', '--json', '-n', '1000', before[how], after[how]], { encoding: 'utf8' }));
    const named = functions.filter((f) => ['slower', 'faster'].includes(f.verdict)), parse = functions.find((f) => f.function === 'parse');
    return {
        change, how, named: named.map((f) => `${f.function} ${f.verdict}`), verdict: parse.verdict, percent: parse.self.change_percent,
        low: parse.self.low_percent, high: parse.self.high_percent, inside: parse.self.low_percent <= change && change <= parse.self.high_percent,
    };
}

fs.mkdirSync(folder, { recursive: true });
const results = [];
for (let i = 0; i < pairs; i++) {
    for (const change of CHANGES) {
        const after = profile(`v${change}`, i);
        for (const before of [profile('base', i), profile('base', (i + 1) % pairs)]) // each profile is in two pairs
            for (const how of ['pprof', 'folded']) results.push(judge(before, after, change, how));
    }
    if (process.stderr.isTTY) process.stderr.write(`\r${i + 1} of ${pairs} `);
}
const commit = spawnSync('git', ['-C', root, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).stdout.trim();
const percent = (part, all) => `${((100 * part) / all).toFixed(1)} %`;
console.log(`${2 * pairs} pairs of each, ${options.frequency} Hz, ${options.rounds} rounds, commit ${commit}`);
console.log('planted  form    named  others named  interval holds it  median change  median width');
for (const how of ['pprof', 'folded'])
    for (const change of CHANGES) {
        const all = results.filter((r) => r.how === how && r.change === change), median = (f) => all.map(f).sort((a, b) => a - b)[all.length >> 1];
        const named = all.filter((r) => r.named.includes('parse slower')).length, others = all.filter((r) => r.named.some((n) => !(change && n === 'parse slower'))).length;
        const inside = all.filter((r) => r.inside).length, width = median((r) => r.high - r.low);
        fs.appendFileSync(path.join(root, 'bench/results/difference.jsonl'), `${JSON.stringify({ at: new Date().toISOString(), commit, load: os.loadavg()[0], planted: change, form: how, pairs: all.length, rounds: Number(options.rounds), frequency: Number(options.frequency), named, others, inside, change: median((r) => r.percent), width })}\n`);
        console.log(`${String(change).padStart(5)} %  ${how.padEnd(7)}${percent(named, all.length).padStart(6)}  ${percent(others, all.length).padStart(12)}  ${percent(inside, all.length).padStart(17)}  ${median((r) => r.percent).toFixed(1).padStart(11)} %  ${width.toFixed(1).padStart(10)} %`);
    }
