// What tracing costs real services, traced against untraced in pairs that take turns: processor time per request
// of redis-server under redis-benchmark (one command at a time, and 16 in a pipeline) and of a Node HTTP service
// under wrk, with all hooks and without kernel events (bench/kernel.mjs has those), and of one that also reads
// files, resolves names and asks a Redis (mixed; mixed-kernel: with kernel events; mixed-5000: that at 5,000 requests
// a second, as the share of a processor); then the collector's processor time per million events, and the speed of
// `sonde report`. The service has processor 0, the load and sonde processor 1. Every pair starts new processes, so
// that the luck of one memory layout is averaged out.
//   node bench/overhead.mjs build/sonde [PAIRS [SCENE...]] [--context=MODE]    20 pairs; scenes redis, redis-p16, node, mixed, mixed-kernel, mixed-5000
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { cpuTime, freePort, has, pairedRatio, pause, pinned, spread, startRedis, table } from './measure.mjs';

const modes = process.argv.slice(2).filter((word) => word.startsWith('--context='));
const [sonde, pairs = '20', ...scenes] = process.argv.slice(2).filter((word) => !modes.includes(word));
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const here = path.dirname(new URL(import.meta.url).pathname);
// The papers' own figures for patched runtimes are the ceiling.
const GOALS = { redis: [1.02, 1.07], 'redis-p16': [1.05, 1.07], node: [1.03, 1.08], mixed: [1.05, 1.08], 'mixed-kernel': [1.05, 1.08] };
const POINTS = { 'mixed-5000': [5, 8] }; // of a processor

const collector = { cpuNs: [], events: [] };
let traces = 0, lastTrace;

// Starts a service on processor 0, under sonde on processor 1 when traced: { stop }.
function launch(traced, command, stdout, kernel = false, env = {}) {
    const service = pinned(0, ...command);
    let words = service;
    if (traced) {
        if (lastTrace) fs.rmSync(lastTrace, { recursive: true, force: true });
        lastTrace = path.join(work, `trace-${traces++}`);
        words = pinned(1, sonde, 'record', '--quiet', '--budget', '100,4096', ...modes, ...(kernel ? [] : ['--no-kernel']), '-o', lastTrace, '--', ...service);
    }
    const child = spawn(words[0], words.slice(1), { stdio: ['ignore', stdout, 'pipe'], env: { ...process.env, ...env } });
    let said = '';
    child.stderr.on('data', (part) => (said += part));
    const ended = new Promise((resolve) => child.on('exit', resolve));
    const trace = lastTrace;
    const stop = async (pid) => {
        process.kill(pid, 'SIGTERM');
        await ended;
        if (!traced) return;
        const manifest = JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8'));
        if (!manifest.processes.some((p) => p.events_written > 0)) throw new Error(`nothing was traced\n${said}`);
        for (const loss of manifest.losses) console.error(`lost: ${loss.count} events (${loss.reason}), the figures are too good`);
        collector.events.push(manifest.events);
        collector.cpuNs.push(manifest.collector_cpu_ns);
    };
    return { child, stop };
}

// A Redis: { pid, load, stop }; load(n) sends n SETs and n GETs and answers { requests, perSecond }.
async function redis(traced, pipeline) {
    const { pid, load, stop } = await startRedis((command) => launch(traced, command, 'ignore'), work);
    const measured = (n) => {
        const rates = [...load(n, '-P', pipeline).matchAll(/^"(?:SET|GET)","([\d.]+)"/gm)].map((match) => Number(match[1]));
        return { requests: 2 * n, perSecond: 2 / (1 / rates[0] + 1 / rates[1]) };
    };
    return { pid, load: measured, stop };
}

function answers(port) {
    return new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1', () => (socket.destroy(), resolve(true))).on('error', () => resolve(false));
    });
}

// The Redis of the mixed services: untraced, on the load's processor, one for all.
let store;
async function sharedRedis() {
    if (store) return store.port;
    const port = await freePort(), [command, ...args] = pinned(1, 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', work);
    store = { port, child: spawn(command, args, { stdio: 'ignore' }) };
    while (!(await answers(port))) await pause(50);
    return port;
}

async function nodeMixed(traced, kernel, perSecond) {
    return nodeHttp(traced, 'mixed-server.js', kernel, { REDIS_PORT: String(await sharedRedis()) }, perSecond);
}

// As fast as it answers, or perSecond requests a second over 10 connections.
function httpLoad(port, seconds, perSecond) {
    const url = `http://127.0.0.1:${port}/`;
    const words = perSecond ? ['h2load', '--h1', '-t', 1, '-c', 10, `--rps=${perSecond / 10}`, '-D', seconds, url] : ['wrk', '-t', 1, '-c', 32, '-d', `${seconds}s`, url];
    const [command, ...args] = pinned(1, ...words), said = execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    if (!perSecond) return { requests: Number(/(\d+) requests in/.exec(said)[1]), perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(said)[1]) };
    const requests = Number(/(\d+) succeeded/.exec(said)[1]);
    if (requests < 0.9 * perSecond * seconds) console.error(`only ${requests} requests in ${seconds} s, not ${perSecond} a second`);
    return { requests, perSecond: requests / seconds };
}

async function nodeHttp(traced, script = 'http-server.js', kernel = false, env = {}, perSecond = 0) {
    const { child, stop } = launch(traced, [process.execPath, path.join(here, script)], 'pipe', kernel, env);
    const [pid, port] = await new Promise((resolve, reject) => {
        child.stdout.on('data', (part) => /^\d+ \d+$/m.test(part) && resolve(/^(\d+) (\d+)$/m.exec(part).slice(1).map(Number)));
        child.on('exit', (status) => reject(new Error(`the service ended with ${status}`)));
    });
    const load = (seconds) => httpLoad(port, seconds, perSecond);
    return { pid, load, stop };
}

