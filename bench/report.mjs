// Events per second of `sonde report`, with the whole analysis, against babeltrace2 only reading the same trace
// (its dummy sink), on one CPU. The trace is of the sample shop with all faults, at 400 requests a second.
//   node bench/report.mjs build/sonde [SECONDS]
// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { has, pinned, spread, table } from './measure.mjs';

const sonde = path.resolve(process.argv[2]), seconds = process.argv[3] || '20', RUNS = 7;
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const trace = path.join(folder, 'trace');

// Runs a command on one CPU: { seconds of CPU time, peak memory in MB, stdout }.
function measure(...command) {
    const [program, ...args] = pinned(1, '/usr/bin/env', 'bash', '-c',
        'TIMEFORMAT="%U %S"; time "$@"; status=$?; exit $(( status == 4 ? 0 : status ))', 'bash', ...command);
    const run = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (run.status !== 0) throw new Error(`${command.join(' ')}: status ${run.status}\n${run.stderr}`);
    const times = run.stderr.trim().split('\n').pop().split(' ').map(Number);
    return { cpu: times[0] + times[1], stdout: run.stdout };
}

try {
    const shop = path.join(root, 'examples/shop/shop.js');
    const recorded = spawnSync(sonde, ['record', '-q', '-o', trace, '--', process.execPath, shop, '--fault', 'all', '--duration', seconds, '--rate', '400'], { encoding: 'utf8' });
    if (![0, 4].includes(recorded.status)) throw new Error(recorded.stderr);
    const figures = { report: [], babeltrace2: [] };
    let document;
    for (let i = 0; i < RUNS; i++) { // interleaved
        const report = measure(sonde, 'report', '--json', trace);
        document = JSON.parse(report.stdout);
        figures.report.push(report.cpu);
        if (has('babeltrace2')) figures.babeltrace2.push(measure('babeltrace2', trace, '--component=sink.utils.dummy').cpu);
    }
    const events = document.overhead.events_count;
    const rows = [];
    for (const [name, label] of [['report', 'sonde report'], ['babeltrace2', 'babeltrace2, reading only']]) {
        if (!figures[name].length) continue;
        const rate = spread(figures[name].map((cpu) => events / cpu / 1e6));
        const ratio = figures.babeltrace2.length ? spread(figures.babeltrace2.map((cpu, i) => cpu / figures[name][i])) : null;
        rows.push([label, rate.median.toFixed(2), `${rate.min.toFixed(2)} to ${rate.max.toFixed(2)}`, ratio ? `${ratio.median.toFixed(1)}x` : '-', ratio ? `${ratio.min.toFixed(1)} to ${ratio.max.toFixed(1)}` : '-']);
    }
    table(`Analysing ${events} events of ${document.attribution.requests_count} requests, ${RUNS} interleaved runs, processor time`,
        ['', 'million events/s', 'spread', 'against babeltrace2', 'spread'], rows);
} finally {
    fs.rmSync(folder, { recursive: true, force: true });
}
