#!/usr/bin/env node
// What `sonde profile` costs the program that it watches, by event: nanoseconds of CPU time an operation, untraced and watched by turns, each as a
// median with its quartiles. Lines go to bench/results/event-price.jsonl.
//
//   node bench/event-price.mjs build/sonde [rounds [scenes]]
//
// SCENES: "connect,block"; all unless given.
//
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [binary = 'build/sonde', rounds = '9', scenes = ''] = process.argv.slice(2), sonde = path.resolve(binary);
const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'event-price-')), program = path.join(folder, 'event-price');
execFileSync('cc', ['-O2', '-pthread', '-o', program, path.join(here, 'event-price.c')]);
const SCENES = [
    { scene: 'alloc', count: 1_000_000, modes: { untraced: null, alloc: ['--event', 'alloc'] } },
    { scene: 'lock', count: 20_000, modes: { untraced: null, lock: ['--event', 'lock'] } },
    { scene: 'call', count: 200_000, modes: { untraced: null, uprobe: ['--event', `uprobe:${program}:called`, '--hit-limit', '100000000'], 'uprobe/1000': ['--event', `uprobe:${program}:called`, '--hit-limit', '100000000', '--every', '1000'] } },
    { scene: 'enter', count: 200_000, modes: { untraced: null, tracepoint: ['--event', 'syscalls:sys_enter_getppid', '--hit-limit', '100000000'], 'tracepoint/1000': ['--event', 'syscalls:sys_enter_getppid', '--hit-limit', '100000000', '--every', '1000'] } },
    { scene: 'connect', count: 20_000, modes: { untraced: null, connect: ['--event', 'connect', '--hit-limit', '100000000'], 'connect/1000': ['--event', 'connect', '--hit-limit', '100000000', '--every', '1000'] } },
    { scene: 'block', count: 10_000, modes: { untraced: null, block: ['--event', 'block', '--hit-limit', '100000000'], 'block/1000': ['--event', 'block', '--hit-limit', '100000000', '--every', '1000'] } },
    { scene: 'wait', count: 100_000, modes: { untraced: null, 'off-cpu': ['--event', 'off-cpu', '--off-cpu-min', '0'], wakers: ['--event', 'off-cpu', '--off-cpu-min', '0', '--wakers'], stacks: ['--event', 'off-cpu', '--off-cpu-min', '0', '--wakers=stacks'] } },
];

const line = (child, pattern) => new Promise((done, failed) => {
    let text = '';
    child.stdout.on('data', (data) => {
        text += data;
        const found = pattern.exec(text);
        if (found) done(found[0]);
    });
    child.on('exit', () => failed(new Error(`it ended: ${text}`)));
});
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function once({ scene, count }, options) {
    const child = spawn(program, [scene, String(count)], { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
    await line(child, /ready\n/);
    let watcher;
    if (options) {
        watcher = spawn(sonde, ['profile', '-q', ...options, '-o', path.join(folder, 'out.folded'), String(child.pid)], { stdio: ['ignore', 'ignore', 'ignore'] });
        await pause(1500); // it reads the program
    }
    const took = line(child, /^[\d.]+\n/m);
    child.stdin.write('\n');
    const ns = Number(await took);
    if (watcher) {
        const ended = new Promise((done) => watcher.on('exit', done));
        watcher.kill('SIGINT');
        await ended;
    }
    return ns;
}

const quantile = (list, q) => list.sort((a, b) => a - b)[Math.round(q * (list.length - 1))];
const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: here, encoding: 'utf8' }).stdout.trim();
for (const scene of SCENES.filter((s) => !scenes || scenes.split(',').includes(s.scene))) {
    const taken = Object.fromEntries(Object.keys(scene.modes).map((mode) => [mode, []]));
    for (let round = 0; round < Number(rounds); round++)
        for (const [mode, options] of Object.entries(scene.modes)) taken[mode].push(await once(scene, options));
    for (const [mode, list] of Object.entries(taken)) {
        const [low, median, high] = [0.25, 0.5, 0.75].map((q) => quantile(list, q));
        const result = { at: new Date().toISOString(), commit, load: os.loadavg()[0], scene: scene.scene, mode, rounds: list.length, ns: median, low, high, added_ns: median - quantile(taken.untraced, 0.5) };
        console.log(`${scene.scene.padEnd(6)} ${mode.padEnd(15)} ${median.toFixed(0).padStart(7)} ns of CPU an operation (${low.toFixed(0)} to ${high.toFixed(0)}), ${result.added_ns.toFixed(0)} added`);
        fs.appendFileSync(path.join(here, 'results/event-price.jsonl'), `${JSON.stringify(result)}\n`);
    }
}
fs.rmSync(folder, { recursive: true });
