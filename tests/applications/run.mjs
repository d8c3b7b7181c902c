// Runs the applications and appends what came of each to bench/results/applications.jsonl, with the commit; what is there
// already for this commit is not run again.
//   node tests/applications/run.mjs [--only TEXT] [--again] [--busy N] [--node PROGRAM] [--attach] [--sample N] [--times N]
//   node tests/applications/run.mjs --report [COMMIT...]
// --busy N: N programs that compute run beside it; --node: which Node.js runs them; --attach: sonde comes when they run;
// --sample N: every N-th row; --times N: until there are N results of this commit for each row; the rows with the fewest come first, so
// that it can be ended and goes on at any time: `--only healthy --times 5` is 200 runs of healthy twins and more.
// --report: how often each row was right in the results of these commits (without any: of all), by version
// of Node, and what healthy twins were warned of.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { commit } from '../../bench/commit.mjs';
import { root } from '../system/helper.mjs';
import { judge, missing, runApplication } from './harness.mjs';
import { ROWS } from './table.mjs';

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { only: { type: 'string', default: '' }, again: { type: 'boolean' }, busy: { type: 'string', default: '0' }, node: { type: 'string', default: process.execPath }, attach: { type: 'boolean', default: false }, sample: { type: 'string', default: '1' }, times: { type: 'string', default: '1' }, report: { type: 'boolean' } } });
const RESULTS = path.join(root, 'bench', 'results', 'applications.jsonl'), busy = Number(options.busy);
const results = fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').trim().split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
const isHealthy = ({ name }) => name.endsWith(' healthy');

if (options.report) {
    const names = new Set(ROWS.map(({ application, trouble }) => `${application} ${trouble}`));
    const those = results.filter((r) => names.has(r.name) && (!positionals.length || positionals.includes(r.commit)) && r.name.includes(options.only));
    for (const version of [...new Set(those.map((r) => `${r.node}${r.attach ? ', attached to' : ''}`))].sort()) {
        const same = those.filter((r) => `${r.node}${r.attach ? ', attached to' : ''}` === version), healthy = same.filter(isHealthy), warned = healthy.filter((r) => !r.right), others = same.filter((r) => !isHealthy(r));
        console.log(`${version}: ${healthy.length} runs of ${new Set(healthy.map((r) => r.name)).size} healthy twins, ${warned.length} not right; ${others.length} runs of planted troubles, ${others.filter((r) => r.right).length} right`);
        for (const r of warned) console.log(`    ${r.commit}${r.load === undefined ? '' : `, load ${r.load}`}  ${r.name}: ${r.wrong.join('; ')}`);
    }
    process.exit(0);
}

const version = execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim(), attach = options.attach, times = Number(options.times);
const done = new Map();
if (!options.again && !commit.endsWith('-dirty'))
    for (const r of results.filter((one) => one.commit === commit && one.busy === busy && one.node === version && (one.attach || false) === attach)) done.set(r.name, (done.get(r.name) || 0) + 1);
const others = Array.from({ length: busy }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
others.forEach((other) => other.unref());
process.on('exit', () => others.forEach((other) => other.kill('SIGKILL')));

let right = 0, wrong = 0;
const rows = ROWS.filter((_, i) => i % Number(options.sample) === 0).map((row) => ({ row, name: `${row.application} ${row.trouble}` })).filter(({ name }) => name.includes(options.only));
for (let time = 1; time <= times; time++)
    for (const { row, name } of rows) {
        const why = missing(row);
        if (why) { if (time === 1) console.log(`skipped  ${name}: ${why}`); continue; }
        if ((done.get(name) || 0) >= time) { right++; continue; }
        const cleaners = [], t = { after: (f) => cleaners.unshift(f) };
        let verdict;
        try {
            verdict = judge(row, await runApplication(t, row, { node: options.node, attach }));
        } catch (error) {
            verdict = { right: false, wrong: [String(error.message)], outline: '' };
        }
        for (const clean of cleaners) await clean();
        fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
        fs.appendFileSync(RESULTS, JSON.stringify({ name, commit, busy, load: Number(os.loadavg()[0].toFixed(1)), node: version, attach, right: verdict.right, wrong: verdict.wrong }) + '\n');
        verdict.right ? right++ : wrong++;
        console.log(`${verdict.right ? 'right   ' : 'WRONG   '} ${name}${verdict.right ? '' : `: ${verdict.wrong.join('; ')}\n${verdict.outline.replace(/^/gm, '            ')}`}`);
    }
console.log(`${right} right, ${wrong} wrong`);
process.exitCode = wrong ? 1 : 0;
