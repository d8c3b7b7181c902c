// The evaluation of Atys (sections 6.3 and 6.4) on real loads (bench/steer_loads): Java on jetty with 1,800 threads and H2, VGG16 in PyTorch,
// Node.js, C++, each steady and periodic. Truth is the CPU time between two readings of the thread's clock around each named function.
// Each load runs once beside two samplers at 997 Hz: one keeps every sample with its time, one keeps threads apart. What lower rates, rates that
// follow and pruning would have made of that is computed from these samples, by the code of src/steer (bench/steer_replay.c): so all of them are
// compared on the same run, and what else the machine does changes nothing. Recordings are kept in --keep and are not made again; each result
// is a line of bench/results/steer-loads.jsonl with the commit. Then tables, and the plots doc/self-tuning-*.svg.
//   node bench/steer-loads.mjs [--seconds 360] [--phase 60] [--keep DIR] [--only 'java steady,...'] [--record-only] [--runs 20] [--jobs 1]        (root)
// ASYNC_PROFILER=/path/to/bin/asprof (not packaged, so built beside) samples the Java loads at the same rate at the same time, for all but the first and last seconds.
// 18 minutes on two idle CPUs: --seconds 240 --phase 40 --jobs 2 (two loads at a time, each of which has a CPU).
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..'), loads = path.join(root, 'bench/steer_loads');
const text = (value) => ({ type: 'string', default: value });
const { values: o } = parseArgs({ options: { seconds: text('360'), phase: text('60'), keep: text(path.join(os.tmpdir(), 'sonde-steer-loads')), only: text(''), runs: text('20'), jobs: text('1'), build: text(path.join(root, 'build')), 'record-only': { type: 'boolean' } } });
const sonde = path.join(o.build, 'sonde');
fs.mkdirSync(o.keep, { recursive: true });

const JARS = '/usr/share/java', classpath = [o.keep, ...['jetty9-server', 'jetty9-util', 'jetty9-http', 'jetty9-io', 'servlet-api', 'h2'].map((jar) => `${JARS}/${jar}.jar`)].join(':');
const LOADS = {
    java: () => { execFileSync('javac', ['-cp', classpath, '-d', o.keep, path.join(loads, 'Shop.java')]); return ['java', '-cp', classpath, 'Shop']; },
    vgg16: () => ['/usr/bin/python3', path.join(loads, 'vgg16.py')],
    node: () => ['node', path.join(loads, 'pages.js')],
    'c++': () => { execFileSync('g++', ['-O2', '-o', path.join(o.keep, 'tables'), path.join(loads, 'tables.cpp')]); return [path.join(o.keep, 'tables')]; },
};
const CASES = Object.keys(LOADS).flatMap((load) => ['steady', 'periodic'].map((kind) => ({ load, kind, base: path.join(o.keep, `${load}-${kind}`) })))
    .filter(({ load, kind }) => !o.only || o.only.split(',').includes(`${load} ${kind}`));

const asprof = process.env.ASYNC_PROFILER;
const commands = {}; // of loads that have been compiled
async function record({ load, kind, base }) {
    if (fs.existsSync(`${base}.truth`)) return;
    const [program, ...args] = (commands[load] ??= LOADS[load]()), child = spawn(program, [...args, o.seconds, kind === 'steady' ? '0' : o.phase], { stdio: ['pipe', 'pipe', 'ignore'] });
    let out = '';
    const ready = new Promise((resolve) => child.stdout.setEncoding('utf8').on('data', (part) => { out += part; if (out.includes('ready')) resolve(); })), ended = once(child, 'close');
    await ready;
    const samplers = [['-o', `${base}.firefox.json`], ['--threads', '-o', `${base}.pb.gz`]].map((args) => spawn(sonde, ['profile', '-F', '997', ...args, String(child.pid)], { stdio: ['ignore', 'ignore', 'pipe'] }));
    const said = samplers.map((s) => { const parts = []; s.stderr.setEncoding('utf8').on('data', (p) => parts.push(p)); return parts; }), done = samplers.map((s) => once(s, 'close'));
    await new Promise((resolve) => setTimeout(resolve, 3000)); // both sample
    child.stdin.end('\n');
    const beside = asprof && load === 'java' && spawn(asprof, ['-d', String(Number(o.seconds) - 10), '-e', 'cpu', '-i', `${Math.round(1e9 / 997)}ns`, '-o', 'collapsed', '-f', `${base}.async.folded`, String(child.pid)], { stdio: 'ignore' });
    await Promise.all([ended, ...done, ...(beside ? [once(beside, 'close')] : [])]);
    fs.writeFileSync(`${base}.said`, said.map((parts) => parts.join('')).join('\n'));
    fs.writeFileSync(`${base}.truth`, out.split('\n').filter((line) => /^\d+ /.test(line)).join('\n'));
}

