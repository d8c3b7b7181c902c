// Localisation on public traces that nothing was tuned on (SONDE_DATA): half of a set's traces are the normal period; in
// the other half one service is slowed down, each in turn. Which rank does it get, beside two simple rules?
//   node bench/localisation-planted.mjs build/sonde
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { files, publicSpans, slowDown } from '../tests/system/spans.mjs';

const [, , sonde] = process.argv;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const RANKINGS = { sonde: 'score', 'rule: largest growth of the mean own time': 'rule_mean_own_ns', 'rule: largest p95 ratio of an operation': 'rule_p95_ratio' };
const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8')).data[0];

function fill(folder, traces) {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(folder);
    traces.forEach((trace, i) => fs.writeFileSync(path.join(folder, `${i}.json`), JSON.stringify({ data: [trace] })));
}

try {
    for (const factor of [1.5, 3]) {
        const hits = Object.fromEntries(Object.keys(RANKINGS).map((name) => [name, [0, 0, 0]]));
        let faults = 0;
        for (const set of ['hotel_load25', 'hotel_load150', 'media_load50', 'node_0', 'node_0.8']) {
            const folder = publicSpans(`traceweaver-${set}`, fs.mkdtempSync(path.join(scratch, 'set-')));
            if (!folder) { console.log(`${set}: not here (SONDE_DATA)`); continue; }
            const all = files(folder, '.json').sort(), normal = path.join(scratch, 'normal'), faulty = path.join(scratch, 'faulty');
            const services = new Set(all.flatMap((file) => Object.values(read(file).processes).map((p) => p.serviceName)));
            fill(normal, all.filter((_, i) => i % 2 === 0).map(read));
            for (const service of services) {
                const traces = all.filter((_, i) => i % 2).map(read);
                for (const { spans, processes } of traces) slowDown(spans, (s) => processes[s.processID].serviceName === service, factor);
                fill(faulty, traces);
                const { suspects } = JSON.parse(execFileSync(sonde, ['diagnose', '--json', '--normal', normal, faulty], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] }));
                faults++;
                for (const [name, key] of Object.entries(RANKINGS)) {
                    const own = suspects.find((s) => s.service === service)?.[key] ?? -Infinity;
                    const better = suspects.filter((s) => s.service !== service && s[key] >= own).length; // ties count against it
                    [1, 3, 5].forEach((places, i) => (hits[name][i] += better < places));
                }
            }
        }
        console.log(`${faults} slow-downs of ${factor} times`);
        for (const [name, counts] of Object.entries(hits))
            console.log(`  ${name.padEnd(44)} ${counts.map((n, i) => `${['first', 'in three', 'in five'][i]} ${((100 * n) / faults).toFixed(1).padStart(5)} %`).join('  ')}`);
    }
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