// Each scene: what it is, how a service is started, how much load a slice is, and how many slices a pair has.
const SCENES = {
    redis: { text: 'redis-server, GET and SET', launch: (traced) => redis(traced, 1), slice: 10_000, slices: 6 },
    'redis-p16': { text: 'the same, 16 in a pipeline', launch: (traced) => redis(traced, 16), slice: 100_000, slices: 6 },
    node: { text: 'Node HTTP service', launch: (traced) => nodeHttp(traced), slice: 1, slices: 4 },
    mixed: { text: 'the same with files, names, Redis', launch: (traced) => nodeMixed(traced, false), slice: 1, slices: 4 },
    'mixed-kernel': { text: 'the same with kernel events', launch: (traced) => nodeMixed(traced, true), slice: 1, slices: 4 },
    'mixed-5000': { text: 'the same at 5,000 requests/s', launch: (traced) => nodeMixed(traced, true, 5000), slice: 2, slices: 4, perSecond: 5000 },
};

// One pair: both services live side by side, and short slices of load take turns, so that what else the machine
// does falls on both alike. Answers { ns, perSecond } for each.
async function pair(scene, tracedFirst) {
    const [first, second] = [await scene.launch(tracedFirst), await scene.launch(!tracedFirst)];
    const sums = [first, second].map((service) => ({ service, ns: 0, requests: 0, seconds: 0 }));
    for (const { service } of [...sums, ...sums]) service.load(scene.slice); // warms up
    for (let i = 0; i < scene.slices; i++)
        for (const sum of i % 2 ? [...sums].reverse() : sums) {
            const before = cpuTime(sum.service.pid), { requests, perSecond } = sum.service.load(scene.slice);
            sum.ns += cpuTime(sum.service.pid) - before;
            sum.requests += requests;
            sum.seconds += requests / perSecond;
        }
    for (const { service } of sums) await service.stop(service.pid);
    const [a, b] = sums.map(({ ns, requests, seconds }) => ({ ns: ns / requests, perSecond: requests / seconds }));
    return tracedFirst ? { traced: a, bare: b } : { traced: b, bare: a };
}

async function compare(name) {
    const scene = SCENES[name], { text } = scene, bare = [], traced = [];
    for (let i = 0; i < Number(pairs); i++) {
        const both = await pair(scene, i % 2 === 1);
        traced.push(both.traced);
        bare.push(both.bare);
        process.stderr.write(`\r${name}: pair ${i + 1} of ${pairs} `);
    }
    process.stderr.write('\r\x1b[K');
    const cpu = pairedRatio(traced.map((x) => x.ns), bare.map((x) => x.ns));
    const rate = pairedRatio(traced.map((x) => x.perSecond), bare.map((x) => x.perSecond));
    const judge = (value, [goal, ceiling], unit = '') => `<= ${goal}${unit}: ${value <= goal ? 'met' : `missed, ${value <= ceiling ? 'below' : 'above'} the ceiling of ${ceiling}${unit}`}`;
    const points = spread(traced.map((x, i) => (x.ns * x.perSecond - bare[i].ns * bare[i].perSecond) / 1e7));
    const verdict = POINTS[name] ? `${points.median.toFixed(2)} (${points.min.toFixed(2)}..${points.max.toFixed(2)}) % of a processor ${judge(points.median, POINTS[name], ' %')}` : judge(cpu.upper, GOALS[name]);
    return [text, (spread(bare.map((x) => x.ns)).median / 1000).toFixed(2), (spread(traced.map((x) => x.ns)).median / 1000).toFixed(2), cpu.mean.toFixed(3),
        `${cpu.min.toFixed(3)}..${cpu.max.toFixed(3)}`, cpu.upper.toFixed(3), rate.mean.toFixed(3), verdict];
}

try {
    const rows = [];
    for (const name of scenes.length ? scenes : Object.keys(SCENES)) {
        if (!(name in SCENES)) throw new Error(`there is no scene '${name}'; there are ${Object.keys(SCENES).join(', ')}`);
        const client = SCENES[name].perSecond ? 'h2load' : name.startsWith('redis') ? 'redis-benchmark' : 'wrk';
        if (!has(client)) {
            console.log(`not measured: ${SCENES[name].text}, ${client} is not installed (tools/install-deps bench)`);
            continue;
        }
        rows.push(await compare(name));
    }
    table(`Traced against untraced, ${pairs} pairs`, ['', 'us untraced', 'us traced', 'CPU ratio', 'spread', 'upper 95 %', 'rate ratio', 'goal'], rows);
    const events = collector.events.reduce((a, b) => a + b, 0), cpu = collector.cpuNs.reduce((a, b) => a + b, 0);
    console.log(`\nThe collector: ${(cpu / events / 1000).toFixed(3)} s of processor time per million events (${(events / 1e6).toFixed(1)} million events, all runs)`);
    const { events: inTrace } = JSON.parse(fs.readFileSync(path.join(lastTrace, 'manifest.json'), 'utf8'));
    const seconds = Array.from({ length: 5 }, () => {
        const start = process.hrtime.bigint();
        execFileSync(sonde, ['report', '--json', lastTrace], { stdio: ['ignore', 'ignore', 'inherit'], maxBuffer: 1 << 30 });
        return Number(process.hrtime.bigint() - start) / 1e9;
    });
    const { median, min, max } = spread(seconds.map((s) => inTrace / s / 1e6));
    console.log(`sonde report: ${median.toFixed(2)} million events/s (${min.toFixed(2)} to ${max.toFixed(2)}, ${inTrace} events)`);
} finally {
    store?.child.kill('SIGKILL');
    fs.rmSync(work, { recursive: true, force: true });
}
