// What sonde takes on a host with many processes and threads:
//   node bench/bighost.mjs SONDE LOAD [--results FILE] [--once] [PART...]  (SONDE: build/sonde, LOAD: build/bench/bighost_load)
// Parts, each with a size that may be given as PART=N (all of them when none is named):
//   node=200      N idle Node processes: sonde's share of a CPU and its system calls a second
//   blind=200     the same without the kernel's side
//   threads=100   N idle processes of 100 threads: the same, and the memory of their rings
//   stop=2000     attaching to and detaching from a program with N threads: the longest gap that its serving thread saw, and the
//                 others, beside a bare interrupt and continue of the same threads, in turns
//   churn=1000    N short Node runs, one after the other, under one recording: sonde's memory and descriptors
//   prefork=150   a server that makes 50 children a second, for N seconds: the same, and who is accounted for; pieces add up
//   liars=20      a traced program that makes a child every 2 ms for N seconds, under the names of Node and Redis: the same
//   busy-cost=200 N processes that record and sleep in turns, 1,000 bursts of 50 records a second together: sonde's CPU
//                 time for each event, beside one such process at the same rate, in turns, and one that does no more
//                 than each of the many
//   rings=2       N threads that make system calls without a pause, all recorded (root): what the kernel's side takes
//                 for a record, what sonde does, and what is lost
//   busy=50       N traced idle processes beside a Redis at full speed: records, losses, the fullest ring
//   busy-free=50  the same with the Redis and its load on one CPU, so that another is free
//   all=100       attaching to N programs of 10 threads, and detaching from all
//   containers=500  the same with N programs, each in namespaces and control groups of its own (root), and what they cost idle
// Any number of calls add up: each part appends a line of JSON to the results (bench/results/bighost.jsonl), with the
// commit. --once leaves out parts that have a line of this commit, so that a call that was broken off goes on.
// Counting system calls needs perf and root; without them that column is null.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { cpuTime, freePort, has, pause, spread } from './measure.mjs';

const words = process.argv.slice(2), root = path.join(import.meta.dirname, '..');
const at = words.indexOf('--results');
const results = at < 0 ? path.join(root, 'bench', 'results', 'bighost.jsonl') : words.splice(at, 2)[1];
const once = words.includes('--once');
const [sonde, load, ...chosen] = words.filter((word) => word !== '--once');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bighost-'));
const git = (...args) => execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim();
const commit = git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--', 'src') ? '+' : '');
const children = new Set();

function run(command, ...args) {
    const child = spawn(command, args.map(String), { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    children.add(child);
    child.said = '';
    child.complained = '';
    child.stdout.on('data', (part) => { child.said += part; });
    child.stderr.on('data', (part) => { child.complained += part; });
    child.stdin.on('error', () => {});
    child.ended = new Promise((resolve) => child.on('exit', (code, signal) => {
        children.delete(child);
        child.over = true;
        resolve(code ?? signal);
    }));
    return child;
}

async function until(child, condition, what, seconds = 300) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end && !child.over; await pause(20))
        if (await condition()) return;
    throw new Error(`${what}: ${child.over ? 'it ended' : 'it takes too long'}\n${child.said}${child.complained}`);
}

const manifest = (trace) => JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8'));
// Those that are listed, and those that are only counted.
const tracedOf = ({ processes, processes_alike: alike }) => alike.reduce((sum, { count }) => sum + count, processes.length);
const traced = (trace) => {
    try {
        return tracedOf(manifest(trace));
    } catch {
        return 0;
    }
};

// What sonde holds: its own memory, the pages of its memory files (rings), descriptors.
function held(pid) {
    const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8'), kb = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]);
    let rings = 0, memfds = 0;
    const fds = fs.readdirSync(`/proc/${pid}/fd`);
    for (const fd of fds)
        try {
            if (!fs.readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('/memfd:sonde')) continue;
            rings += fs.statSync(`/proc/${pid}/fd/${fd}`).blocks / 2;
            memfds++;
        } catch {} // it has just been closed
    return { own_kb: kb('RssAnon'), rings_kb: rings, memfds, virtual_mb: Math.round(kb('VmSize') / 1024), descriptors: fds.length };
}

