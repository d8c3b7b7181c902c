// What tracing costs a Memcached server, and what its clients notice: CPU time of the server for each command, and the clients' own
// latencies, traced against not traced, in pairs of runs with the same load. Each pair appends a line to
// bench/results/memcached.jsonl, so that pairs may be made in pieces; the ratios so far are printed.
//   node bench/memcached.mjs [PAIRS]          how many pairs of each kind of load (4)
//   node bench/memcached.mjs latency [ROUNDS] instead: commands, bytes and latencies of a traced service's own record against what
//                                             the recording says of them, by the size of values, one command at a time and
//                                             those of five requests at once; rounds of each (3). What is seen of a service begins
//                                             and ends below Node's streams: so does below_ns, from the write of its socket's handle
//                                             to the call that hands over what was read
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, pause, spread } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'memcached.jsonl');
const LATE_MS = 60_000, CONNECTIONS = 20, SIZE = 100;
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();
const LOADS = [{ name: 'get', pipeline: 1, commands: 60_000 }, { name: 'get, pipelines of 16', pipeline: 16, commands: 400_000 }, { name: 'set', pipeline: 1, commands: 60_000 }];

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });
function run(command, args) {
    const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said += data; });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', () => { running.delete(child); child.over = true; resolve(); }));
    return child;
}
async function eventually(what, condition) {
    for (const end = Date.now() + LATE_MS; !(await condition()); await pause(20)) if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
}
const listens = (port) => new Promise((resolve) => { const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); }).on('error', () => resolve(false)); });

// CPU time of all threads of a process that live, in ns.
const cpuOf = (pid) => fs.readdirSync(`/proc/${pid}/task`).reduce((sum, tid) => sum + Number(fs.readFileSync(`/proc/${pid}/task/${tid}/schedstat`, 'utf8').split(' ')[0]), 0);

// One connection: rounds of so many commands at a time, whose answers have a known length. Returns the rounds' times in ns.
function client(port, pipeline, rounds, text, answerBytes) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1').setNoDelay(true), bytes = Buffer.from(text.repeat(pipeline)), times = [];
        let got = 0, began;
        const next = () => {
            if (times.length === rounds) return socket.end(), resolve(times);
            began = process.hrtime.bigint();
            socket.write(bytes);
        };
        socket.on('connect', next).on('error', reject).on('data', (data) => {
            got += data.length;
            if (got < answerBytes * pipeline) return;
            got = 0;
            times.push(Number(process.hrtime.bigint() - began));
            next();
        });
    });
}

async function once(load, traced) {
    const port = await freePort(), trace = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-memcached-')), 'trace');
    const server = run('memcached', ['-l', '127.0.0.1', '-p', port, '-U', 0, '-t', 2, ...(process.getuid() === 0 ? ['-u', 'root'] : [])]);
    let tracer;
    try {
        await eventually('memcached listens', () => listens(port));
        const set = (key) => `set ${key} 0 0 ${SIZE}\r\n${'x'.repeat(SIZE)}\r\n`, rounds = Math.ceil(load.commands / load.pipeline / CONNECTIONS);
        await Promise.all(Array.from({ length: CONNECTIONS }, (_, n) => client(port, 1, 1, set(`key${100 + n}`), 'STORED\r\n'.length)));
        if (traced) {
            tracer = run(SONDE, ['attach', '--no-kernel', '--budget', '80,512', '-o', trace, server.pid]);
            await eventually('sonde attaches', () => tracer.over || /Ctrl-C/.test(tracer.said));
            if (tracer.over) throw new Error(tracer.said);
        }
        const answer = load.name === 'set' ? 'STORED\r\n' : `VALUE key100 0 ${SIZE}\r\n${'x'.repeat(SIZE)}\r\nEND\r\n`;
        const cpu = cpuOf(server.pid);
        const times = (await Promise.all(Array.from({ length: CONNECTIONS }, (_, n) => client(port, load.pipeline, rounds, load.name === 'set' ? set(`key${100 + n}`) : `get key${100 + n}\r\n`, answer.length)))).flat().sort((a, b) => a - b);
        const used = cpuOf(server.pid) - cpu, commands = rounds * load.pipeline * CONNECTIONS;
        let counted = null, lost = null;
        if (traced) {
            tracer.kill('SIGINT');
            await tracer.ended;
            const { servers, losses } = JSON.parse(execFileSync('sh', ['-c', '"$0" memcached --json "$1" || [ $? = 4 ]', SONDE, trace], { encoding: 'utf8', maxBuffer: 1 << 26 }));
            counted = servers[0].commands.filter((c) => c.name === load.name.slice(0, 3)).reduce((sum, c) => sum + c.commands_count, 0);
            lost = losses.reduce((sum, loss) => sum + loss.count, 0);
        }
        return { cpu_ns: used / commands, p50_ns: times[times.length >> 1], p99_ns: times[Math.floor(times.length * 0.99)], commands, counted, lost };
    } finally {
        for (const child of [tracer, server]) child?.kill('SIGKILL');
        await Promise.all([server.ended, tracer?.ended]);
        fs.rmSync(path.dirname(trace), { recursive: true });
    }
}

