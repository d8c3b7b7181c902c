// One server in which six things go wrong, and its healthy twin: the append-only file forced to the disk for each write, evictions,
// a fork, KEYS, EVAL and a reply of 100,001 elements, beside thirty clients that GET. What each finding of `sonde redis` says, against
// what Redis (INFO, SLOWLOG) and the clients (their own times, bytes, and writes one after the other, each of which is forced to the
// disk) say of the same. The twin has the same clients and writes, and none of the six; it must have no finding. Each round appends a line to
// bench/results/redis-study.jsonl.
//   node bench/redis-study.mjs [ROUNDS]   (3)
// SPDX-License-Identifier: Apache-2.0
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { VERSION, answers, cli, lines } from '../tests/system/redis.mjs';
import { commit } from './commit.mjs';
import { freePort, pause, pinned, table } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-study.jsonl');
const ROUNDS = Number(process.argv[2] || 3), CLIENTS = 30, KEYS = 1_000_000, ELEMENTS = 100_001, SYNCED = 600, EVICTING = 2000, WITHIN = 0.1, LATE_MS = 120_000;
// A fork of so few pages takes less than the 10 ms from which something is slow by default.
const SLOW_MS = 4;

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });
function run(...words) {
    const [command, ...args] = words.map(String), child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said += data; });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', (status) => { running.delete(child); resolve(status); }));
    return child;
}
async function eventually(what, condition) {
    for (const end = Date.now() + LATE_MS; !(await condition()); await pause(20)) if (Date.now() > end) throw new Error(`${what}: not within ${LATE_MS / 1000} s`);
}
const info = (port) => Object.fromEntries([...cli(port, ['info', 'all']).matchAll(/^([^:\r\n]+):(.*?)\r?$/gm)].map(([, key, value]) => [key, value]));
const number = (port, key) => Number(info(port)[key]);

// How long the command executed, by the server's own log, in ns.
const logged = (port, command) => {
    const said = cli(port, ['--json', 'slowlog', 'get', '128']), entries = JSON.parse(said).filter(([, , , words]) => words[0].toUpperCase() === command);
    return 1000 * Math.max(...entries.map(([, , took_us]) => took_us));
};

// Connections that send one GET after the other, with the times and bytes of their own.
function getters(port) {
    const clients = Array.from({ length: CLIENTS }, () => {
        const socket = net.connect(port, '127.0.0.1'), client = { socket, over: false, slowest: 0, replies: 0 };
        const send = () => { client.sent = performance.now(); socket.write('GET key:1\r\n'); };
        socket.setNoDelay(true).on('error', () => {}).on('connect', send).on('data', () => {
            client.slowest = Math.max(client.slowest, performance.now() - client.sent);
            client.replies++;
            if (!client.over) send();
        });
        return client;
    });
    const served = () => {
        const before = clients.map(({ replies }) => replies); // a reply that waited may not have been read yet
        return eventually('all are served', () => clients.every(({ replies }, n) => replies > before[n] + 1));
    };
    return {
        served,
        // Each client's longest wait while that is done, in ns.
        async during(what) {
            await served();
            for (const client of clients) client.slowest = 0;
            await what();
            await served();
            return clients.map(({ slowest }) => 1e6 * slowest);
        },
        end() { for (const client of clients) { client.over = true; client.socket.destroy(); } },
    };
}

// One command on a connection of its own: how many bytes its reply has, which ends with so many lines.
function replyBytes(port, words, count) {
    return new Promise((resolve, reject) => {
        let bytes = 0, ends = 0;
        const socket = net.connect(port, '127.0.0.1', () => socket.write(`${words}\r\n`)).on('error', reject).on('data', (data) => {
            bytes += data.length;
            for (const byte of data) ends += byte === 10;
            if (ends === count) { socket.destroy(); resolve(bytes); }
        });
    });
}

