// What the system tests share: running sonde and other programs, waiting for conditions, cleaning up.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde');
export const SHOP = path.join(root, 'examples', 'shop', 'shop.js');
// This Node, and others that are at hand: SONDE_NODES=/path/to/node:/path/to/another.
export const NODES = [process.execPath, ...(process.env.SONDE_NODES || '').split(':').filter(Boolean)];
export const versionOf = (node) => execFileSync(node, ['--version']).toString().trim();
export const isRoot = process.getuid() === 0;
// How long something is waited for that must come: on a slow machine, with nothing in its caches, too.
export const PATIENCE_MS = 120_000;

// A folder of the test's own, removed at its end.
export function temporary(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-test-'));
    // A hook that throws would keep the next ones from ending what the test has started, which may still write here.
    t.after(() => {
        try {
            fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
        } catch (error) {
            console.error(`${folder} stays: ${error.message}`);
        }
    });
    return folder;
}

// A port of loopback that nobody listens on.
export function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

// A small file system of the test's own: { path, resize(size) }, or null where none can be made. It is mounted where nobody
// but a waiting shell has it, and looked at through that shell, so that it ends with the test, however that ends.
export async function smallDisk(t, size) {
    const folder = temporary(t);
    const holder = start(t, 'unshare', ['--mount', '--propagation', 'private', 'sh', '-c', 'mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && read end', folder, size], { stdio: ['pipe', 'pipe', 'pipe'] });
    try {
        await holder.until(/mounted/, { stream: 'stdout' });
    } catch (error) {
        if (holder.over) return null;
        throw error;
    }
    const resize = (to) => execFileSync('nsenter', ['--mount', '--root', `--target=${holder.pid}`, 'mount', '-o', `remount,size=${to}`, folder]);
    return { path: `/proc/${holder.pid}/root${folder}`, resize };
}

// A program that is running: its output so far, a way to wait for a line of it, and its end.
export class Running {
    constructor(t, command, args, options = {}) {
        this.what = [command, ...args].join(' ');
        this.stdout = this.stderr = '';
        this.child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options, env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...options.env } });
        this.waiters = new Set();
        const add = (name) => (part) => {
            this[name] += part;
            for (const check of this.waiters) check();
        };
        this.child.stdout?.setEncoding('utf8').on('data', add('stdout'));
        this.child.stderr?.setEncoding('utf8').on('data', add('stderr'));
        this.ended = new Promise((resolve, reject) => {
            this.child.on('error', reject);
            this.child.on('close', (status, signal) => {
                this.status = status;
                this.signal = signal;
                this.over = true;
                resolve({ status, signal, stdout: this.stdout, stderr: this.stderr });
                for (const check of this.waiters) check();
            });
        });
        this.ended.catch(() => {});
        t.after(async () => {
            if (this.over) return;
            const pids = [this.child.pid, ...descendants(this.child.pid)];
            for (const pid of pids) kill(pid, 'SIGKILL');
            await this.ended.catch(() => {});
        });
    }

    get pid() {
        return this.child.pid;
    }

    // The first match of pattern in a stream, as soon as it is there.
    until(pattern, { stream = 'stderr', timeoutMs = PATIENCE_MS } = {}) {
        return new Promise((resolve, reject) => {
            const check = () => {
                const match = pattern.exec(this[stream]);
                if (!match && !this.over) return;
                clearTimeout(timer);
                this.waiters.delete(check);
                if (match) resolve(match);
                else reject(new Error(`${this.what}: ended (${this.signal || this.status}) without ${pattern}\n${this.describe()}`));
            };
            const timer = setTimeout(() => {
                this.waiters.delete(check);
                reject(new Error(`${this.what}: no ${pattern} in ${timeoutMs} ms\n${this.describe()}`));
            }, timeoutMs);
            this.waiters.add(check);
            check();
        });
    }

    describe() {
        return `stdout: ${this.stdout.slice(-4000)}\nstderr: ${this.stderr.slice(-4000)}`;
    }
}

export const start = (t, command, args = [], options) => new Running(t, command, args.map(String), options);
export const sonde = (t, ...args) => start(t, SONDE, args);

// Runs a program to its end.
export async function finish(t, command, args = [], options) {
    const running = start(t, command, args, options);
    return { ...(await running.ended), describe: () => running.describe() };
}

export function kill(pid, signal) {
    try {
        process.kill(pid, signal);
    } catch (error) {
        if (error.code !== 'ESRCH') throw error;
    }
}

function parentOf(pid) {
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    } catch {
        return -1;
    }
}

export function descendants(pid) {
    const all = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((name) => [Number(name), parentOf(name)]);
    const found = [];
    for (let wave = [pid]; wave.length;) {
        wave = all.filter(([, parent]) => wave.includes(parent)).map(([child]) => child);
        found.push(...wave);
    }
    return found;
}

// The descendant whose command line contains text.
export function childNamed(pid, text) {
    return descendants(pid).find((child) => {
        try {
            return fs.readFileSync(`/proc/${child}/cmdline`, 'utf8').includes(text);
        } catch {
            return false;
        }
    });
}

