// Runs one application under sonde with its load, and compares what the report says with what was planted.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { kill, outline, SONDE, start, temporary } from '../system/helper.mjs';
import { missingStore, startStore } from './stores.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url)), APPS = path.join(HERE, 'apps'), LARGE = path.join(HERE, 'large'), BIN = path.join(HERE, 'node_modules', '.bin');
const TOLERANCE = 0.15;

/* ---- building and starting ---- */

// Why a row cannot be run here; null when it can.
export function missing({ application, store }) {
    const [folder, how] = application === 'modules' ? [path.join(HERE, 'modules'), 'make deps'] : LARGER.includes(application) ? [LARGE, 'tools/install-deps bench'] : [HERE, 'make deps'];
    return fs.existsSync(path.join(folder, 'node_modules')) ? missingStore(store) : `its packages are not installed (${how})`;
}

// TypeScript is compiled once a run, into dist/ beside it (.next of Next.js).
const built = new Set();
function build(application) {
    if (built.has(application)) return;
    if (application === 'nest') execFileSync(process.execPath, [path.join(BIN, 'tsc'), '-p', path.join(APPS, 'nest')]);
    if (application === 'esbuild')
        execFileSync(path.join(BIN, 'esbuild'), [path.join(APPS, 'bundle.ts'), '--bundle', '--minify', '--platform=node', '--sourcemap', '--log-level=error', `--outfile=${path.join(APPS, 'dist', 'bundle.js')}`]);
    if (application === 'next') execFileSync(process.execPath, [path.join(LARGE, 'node_modules', 'next', 'dist', 'bin', 'next'), 'build', path.join(LARGE, 'next')], { env: { ...process.env, NEXT_TELEMETRY_DISABLED: '1' }, stdio: ['ignore', 'ignore', 'pipe'] });
    built.add(application);
}

// Those whose packages are in large/.
const LARGER = ['next', 'sqlite3'];

const COMMANDS = {
    next: ['../large/next/main.js'],
    sqlite3: ['../large/sqlite3.js'],
    nest: ['nest/dist/main.js'],
    esbuild: ['dist/bundle.js'],
    tsx: ['--import', 'tsx', 'bundle.ts'],
    got: ['got.mjs'],
    drizzle: ['drizzle.mjs'],
    hono: ['hono.mjs'],
    leak: ['--max-semi-space-size=1', '--max-old-space-size=200', 'leak.js'],
};
const commandOf = (application, node) => [node, ...(COMMANDS[application] || [`${application}.js`]).map((part) => (/\.m?[jt]s$/.test(part) ? path.join(APPS, part) : part))];

/* ---- load ---- */

// patience: after so many milliseconds it closes the connection; upload: so many bytes are sent as a form's file.
export function ask(port, path, agent, { patience = 0, upload = 0 } = {}) {
    const form = upload && Buffer.concat(['--edge\r\nContent-Disposition: form-data; name="file"; filename="photo"\r\n\r\n', Buffer.alloc(upload, 'x'), '\r\n--edge--\r\n'].map((part) => Buffer.from(part)));
    const posted = form ? { method: 'POST', headers: { 'Content-Type': 'multipart/form-data; boundary=edge', 'Content-Length': form.length } } : {};
    return new Promise((resolve) => {
        const request = http.request({ host: '127.0.0.1', port, path: encodeURI(path), agent, ...posted }, (response) => response.resume().on('close', () => resolve(response.statusCode)));
        if (patience) request.setTimeout(patience, () => request.destroy(Object.assign(new Error('too late'), { code: 'TOO LATE' })));
        // A server that stood for longer than it keeps connections closes them when it goes on.
        request.on('error', (error) => resolve(request.reusedSocket && error.code === 'ECONNRESET' ? ask(port, path, agent) : error.code));
        request.end(form || undefined);
    });
}

// A client of socket.io.
async function connected(port) {
    const { io } = createRequire(import.meta.url)('socket.io-client');
    const socket = io(`http://127.0.0.1:${port}`, { transports: ['websocket'], forceNew: true });
    await new Promise((resolve, reject) => socket.on('connect', resolve).on('connect_error', reject));
    return socket;
}

// One of WebSocket without anything above it, in the same form.
async function framed(port) {
    const { WebSocket } = createRequire(import.meta.url)('ws');
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    await once(socket, 'open');
    return { emitWithAck: (text) => (socket.send(text), once(socket, 'message')), disconnect: () => socket.close() };
}

