// How soon does `sonde redis --follow` report a conflict between two threads of a Redis server? A server of a version that has
// the fault is attached to, loaded, and brought into the conflict by clients that close their half of a TLS connection; measured
// is the time from the second addition of the client to the list of pending reads, by the recording, to when the finding's line
// can be read from the command's output, by the same clock. The server may crash before or after that. Each run appends a line to
// bench/results/redis-follow.jsonl, so that the runs may be made in several pieces; the sums so far are printed.
//   node bench/redis-follow.mjs [RUNS]   how many runs to make (10)
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { AFFECTED, VERSION, answers, halfClose, tlsOptions } from '../tests/system/redis.mjs';
import { freePort, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-follow.jsonl');
const LATE_MS = 60_000, GOAL_MS = 1000;
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });

// lines(line, when): each line of its output, and when it could be read (CLOCK_MONOTONIC, as times in a recording).
function run(command, args, lines = () => {}) {
    const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
    let rest = '';
    child.said = '';
    child.stderr.setEncoding('utf8').on('data', (text) => { child.said += text; });
    child.stdout.setEncoding('utf8').on('data', (text) => {
        const now = process.hrtime.bigint(), whole = (rest + text).split('\n');
        rest = whole.pop();
        for (const line of whole) lines(line, now);
    });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', () => { running.delete(child); child.over = true; resolve(); }));
    return child;
}

async function eventually(what, condition) {
    for (const end = Date.now() + LATE_MS; !condition(); await pause(10)) if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
}

async function once() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-follow-')), port = await freePort(), tlsPort = await freePort(), closing = [];
    const server = run('redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...tlsOptions(folder, tlsPort), '--io-threads', 4, '--io-threads-do-reads', 'yes']);
    let told, ended, load, tracer;
    server.ended.then(() => { ended = process.hrtime.bigint(); });
    try {
        await answers(port);
        tracer = run(SONDE, ['redis', '--follow', '--json', '--output', path.join(folder, 'trace'), port], (line, when) => {
            const { state, finding } = JSON.parse(line);
            if (!told && state === 'new' && finding.kind === 'redis-connection-conflict') told = { when, added: BigInt(finding.evidence.second_added_ns) };
        });
        await eventually('sonde attaches', () => tracer.over || /attached to process/.test(tracer.said));
        if (tracer.over) throw new Error(tracer.said);
        load = run('redis-benchmark', ['-p', port, '-c', 64, '-n', 100_000_000, '-t', 'set', '-d', 100, '-q']);
        for (const end = Date.now() + LATE_MS; !server.over && Date.now() < end;) {
            await halfClose({ after: (close) => closing.push(close) }, tlsPort).catch(() => {});
            for (const close of closing.splice(0)) close();
            await new Promise((resolve) => setImmediate(resolve));
        }
        await eventually('the server ends', () => server.over);
        await eventually('the recorder ends', () => tracer.over);
        const ms = (from, to) => Number(to - from) / 1e6;
        return { commit, time: new Date().toISOString(), version: VERSION, told: Boolean(told), told_ms: told && ms(told.added, told.when), server_lived_ms: told && ms(told.added, ended), load: os.loadavg()[0] };
    } finally {
        for (const child of [load, tracer, server]) child?.kill('SIGKILL');
        await Promise.all([server.ended, tracer?.ended, load?.ended]);
        fs.rmSync(folder, { recursive: true });
    }
}

if (!AFFECTED) throw new Error(`redis-server ${VERSION} does not have the fault`);
fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
for (let n = 0; n < Number(process.argv[2] || 10); n++) {
    const line = await once();
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line));
}
const all = fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((text) => JSON.parse(text)).filter((line) => line.commit === commit);
const times = all.filter((line) => line.told).map((line) => line.told_ms).sort((a, b) => a - b);
console.log(`${commit}: reported in ${times.length} of ${all.length} runs, ${times.filter((ms) => ms <= GOAL_MS).length} within ${GOAL_MS} ms; median ${times[times.length >> 1]?.toFixed(0)} ms, from ${times[0]?.toFixed(0)} to ${times.at(-1)?.toFixed(0)} ms`);
process.exitCode = times.length && times.at(-1) <= GOAL_MS && times.length === all.length ? 0 : 1;
