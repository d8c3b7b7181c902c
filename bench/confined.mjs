#!/usr/bin/env node
// What it costs that `sonde profile` gives its rights up before it reads other processes: its CPU time and the time to the
// first stack, beside those of another build of sonde (one before that change, for example), in turn in the same run.
//   SONDE_OTHER=/path/to/other/sonde bench/confined.mjs [ROUNDS]    (12 rounds of 3 s each; root)
// Each run appends a line to bench/results/confined.jsonl.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { medianInterval } from './measure.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const builds = { this: process.env.SONDE || path.join(root, 'build', 'sonde'), other: process.env.SONDE_OTHER };
const rounds = Number(process.argv[2] || 12);
if (!builds.other || process.getuid() !== 0) {
    console.error('confined: SONDE_OTHER names the build to compare with; as root');
    process.exit(2);
}
const WAYS = { 'a Node': (pid) => [pid], 'the whole machine': () => ['--all'] };
const load = spawn(process.execPath, ['-e', 'setInterval(() => { for (let i = 0; i < 2e6; i++); }, 5)'], { stdio: 'ignore' });
const out = path.join(os.tmpdir(), `sonde-confined-${process.pid}.folded`);
const results = {};
try {
    for (let round = 0; round < rounds; round++)
        for (const way of Object.keys(WAYS))
            for (const build of round % 2 ? ['this', 'other'] : ['other', 'this']) {
                const { stderr } = spawnSync(builds[build], ['profile', '-F', '997', '-d', '3', '-o', out, ...WAYS[way](String(load.pid))], { encoding: 'utf8' });
                const [, cpu] = /agent ([\d.]+) % CPU/.exec(stderr) ?? [], [, first] = /first stack after (\d+) ms/.exec(stderr) ?? [];
                if (!cpu || !first) throw new Error(`sonde profile said: ${stderr}`);
                ((results[way] ??= {})[build] ??= []).push({ cpu: Number(cpu), first_ms: Number(first) });
            }
} finally {
    load.kill();
    fs.rmSync(out, { force: true });
}
const line = { commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root }).toString().trim(), time: new Date().toISOString(), load: os.loadavg()[0], rounds };
for (const way of Object.keys(WAYS))
    for (const [what, unit] of [['cpu', '% of a CPU'], ['first_ms', 'ms to the first stack']]) {
        const text = ['this', 'other'].map((build) => {
            const { median, low, high } = medianInterval(results[way][build].map((r) => r[what]));
            (line[`${way}, ${unit}`] ??= {})[build] = { median, low, high };
            return `${build} ${median} [${low}, ${high}]`;
        });
        console.log(`${way}: ${unit}, median [95 % interval]: ${text.join(', ')}`);
    }
fs.appendFileSync(path.join(root, 'bench', 'results', 'confined.jsonl'), `${JSON.stringify(line)}\n`);