// "MS FUNCTION LEAF" of every sample, by time: FUNCTION is the innermost one of those that the load measures.
function samplesOf({ base }) {
    const to = `${base}.samples`;
    if (fs.existsSync(to)) return to;
    const profile = JSON.parse(fs.readFileSync(`${base}.firefox.json`, 'utf8')), { stackTable, frameTable, funcTable, stringArray } = profile.shared;
    const { names } = truthOf({ base }), wanted = new Map(names.flatMap((name, i) => [[name, i], [`Shop.${name}`, i]]));
    const nameOf = (stack) => stringArray[funcTable.name[frameTable.func[stackTable.frame[stack]]]], known = new Map(), leaves = new Map(), samples = [];
    const functionOf = (stack) => {
        if (stack === null || stack < 0) return -1;
        if (!known.has(stack)) known.set(stack, wanted.get(nameOf(stack)) ?? functionOf(stackTable.prefix[stack]));
        return known.get(stack);
    };
    for (const thread of profile.threads) {
        const times = thread.samples.time ?? thread.samples.timeDeltas.map(((sum) => (delta) => (sum += delta))(0));
        thread.samples.stack.forEach((stack, i) => {
            if (stack === null) return;
            if (!leaves.has(nameOf(stack))) leaves.set(nameOf(stack), leaves.size);
            samples.push([profile.meta.startTime + times[i], functionOf(stack), leaves.get(nameOf(stack))]);
        });
    }
    fs.writeFileSync(to, samples.sort((a, b) => a[0] - b[0]).map(([ms, f, leaf]) => `${ms.toFixed(3)} ${f} ${leaf}\n`).join(''));
    return to;
}

// Names of the functions that are measured, and the nanoseconds that each of them took in the whole run.
function truthOf({ base }) {
    const lines = fs.readFileSync(`${base}.truth`, 'utf8').trim().split('\n').map((line) => line.trim().split(' ').slice(1)), names = lines[0].filter((_, i) => i % 2 === 0), took = (line) => line.filter((_, i) => i % 2).map(Number);
    return { names, took: took(lines.at(-1)).map((ns, i) => ns - took(lines[0])[i]) };
}

// What async-profiler makes of the same run: the error of the functions' shares among each other, and that of as many random samples.
function beside(c) {
    const file = `${c.base}.async.folded`;
    if (!fs.existsSync(file)) return [];
    const { names, took } = truthOf(c), counts = names.map(() => 0), all = took.reduce((a, b) => a + b, 0);
    for (const line of fs.readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
        const [, stack, count] = /^(.*) (\d+)$/.exec(line), innermost = stack.split(';').reverse().map((frame) => names.indexOf(/^Shop\.(\w+)/.exec(frame)?.[1])).find((i) => i >= 0);
        if (innermost !== undefined) counts[innermost] += Number(count);
    }
    const samples = counts.reduce((a, b) => a + b, 0), average = (of) => names.reduce((sum, _, i) => sum + of(took[i] / all, counts[i] / samples), 0) / names.length;
    return [{ mode: 'async-profiler', samples, error_points: 100 * average((p, q) => Math.abs(p - q)), chance_points: 100 * average((p) => Math.sqrt((2 / Math.PI) * p * (1 - p) / samples)) }];
}

const MEASURED = ['src/steer', 'bench/steer_replay.c', 'bench/steer-loads.mjs', 'bench/steer_loads'], git = (...args) => spawnSync('git', ['-C', root, ...args, '--', ...MEASURED], { encoding: 'utf8' }).stdout.trim();
const commit = git('log', '-1', '--format=%h') + (git('status', '--porcelain') ? '+' : ''), results = path.join(root, 'bench/results/steer-loads.jsonl');
const recordedAt = ({ base }) => new Date(Number(fs.readFileSync(`${base}.truth`, 'utf8').split(' ')[0])).toISOString();
const known = () => (fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : []);