// allowed: answers that are part of what is planted, besides 200.
async function putLoad(port, streams, allowed = []) {
    const agent = new http.Agent({ keepAlive: true }), statuses = new Map();
    const client = async ({ path, event, frame, count, pause, ...how }) => {
        const socket = event ? await connected(port) : frame && (await framed(port));
        for (let i = 0; i < count; i++) {
            const status = socket ? await socket.emitWithAck(event || frame).then(() => 200) : await ask(port, path, agent, how);
            statuses.set(status, (statuses.get(status) || 0) + 1);
            if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
        }
        socket?.disconnect();
    };
    await Promise.all(streams.flatMap((stream) => Array.from({ length: stream.clients }, () => client(stream))));
    agent.destroy();
    const bad = [...statuses].filter(([status]) => status !== 200 && !allowed.includes(status));
    if (bad.length) throw new Error(`the application answered ${bad.map(([status, count]) => `${status} (${count} times)`).join(', ')}`);
}

/* ---- one run ---- */

// The processes below one.
function descendants(pid) {
    const children = fs.readdirSync('/proc').filter((name) => {
        try {
            return /^\d+$/.test(name) && fs.readFileSync(`/proc/${name}/stat`, 'utf8').replace(/.*\) /s, '').split(' ')[1] === String(pid);
        } catch {
            return false; // it has ended
        }
    });
    return children.flatMap((child) => [child, ...descendants(child)]);
}

// Those that sonde comes to. Debian's redis-server is a link to a file of another name.
const PROGRAM = /node|redis-server/;
const programOf = (pid) => `${fs.readlinkSync(`/proc/${pid}/exe`)} ${fs.readFileSync(`/proc/${pid}/comm`, 'utf8')}`;

// { report, book, store, stderr, out: where the trace is }; t: as the system tests have it, for cleaning up. attach: sonde comes to
// the programs when they run. single: with { requests } of the program's own book, each by itself (apps/truth.js).
export async function runApplication(t, row, { node = process.execPath, attach = false, single = false } = {}) {
    build(row.application);
    const folder = temporary(t), out = path.join(folder, 'trace'), truth = path.join(folder, 'truth.json'), requests = path.join(folder, 'requests.json');
    fs.mkdirSync(path.join(folder, 'store'));
    const store = row.store ? await startStore(t, row.store, path.join(folder, 'store')) : {};
    const program = commandOf(row.application, node);
    const environment = { TROUBLE: row.trouble, TRUTH: truth, ...(single && { TRUTH_REQUESTS: requests }), TRUTH_MODULE: path.join(APPS, 'truth.js'), DB_PORT: String(store.port || 0), DB_USER: store.user || '', DB_PID: String(store.pid || 0), CLOSED_PORT: '1' /* never given to a program that asks for any port */ };
    // A store that is traced as well is started by a shell beside the application.
    const command = store.command ? ['sh', '-c', `"$@" >/dev/null 2>&1 & until redis-cli -p ${store.port} ping >/dev/null 2>&1; do :; done; ${program.map((part) => `'${part}'`).join(' ')}; kill $!; wait`, 'sh', ...store.command] : program;
    let running = attach ? start(t, command[0], command.slice(1), { env: environment, cwd: HERE }) : start(t, SONDE, ['run', '--json', '-o', out, '--', ...command], { env: environment, cwd: HERE });
    const started = running, [, port, pid] = await running.until(/listening (\d+) (\d+)/, { stream: 'stdout' });
    if (attach) {
        running = start(t, SONDE, ['attach', '--json', '-o', out, ...[String(started.pid), ...descendants(started.pid)].filter((one) => PROGRAM.test(programOf(one)))]);
        await running.until(/attached to \d+ process/);
    }
    await putLoad(Number(port), row.load, row.answers);
    if (row.last) await ask(Number(port), row.last);
    if (attach) kill(running.pid, 'SIGINT');
    else kill(Number(pid), 'SIGTERM');
    const { stdout, stderr } = await running.ended;
    if (attach) {
        kill(Number(pid), 'SIGTERM');
        await started.ended;
    }
    if (process.env.KEEP) fs.cpSync(out, path.join(process.env.KEEP, `${row.application}-${row.trouble}`), { recursive: true });
    const report = JSON.parse(stdout.slice(stdout.indexOf('\n{') + 1));
    const read = (file, otherwise) => (fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : otherwise);
    return { report, book: read(truth, {}), requests: read(requests, []), store, stderr, out };
}

