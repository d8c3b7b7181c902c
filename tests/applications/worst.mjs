// The worst request of each of these applications: is what `sonde spans` says of it what happened in it by the program's own book?
// Prints its critical path, to be read aloud, and appends what came of it to bench/results/worst-requests.jsonl, with the commit.
//   node tests/applications/worst.mjs [--only TEXT] [--busy N] [--times N] [--print]
// --busy N: N programs that compute run beside it; --print: the whole of what sonde shows of the request.
// It is right when it is the request that took longest by the program's book too, when each part of it that the book knows is in the
// path with its kind, its place and its time, and when what else is in the path is what the book leaves: all within 15 %, and what the
// loop's thread had no CPU for (`machine_ns` of a result; on a machine without others next to nothing).
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { commit } from '../../bench/commit.mjs';
import { root, SONDE } from '../system/helper.mjs';
import { missing, runApplication } from './harness.mjs';
import { ROWS } from './table.mjs';

const TOLERANCE = 0.15, LEAST_NS = 3e6; // shorter differences than that say nothing
const RUNS = 'runs', ANSWER = 'waits for an answer', FREE = 'waits for a free connection or worker', STORE = 'executes in the store', TIMER = 'waits for a timer or something unseen';
const parts = (request, name) => request.parts.filter((part) => part.name === name);
const sum = (request, name, field = (part) => part.to_ns - part.from_ns) => parts(request, name).reduce((all, part) => all + field(part), 0);
const computes = (name, at) => ({ whats: [RUNS], at, truth: (r) => sum(r, name), cpu: (r) => sum(r, name, (part) => part.cpu_ns) });
const answers = (name, at) => ({ whats: [ANSWER, 'on its way or queued'], at, truth: (r) => sum(r, name) });

// For each application and trouble what its worst request waited for. whats: kinds of steps; at: what name, service and place of the
// step say; truth: its time by the book, cpu: its time on a CPU.
const WORST = {
    'express readfile': [computes('readfile', /readFileSync.*express\.js/)],
    'express regexp': [computes('regexp', /regular expression.*express\.js/)],
    'fastify hash': [computes('hash', /pbkdf2Sync.*fastify\.js/)],
    'koa-piscina starved': [{ whats: [FREE], at: /worker/, truth: (r) => sum(r, 'task') - 100e6 }],
    'nest price': [computes('price', /app\.service\.ts/)],
    'esbuild list': [computes('list', /regular expression.*bundle\.ts/)],
    'pg starved': [{ whats: [FREE], at: /:PORT/, truth: (r) => sum(r, 'wait') }, answers('slowq', /:PORT/)],
    'pg rows': [answers('row', /:PORT/)],
    'mysql2 slow': [answers('slowq', /:PORT/)],
    'libsql statement': [computes('statement', /get of libsql.*libsql\.js/)],
    'ioredis keys': [{ whats: [STORE], at: /KEYS/, truth: (r) => sum(r, 'report') }],
    'axios sockets': [{ whats: [FREE], at: /:PORT/, truth: (r) => sum(r, 'price') - 100e6 }, { whats: [ANSWER], at: /:PORT/, truth: () => 100e6 }],
    'failing silent': [answers('price', /:PORT/)],
    'amqplib queue': [{ whats: ['on its way or queued'], at: /message to orders/, truth: (r) => sum(r, 'order') - 100e6 }, { whats: [TIMER], at: /amqplib/, truth: () => 100e6 }],
    'grpc slow': [{ whats: [TIMER], at: /grpc/, truth: () => 300e6 }],
    'yoga resolver': [computes('resolver', /yoga\.js/)],
};