function replay(c) {
    const recorded = recordedAt(c), same = (k) => k.commit === commit && k.load === c.load && k.kind === c.kind && k.recorded === recorded;
    if (known().some(same)) return;
    const program = path.join(o.build, 'bench/steer_replay'), truth = `${c.base}.numbers`;
    fs.writeFileSync(truth, fs.readFileSync(`${c.base}.truth`, 'utf8').split('\n').map((line) => line.trim().split(' ').filter((_, i) => i % 2 === 0).join(' ')).join('\n'));
    const lines = [['rates', samplesOf(c), truth, o.runs], ...(c.kind === 'steady' ? [['prune', `${c.base}.pb.gz`]] : [])].flatMap((args) => execFileSync(program, args, { encoding: 'utf8' }).trim().split('\n'));
    fs.appendFileSync(results, [...lines.map((line) => JSON.parse(line)), ...beside(c)].map((line) => `${JSON.stringify({ commit, load: c.load, kind: c.kind, recorded, ...line })}\n`).join(''));
}

// ---- plots: plain SVG, a panel for each load ----

const COLORS = ['#1f77b4', '#d62728', '#2ca02c', '#9467bd', '#8c564b'];
function panel({ x, y, title, xs, ys, lines, points, xLabel, yLabel, xTicks, yTicks }) {
    const W = 230, H = 150, px = (v) => x + 48 + ((xs(v) - xs(xTicks[0])) / (xs(xTicks.at(-1)) - xs(xTicks[0]))) * W, py = (v) => y + 22 + H - ((ys(v) - ys(yTicks[0])) / (ys(yTicks.at(-1)) - ys(yTicks[0]))) * H, at = (v) => v.toFixed(1);
    const clip = (v, ticks) => Math.min(Math.max(v, ticks[0]), ticks.at(-1));
    return `<text x="${x + 48}" y="${y + 14}" class="title">${title}</text><rect x="${x + 48}" y="${y + 22}" width="${W}" height="${H}" class="frame"/>`
        + xTicks.map((v) => `<line x1="${at(px(v))}" y1="${y + 22}" x2="${at(px(v))}" y2="${y + 22 + H}" class="grid"/><text x="${at(px(v))}" y="${y + 36 + H}" text-anchor="middle">${v}</text>`).join('')
        + yTicks.map((v) => `<line x1="${x + 48}" y1="${at(py(v))}" x2="${x + 48 + W}" y2="${at(py(v))}" class="grid"/><text x="${x + 43}" y="${at(py(v) + 4)}" text-anchor="end">${v}</text>`).join('')
        + `<text x="${x + 48 + W / 2}" y="${y + 52 + H}" text-anchor="middle">${xLabel}</text><text transform="translate(${x + 10},${y + 22 + H / 2}) rotate(-90)" text-anchor="middle">${yLabel}</text>`
        + lines.map(({ color, data }) => `<polyline points="${data.map(([a, b]) => `${at(px(clip(a, xTicks)))},${at(py(clip(b, yTicks)))}`).join(' ')}" fill="none" stroke="${color}" stroke-width="1.5"/>`).join('')
        + points.map(({ color, data: [a, b], text: words }) => `<circle cx="${at(px(clip(a, xTicks)))}" cy="${at(py(clip(b, yTicks)))}" r="3.5" fill="${color}"/>${words ? `<text x="${at(px(clip(a, xTicks)) + 5)}" y="${at(py(clip(b, yTicks)) - 4)}" fill="${color}">${words}</text>` : ''}`).join('');
}
function plot(file, description, panels, columns, legend) {
    const rows = Math.ceil(panels.length / columns), width = columns * 300 + 10, height = rows * 220 + 30;
    fs.writeFileSync(path.join(root, 'doc', file), `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="10" role="img" aria-label="${description}"><style>.title{font-weight:bold;font-size:11px}.frame{fill:none;stroke:#888}.grid{stroke:#ddd;stroke-width:.5}</style><rect width="${width}" height="${height}" fill="#fff"/>\n`
        + panels.map((p, i) => panel({ ...p, x: (i % columns) * 300, y: 24 + Math.floor(i / columns) * 220 })).join('\n') + legend.map((words, i) => `<text x="${50 + i * 165}" y="16" fill="${COLORS[i]}">${words}</text>`).join('') + '\n</svg>\n');
}