/* ---- judging ---- */

// The lines between `planted name` and `end name`.
function linesOf(at) {
    const [file, name] = at.split(' ');
    const lines = fs.readFileSync(path.join(APPS, file), 'utf8').split('\n');
    const first = lines.findIndex((line) => line.includes(`// planted ${name}`)) + 1, last = lines.findIndex((line) => line.includes(`// end ${name}`)) + 1;
    if (!first || last < first) throw new Error(`${file}: '${name}' is not marked`);
    return { file: `/${path.basename(file)}`, first, last };
}

function amountOf(book, [, name, field]) {
    return typeof field === 'function' ? field(book) : book[name][field];
}

const lineAt = ({ file, line }) => (file && fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n')[line - 1] : '').trim().slice(0, 200);

// What is wrong with a finding that should be the planted one; [] when it is right.
function faultsOf(finding, expected, run) {
    const wrong = [], source = finding.where.source || {}, text = JSON.stringify(finding);
    if (expected.at) {
        const { file, first, last } = linesOf(expected.at);
        if (!source.file?.endsWith(file) || source.line < first || source.line > last) wrong.push(`place ${source.file}:${source.line}, not ${file}:${first}-${last}`);
    }
    if (expected.module && !(source.file?.includes(`/node_modules/${expected.module}/`) && lineAt(source).includes(expected.line))) wrong.push(`place ${source.file}:${source.line} (${lineAt(source)}), not ${expected.line} of ${expected.module}`);
    if (expected.where && !expected.where.test(finding.where.service)) wrong.push(`service ${finding.where.service}, not ${expected.where}`);
    if (expected.called && !expected.called.test(`${finding.evidence.called} ${finding.detail}`)) wrong.push(`called ${finding.evidence.called}, not ${expected.called}`);
    if (expected.text && !expected.text.test(text)) wrong.push(`nothing like ${expected.text}`);
    if (expected.lanes && finding.evidence.lanes_count !== expected.lanes) wrong.push(`${finding.evidence.lanes_count} lanes, not ${expected.lanes}`);
    for (const [name, value] of Object.entries(expected.evidence || {})) if (typeof value === 'function' ? !value(finding.evidence[name]) : finding.evidence[name] !== value) wrong.push(`${name} ${finding.evidence[name]}, not ${value}`);
    if (expected.peer && !text.includes(`:${run.store.port}`)) wrong.push(`does not name :${run.store.port}`);
    const routes = new Set(finding.affected.map((a) => a.route));
    for (const route of expected.victims || []) if (!routes.has(route)) wrong.push(`${route} is no victim (${[...routes]})`);
    if (expected.amount) {
        const blamed = finding.evidence[expected.amount[0]], truth = amountOf(run.book, expected.amount);
        // On a machine without CPUs to spare, part of it is told apart as the machine's, and gaps come between what is held.
        const machine = run.report.findings.find((f) => f.kind === 'run-queue-wait')?.evidence, least = machine?.waited_ns > 100e6 ? 0 : truth * (1 - TOLERANCE) - (machine?.waited_ns || 0) - (machine?.cpu_ns || 0);
        if (!(blamed <= truth * (1 + TOLERANCE) && blamed >= least)) wrong.push(`${expected.amount[0]} ${Math.round(blamed / 1e6)} ms, truly ${Math.round(truth / 1e6)} ms`);
    }
    return wrong;
}

// { right, wrong: [what], outline } of a run.
export function judge(row, run) {
    const claims = run.report.findings.filter((f) => f.severity !== 'info'), taken = new Set(), wrong = [];
    for (const expected of row.expected || []) {
        const kinds = expected.kinds || [expected.kind];
        const tried = (expected.info ? run.report.findings : claims).filter((f) => kinds.includes(f.kind)).map((f) => ({ finding: f, wrong: faultsOf(f, expected, run) })).sort((a, b) => a.wrong.length - b.wrong.length);
        if (!tried.length) wrong.push(`no ${kinds.join(' or ')}`);
        else wrong.push(...tried[0].wrong), taken.add(tried[0].finding);
    }
    for (const claim of claims) if (!taken.has(claim) && !row.also?.includes(claim.kind)) wrong.push(`false ${claim.severity} ${claim.kind}: ${claim.title}`);
    return { right: !wrong.length, wrong, outline: outline(run.report) };
}
