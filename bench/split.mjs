#!/usr/bin/env node
// What it costs a recording that parsers are apart from rights: events a second that are kept, sonde's CPU time (its workers'
// included) and what is lost, beside those of another build of sonde (one before the workers, for example), in turn in the
// same run. A Redis has as much to do as it can, and a Node blocks now and again, so that stacks are looked into.
//   SONDE_OTHER=/path/to/other/sonde bench/split.mjs [ROUNDS]    (12 rounds of two times 6 s; root)
// Each run appends a line to bench/results/split.jsonl.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { medianInterval, pause, startRedis } from './measure.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..'), SECONDS = 5;
const builds = { this: process.env.SONDE || path.join(root, 'build', 'sonde'), other: process.env.SONDE_OTHER };
const rounds = Number(process.argv[2] || 12);
if (!builds.other || process.getuid() !== 0) {
    console.error('split: SONDE_OTHER names the build to compare with; as root');
    process.exit(2);
}
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-')), children = [];
const launch = ([command, ...args]) => {
    const child = spawn(command, args.map(String), { stdio: 'ignore' });
    children.push(child);
    return { child };
};
// Blocks for a third of a second, once a second.
const BLOCKS = 'setInterval(() => { for (const end = Date.now() + 330; Date.now() < end;); }, 1000)';

// A recording of so many seconds, during which the load goes on: what the manifest says of it.
async function record(build, redis, node) {
    const trace = path.join(folder, `trace-${build}`);
    fs.rmSync(trace, { recursive: true, force: true });
    const sonde = spawn(builds[build], ['attach', '-q', '-o', trace, '--budget', '100,100000', '--duration', SECONDS, redis.pid, node.pid].map(String), { stdio: ['ignore', 'ignore', 'inherit'] });
    const over = new Promise((resolve) => sonde.once('exit', resolve));
    const load = spawn('redis-benchmark', ['-p', redis.port, '-c', 20, '-P', 4, '-n', 1e9, '-t', 'set,get', '-q'].map(String), { stdio: 'ignore' });
    const status = await over;
    load.kill();
    if (![0, 4].includes(status)) throw new Error(`${builds[build]} ended with ${status}`);
    const { processes, overhead, losses } = JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8'));
    const events = processes.reduce((sum, p) => sum + p.events_written, 0);
    return { events: events / SECONDS, cpu: overhead.collector_cpu_ns / SECONDS / 1e7, event: overhead.collector_cpu_ns / events, lost: losses.reduce((sum, loss) => sum + loss.count, 0) / SECONDS, setup: overhead.setup_cpu_ns / 1e6 };
}

const UNITS = { events: 'events a second', cpu: '% of a CPU, sonde', event: 'ns of sonde an event', lost: 'events lost a second', setup: 'ms of CPU until it records' };
const results = { this: [], other: [] };
try {
    const redis = await startRedis(launch, folder), node = launch([process.execPath, '-e', BLOCKS]).child;
    await pause(500);
    for (let round = 0; round < rounds; round++)
        for (const build of round % 2 ? ['this', 'other'] : ['other', 'this']) results[build].push(await record(build, redis, node));
} finally {
    for (const child of children) child.kill();
    fs.rmSync(folder, { recursive: true, force: true });
}
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root }).toString().trim();
const line = { commit, time: new Date().toISOString(), load: os.loadavg()[0], rounds };
for (const [what, unit] of Object.entries(UNITS)) {
    const text = ['this', 'other'].map((build) => {
        const { median, low, high } = medianInterval(results[build].map((r) => r[what]));
        (line[unit] ??= {})[build] = { median, low, high };
        return `${build} ${median.toFixed(1)} [${low.toFixed(1)}, ${high.toFixed(1)}]`;
    });
    console.log(`${unit}, median [95 % interval]: ${text.join(', ')}`);
}
fs.appendFileSync(path.join(root, 'bench', 'results', 'split.jsonl'), `${JSON.stringify(line)}\n`);
