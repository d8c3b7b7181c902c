#!/usr/bin/env node
// How long it takes to attach to a process that runs, to many, and to start one under sonde; and how much memory the process
// with the rights has then: beside another build of sonde (one that reads programs' files with all rights, for example), in
// turn in the same run.
//   SONDE_OTHER=/path/to/other/sonde bench/attach_time.mjs [ROUNDS]    (12 rounds; root)
// Each run appends a line to bench/results/attach_time.jsonl.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, medianInterval } from './measure.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const builds = { this: process.env.SONDE || path.join(root, 'build', 'sonde'), other: process.env.SONDE_OTHER };
const rounds = Number(process.argv[2] || 12), MANY = 12;
if (!builds.other || process.getuid() !== 0) {
    console.error('attach_time: SONDE_OTHER names the build to compare with; as root');
    process.exit(2);
}
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-')), children = [];
let traces = 0;

// Starts a command; resolves with it and the time when it says something.
function start(command, args, stream, pattern) {
    const began = performance.now(), child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
    return new Promise((resolve, reject) => {
        let said = '';
        for (const name of ['stdout', 'stderr'])
            child[name].on('data', (part) => {
                said += part;
                if (name === stream && pattern.test(said)) resolve({ child, ms: performance.now() - began });
            });
        child.on('exit', () => reject(new Error(`${command} ended: ${said}`)));
    });
}

const residentKb = (pid) => Number(/RssAnon:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

async function ended(child) {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGINT');
    await gone;
}

async function attach(build, pids) {
    const { child, ms } = await start(builds[build], ['attach', '-o', path.join(work, `trace${traces++}`), ...pids], 'stderr', /attached to \d+ process/);
    const kb = residentKb(child.pid);
    await ended(child);
    return { ms, kb };
}

const NODE = ['-e', 'setInterval(() => {}, 1000); console.log("up")'];
const redisArguments = (port) => ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', work];

async function launch(build, command, args, pattern) {
    const { child, ms } = await start(builds[build], ['record', '-q', '-o', path.join(work, `trace${traces++}`), '--', command, ...args], 'stdout', pattern);
    const kb = residentKb(child.pid);
    await ended(child);
    return { ms, kb };
}

const results = {};
try {
    const redis = (await start('redis-server', redisArguments(await freePort()), 'stdout', /Ready to accept/)).child;
    children.push(redis);
    for (let i = 0; i < MANY; i++) children.push((await start(process.execPath, NODE, 'stdout', /up/)).child);
    const nodes = children.slice(1).map((child) => child.pid);
    const ways = {
        'a Redis': (build) => attach(build, [redis.pid]),
        'a Node': (build) => attach(build, nodes.slice(0, 1)),
        [`${MANY} Nodes`]: (build) => attach(build, nodes),
        'start of a Redis': async (build) => launch(build, 'redis-server', redisArguments(await freePort()), /Ready to accept/),
        'start of a Node': (build) => launch(build, process.execPath, NODE, /up/),
    };
    for (let round = 0; round < rounds; round++)
        for (const way of Object.keys(ways))
            for (const build of round % 2 ? ['this', 'other'] : ['other', 'this'])
                ((results[way] ??= {})[build] ??= []).push(await ways[way](build));
} finally {
    for (const child of children) child.kill('SIGKILL');
    fs.rmSync(work, { recursive: true, force: true });
}
const line = { commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root }).toString().trim(), time: new Date().toISOString(), load: os.loadavg()[0], rounds };
for (const way of Object.keys(results))
    for (const [what, unit] of [['ms', 'ms'], ['kb', 'KB of memory']]) {
        const text = ['this', 'other'].map((build) => {
            const { median, low, high } = medianInterval(results[way][build].map((r) => Math.round(r[what])));
            (line[`${way}, ${unit}`] ??= {})[build] = { median, low, high };
            return `${build} ${median} [${low}, ${high}]`;
        });
        console.log(`${way}: ${unit}, median [95 % interval]: ${text.join(', ')}`);
    }
fs.appendFileSync(path.join(root, 'bench', 'results', 'attach_time.jsonl'), `${JSON.stringify(line)}\n`);
