// Localisation on a public set of injected faults (OnlineBoutique of one day): unpacks it, pairs each fault with the
// minutes after it, and runs build/bench/localisation.
//   node bench/localisation.mjs build/bench/localisation [FOLDER]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const [, , program, given] = process.argv;
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const archive = path.join(process.env.SONDE_DATA || path.join(root, '../shared/data'), 'spans/nezha-onlineboutique.tar.zst');
let folder = given, unpacked;
if (!folder) {
    folder = unpacked = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
    execFileSync('tar', ['-C', folder, '--zstd', '-xf', archive]);
}
while (!fs.existsSync(path.join(folder, 'faulty'))) folder = path.join(folder, fs.readdirSync(folder)[0]);
const minute = (text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));
const lists = fs.readdirSync(folder).filter((name) => name.endsWith('fault_list.json'));
const faults = lists.flatMap((name) => Object.values(JSON.parse(fs.readFileSync(path.join(folder, name), 'utf8'))).flat());
const files = fs.readdirSync(path.join(folder, 'faulty')).sort();
const cases = [];
for (const fault of faults) {
    const at = minute(fault.inject_time.slice(11)), after = files.filter((name) => minute(name) > at && minute(name) <= at + 3);
    const within = after.length ? after : files.filter((name) => minute(name) === at);
    if (within.length) cases.push(`${fault.inject_pod.replace(/-[a-z0-9]+-[a-z0-9]{5}$/, '')}@${fault.inject_type}=${within.map((name) => path.join(folder, 'faulty', name)).join(',')}`);
}
console.log(`${faults.length} faults, ${cases.length} with spans of the minutes after it`);
const normal = fs.readdirSync(path.join(folder, 'normal')).map((name) => path.join(folder, 'normal', name)).join(',');
try {
    process.stdout.write(execFileSync(program, [normal, ...cases], { maxBuffer: 1 << 26 }));
} finally {
    if (unpacked) fs.rmSync(unpacked, { recursive: true, force: true });
}
