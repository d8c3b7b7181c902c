// How fast recordings of Redis are analysed, and in how much memory, against their size (the figure of analysis time against the
// size of the trace in the Redis microservices paper, IV-C3). `sonde redis`, with --netflow too, and `sonde report` on one CPU; babeltrace2, only
// reading, beside them on the smallest. Each measurement appends a line to bench/results/redis-analysis.jsonl.
//   node bench/redis-analysis.mjs curve [MILLIONS...]    one server, GET and SET over 50 connections in pipelines of 16:
//                                                        about so many million events (1 2 4 8 20)
//   node bench/redis-analysis.mjs large [MILLIONS [CONNECTIONS]]  six nodes of a cluster, all linked to all (60 links), with
//                                                        so many connections, in one recording (100, 10000)
//   node bench/redis-analysis.mjs plot FILE.svg          the newest curve, from the results
// KEEP=DIR keeps the recordings below DIR, and reads those that are there instead of making them.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { commit } from './commit.mjs';
import { freePort, has, pause, pinned, spread, startRedis, table } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-analysis.jsonl');
const RUNS = 3, NODES = 6, LATE_MS = 120_000, EVENTS_A_COMMAND = 1.3;
const [part = 'curve', ...numbers] = process.argv.slice(2);
const work = process.env.KEEP ? path.resolve(process.env.KEEP) : fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-redis-analysis-'));
fs.mkdirSync(work, { recursive: true });

const running = new Set();
const endAll = () => { for (const child of running) child.kill('SIGKILL'); };
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { endAll(); process.exit(1); });
function run(command, ...args) {
    const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said = (child.said + data).slice(-10_000); });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', (status) => { running.delete(child); child.over = true; resolve(status); }));
    return child;
}
async function eventually(what, condition) {
    for (const end = Date.now() + LATE_MS; !condition(); await pause(50)) if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
}
const cli = (port, ...args) => { try { return execFileSync('redis-cli', ['-p', port, ...args].map(String), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 60_000 }); } catch { return ''; } };
const manifest = (folder) => JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
const lostOf = (folder) => (manifest(folder).losses || []).reduce((sum, { count }) => sum + count, 0);

// A command that records; what it launches is ended by SIGTERM.
async function recorded(folder, use) {
    if (fs.existsSync(path.join(folder, 'manifest.json'))) return;
    let recorder;
    const launch = (command) => ({ recorder: (recorder = run(...pinned(1, SONDE, 'run', '--quiet', '--no-kernel', '--budget', '100,2048', '-o', folder, '--', ...command))) });
    await use(launch);
    const status = await recorder.ended;
    if (![0, 4].includes(status)) throw new Error(`sonde ended with ${status}: ${recorder.said}`);
}

// ---- what reading them takes ----

// CPU time, peak memory and output of a command on CPU 1.
const RUSAGE = 'import resource, subprocess, sys\nstatus = subprocess.call(sys.argv[1:])\nused = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, file=sys.stderr)\nsys.exit(0 if status == 4 else status)';
function measure(...words) {
    const [command, ...args] = pinned(1, 'python3', '-c', RUSAGE, ...words);
    const done = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (done.status !== 0) throw new Error(`${words.join(' ')}: status ${done.status}\n${done.stderr}`);
    const [seconds, memory_bytes] = done.stderr.trim().split('\n').pop().split(' ').map(Number);
    return { seconds, memory_bytes, stdout: done.stdout };
}

function analysed(folder, runs, ...words) {
    const all = Array.from({ length: runs }, () => measure(SONDE, ...words, '--json', folder));
    return { seconds: spread(all.map(({ seconds }) => seconds)), memory_bytes: Math.max(...all.map(({ memory_bytes }) => memory_bytes)), document: JSON.parse(all[0].stdout) };
}

