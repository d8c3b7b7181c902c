// The scenarios of tests/system/rollouts.mjs over many seeds: how many are judged rightly.
//   node bench/rollouts.mjs build/sonde [SEEDS [FIRST-SEED [TEXT]]]     only scenarios whose name contains TEXT
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { SCENARIOS, judgeAnswer, makeRollout } from '../tests/system/rollouts.mjs';

const [, , sonde, seeds = '3', first = '1', text = ''] = process.argv;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-rollouts-'));
let right = 0, all = 0;
try {
    for (const name of Object.keys(SCENARIOS).filter((n) => n.includes(text))) {
        const wrong = [];
        for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
            const file = path.join(scratch, 'spans.jsonl'), rollout = makeRollout(name, seed, file);
            const { status, stdout, stderr } = spawnSync(sonde, ['diagnose', '--json', '--gate', ...rollout.args, file], { encoding: 'utf8', maxBuffer: 1 << 28 });
            let report = {};
            try { report = JSON.parse(stdout); } catch { /* said below */ }
            const mistakes = stdout ? judgeAnswer(rollout, status, report) : [`no answer: ${stderr}`];
            if (process.env.KEEP && mistakes.length) fs.copyFileSync(file, `/tmp/rollout-${name.replace(/\W+/g, '-')}-${seed}.jsonl`);
            if (mistakes.length) wrong.push(`seed ${seed}: ${mistakes.join('; ')}`);
            else right++;
            all++;
        }
        console.log(`${wrong.length ? `${seeds - wrong.length} of ${seeds}` : 'right '}  ${name}`);
        for (const words of wrong) console.log(`          ${words}`);
    }
    console.log(`${right} of ${all} rollouts judged rightly`);
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
process.exitCode = right === all ? 0 : 1;