const ms = (ns) => Math.round(ns / 1e6);
// machine_ns: for how long the loop's thread had no CPU; what came meanwhile may be told as either.
const near = (told, truth, machine_ns = 0) => Math.abs(told - truth) <= Math.max(truth * TOLERANCE, LEAST_NS) + machine_ns;
// What is wrong with what sonde says of the worst request; [] when it is right.
export function faultsOf(expected, told, own, port) {
    const wrong = [], steps = told.critical_path?.steps || [], taken = new Set();
    const worst = own.reduce((most, one) => (one.to_ns && (!most || one.to_ns - one.from_ns > most.to_ns - most.from_ns) ? one : most), null);
    const same = own.filter((one) => one.path.split('?')[0] === told.path && one.to_ns).map((one) => ({ one, off: Math.abs(one.to_ns - told.start_ns - told.latency_ns) })).sort((a, b) => a.off - b.off)[0];
    if (!worst || !same || same.off > 50e6) return [`the program knows no ${told.path} that ended then`];
    const took = (one) => one.to_ns - one.from_ns, own_ns = took(same.one);
    if (!near(own_ns, took(worst), told.threads[0]?.runnable_ns)) wrong.push(`the worst took ${ms(took(worst))} ms (${worst.path}), this one ${ms(own_ns)}`);
    const thread = told.threads.find((one) => one.role === 'event loop'), machine_ns = thread?.runnable_ns || 0;
    if (!near(told.latency_ns, own_ns, machine_ns)) wrong.push(`it took ${ms(own_ns)} ms, not ${ms(told.latency_ns)}`);
    let known_ns = 0;
    for (const { whats, at, truth, cpu } of expected) {
        const like = new RegExp(at.source.replace('PORT', port)), truth_ns = truth(same.one);
        const those = steps.filter((step) => whats.includes(step.what) && like.test([step.name, step.service, step.peer].filter(Boolean).join(' ')));
        const told_ns = those.reduce((all, step) => all + step.duration_ns, 0);
        those.forEach((step) => taken.add(step));
        known_ns += truth_ns;
        if (!near(told_ns, truth_ns, machine_ns)) wrong.push(`${whats[0]} (${like.source}) ${ms(told_ns)} ms, truly ${ms(truth_ns)}`);
        const running_ns = those.every((step) => step.running_ns !== undefined) && those.reduce((all, step) => all + step.running_ns, 0);
        if (cpu && running_ns && !near(running_ns, cpu(same.one))) wrong.push(`on a CPU for ${ms(running_ns)} ms, truly ${ms(cpu(same.one))}`);
    }
    const others_ns = steps.filter((step) => !taken.has(step)).reduce((all, step) => all + step.duration_ns, 0);
    if (!(Math.abs(others_ns - Math.max(own_ns - known_ns, 0)) <= Math.max(own_ns * TOLERANCE, LEAST_NS) + machine_ns)) wrong.push(`others ${ms(others_ns)} ms, truly ${ms(own_ns - known_ns)}`);
    return wrong;
}

const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' }, busy: { type: 'string', default: '0' }, times: { type: 'string', default: '1' }, print: { type: 'boolean' } } });
const RESULTS = path.join(root, 'bench', 'results', 'worst-requests.jsonl'), busy = Number(options.busy);
const others = Array.from({ length: busy }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
process.on('exit', () => others.forEach((other) => other.kill('SIGKILL')));

let right = 0, all = 0;
for (let time = 0; time < Number(options.times); time++)
    for (const [name, expected] of Object.entries(WORST)) {
        const row = ROWS.find((one) => `${one.application} ${one.trouble}` === name), why = missing(row);
        if (!name.includes(options.only)) continue;
        if (why) { console.log(`skipped  ${name}: ${why}`); continue; }
        const cleaners = [], t = { after: (f) => cleaners.unshift(f) };
        let wrong, words = '', shown = '', latency_ns = 0, machine_ns = 0;
        try {
            const { requests, out, store } = await runApplication(t, row, { single: true });
            const spans = (...how) => execFileSync(SONDE, ['spans', '--slowest', '1', ...how, out], { encoding: 'utf8', maxBuffer: 1 << 28 });
            const [told] = JSON.parse(spans('--json')).requests, text = spans('--lines', '40');
            latency_ns = told.latency_ns;
            machine_ns = told.threads[0]?.runnable_ns || 0;
            words = text.slice(text.indexOf('critical path:')).replace(/\n(?! {25})[^]*/, '').replace(/\n.*in that time its event loop[^]*/, '').replace(/\s+/g, ' ').trim();
            shown = options.print ? text : `${told.method} ${told.path}, ${(told.latency_ns / 1e6).toFixed(1)} ms: ${words}`;
            wrong = faultsOf(expected, told, requests, store.port);
        } catch (error) {
            wrong = [String(error.message)];
        }
        for (const clean of cleaners) await clean();
        all++, right += wrong.length ? 0 : 1;
        fs.appendFileSync(RESULTS, JSON.stringify({ name, commit, busy, load: Number(os.loadavg()[0].toFixed(1)), right: !wrong.length, wrong, latency_ns, machine_ns, words }) + '\n');
        console.log(`${wrong.length ? 'WRONG   ' : 'right   '} ${name}${wrong.length ? `: ${wrong.join('; ')}` : ''}\n${shown.replace(/^/gm, '            ')}`);
    }
console.log(`${right} right of ${all}`);
process.exitCode = right < all ? 1 : 0;