function note(folder, fields, runs) {
    const { events } = manifest(folder), trace_bytes = Number(execFileSync('du', ['-sb', path.join(folder, 'ctf')], { encoding: 'utf8' }).split('\t')[0]);
    const redis = analysed(folder, runs, 'redis'), report = analysed(folder, runs, 'report'), netflow = analysed(folder, runs, 'redis', '--netflow'), { servers } = redis.document;
    const line = { commit, time: new Date().toISOString(), ...fields, events, trace_bytes, lost: lostOf(folder), commands: servers.reduce((sum, s) => sum + s.commands_count, 0), clients: servers.reduce((sum, s) => sum + s.connections_count, 0), runs };
    for (const [name, { seconds, memory_bytes }] of Object.entries({ redis, report, netflow })) Object.assign(line, { [`${name}_s`]: seconds, [`${name}_events_per_s`]: Math.round(events / seconds.median), [`${name}_memory_bytes`]: memory_bytes });
    if (has('babeltrace2') && events < 3e6) line.babeltrace2_s = measure('babeltrace2', folder, '--component=sink.utils.dummy').seconds;
    line.machine_load = os.loadavg()[0];
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    return line;
}

const millions = (n) => (n / 1e6).toFixed(2);
function show(lines) {
    table('sonde redis and sonde report on one CPU, against the size of the recording', ['events', 'MB', 'redis s', 'million/s', 'MB', 'report s', 'million/s', 'MB', 'netflow million/s', 'MB', 'babeltrace2 million/s', 'lost'],
        lines.map((l) => [millions(l.events), (l.trace_bytes / 1e6).toFixed(0), l.redis_s.median.toFixed(2), millions(l.redis_events_per_s), (l.redis_memory_bytes / 1e6).toFixed(0), l.report_s.median.toFixed(2), millions(l.report_events_per_s), (l.report_memory_bytes / 1e6).toFixed(0), millions(l.netflow_events_per_s), (l.netflow_memory_bytes / 1e6).toFixed(0), l.babeltrace2_s ? millions(l.events / l.babeltrace2_s) : '-', l.lost]));
}

// ---- the recordings ----

async function curve(sizes) {
    const lines = [];
    for (const size of sizes) {
        const folder = path.join(work, `curve-${size}`);
        await recorded(folder, async (launch) => {
            const { port, load } = await startRedisOf(launch);
            load(Math.round(size * 1e6 / EVENTS_A_COMMAND / 2), '-P', 16);
            cli(port, 'shutdown', 'nosave');
        });
        lines.push(note(folder, { part: 'curve', millions: size }, RUNS));
    }
    show(lines);
}
async function startRedisOf(launch) {
    const server = await startRedis(launch, work);
    const [port] = /:(\d+)/.exec(execFileSync('sh', ['-c', `ss -Hltnp | grep pid=${server.pid},`], { encoding: 'utf8' })).slice(1);
    return { ...server, port };
}

// All nodes are children of one shell, so that they are in one recording.
async function large(size, connections) {
    const folder = path.join(work, `large-${size}-${connections}`);
    await recorded(folder, async (launch) => {
        const ports = [];
        while (ports.length < NODES) ports.push(await freePort().then((port) => (port < 50_000 && !ports.includes(port) ? port : null)).then((port) => port ?? 20_000 + Math.floor(Math.random() * 20_000)));
        const start = ports.map((port, n) => { fs.mkdirSync(path.join(work, `data-${n}`), { recursive: true }); return `redis-server --port ${port} --bind 127.0.0.1 --save '' --maxclients 12000 --dir '${path.join(work, `data-${n}`)}' --cluster-enabled yes --cluster-config-file nodes-${port}.conf &`; });
        launch(['sh', '-c', `ulimit -n 16384; ${start.join(' ')} wait`]);
        for (const port of ports) await eventually('the nodes answer', () => cli(port, 'ping').includes('PONG'));
        for (const [n, port] of ports.entries()) {
            cli(port, 'cluster', 'addslotsrange', Math.floor((n * 16384) / NODES), Math.floor(((n + 1) * 16384) / NODES) - 1);
            if (n) cli(ports[0], 'cluster', 'meet', '127.0.0.1', port);
        }
        for (const port of ports) await eventually('the cluster is complete', () => cli(port, 'cluster', 'info').includes('cluster_state:ok') && cli(port, 'cluster', 'links').split('direction').length - 1 === 2 * (NODES - 1));
        const each = Math.floor(connections / NODES), commands = Math.round(size * 1e6 / EVENTS_A_COMMAND / NODES / 2);
        const benchmark = (port, ...args) => run('sh', '-c', 'ulimit -n 16384; exec "$@"', 'sh', ...pinned(0, 'redis-benchmark', '-p', port, '-q', ...args));
        // Each with keys of its own slots: PING needs none, and LPUSH, GET and SET have one key a node.
        const keys = ports.map((port) => { for (let i = 0; ; i++) if (cli(port, 'get', `key{${i}}`).trim() === '') return `key{${i}}`; });
        for (const name of ['get', 'set']) {
            const loads = ports.map((port, n) => benchmark(port, '-c', each, '-P', 16, '-n', commands, ...(name === 'get' ? ['get', keys[n]] : ['set', keys[n], 'value of some length'])));
            loads.push(benchmark(ports[0], '-c', 4, '-n', 20_000, 'publish', 'channel', 'message'));
            await Promise.all(loads.map(({ ended }) => ended));
        }
        for (const port of ports) cli(port, 'shutdown', 'nosave');
    });
    show([note(folder, { part: 'large', millions: size, connections, links: NODES * (NODES - 1) * 2 }, 1)]);
}

