// What the benchmarks share: statistics, CPU time of a process, a Redis under load, tables.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

export const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;

// The command bound to one CPU, where there are two to choose from.
export function pinned(cpu, ...command) {
    return os.cpus().length > 1 && has('taskset') ? ['taskset', '-c', String(cpu), ...command.map(String)] : command.map(String);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function freePort() {
    return new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

// The server that is started: that of this system, or the one that REDIS_SERVER names (a Redis or Valkey of one's own).
export const REDIS_SERVER = process.env.REDIS_SERVER || 'redis-server';

// Starts a Redis that keeps nothing, by launch(command), and waits until it answers: { pid, port, load, ...what launch answers }.
// load(n, ...options) sends n SETs and n GETs over 50 connections from CPU 1 and answers what redis-benchmark says.
// secure: by TLS. load(n, ...options): GET and SET unless the options have a command or -t.
export async function startRedis(launch, folder, secure = false) {
    const port = await freePort(), key = path.join(folder, 'key.pem'), cert = path.join(folder, 'cert.pem');
    if (secure) execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost', '-days', '2', '-keyout', key, '-out', cert], { stdio: 'ignore' });
    const own = secure ? ['--port', 0, '--tls-port', port, '--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert, '--tls-auth-clients', 'no'] : ['--port', port];
    const tls = secure ? ['--tls', '--cacert', cert] : [];
    const launched = launch([REDIS_SERVER, ...own, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]);
    const ask = (command, ...args) => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    const cli = (...args) => ask('redis-cli', '-p', String(port), ...tls, ...args);
    for (let i = 0; ; i++) {
        try {
            if (cli('PING').startsWith('PONG')) break;
        } catch (error) {
            if (i > 200) throw error;
        }
        await pause(50);
    }
    const load = (n, ...options) => ask(...pinned(1, 'redis-benchmark', '-p', port, ...tls, '-c', 50, '-n', n, '-r', 10_000, '--csv', ...(options.some((word) => /^(-t|publish)$/.test(word)) ? [] : ['-t', 'set,get']), ...options));
    return { ...launched, pid: Number(/process_id:(\d+)/.exec(cli('INFO', 'server'))[1]), port, load };
}

export function spread(values) {
    const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
    return { median: (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2, min: sorted[0], max: sorted[n - 1] };
}

// The median with its 95 % interval from order statistics: no assumption on how values are distributed. With fewer than six
// values there is none: the extremes.
export function medianInterval(values) {
    const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
    let below = 0, k = 0;
    for (let term = 0.5 ** n; k < n / 2 && below + term <= 0.025; k++) {
        below += term;
        term *= (n - k) / (k + 1);
    }
    const at = Math.max(k - 1, 0);
    return { median: spread(values).median, low: sorted[at], high: sorted[n - 1 - at] };
}

// One-sided 95 % quantile of Student's t (Hill's expansion is overkill: exact to 0.005 from 5 degrees on).
function t95(degrees) {
    const z = 1.6448536;
    return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2) + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * degrees ** 3);
}

// Ratios of pairs: the geometric mean, the upper 95 % bound of it, and the median with its extremes.
export function pairedRatio(traced, bare) {
    const logs = traced.map((value, i) => Math.log(value / bare[i])), n = logs.length;
    const mean = logs.reduce((sum, x) => sum + x, 0) / n;
    const deviation = Math.sqrt(logs.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1));
    return { mean: Math.exp(mean), upper: Math.exp(mean + (t95(n - 1) * deviation) / Math.sqrt(n)), ...spread(logs.map(Math.exp)) };
}

// CPU time of all threads of a process so far, ns, from the scheduler's own account.
export function cpuTime(pid) {
    let sum = 0;
    for (const tid of fs.readdirSync(`/proc/${pid}/task`)) {
        try {
            sum += Number(fs.readFileSync(`/proc/${pid}/task/${tid}/schedstat`, 'utf8').split(' ')[0]);
        } catch {} // the thread has just ended
    }
    return sum;
}

export function table(title, head, rows) {
    const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => String(row[column]).length)));
    const line = (row) => row.map((cell, column) => (column ? String(cell).padStart(widths[column]) : String(cell).padEnd(widths[column]))).join('  ');
    console.log(`\n${title}\n  ${line(head)}`);
    for (const row of rows) console.log(`  ${line(row)}`);
}