// System calls of a process in some seconds; tracefs is mounted for perf alone.
async function systemCalls(pid, seconds) {
    if (!has('perf')) return null;
    const child = run('unshare', '-m', 'sh', '-c', `mount -t tracefs t /sys/kernel/tracing 2>/dev/null; exec perf stat -x, -e raw_syscalls:sys_enter -p ${pid} sleep ${seconds}`);
    await child.ended;
    const count = Number(/^(\d+),/m.exec(child.complained)?.[1]);
    return Number.isFinite(count) ? count / seconds : null;
}

async function cost(pid, seconds) {
    const cpu = cpuTime(pid), start = performance.now();
    await pause(1000 * seconds);
    const share = (cpuTime(pid) - cpu) / 1e4 / (performance.now() - start);
    return { cpu_percent: Number(share.toFixed(2)), calls_a_second: await systemCalls(pid, seconds) };
}

const OPTIONS = ['-q', '--budget', '100,100000'];

function record(trace, ...command) {
    return run(sonde, 'run', ...OPTIONS, '-o', trace, '--', ...command);
}

function killAll(child) { // with what it has started
    try {
        process.kill(-child.pid, 'SIGKILL');
    } catch {} // nobody is left
}

async function ended(child) {
    child.stdin.end();
    child.kill('SIGINT');
    await child.ended;
    killAll(child);
}

// ---- the parts ----

async function node(count, ...options) {
    const trace = path.join(work, 'node'), script = path.join(work, 'idle.js');
    fs.writeFileSync(script, `require('http').createServer((q, a) => a.end()).listen(0, '127.0.0.1', () => console.log('up'));`);
    const recording = run(sonde, 'run', ...OPTIONS, ...options, '-o', trace, '--', 'sh', '-c', `i=0; while [ $i -lt ${count} ]; do "${process.execPath}" "${script}" & i=$((i+1)); sleep 0.15; done; wait`);
    await until(recording, () => recording.said.split('up').length > count, `${count} Node processes`, 600);
    await until(recording, () => traced(trace) >= 1, 'a manifest');
    await pause(5000);
    const result = { ...await cost(recording.pid, 10), ...held(recording.pid) };
    await ended(recording);
    return { processes: manifest(trace).processes.length, untraced: manifest(trace).untraced_count, ...result };
}

async function threads(count) {
    const trace = path.join(work, 'threads'), each = 100;
    const recording = record(trace, load, 'idle', count, each);
    await until(recording, () => /up/.test(recording.said), `${count} processes`, 600);
    await pause(5000);
    const result = { ...await cost(recording.pid, 10), ...held(recording.pid) };
    await ended(recording);
    const { processes, losses } = manifest(trace);
    return { processes: processes.length, threads: processes.reduce((sum, p) => sum + p.threads.length, 0), lost: losses.reduce((sum, l) => sum + l.count, 0), ...result };
}