const log = Math.log10, plain = (v) => v, number = (v, digits) => v.toFixed(digits);
function show(rows) {
    const of = (c) => rows.filter((r) => r.load === c.load && r.kind === c.kind), MODES = { paper: 1, 'paper-fine': 2, usual: 3 };
    console.log('load             how             mean Hz  samples  error (points)  by chance  within 997 Hz\'s interval, its own   windows: error, within   changes');
    for (const c of CASES) {
        const mine = of(c).filter((r) => r.error_points !== undefined && r.mean_hz !== undefined);
        for (const r of mine) console.log(`${`${c.load} ${c.kind}`.padEnd(17)}${r.mode.padEnd(14)}${number(r.mean_hz, 0).padStart(9)}${number(100 * r.samples_share, 1).padStart(7)} %${number(r.error_points, 3).padStart(14)}${number(r.chance_points, 3).padStart(13)}${number(100 * r.within_fixed, 0).padStart(18)} %${number(100 * r.within_own, 0).padStart(14)} %${number(r.window_error_points, 2).padStart(16)}${number(100 * r.window_within_fixed, 0).padStart(7)} %${number(r.changes, 1).padStart(11)}`);
        for (const r of of(c).filter((k) => k.mode === 'async-profiler')) console.log(`${`${c.load} ${c.kind}`.padEnd(17)}${r.mode.padEnd(14)} ${r.samples} samples, error ${number(r.error_points, 3)} points, ${number(r.chance_points, 3)} by chance`);
        for (const r of of(c).filter((k) => k.seconds !== undefined)) console.log(`${`${c.load} ${c.kind}`.padEnd(17)}${r.mode.padEnd(14)} reached in ${number(100 * r.reached, 0)} %, after ${number(r.seconds, 0)} s, ${number(100 * r.samples_share, 1)} % of the samples; ${number(100 * r.within_own, 0)} % within what is stated`);
    }
    for (const c of CASES.filter(({ kind }) => kind === 'steady'))
        for (const r of of(c).filter((k) => k.mode === 'prune')) console.log(`${c.load.padEnd(10)} ${String(r.kept_percent).padStart(5)} % kept: ${r.kept} of ${r.threads} threads, MAPE of the top 5 ${number(r.top5, 2)}, 10 ${number(r.top10, 2)}, 20 ${number(r.top20, 2)}, 50 ${number(r.top50, 2)} %; ${number(r.time_ms, 2)} ms, ${number(r.bytes / 1e3, 1)} KB`);
    const against = (key, yLabel, yTicks) => CASES.map((c) => ({
        title: `${c.load}, ${c.kind}`, xs: log, ys: log, xLabel: 'samples taken, % of 997 Hz', yLabel, xTicks: [1, 3, 10, 30, 100], yTicks,
        lines: [{ color: COLORS[0], data: of(c).filter((r) => r.mode.endsWith(' Hz')).map((r) => [100 * r.samples_share, r[key]]) }],
        points: of(c).filter((r) => MODES[r.mode]).map((r) => ({ color: COLORS[MODES[r.mode]], data: [100 * r.samples_share, r[key]] })),
    }));
    const legend = ['fixed rates', 'paper (0.5)', 'paper (0.05)', 'usual'];
    plot('self-tuning-rates.svg', 'Error of shares in the whole run against samples taken', against('error_points', 'error of shares, points', [0.03, 0.1, 0.3, 1, 3]), 2, legend);
    plot('self-tuning-windows.svg', 'Error of what is known of each window against samples taken', against('window_error_points', 'error in each window, points', [0.3, 1, 3, 10, 30]), 2, legend);
    const java = rows.filter((r) => r.load === 'java' && r.mode === 'prune'), whole = java.at(-1);
    if (whole) plot('self-tuning-pruning.svg', 'Error, time and bytes against pruning', [
        { title: 'Java, 1,800 threads: MAPE', xs: plain, ys: plain, xLabel: 'share of the samples that kept threads have, %', yLabel: 'MAPE, %', xTicks: [50, 60, 70, 80, 90, 100], yTicks: [0, 20, 40, 60, 80], points: [], lines: ['top5', 'top10', 'top20', 'top50'].map((key, i) => ({ color: COLORS[i], data: java.map((r) => [r.kept_percent, r[key]]) })) },
        { title: 'time and bytes', xs: plain, ys: plain, xLabel: 'share of the samples that kept threads have, %', yLabel: '% of all threads', xTicks: [50, 60, 70, 80, 90, 100], yTicks: [0, 25, 50, 75, 100], points: [], lines: ['time_ms', 'bytes'].map((key, i) => ({ color: COLORS[i], data: java.map((r) => [r.kept_percent, (100 * r[key]) / whole[key]]) })) },
    ], 2, ['top 5; time', 'top 10; bytes', 'top 20', 'top 50']);
}

const waiting = [...CASES]; // each job takes the next one
await Promise.all(Array.from({ length: Number(o.jobs) }, async () => { while (waiting.length) await record(waiting.shift()); }));
if (!o['record-only']) {
    execFileSync('ninja', ['-C', o.build, 'bench/steer_replay'], { stdio: 'ignore' });
    for (const c of CASES) replay(c);
    show(known().filter((k) => k.commit === commit && CASES.some((c) => c.load === k.load && c.kind === k.kind && recordedAt(c) === k.recorded)));
}
