// How fast `sonde report` analyses and how much memory that takes, against the size of the trace: traces of one
// HTTP service at full speed with 32 requests in flight, of 1 to 12 seconds; on one CPU, median of
// runs. babeltrace2, only reading (its dummy sink), is the peer on those that it reads in a reasonable time.
//   node bench/analysis.mjs build/sonde [PLOT.svg]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { has, pinned, spread, table } from './measure.mjs';

const sonde = path.resolve(process.argv[2]), plot = process.argv[3];
const here = path.dirname(new URL(import.meta.url).pathname), work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const SECONDS = [1, 2, 4, 8, 12], RUNS = 3, PEER_SECONDS_MAX = 4;

async function record(seconds) {
    const folder = path.join(work, `trace-${seconds}`);
    const [command, ...args] = pinned(1, sonde, 'record', '--quiet', '--no-kernel', '-o', folder, '--', ...pinned(0, process.execPath, path.join(here, 'http-server.js')));
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [pid, port] = await new Promise((resolve, reject) => {
        child.stdout.on('data', (part) => /^\d+ \d+$/m.test(part) && resolve(/^(\d+) (\d+)$/m.exec(part).slice(1).map(Number)));
        child.on('exit', (status) => reject(new Error(`the service ended with ${status}`)));
    });
    execFileSync('taskset', ['-c', '1', 'wrk', '-t', '1', '-c', '32', '-d', `${seconds}s`, `http://127.0.0.1:${port}/`], { stdio: 'ignore' });
    const ended = new Promise((resolve) => child.on('exit', resolve));
    process.kill(pid, 'SIGTERM');
    await ended;
    return folder;
}

// CPU time of a command on CPU 1, in seconds, and what it printed.
function measure(...words) {
    const [command, ...args] = pinned(1, '/usr/bin/env', 'bash', '-c', 'TIMEFORMAT="%U %S"; time "$@"; status=$?; exit $(( status == 4 ? 0 : status ))', 'bash', ...words);
    const run = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (run.status !== 0) throw new Error(`${words.join(' ')}: status ${run.status}\n${run.stderr}`);
    const [user, system] = run.stderr.trim().split('\n').pop().split(' ').map(Number);
    return { seconds: user + system, stdout: run.stdout };
}

function analyse(folder, seconds) {
    const runs = Array.from({ length: RUNS }, () => measure(sonde, 'report', '--json', folder));
    const { overhead, attribution } = JSON.parse(runs[0].stdout);
    const speed = spread(runs.map((run) => overhead.events_count / run.seconds / 1e6));
    const peer = has('babeltrace2') && seconds <= PEER_SECONDS_MAX ? overhead.events_count / measure('babeltrace2', folder, '--component=sink.utils.dummy').seconds / 1e6 : null;
    return { bytes: overhead.trace_bytes, events: overhead.events_count, requests: attribution.requests_count, speed, peer, memory: JSON.parse(runs.at(-1).stdout).overhead.peak_memory_bytes };
}

/* ---- the plot: both against the trace's size ---- */

function svg(points) {
    const W = 640, H = 320, left = 60, right = 60, top = 40, bottom = 50;
    const xs = points.map((p) => Math.log2(p.bytes)), [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    const speedMax = Math.ceil(Math.max(...points.map((p) => p.speed.max)) * 1.15), memoryMax = Math.ceil((Math.max(...points.map((p) => p.memory)) / 1e6) * 1.5 / 10) * 10;
    const x = (p) => left + ((Math.log2(p.bytes) - x0) / (x1 - x0 || 1)) * (W - left - right), y = (share) => H - bottom - share * (H - top - bottom);
    const line = (f, colour) => `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.map((p) => `${x(p).toFixed(1)},${y(f(p)).toFixed(1)}`).join(' ')}"/>` +
        points.map((p) => `<circle cx="${x(p).toFixed(1)}" cy="${y(f(p)).toFixed(1)}" r="3.5" fill="${colour}"/>`).join('');
    const text = (a, b, words, anchor = 'middle', colour = '#444') => `<text x="${a}" y="${b}" text-anchor="${anchor}" fill="${colour}">${words}</text>`;
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((t) => `<line x1="${left}" x2="${W - right}" y1="${y(t)}" y2="${y(t)}" stroke="#ddd"/>` + text(left - 8, y(t) + 4, (speedMax * t).toFixed(1), 'end', '#1f6fb4') + text(W - right + 8, y(t) + 4, (memoryMax * t).toFixed(0), 'start', '#c2571a')).join('');
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${W} ${H}" font-family="sans-serif" font-size="12">
<rect width="${W}" height="${H}" fill="white"/>
${ticks}
${line((p) => p.speed.median / speedMax, '#1f6fb4')}
${line((p) => p.memory / 1e6 / memoryMax, '#c2571a')}
${points.map((p) => text(x(p).toFixed(1), H - bottom + 18, `${(p.bytes / 1e6).toFixed(0)} MB`)).join('')}
${text(W / 2, H - 10, 'size of the trace')}
${text(left - 8, 20, 'million events/s, one core', 'start', '#1f6fb4')}
${text(W - right + 8, 20, 'peak memory, MB', 'end', '#c2571a')}
</svg>
`;
}

try {
    const points = [];
    for (const seconds of SECONDS) {
        const folder = await record(seconds);
        points.push(analyse(folder, seconds));
        fs.rmSync(folder, { recursive: true, force: true });
    }
    const fixed = (value, digits) => (value === null ? '-' : value.toFixed(digits));
    table('sonde report against the size of the trace, one processor', ['trace', 'events', 'requests', 'million events/s', 'spread', 'babeltrace2 reading', 'ratio', 'peak memory'],
        points.map((p) => [`${(p.bytes / 1e6).toFixed(1)} MB`, p.events, p.requests, fixed(p.speed.median, 2), `${fixed(p.speed.min, 2)}..${fixed(p.speed.max, 2)}`, fixed(p.peer, 2), p.peer ? fixed(p.speed.median / p.peer, 1) : '-', `${(p.memory / 1e6).toFixed(1)} MB`]));
    if (plot) fs.writeFileSync(plot, svg(points));
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
