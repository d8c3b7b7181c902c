// What a call of a chosen function costs (`--function`), in ns: a function that does nothing, called through what a module
// exports, beside one that was not chosen and beside Node's own performance.timerify, in rounds that take turns.
//   node bench/functions.mjs build/sonde [ROUNDS]      3 recordings; SONDE_NODES=/path/to/node:... adds other versions
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [sonde, rounds = '3'] = process.argv.slice(2);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const server = path.join(path.dirname(new URL(import.meta.url).pathname), 'functions-server.js');
const list = (values, of) => {
    const sorted = values.map(of).sort((a, b) => a - b);
    return `${sorted[sorted.length >> 1].toFixed(0)} (${sorted[0].toFixed(0)} to ${sorted.at(-1).toFixed(0)})`;
};
try {
    for (const node of [process.execPath, ...(process.env.SONDE_NODES || '').split(':').filter(Boolean)]) {
        const runs = [];
        for (let i = 0; i < Number(rounds); i++) {
            const folder = path.join(work, `trace-${runs.length}-${i}`);
            const run = JSON.parse(execFileSync(sonde, ['record', '--quiet', '--no-kernel', '-o', folder, '--function', 'chosen', '--function', 'chosenAsync', '--', node, server], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
            const report = execFileSync(sonde, ['report', '--json', folder], { encoding: 'utf8', maxBuffer: 1 << 28 });
            const calls = JSON.parse(report).functions.map((f) => f.count);
            if (calls.length !== 2 || calls.some((count) => count < 50000)) throw new Error(`the calls were not seen: ${calls}`);
            runs.push(run);
            fs.rmSync(folder, { recursive: true });
        }
        console.log(`${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()}: ns more a call: chosen ${list(runs, (r) => r.chosen - r.other)}, timerify ${list(runs, (r) => r.timerified - r.other)}; ` +
            `a chosen async function that is awaited ${list(runs, (r) => r.chosenAsync - r.otherAsync)} (of ${list(runs, (r) => r.otherAsync)} without)`);
    }
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