// ---- the plot ----

function svg(points) {
    const W = 640, H = 320, left = 60, right = 60, top = 40, bottom = 50;
    const most = Math.max(...points.map((p) => p.trace_bytes)), seconds = Math.ceil(Math.max(...points.map((p) => p.report_s.max))), memory = Math.ceil((Math.max(...points.map((p) => p.report_memory_bytes)) / 1e6) * 1.5 / 10) * 10;
    const x = (p) => left + (p.trace_bytes / most) * (W - left - right), y = (share) => H - bottom - share * (H - top - bottom);
    const line = (f, colour) => `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.map((p) => `${x(p).toFixed(1)},${y(f(p)).toFixed(1)}`).join(' ')}"/>` + points.map((p) => `<circle cx="${x(p).toFixed(1)}" cy="${y(f(p)).toFixed(1)}" r="3.5" fill="${colour}"/>`).join('');
    const text = (a, b, words, anchor = 'middle', colour = '#444') => `<text x="${a}" y="${b}" text-anchor="${anchor}" fill="${colour}">${words}</text>`;
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((t) => `<line x1="${left}" x2="${W - right}" y1="${y(t)}" y2="${y(t)}" stroke="#ddd"/>` + text(left - 8, y(t) + 4, (seconds * t).toFixed(1), 'end') + text(W - right + 8, y(t) + 4, (memory * t).toFixed(0), 'start', '#2a8a3e')).join('');
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${W} ${H}" font-family="sans-serif" font-size="12">
<rect width="${W}" height="${H}" fill="white"/>
${ticks}
${line((p) => p.redis_s.median / seconds, '#1f6fb4')}
${line((p) => p.report_s.median / seconds, '#c2571a')}
${line((p) => p.report_memory_bytes / 1e6 / memory, '#2a8a3e')}
${points.map((p) => text(x(p).toFixed(1), H - bottom + 18, `${(p.trace_bytes / 1e6).toFixed(0)}`)).join('')}
${text(W / 2, H - 10, 'size of the recording, MB')}
${text(left - 8, 20, 'sonde redis, s of one core', 'start', '#1f6fb4')}
${text(W / 2 + 20, 20, 'sonde report, s', 'middle', '#c2571a')}
${text(W - right + 8, 20, 'peak memory of report, MB', 'end', '#2a8a3e')}
</svg>
`;
}

try {
    if (part === 'curve') await curve(numbers.length ? numbers.map(Number) : [1, 2, 4, 8, 20]);
    else if (part === 'large') await large(Number(numbers[0] || 100), Number(numbers[1] || 10_000));
    else if (part === 'plot' && numbers[0]) {
        const all = fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((text) => JSON.parse(text)).filter((l) => l.part === 'curve');
        const newest = new Map(all.map((l) => [l.millions, l])); // of each size the newest
        fs.writeFileSync(numbers[0], svg([...newest.values()].sort((a, b) => a.trace_bytes - b.trace_bytes)));
    } else throw new Error(`what is ${part}? See the head of this file`);
} finally {
    endAll();
    if (!process.env.KEEP) fs.rmSync(work, { recursive: true, force: true });
}
