// Runs the applications and appends what came of each to bench/results/applications.jsonl, with the commit; what is there
// already for this commit is not run again.
//   node tests/applications/run.mjs [--only TEXT] [--again] [--busy N] [--node PROGRAM] [--attach] [--sample N]
// --busy N: N programs that compute run beside it; --node: which Node.js runs them; --attach: sonde comes when they run;
// --sample N: every N-th row.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { commit } from '../../bench/commit.mjs';
import { root } from '../system/helper.mjs';
import { judge, runApplication } from './harness.mjs';
import { missingStore } from './stores.mjs';
import { ROWS } from './table.mjs';

const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' }, again: { type: 'boolean' }, busy: { type: 'string', default: '0' }, node: { type: 'string', default: process.execPath }, attach: { type: 'boolean', default: false }, sample: { type: 'string', default: '1' } } });
const RESULTS = path.join(root, 'bench', 'results', 'applications.jsonl'), busy = Number(options.busy);
const version = execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim(), attach = options.attach;

const done = new Set(!options.again && !commit.endsWith('-dirty') && fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((line) => JSON.parse(line)).filter((r) => r.commit === commit && r.busy === busy && r.node === version && (r.attach || false) === attach).map((r) => r.name) : []);
const others = Array.from({ length: busy }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
process.on('exit', () => others.forEach((other) => other.kill('SIGKILL')));

let right = 0, wrong = 0;
for (const row of ROWS.filter((_, i) => i % Number(options.sample) === 0)) {
    const name = `${row.application} ${row.trouble}`, missing = missingStore(row.store);
    if (!name.includes(options.only)) continue;
    if (missing) { console.log(`skipped  ${name}: ${missing}`); continue; }
    if (done.has(name)) { right++; continue; }
    const cleaners = [], t = { after: (f) => cleaners.unshift(f) };
    let verdict;
    try {
        verdict = judge(row, await runApplication(t, row, { node: options.node, attach }));
    } catch (error) {
        verdict = { right: false, wrong: [String(error.message)], outline: '' };
    }
    for (const clean of cleaners) await clean();
    fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
    fs.appendFileSync(RESULTS, JSON.stringify({ name, commit, busy, node: version, attach, right: verdict.right, wrong: verdict.wrong }) + '\n');
    verdict.right ? right++ : wrong++;
    console.log(`${verdict.right ? 'right   ' : 'WRONG   '} ${name}${verdict.right ? '' : `: ${verdict.wrong.join('; ')}\n${verdict.outline.replace(/^/gm, '            ')}`}`);
}
console.log(`${right} right, ${wrong} wrong`);
process.exitCode = wrong ? 1 : 0;