// What a service measured of its own commands, and what the recording has of them.
async function recorded(size, requests, together) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-memcached-')), trace = path.join(folder, 'trace');
    try {
        const service = run(SONDE, ['run', '--quiet', '--no-kernel', '-o', trace, '--', process.execPath, path.join(root, 'tests', 'system', 'programs', 'cached.js'), requests, size, ...(together ? [] : ['alone'])]);
        await service.ended;
        const record = JSON.parse(service.said.split('\n').find((line) => line.startsWith('{')));
        const json = (...args) => JSON.parse(execFileSync('sh', ['-c', '"$0" "$@" || [ $? = 4 ]', SONDE, ...args], { encoding: 'utf8', maxBuffer: 1 << 28 }));
        const { servers: [{ commands }], losses } = json('memcached', '--json', trace), sum = (what) => commands.reduce((total, c) => total + c[what], 0);
        const spans = json('spans', '--json', '--slowest', '100000', trace).requests.flatMap((r) => r.spans).filter((s) => s.layer === 'memcached');
        return { commit, time: new Date().toISOString(), load: 'latency', size, together, commands: record.commands, counted: sum('commands_count'), bytes: record.sent + record.got, counted_bytes: sum('bytes') + sum('reply_bytes'), took_ns: record.took_ns, below_ns: record.below_ns, spans_ns: spans.reduce((total, s) => total + s.duration_ns, 0), spans: spans.length, lost: losses.reduce((total, loss) => total + loss.count, 0), machine_load: os.loadavg()[0] };
    } finally {
        fs.rmSync(folder, { recursive: true });
    }
}

fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
if (process.argv[2] === 'latency') {
    for (let n = 0; n < Number(process.argv[3] || 3); n++) {
        for (const [size, requests, together] of [[1000, 4000, false], [1000, 2000, true], [100_000, 2000, false], [100_000, 500, true], [900_000, 400, false], [900_000, 100, true]]) {
            const line = await recorded(size, requests, together), off = (is, was) => `${(100 * (is / was - 1)).toFixed(3)} %`;
            fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
            console.log(`values of ${size} bytes, ${together ? 'several at a time' : 'one at a time'}: ${line.commands} commands, off by ${off(line.counted, line.commands)}; bytes ${off(line.counted_bytes, line.bytes)}; latency ${(line.took_ns / line.commands / 1000).toFixed(0)} us, off by ${off(line.spans_ns, line.took_ns)} (${((line.took_ns - line.spans_ns) / line.commands / 1000).toFixed(1)} us), against below the streams ${(line.below_ns / line.commands / 1000).toFixed(1)} us off by ${off(line.spans_ns, line.below_ns)} (${((line.below_ns - line.spans_ns) / line.commands / 1000).toFixed(1)} us); ${line.lost} events lost`);
        }
    }
    process.exit(0);
}
for (let n = 0; n < Number(process.argv[2] || 4); n++) {
    for (const load of LOADS) {
        const order = n % 2 ? [true, false] : [false, true], results = {};
        for (const traced of order) results[traced ? 'traced' : 'plain'] = await once(load, traced);
        const { traced, plain } = results;
        const line = { commit, time: new Date().toISOString(), load: load.name, cpu_ratio: traced.cpu_ns / plain.cpu_ns, cpu_ns: plain.cpu_ns, traced_cpu_ns: traced.cpu_ns, p50_ns: plain.p50_ns, traced_p50_ns: traced.p50_ns, p99_ns: plain.p99_ns, traced_p99_ns: traced.p99_ns, commands: traced.commands, counted: traced.counted, lost: traced.lost, machine_load: os.loadavg()[0] };
        fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
        console.log(JSON.stringify(line));
    }
}
const all = fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((text) => JSON.parse(text));
for (const { name } of LOADS) {
    const of = all.filter((line) => line.load === name), cpu = spread(of.map((line) => line.cpu_ratio)), plain = spread(of.map((line) => line.cpu_ns / 1000));
    const off = Math.max(...of.filter((line) => !line.lost).map((line) => Math.abs(line.counted / line.commands - 1)));
    console.log(`${name}: CPU of the server ${cpu.median.toFixed(3)} (${cpu.min.toFixed(3)} to ${cpu.max.toFixed(3)}) of ${of.length} pairs, ${plain.median.toFixed(2)} us a command untraced (${plain.min.toFixed(2)} to ${plain.max.toFixed(2)}); commands counted: off by at most ${(100 * off).toFixed(3)} %`);
}
