// Does `sonde redis` raise a false alarm? Healthy servers with I/O threads under a legal load, plain and with TLS: every
// conflict between threads that is reported is wrong. Each run appends a line to bench/results/redis-alarms.jsonl, so that it
// may be stopped and started again; the sums so far are printed. A run whose load or recorder does not end in time is an error
// of the program, said with what it waited for.
//   node bench/redis-alarms.mjs [SECONDS]   how long to go on (60). Servers: the one that is installed, and those that
//                                           `tools/newer-servers build/servers` has fetched (root: they run in chroot)
// There are as many I/O threads as CPUs: they spin while they wait for each other, so that with more of them than
// CPUs a server waits for the scheduler in every iteration, and a load of a given length takes minutes. For the same
// reason the load ends by time. The kind of server with the fewest events so far comes next, with and without pipelines in turn.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-alarms.jsonl');
const LOAD_MS = 8000, LATE_MS = 60_000, THREADS = Math.max(2, os.cpus().length);
const until = Date.now() + Number(process.argv[2] || 60) * 1000;
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });

function run(command, ...args) {
    const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said += data; });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', (status, signal) => { running.delete(child); child.over = true; resolve({ status, signal }); }));
    return child;
}

async function inTime(what, promise) {
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`${what}: not within ${LATE_MS / 1000} s`)), LATE_MS); });
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}

async function eventually(what, condition) {
    const end = Date.now() + LATE_MS;
    for (;;) {
        if (condition()) return;
        if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
        await pause(25);
    }
}

const servers = [{ name: `installed ${/v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))[1]}`, command: ['redis-server'] }];
for (const [name, program] of [['trixie-redis-server', 'redis-server'], ['sid-valkey-server', 'valkey-server']]) {
    const folder = path.join(root, 'build', 'servers', name);
    if (!fs.existsSync(path.join(folder, '.complete')) || process.getuid() !== 0) continue;
    const version = execFileSync('chroot', [folder, `/usr/bin/${program}`, '--version'], { encoding: 'utf8' });
    servers.push({ name: `${name} ${/v=(\S+)/.exec(version)[1]}`, folder, command: ['chroot', folder, `/usr/bin/${program}`] });
}

async function once({ name, folder, command }, tls, pipeline) {
    const port = await freePort(), plain = tls ? await freePort() : port, work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-alarms-'));
    const place = folder ? '/tmp' : work, files = folder ? path.join(folder, 'tmp') : work, trace = path.join(work, 'trace');
    if (tls) execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', path.join(files, 'key.pem'), '-out', path.join(files, 'certificate.pem'), '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
    // Redis 7.0 to 7.4 with TLS and threads that read have the very fault that is looked for: those read in the main thread there.
    const reads = / 7\.[0-4]\./.test(name) ? ['--io-threads-do-reads', tls ? 'no' : 'yes'] : [];
    const server = run(...command, '--bind', '127.0.0.1', '--save', '', '--dir', place, '--port', plain, '--io-threads', THREADS, ...reads,
        ...(tls ? ['--tls-port', port, '--tls-cert-file', `${place}/certificate.pem`, '--tls-key-file', `${place}/key.pem`, '--tls-ca-cert-file', `${place}/certificate.pem`, '--tls-auth-clients', 'no'] : []));
    const answers = () => { try { return execFileSync('redis-cli', ['-p', String(plain), 'ping'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 5000 }).includes('PONG'); } catch { return false; } };
    try {
        await eventually(`${name} answers`, answers);
        const recorder = run(SONDE, 'attach', '--no-kernel', '--budget', '80,512', '-o', trace, server.pid);
        await eventually('sonde attaches', () => recorder.over || /Ctrl-C/.test(recorder.said));
        if (recorder.over) throw new Error(`${name}: ${recorder.said}`);
        const load = run('redis-benchmark', '-p', port, '-c', 64, '-l', '-n', 100_000, '-P', pipeline, '-t', 'set,get,lpush', '-d', 100, '-q', ...(tls ? ['--tls', '--insecure'] : []));
        await Promise.race([load.ended, pause(LOAD_MS)]);
        load.kill('SIGKILL');
        await inTime('the load ends', load.ended);
        recorder.kill('SIGINT');
        await inTime('the recorder ends', recorder.ended);
        const alive = !server.over && answers();
        const analysis = run(SONDE, 'redis', '--json', trace);
        await inTime('the analysis ends', analysis.ended); // with status 4 when events were lost
        const { findings, servers: [seen], losses } = JSON.parse(analysis.said.slice(analysis.said.indexOf('{')));
        const { events } = JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8'));
        return { commit, time: new Date().toISOString(), server: name, tls, io_threads: THREADS, pipeline, events, commands: seen.commands_count, threads: seen.threads.length, lost: losses.reduce((sum, loss) => sum + loss.count, 0), alive, conflicts: findings.filter((f) => f.kind === 'redis-connection-conflict').reduce((sum, f) => sum + f.evidence.conflicts_count, 0) };
    } finally {
        server.kill('SIGKILL');
        await server.ended;
        fs.rmSync(work, { recursive: true });
    }
}

fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
const keyOf = (name, tls) => `${name}${tls ? ', TLS' : ''}`, sums = new Map();
const add = (line) => {
    const key = keyOf(line.server, line.tls), sum = sums.get(key) || { runs: 0, events: 0, lost: 0, conflicts: 0, dead: 0 };
    sums.set(key, { runs: sum.runs + 1, events: sum.events + line.events, lost: sum.lost + line.lost, conflicts: sum.conflicts + line.conflicts, dead: sum.dead + !line.alive });
};
if (fs.existsSync(RESULTS)) for (const text of fs.readFileSync(RESULTS, 'utf8').trim().split('\n')) add(JSON.parse(text));
while (Date.now() < until) {
    const so = servers.flatMap((server) => [false, true].map((tls) => ({ server, tls, ...(sums.get(keyOf(server.name, tls)) || { runs: 0, events: 0 }) })));
    const next = so.reduce((least, kind) => (kind.events < least.events ? kind : least));
    const line = await once(next.server, next.tls, next.runs % 2 ? 16 : 1);
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line));
    add(line);
}
for (const [key, sum] of sums) console.log(`${key}: ${sum.events} events in ${sum.runs} runs (${sum.lost} lost), ${sum.conflicts} conflicts reported, ${sum.dead} servers ended`);
process.exitCode = [...sums.values()].some((sum) => sum.conflicts) ? 1 : 0;
