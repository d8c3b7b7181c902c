#!/usr/bin/env node
// How long `sonde attach` takes to end after Ctrl-C beside busy loops, in a Node that serves requests, and whether its hooks
// are out then; beside another build of sonde, in turn in the same run, when there is one.
//   [SONDE_OTHER=/path/to/other/sonde] bench/leaving.mjs [ROUNDS [LOOPS]]    (30 rounds beside 5 loops; root)
// Each run appends a line to bench/results/leaving.jsonl.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { medianInterval, pause, spread, table } from './measure.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const builds = { this: process.env.SONDE || path.join(root, 'build', 'sonde') };
if (process.env.SONDE_OTHER) builds.other = process.env.SONDE_OTHER;
const rounds = Number(process.argv[2] || 30), loops = Number(process.argv[3] || 5), RECORDED_MS = 100;
if (process.getuid() !== 0) {
    console.error('leaving: needs root');
    process.exit(2);
}
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-')), children = [];

const SERVER = `const http = require('http');
const server = http.createServer((request, response) => {
    let sum = 0;
    for (let i = 0; i < 20000; i++) sum += Math.sqrt(i);
    response.end(String(sum));
});
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;
const CLIENT = `const http = require('http'), agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
const again = () => http.get({ port: process.argv[1], host: '127.0.0.1', agent }, (reply) => reply.resume().on('end', again));
for (let i = 0; i < 8; i++) again();
console.log('up');`;

function start(command, args) {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    return child;
}
const firstWords = (child) => new Promise((resolve) => child.stdout.once('data', (data) => resolve(String(data).trim())));

async function leave(build, pid, round) {
    const child = spawn(builds[build], ['attach', '-o', path.join(work, `${build}${round}`), String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
    const gone = new Promise((resolve) => child.once('exit', resolve)), silent = new Promise((resolve) => child.once('close', resolve));
    let said = '';
    const attached = new Promise((resolve) => child.stderr.on('data', (data) => /attached to \d+ process/.test((said += data)) && resolve()));
    await Promise.race([attached, gone]);
    if (child.exitCode !== null) throw new Error(`sonde ended: ${said}`);
    await pause(RECORDED_MS);
    const began = performance.now();
    child.kill('SIGINT');
    await gone;
    const ms = performance.now() - began;
    await silent;
    const stay = said.includes('its hooks stay in place');
    if (stay) spawnSync(builds[build], ['detach', String(pid)], { stdio: 'ignore' });
    return { ms, stay };
}

const results = Object.fromEntries(Object.keys(builds).map((build) => [build, []]));
try {
    const server = start(process.execPath, ['-e', SERVER]);
    await firstWords(start(process.execPath, ['-e', CLIENT, await firstWords(server)]));
    for (let i = 0; i < loops; i++) start('sh', ['-c', 'while :; do :; done']);
    for (let round = 0; round < rounds; round++)
        for (const build of Object.keys(builds)) results[build].push(await leave(build, server.pid, round));
} finally {
    for (const child of children) child.kill('SIGKILL');
    fs.rmSync(work, { recursive: true, force: true });
}
const line = { commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root }).toString().trim(), time: new Date().toISOString(), load: os.loadavg()[0], rounds, loops };
const rows = Object.entries(results).map(([build, ends]) => {
    const times = ends.map(({ ms }) => Math.round(ms)), { median, low, high } = medianInterval(times), { max } = spread(times), stay = ends.filter((end) => end.stay).length;
    line[build] = { median, low, high, max, stay };
    return [build, `${median} [${low}, ${high}]`, max, stay];
});
table(`From Ctrl-C to the end of sonde, ms, beside ${loops} busy loops (load average ${line.load.toFixed(1)}, ${rounds} rounds)`, ['build', 'median [95 %]', 'slowest', 'hooks stayed'], rows);
fs.appendFileSync(path.join(root, 'bench', 'results', 'leaving.jsonl'), `${JSON.stringify(line)}\n`);