async function stop(count) {
    const service = run(load, 'serve', count), line = async () => {
        const before = service.said.length;
        service.stdin.write('\n');
        await until(service, () => service.said.indexOf('\n', before) >= 0, 'a gap');
        return service.said.slice(before).trim().split(' ').map((ns) => Number(ns) / 1e6);
    };
    // By the kernel: how long the serving thread has waited for a CPU.
    const queued = () => Number(fs.readFileSync(`/proc/${service.pid}/task/${service.pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
    await until(service, () => /up/.test(service.said), 'the program');
    const seen = { nothing: [], bare: [], attach: [] }, bare = [], longest = [], total = [], waited = { nothing: [], attach: [] };
    for (let i = 0; i < 10; i++) {
        await line();
        let before = queued();
        await pause(600);
        waited.nothing.push(queued() - before);
        seen.nothing.push(await line());
        bare.push(Number(spawnSync(load, ['hold', String(service.pid)], { encoding: 'utf8' }).stdout) / 1e6);
        seen.bare.push(await line());
        const trace = path.join(work, `stop-${count}-${i}`);
        before = queued();
        const attached = run(sonde, 'attach', '-q', '--no-kernel', '-o', trace, '--duration', '0.3', service.pid);
        const status = await attached.ended;
        if (status !== 0 && status !== 4) throw new Error(`sonde attach: ${status}\n${attached.complained}`);
        waited.attach.push(queued() - before);
        seen.attach.push(await line());
        const { stops } = manifest(trace).processes[0];
        longest.push(stops.longest_ns / 1e6);
        total.push(stops.total_ns / 1e6);
    }
    service.kill('SIGKILL');
    const of = (list) => spreadOf(list);
    const both = (list) => ({ serving_ms: of(list.map(([main]) => main)), others_ms: of(list.map(([, others]) => others)) });
    return { threads: count, nothing: { ...both(seen.nothing), queued_ms: of(waited.nothing) }, bare: { held_ms: of(bare), ...both(seen.bare) }, sonde: { longest_hold_ms: of(longest), all_holds_ms: of(total), ...both(seen.attach), queued_ms: of(waited.attach) } };
}

async function churn(count) {
    const trace = path.join(work, 'churn'), script = path.join(work, 'short.js');
    fs.writeFileSync(script, `require('fs').readFile(__filename, () => {});`);
    const recording = record(trace, 'sh', '-c', `i=0; while [ $i -lt ${count} ]; do "${process.execPath}" "${script}"; echo ran; i=$((i+1)); done; read x`);
    const seen = [];
    for (let next = 0; next <= count; next += count / 10) {
        await until(recording, () => recording.said.split('ran').length > next, `${next} runs`, 1200);
        await pause(200);
        seen.push({ runs: next, ...held(recording.pid) });
        process.stderr.write(`${JSON.stringify(seen.at(-1))}\n`);
    }
    const cpu_s = cpuTime(recording.pid) / 1e9;
    recording.stdin.end('\n');
    await recording.ended;
    return { runs: count, accounted: traced(trace) + manifest(trace).untraced_count, cpu_s, seen };
}

// What sonde holds ten times while a recording goes on for some seconds.
async function watched(recording, seconds, seen = []) {
    for (let i = 0; i < 10 && !recording.over; i++) {
        await pause(100 * seconds);
        if (!recording.over) seen.push(held(recording.pid));
    }
    return seen;
}

async function births(trace, recording, seconds) {
    const seen = await watched(recording, seconds), cpu_s = recording.over ? null : cpuTime(recording.pid) / 1e9;
    const status = await recording.ended;
    if (status !== 0) throw new Error(`the recording ended with ${status}: ${recording.complained}`);
    const said = manifest(trace), { untraced, untraced_count: left, losses } = said, known = tracedOf(said) - 1, { size } = fs.statSync(path.join(trace, 'manifest.json'));
    const born = Number(/^(\d+)$/m.exec(recording.said)?.[1]), reasons = {};
    for (const line of untraced) {
        const [, , more, why] = /^(?:.* \((\d+)\)|(\d+) more): (.*)$/.exec(line);
        reasons[why] = (reasons[why] ?? 0) + Number(more ?? 1);
    }
    return { status, births: born, traced: known, untraced: left, unaccounted: born - known - left, reasons, lost: losses.reduce((sum, l) => sum + l.count, 0), cpu_s, manifest_kb: Math.round(size / 1024), seen };
}

// What all lines of a part in the results add up to: an hour may be measured in pieces.
function soFar(part) {
    const total = { pieces: 0, seconds: 0, births: 0, traced: 0, untraced: 0, unaccounted: 0, lost: 0 };
    for (const line of fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((text) => JSON.parse(text))) {
        if (line.part !== part || line.unaccounted === undefined) continue;
        total.pieces++;
        total.seconds += line.size;
        for (const name of ['births', 'traced', 'untraced', 'unaccounted', 'lost']) total[name] += line[name];
    }
    return total;
}

const prefork = (seconds) => births(path.join(work, 'prefork'), record(path.join(work, 'prefork'), load, 'prefork', 50, seconds), seconds);
const liars = (seconds) => births(path.join(work, 'liars'), record(path.join(work, 'liars'), load, 'liars', seconds), seconds);

// Attaches to all of them, and detaches; what it costs between, when meanwhile() says.
async function attachToAll(name, pids, meanwhile = async () => ({})) {
    const trace = path.join(work, name), start = performance.now();
    const attached = run(sonde, 'attach', ...OPTIONS, '-o', trace, ...pids);
    await until(attached, () => traced(trace) >= pids.length, `attached to ${pids.length}`);
    const attach_s = (performance.now() - start) / 1000, between = await meanwhile(attached), end = performance.now();
    attached.kill('SIGINT');
    const status = await attached.ended, detach_s = (performance.now() - end) / 1000;
    const { processes, losses, overhead } = manifest(trace), died = pids.filter((pid) => !fs.existsSync(`/proc/${pid}`)).length;
    return { status, processes: processes.length, died, lost: losses.reduce((sum, l) => sum + l.count, 0), attach_s, detach_s, setup_cpu_s: overhead.setup_cpu_ns / 1e9, longest_hold_ms: Math.max(...processes.map((p) => p.stops.longest_ns / 1e6)), ...between };
}

async function all(count) {
    const programs = run(load, 'idle', count, 10);
    await until(programs, () => /up/.test(programs.said), `${count} processes`);
    const result = await attachToAll('all', execFileSync('pgrep', ['-P', String(programs.pid)], { encoding: 'utf8' }).trim().split('\n'));
    await ended(programs);
    return result;
}

// Each with namespaces of its own and control groups, as a container has.
async function containers(count) {
    const controllers = ['cpu', 'memory', 'pids', 'freezer'].filter((name) => fs.existsSync(`/sys/fs/cgroup/${name}`));
    const groups = (fs.existsSync('/sys/fs/cgroup/cgroup.controllers') ? ['/sys/fs/cgroup'] : controllers.map((name) => `/sys/fs/cgroup/${name}`)).map((folder) => `${folder}/sonde-bench`);
    const script = `exec 3<&0; i=0; while [ $i -lt ${count} ]; do sh -c 'for g in ${groups.join(' ')}; do mkdir $g-'$i' && echo $$ > $g-'$i'/cgroup.procs || exit 1; done; exec unshare --pid --mount --net --uts --ipc --cgroup --fork --kill-child "${load}" idle 0 4' <&3 & i=$((i+1)); done; wait`;
    const programs = run('sh', '-c', script);
    try {
        await until(programs, () => programs.said.length >= count, `${count} containers`, 600);
        const parents = execFileSync('pgrep', ['-P', String(programs.pid)], { encoding: 'utf8' }).trim().split('\n');
        const pids = parents.flatMap((pid) => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')).filter(Boolean);
        return await attachToAll('containers', pids, async (attached) => ({ ...await cost(attached.pid, 10), ...held(attached.pid) }));
    } finally {
        await ended(programs);
        for (let i = 0; i < count; i++)
            for (const group of groups)
                for (let tries = 0; tries < 100 && fs.existsSync(`${group}-${i}`); tries++)
                    try {
                        fs.rmdirSync(`${group}-${i}`);
                    } catch {
                        await pause(20); // who was in it is ending
                    }
    }
}

const lostOf = ({ losses }) => losses.reduce((sum, l) => sum + l.count, 0);
const spreadOf = (list, digits = 2) => Object.fromEntries(Object.entries(spread(list)).map(([name, x]) => [name, Number(x.toFixed(digits))]));

// A few seconds under way: CPU time of sonde, and of all events that it has written by the end, those of that time.
async function costOfEvents(count, number, rate = 1000) {
    const trace = path.join(work, `busy-cost-${number}`), seconds = 4, burst = 50;
    const recording = record(trace, load, 'bursts', count, rate, burst);
    await until(recording, () => /up/.test(recording.said), `${count} processes`);
    await until(recording, () => traced(trace) > count, `${count} traced processes`);
    await pause(1000);
    const before = cpuTime(recording.pid), from = process.hrtime.bigint();
    await pause(1000 * seconds);
    const cpu = cpuTime(recording.pid) - before, took = Number(process.hrtime.bigint() - from) / 1e9;
    await ended(recording);
    const { events, end_ns: end, processes } = manifest(trace), begin = Math.max(...processes.map((p) => p.start_ns));
    const kernel = Object.values(manifest(trace).kernel?.families ?? {}).reduce((sum, f) => sum + f.events, 0);
    const result = { ns: cpu / took / (rate * burst), events, kernel_share: kernel / events, lost: lostOf(manifest(trace)), seconds: (end - begin) / 1e9 };
    fs.rmSync(trace, { recursive: true, force: true });
    return result;
}

async function busyCost(count) {
    const rounds = 5, one = [], many = [], idler = [];
    for (let i = 0; i < rounds; i++) {
        one.push(await costOfEvents(1, 3 * i));
        many.push(await costOfEvents(count, 3 * i + 1));
        if (i % 2 === 0) idler.push(await costOfEvents(1, 3 * i + 2, 1000 / count));
    }
    const of = (list) => ({ cpu_ns_a_record: spreadOf(list.map((x) => x.ns), 0), kernel_share: spreadOf(list.map((x) => x.kernel_share)), lost: list.reduce((sum, x) => sum + x.lost, 0) });
    const ratio = (others, step) => spreadOf(others.map((x, i) => many[i * step].ns / x.ns));
    return { rounds, one: of(one), many: of(many), one_as_each: of(idler), ratio: ratio(one, 1), ratio_as_each: ratio(idler, 2) };
}

async function rings(count) {
    const rounds = 5, kernel = [], collector = [], share = [], rates = [];
    let memory = 0, fullest = 0;
    for (let i = 0; i < rounds; i++) {
        const trace = path.join(work, `rings-${count}-${i}`), recording = run(sonde, 'run', ...OPTIONS, '--kernel=sys', '-o', trace, '--', load, 'calls', count, 2);
        const status = await recording.ended;
        const { kernel: side, overhead, losses, end_ns: end, start_ns: start } = manifest(trace), { events, lost, runs, run_ns: ns } = side.families.sys;
        if (status !== 0 && status !== 4) throw new Error(`sonde run: ${status}\n${recording.complained}`);
        kernel.push(ns / runs);
        collector.push((overhead.collector_cpu_ns ?? 0) / events);
        share.push(losses.filter((l) => l.reason.startsWith('kernel-ring-full')).reduce((sum, l) => sum + l.count, 0) / (events + lost));
        rates.push((events + lost) / ((end - start) / 1e9));
        memory = side.memory_bytes;
        fullest = Math.max(fullest, side.fullest_percent ?? 0);
        fs.rmSync(trace, { recursive: true, force: true });
    }
    return { rounds, kernel_ns_a_run: spreadOf(kernel, 0), collector_ns_an_event: spreadOf(collector, 0), lost_share: spreadOf(share, 4), events_a_second: spreadOf(rates, 0), memory_mb: Math.round(memory / 2 ** 20), fullest_percent: fullest };
}

async function busy(count, ...prefix) {
    const trace = path.join(work, 'busy'), port = await freePort();
    const recording = record(trace, 'sh', '-c', `exec 3<&0; "${load}" idle ${count} 10 <&3 & ${prefix.join(' ')} redis-server --port ${port} --bind 127.0.0.1 --save "" --dir "${work}" > /dev/null`);
    await until(recording, () => traced(trace) > count, `${count} processes and a Redis`);
    const [command, ...args] = [...prefix, 'redis-benchmark', '-p', port, '-c', 50, '-n', 400000, '-P', 16, '-t', 'set,get', '--csv'].map(String);
    const { stdout } = spawnSync(command, args, { encoding: 'utf8' });
    await ended(recording);
    const { events, losses, processes } = manifest(trace);
    const fullest = Math.max(...processes.flatMap((p) => p.threads.map((thread) => thread.fullest_percent ?? NaN)));
    return { processes: processes.length, rates: stdout.trim().split('\n').slice(1).map((row) => row.split(',').slice(0, 2).join(' ').replaceAll('"', '')), events, losses, fullest_percent: Number.isFinite(fullest) ? fullest : null };
}

const PARTS = {
    node: [node, 200], blind: [(count) => node(count, '--no-kernel'), 200], threads: [threads, 100], stop: [stop, 2000],
    churn: [churn, 1000], prefork: [prefork, 150], liars: [liars, 20], busy: [busy, 50],
    'busy-free': [(count) => busy(count, 'taskset', '-c', 0), 50], all: [all, 100],
    containers: [containers, 500], 'busy-cost': [busyCost, 200], rings: [rings, 2],
};

const isMeasured = (part, size) => fs.existsSync(results) && fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((text) => JSON.parse(text))
    .some((line) => line.commit === commit && line.part === part && line.size === size);

try {
    for (const word of chosen.length ? chosen : Object.keys(PARTS)) {
        const [name, size] = word.split('='), [measure, usual] = PARTS[name] ?? [];
        if (!measure) throw new Error(`'${name}' is no part; they are ${Object.keys(PARTS).join(', ')}`);
        if (once && isMeasured(name, Number(size ?? usual))) continue;
        fs.rmSync(work, { recursive: true });
        fs.mkdirSync(work);
        const result = { commit, time: new Date().toISOString(), part: name, size: Number(size ?? usual), cpus: os.cpus().length, load: Number(os.loadavg()[0].toFixed(1)), ...await measure(Number(size ?? usual)) };
        fs.appendFileSync(results, `${JSON.stringify(result)}\n`);
        console.log(JSON.stringify(result, null, 1));
        if (result.unaccounted !== undefined) console.log(`in all: ${JSON.stringify(soFar(name))}`);
    }
} finally {
    for (const child of children) killAll(child);
    fs.rmSync(work, { recursive: true, force: true });
}