async function recorded(use) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-redis-study-')), trace = path.join(folder, 'trace'), port = await freePort();
    const recorder = run(SONDE, 'run', '--quiet', '--no-kernel', '--budget', '100,2048', '-o', trace, '--', ...pinned(0, 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--enable-debug-command', 'local', '--slowlog-log-slower-than', 1000 * SLOW_MS));
    try {
        await answers(port);
        const truth = await use(port);
        run('redis-cli', '-p', port, 'shutdown', 'nosave');
        await recorder.ended;
        const shown = run(SONDE, 'redis', '--json', '--slow-command-ms', SLOW_MS, trace), status = await shown.ended;
        if (![0, 4].includes(status)) throw new Error(shown.said);
        const { findings, losses } = JSON.parse(shown.said);
        return { truth, findings, lost: losses.reduce((sum, { count }) => sum + count, 0) };
    } finally {
        for (const child of running) child.kill('SIGKILL');
        fs.rmSync(folder, { recursive: true, force: true });
    }
}

async function sick(port) {
    cli(port, ['debug', 'populate', KEYS, 'key', '100']);
    cli(port, ['eval', `for i = 1, ${ELEMENTS} do redis.call('rpush', 'list', 'an element') end`, '0']);
    const load = getters(port), truth = {};
    truth.keys_waits = await load.during(() => run('redis-cli', '-p', port, 'keys', 'nothing*').ended);
    truth.keys_ns = logged(port, 'KEYS');
    truth.eval_waits = await load.during(() => run('redis-cli', '-p', port, 'eval', 'local n = 0 for i = 1, 8000000 do n = n + i % 7 end return n', '0').ended);
    truth.eval_ns = logged(port, 'EVAL');
    cli(port, ['bgsave']);
    await eventually('it is saved', () => info(port).rdb_bgsave_in_progress === '0');
    truth.fork_ns = 1000 * number(port, 'latest_fork_usec');
    truth.reply_bytes = await replyBytes(port, 'LRANGE list 0 -1', 2 * ELEMENTS + 1);
    load.end();
    cli(port, ['config', 'set', 'maxmemory-policy', 'allkeys-random']);
    cli(port, ['config', 'set', 'maxmemory', String(number(port, 'used_memory') - 40e6)]);
    cli(port, [], lines(EVICTING, (n) => `set new${n} ${'x'.repeat(1000)}`));
    cli(port, ['config', 'set', 'maxmemory', '0']);
    cli(port, ['config', 'set', 'appendfsync', 'always']);
    cli(port, ['config', 'set', 'appendonly', 'yes']);
    await eventually('the file is written', () => { const now = info(port); return now.aof_enabled === '1' && now.aof_rewrite_in_progress === '0' && now.aof_rewrite_scheduled === '0'; });
    cli(port, [], lines(SYNCED, (n) => `set file${n} value`));
    truth.syncs = SYNCED;
    const after = info(port);
    truth.evicted = Number(after.evicted_keys);
    truth.fork_ns = Math.max(truth.fork_ns, 1000 * Number(after.latest_fork_usec)); // the file began with another one
    return truth;
}

async function well(port) {
    const load = getters(port);
    await load.served();
    cli(port, [], lines(SYNCED, (n) => `set file${n} value`));
    await load.served();
    load.end();
}

// What is said of the six, against the truth.
function compare({ truth, findings }) {
    const of = (kind, command) => findings.find((f) => f.kind === kind && (!command || f.evidence.command === command))?.evidence;
    const rows = [];
    for (const [name, command] of [['keys', 'KEYS'], ['eval', 'EVAL']]) {
        const said = of('redis-slow-command', command), took = truth[`${name}_ns`], waits = truth[`${name}_waits`];
        rows.push([`${command} executed, ns`, said?.worst_ns, took, 'SLOWLOG'], [`${command}, connections that waited`, said?.waiting_clients_count, waits.filter((ns) => ns > took / 2).length, 'the clients'],
            [`${command}, longest wait, ns`, said?.longest_wait_ns, Math.max(...waits), 'the clients']);
    }
    rows.push(['fork, ns', of('redis-fork-stall')?.worst_ns, truth.fork_ns, 'INFO'], ['keys evicted', of('redis-eviction-storm')?.evicted_count, truth.evicted, 'INFO'],
        ['times the file was forced', of('redis-fsync-stall')?.syncs_count, truth.syncs, 'the client'], ['reply to LRANGE, bytes', of('redis-big-reply', 'LRANGE')?.reply_bytes, truth.reply_bytes, 'the client']);
    return rows.map(([what, said, is, whose]) => ({ what, said: said ?? null, truth: is, whose, off: said === undefined || is === null ? null : said / is - 1 }));
}

fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
for (let n = 0; n < ROUNDS; n++) {
    const all = await recorded(sick), twin = await recorded(well), rows = compare(all), wrong = rows.filter(({ off, truth }) => truth !== null && !(Math.abs(off) <= WITHIN && off !== null));
    const line = { commit, time: new Date().toISOString(), version: VERSION, slow_ms: SLOW_MS, rows, lost: all.lost, kinds: [...new Set(all.findings.map((f) => f.kind))].sort(), wrong: wrong.map(({ what }) => what), twin_findings: twin.findings.map((f) => f.title), twin_lost: twin.lost, machine_load: os.loadavg()[0] };
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    const figure = (what, value) => (value === null ? '-' : / ns$/.test(what) ? `${(value / 1e6).toFixed(2)} ms` : value);
    table(`Round ${n + 1}: ${line.wrong.length ? `more than ${100 * WITHIN} % off: ${line.wrong.join('; ')}` : `all within ${100 * WITHIN} %`}; the twin has ${twin.findings.length ? line.twin_findings.join('; ') : 'no finding'}; ${line.lost + line.twin_lost} events lost`,
        ['', 'sonde', 'truth', 'by', 'off'], rows.map(({ what, said, truth, whose, off }) => [what.replace(/, ns$/, ''), figure(what, said), figure(what, truth), whose, off === null ? '-' : `${(100 * off).toFixed(2)} %`]));
}