export async function eventually(what, condition, timeoutMs = PATIENCE_MS) {
    const end = Date.now() + timeoutMs;
    for (;;) {
        const value = await condition();
        if (value) return value;
        if (Date.now() > end) throw new Error(`${what}: not within ${timeoutMs} ms`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

// The document of `sonde report --json`. Status 4 (data was lost) is a report too.
export async function reportOf(t, folder, allowed = [0]) {
    const { status, stdout, stderr } = await finish(t, SONDE, ['report', '--json', folder]);
    if (!allowed.includes(status)) throw new Error(`sonde report: status ${status}\n${stderr}`);
    return JSON.parse(stdout);
}

// Why nothing can be profiled here; false: it can.
export const noProfiles = () => spawnSync(SONDE, ['profile', '-q', '-f', 'folded', '--', 'true']).status === 3 && 'needs the right to load BPF programs (root, or CAP_BPF and CAP_PERFMON)';

// A program's C source in tests/system/programs, built: its path.
export function buildProgram(folder, name, ...flags) {
    const program = path.join(folder, name);
    execFileSync(process.env.CC || 'cc', ['-O1', '-g', ...flags, '-o', program, path.join(root, 'tests/system/programs', `${name}.c`)]);
    return program;
}

const MANY_ATTEMPTS = 4;

// `sonde profile` of a program that prints "ready ...", works after a line of input, says that it is done, and ends with its input: what
// sonde said, the program's number and its whole output. It is sampled from before the line on: once sonde can be interrupted,
// it has read the program. all: the whole machine is sampled. Names that sonde did not wait for when it was interrupted, on a busy
// machine, are missing and told: then the program is profiled again, as often as MANY_ATTEMPTS says.
export async function profileWork(t, options, [command, ...args], { all = false, done = /^done$/m } = {}) {
    for (let attempt = 1; ; attempt++) {
        const program = start(t, command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
        await program.until(/^ready.*$/m, { stream: 'stdout' });
        const sampling = start(t, SONDE, ['profile', ...options, all ? '--all' : program.pid]);
        await eventually('sonde can be interrupted', () => sampling.over || catchesInterrupt(sampling.pid));
        program.child.stdin.write('\n');
        await program.until(done, { stream: 'stdout' });
        sampling.child.kill('SIGINT');
        const { status, stdout, stderr } = await sampling.ended;
        program.child.stdin.end();
        const { stdout: output } = await program.ended;
        if (!/were not waited for any longer/.test(stderr) || attempt === MANY_ATTEMPTS) return { status, stdout, stderr, pid: program.pid, output };
    }
}

// Whether a process handles SIGINT by now; not one that has ended.
export function catchesInterrupt(pid) {
    try {
        const [, mask] = fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/^SigCgt:\s*(\w+)/m);
        return Boolean(BigInt(`0x${mask}`) & 2n);
    } catch (error) {
        if (!['ENOENT', 'ESRCH'].includes(error.code)) throw error;
        return false;
    }
}

// `sonde run -o folder ARGUMENTS...`, which must end well. A busy machine may lose a few events, or the kernel may leave out a run
// of a program, which counts as one: what lost more than one in a thousand is recorded again, as often as MANY_ATTEMPTS says.
export async function recorded(t, folder, ...args) {
    const sum = (rows, key) => rows.reduce((total, row) => total + row[key], 0);
    const said = [];
    for (let attempt = 0; attempt < MANY_ATTEMPTS; attempt++) {
        fs.rmSync(folder, { recursive: true, force: true });
        const run = await finish(t, SONDE, ['run', '-o', folder, ...args]);
        assert.ok([0, 4].includes(run.status), run.stderr);
        const { processes, losses } = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
        if (sum(losses, 'count') <= Math.max(1, sum(processes, 'events_written') / 1000)) return run;
        said.push(`lost: ${JSON.stringify(losses)}\n${run.stderr}`);
    }
    assert.fail(said.join('\n'));
}

// Runs a program under sonde to its end: { folder, requests, report }, or null where events were lost, because the machine was
// too busy for what the test looks at.
export async function traceOf(t, ...command) {
    const folder = path.join(temporary(t), 'trace');
    const { status, stderr } = await finish(t, SONDE, ['run', '--quiet', '-o', folder, '--', ...command]);
    if (![0, 4].includes(status)) throw new Error(`sonde run: status ${status}\n${stderr}`);
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder]);
    const { requests } = JSON.parse(spans.stdout), report = await reportOf(t, folder, [0, 4]);
    if (!report.losses.length) return { folder, requests, report };
    t.diagnostic(`events were lost on this machine: ${JSON.stringify(report.losses)}`);
    return null;
}

export const manifestOf = (folder) => JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));

// One line a finding, for messages of failed tests.
export const outline = (report) => report.findings.map((f) => `${f.severity} ${f.kind}: ${f.title}`).join('\n') || '(no findings)';

// The documents that a page written as one file carries, by the addresses at which a server would have them.
export const documentsOf = (html) => Object.fromEntries([...html.matchAll(/<script type="text\/plain" data-part="([^"]*)">([^<]*)<\/script>/g)].map(([, address, packed]) => [address.replaceAll('&#38;', '&'), zlib.gunzipSync(Buffer.from(packed, 'base64'))]));
