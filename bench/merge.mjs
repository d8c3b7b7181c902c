// Merging folded text and pprof files: sonde against go tool pprof and (when it is there) flamegraph.pl's collapser.
//   node bench/merge.mjs SONDE [MEGABYTES] [RUNS]
// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [sonde, megabytes = '400', runs = '5'] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const have = (p) => spawnSync('sh', ['-c', `command -v ${p}`]).status === 0;
const median = (l) => [...l].sort((a, b) => a - b)[l.length >> 1];

// Distinct stacks of 20 to 40 frames, drawn with a skew, as a day of one service's instances would be.
let seed = 7;
const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
const stacks = Array.from({ length: 20000 }, () => Array.from({ length: 20 + Math.floor(random() * 20) }, (_, d) => `com.example.service.layer${d}.Function${Math.floor(random() * 6)}.call`).join(';'));
const folded = path.join(folder, 'all.folded'), out = fs.openSync(folded, 'w');
let bytes = 0, lines = 0;
while (bytes < Number(megabytes) * 1e6) {
    let block = '';
    for (let i = 0; i < 2000; i++, lines++) block += stacks[Math.floor(stacks.length * random() ** 3)] + ' ' + (1 + Math.floor(random() * 99)) + '\n';
    bytes += fs.writeSync(out, block);
}
fs.closeSync(out);
const parts = 50, files = [];
for (let i = 0; i < parts; i++) {
    const text = Array.from({ length: 6000 }, () => stacks[Math.floor(stacks.length * random() ** 2)] + ' 10').join('\n') + '\n';
    fs.writeFileSync(path.join(folder, `p${i}.folded`), text);
    spawnSync(sonde, ['profile', '--merge', '-o', path.join(folder, `p${i}.pb.gz`), path.join(folder, `p${i}.folded`)]);
    files.push(path.join(folder, `p${i}.pb.gz`));
}
function time(command, args) {
    const l = [];
    for (let i = 0; i < Number(runs); i++) {
        const r = spawnSync('/usr/bin/env', ['bash', '-c', `TIMEFORMAT='%U %S'; time "$@" >/dev/null 2>&1`, 'x', command, ...args], { encoding: 'utf8', env: { ...process.env, HOME: folder } });
        const [u, s] = r.stderr.trim().split('\n').pop().split(' ').map(Number);
        l.push(u + s);
    }
    return l;
}
const show = (name, l, amount, unit) => console.log(`${name}: ${(amount / median(l)).toFixed(2)} ${unit} (CPU ${median(l).toFixed(2)} s, ${Math.min(...l).toFixed(2)}..${Math.max(...l).toFixed(2)})`);
show(`sonde, folded text of ${(bytes / 1e6).toFixed(0)} MB, ${lines} lines`, time(sonde, ['profile', '--merge', '-o', path.join(folder, 'o.folded'), folded]), bytes / 1e9, 'GB/s');
show(`sonde, ${parts} pprof files of 6000 stacks`, time(sonde, ['profile', '--merge', '-o', path.join(folder, 'o.pb.gz'), ...files]), parts * 6000 / 1e6, 'million stacks/s');
if (have('go')) show('go tool pprof -proto, the same files', time('go', ['tool', 'pprof', '-proto', '-output=' + path.join(folder, 'g.pb.gz'), ...files]), parts * 6000 / 1e6, 'million stacks/s');
fs.rmSync(folder, { recursive: true });
