// Does a server under TLS with I/O threads stand being attached to and left again and again? Attaches to servers under load, records
// for a moment, detaches, and looks whether the server still answers, whether its clients got an error, and whether its code is
// what it was. Every ten cycles append a line to bench/results/redis-cycles.jsonl, so that it may be stopped and started again.
//   node bench/redis-cycles.mjs [CYCLES]   so many in all for each server (200): the one that is installed, and those that
//                                          `tools/newer-servers build/servers` has fetched (root: they run in chroot)
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-cycles.jsonl');
const CYCLES = Number(process.argv[2] || 200), OF_A_LINE = 10, RECORDED_MS = 150, LATE_MS = 60_000, THREADS = 2;
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });
function run(command, ...args) {
    const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said = (child.said + data).slice(-100_000); });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', (status, signal) => { running.delete(child); child.over = true; resolve({ status, signal }); }));
    return child;
}
async function eventually(what, condition) {
    for (const end = Date.now() + LATE_MS; !condition(); await pause(25)) if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
}

// The bytes of a process's own program as they are in memory, without what it writes.
function codeOf(pid, program) {
    const memory = fs.openSync(`/proc/${pid}/mem`, 'r'), parts = [];
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const match = /^([0-9a-f]+)-([0-9a-f]+) r-xp .*\/(\S+)$/.exec(line);
        if (!match || match[3] !== program) continue;
        const from = Number(`0x${match[1]}`), part = Buffer.alloc(Number(`0x${match[2]}`) - from);
        fs.readSync(memory, part, 0, part.length, from);
        parts.push(part);
    }
    fs.closeSync(memory);
    return Buffer.concat(parts);
}

const servers = [{ name: `installed ${/v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))[1]}`, command: ['redis-server'] }];
servers[0].program = path.basename(fs.realpathSync(execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim()));
for (const [name, program] of [['trixie-redis-server', 'redis-server'], ['sid-valkey-server', 'valkey-server']]) {
    const folder = path.join(root, 'build', 'servers', name);
    if (!fs.existsSync(path.join(folder, '.complete')) || process.getuid() !== 0) continue;
    const version = /v=(\S+)/.exec(execFileSync('chroot', [folder, `/usr/bin/${program}`, '--version'], { encoding: 'utf8' }))[1];
    servers.push({ name: `${name} ${version}`, folder, program: path.basename(fs.realpathSync(path.join(folder, 'usr/bin', program))), command: ['chroot', folder, `/usr/bin/${program}`] });
}

async function ten({ name, folder, program, command }) {
    const port = await freePort(), plain = await freePort(), work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-cycles-'));
    const place = folder ? '/tmp' : work, files = folder ? path.join(folder, 'tmp') : work;
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', path.join(files, 'key.pem'), '-out', path.join(files, 'certificate.pem'), '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
    const server = run(...command, '--bind', '127.0.0.1', '--save', '', '--dir', place, '--port', plain, '--io-threads', THREADS, '--tls-port', port, '--tls-cert-file', `${place}/certificate.pem`, '--tls-key-file', `${place}/key.pem`, '--tls-ca-cert-file', `${place}/certificate.pem`, '--tls-auth-clients', 'no');
    const ask = (...words) => { try { return execFileSync('redis-cli', ['-p', String(plain), ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 10_000 }); } catch { return ''; } };
    try {
        await eventually(`${name} answers`, () => ask('ping').includes('PONG'));
        const before = codeOf(server.pid, program), load = run('redis-benchmark', '-p', port, '-c', 16, '-l', '-n', 1_000_000, '-t', 'set,get', '-d', 100, '-q', '--tls', '--insecure');
        const line = { commit, time: new Date().toISOString(), server: name, cycles: 0, attached: 0, events: 0, client_errors: 0, alive: true, code_restored: true };
        while (line.cycles < OF_A_LINE && line.alive) {
            const trace = path.join(work, `trace-${line.cycles++}`), recorder = run(SONDE, 'attach', '--no-kernel', '--budget', '80,512', '-o', trace, server.pid);
            await eventually('sonde attaches', () => recorder.over || /Ctrl-C/.test(recorder.said));
            line.attached += !recorder.over;
            await pause(RECORDED_MS);
            recorder.kill('SIGINT');
            await recorder.ended;
            try { line.events += JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8')).events; } catch {} // not attached
            fs.rmSync(trace, { recursive: true, force: true });
            line.alive = !server.over && ask('ping').includes('PONG');
        }
        line.client_errors = (load.said.match(/error|closed/gi) || []).length + (load.over ? 1 : 0);
        load.kill('SIGKILL');
        await load.ended;
        line.code_restored = line.alive && codeOf(server.pid, program).equals(before);
        return line;
    } finally {
        server.kill('SIGKILL');
        await server.ended;
        fs.rmSync(work, { recursive: true, force: true });
    }
}

fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
const sums = new Map(servers.map(({ name }) => [name, { cycles: 0, attached: 0, events: 0, client_errors: 0, ended: 0, left_changed: 0 }]));
const add = (line) => {
    const sum = sums.get(line.server);
    if (!sum) return;
    for (const field of ['cycles', 'attached', 'events', 'client_errors']) sum[field] += line[field];
    sum.ended += !line.alive;
    sum.left_changed += !line.code_restored;
};
if (fs.existsSync(RESULTS)) for (const text of fs.readFileSync(RESULTS, 'utf8').trim().split('\n')) add(JSON.parse(text));
for (;;) {
    const next = servers.reduce((least, server) => (sums.get(server.name).cycles < sums.get(least.name).cycles ? server : least));
    if (sums.get(next.name).cycles >= CYCLES) break;
    const line = await ten(next);
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line));
    add(line);
}
for (const [name, sum] of sums) console.log(`${name}: ${JSON.stringify(sum)}`);
process.exitCode = [...sums.values()].some((sum) => sum.ended || sum.left_changed || sum.client_errors || sum.attached < sum.cycles) ? 1 : 0;
