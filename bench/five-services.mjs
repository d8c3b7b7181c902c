// The application of five services with Redis and MySQL gateways (tests/applications/apps/five: gateway, user, order,
// redis-gateway, mysql-gateway; a Redis, a MariaDB) under one recording, with one planted fault after the other. Judged against the
// truth: is the fault found, where and how much (within 15 % of what the services, Redis' slow log and strace say), is nothing
// else accused, and does the critical path of the slow requests, seen from the gateway, lie where the fault is? Prints a table
// and appends a line for each run to bench/results/five-services.jsonl.
//   node bench/five-services.mjs [FAULT...]   those faults, or "healthy" (all). KEEP=DIR keeps the recordings there.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, judge } from '../tests/applications/harness.mjs';
import { missingStore, startStore } from '../tests/applications/stores.mjs';
import { finish, freePort, kill, root, SONDE, start, temporary } from '../tests/system/helper.mjs';
import { commit } from './commit.mjs';
import { slowlog } from './verdicts/peers.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url)), APPS = path.join(root, 'tests', 'applications', 'apps');
const Redis = createRequire(path.join(APPS, 'five', 'main.js'))('ioredis'), http = createRequire(import.meta.url)('node:http');
const RESULTS = path.join(HERE, 'results', 'five-services.jsonl'), NAMES = ['gateway', 'user', 'order', 'redis-gateway', 'mysql-gateway'];
const LATE_MS = 150, MOVEMENTS = 600_000, KEYS = 300_000, HISTORY = 60_000, SUBSCRIBERS = 300, SYNC_LATE_US = 60_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* ---- what is planted ---- */

const USERS = { path: (n) => `/users/${n % 50}`, clients: 2, count: 150, pause: 15 };
const logged = (command) => ({ slow }) => slow.filter((entry) => entry.command === command).reduce((sum, { us }) => sum + us * 1000, 0);
const few = (path, count = 10, more = {}) => ({ path: () => path, clients: 1, count, pause: 60, ...more });

// route: of the gateway's requests that are slow; hop: which step of their critical path takes most of the time: whose, and what.
const FAULTS = {
    healthy: { load: [few('/search/ann'), few('/orders/7'), few('/place/7'), few('/top'), few('/history'), few('/report'), few('/price'), few('/invoice'), few('/picture/7'), few('/basket/7')] },
    keys: { load: [few('/search/7777')], route: '/search/:id', hop: [/^redis-gateway$/, /KEYS/],
        expected: [{ kind: 'redis-slow-command', where: /redis:/, text: /"command":"KEYS"/, victims: ['/search/:id', '/users/:id'], amount: ['executed_ns', '', logged('KEYS')] }] },
    eval: { load: [few('/top')], route: '/top', hop: [/^redis-gateway$/, /EVAL/],
        expected: [{ kind: 'redis-slow-command', where: /redis:/, text: /"command":"EVAL"/, victims: ['/top', '/users/:id'], amount: ['executed_ns', '', logged('EVAL')] }] },
    fsync: { load: [few('/place/7', 20)], route: '/place/:id', hop: [/^redis-gateway$/, /SET/],
        expected: [{ kind: 'redis-fsync-stall', where: /redis:/, amount: ['took_ns', '', ({ synced_ns }) => synced_ns] }], also: ['slow-peer', 'redis-queueing'] },
    reply: { load: [few('/history')], route: '/history', hop: [/^redis-gateway$/, /./],
        expected: [{ kind: 'redis-big-reply', info: true, where: /redis:/, text: /"command":"LRANGE"/, amount: ['reply_bytes', '', ({ history_bytes }) => history_bytes] }], also: ['event-loop-blocked', 'serialisation', 'gc-pressure', 'redis-slow-command', 'redis-queueing'] },
    fanout: { load: [few('/place/7')], subscribers: SUBSCRIBERS, route: '/place/:id', hop: [/^redis-gateway$/, /PUBLISH/],
        expected: [{ kind: 'redis-slow-command', where: /redis:/, text: /"command":"PUBLISH"/, victims: ['/place/:id'], amount: ['executed_ns', '', logged('PUBLISH')] }], also: ['redis-queueing'] },
    sql: { load: [few('/report')], route: '/report', hop: [/^mysql-gateway$/, /SELECT/],
        expected: [{ kind: 'slow-peer', where: /^mysql-gateway$/, peer: true, evidence: { call: 'SELECT' }, victims: ['/report'], amount: ['waited_ns', '', ({ 'mysql-gateway': book }) => book.report.ns] }] },
    pool: { load: [few('/orders/7', 5, { clients: 8, pause: 0 })], route: '/orders/:id', hop: [/^mysql-gateway$/, /free connection/],
        expected: [{ kind: 'connection-pool-starved', where: /^mysql-gateway$/, lanes: 3, peer: true, victims: ['/orders/:id'], amount: ['waited_ns', '', ({ 'mysql-gateway': book }) => book.connection.ns] }], also: ['slow-peer'] },
    lock: { load: [few('/place/7', 5, { clients: 4, pause: 0 })], route: '/place/:id', hop: [/^mysql-gateway$/, /UPDATE/],
        expected: [{ kind: 'slow-peer', where: /^mysql-gateway$/, peer: true, evidence: { call: 'UPDATE' }, victims: ['/place/:id', '/place'], amount: ['waited_ns', '', ({ 'mysql-gateway': book }) => book.update.ns] }], also: ['slow-peer'] }, // who has the lock is slow, too
    loop: { load: [few('/invoice'), few('/orders/7', 100, { pause: 10 })], route: '/invoice', hop: [/^order$/, /invoice/],
        expected: [{ kind: 'event-loop-blocked', where: /^order$/, at: 'five/order.js loop', victims: ['/invoice', '/orders/:id'], amount: ['cpu_ns', '', ({ order }) => order.invoice.cpu_ns] }] },
    file: { load: [few('/picture/7', 12, { slowly: true })], route: '/picture/:id', hop: [/^user$/, /fs_(open|read)/],
        expected: [{ kind: 'slow-io', where: /^user$/, victims: ['/picture/:id'], amount: ['waited_ns', '', ({ user }) => user.picture.ns] }] },
    supplier: { load: [few('/price', 12)], route: '/price', hop: [/^order$/, /GET/],
        expected: [{ kind: 'slow-peer', where: /^order$/, victims: ['/price'], amount: ['waited_ns', '', ({ order }) => order.price.ns] }] },
    gc: { load: [few('/basket/7', 40, { pause: 10 })], route: '/basket/:id', hop: [/^gateway$/, /runs/],
        expected: [{ kind: 'gc-pressure', where: /^gateway$/, victims: ['/basket/:id'], amount: ['gc_ns', '', ({ gateway }) => gateway.collected.ns] }], also: ['event-loop-blocked', 'memory-leak-suspected'] },
};

/* ---- one run ---- */

const TABLES = (rows) => [
    'CREATE DATABASE shop;', "GRANT ALL ON shop.* TO shop@'127.0.0.1';",
    'CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(40));', "INSERT INTO shop.users SELECT seq - 1, CONCAT('user ', seq) FROM shop.seq_1_to_1000;",
    'CREATE TABLE shop.stock (product INT PRIMARY KEY, amount INT);', 'INSERT INTO shop.stock SELECT seq, 1000 FROM shop.seq_1_to_60;',
    'CREATE TABLE shop.movements (id INT PRIMARY KEY, amount INT, note VARCHAR(100));', `INSERT INTO shop.movements SELECT seq, seq % 7, CONCAT('delivery ', seq, ' of product ', seq % 60) FROM shop.seq_1_to_${rows};`].join('\n');

// How many bytes the whole history is as a reply.
async function fill(port, fault) {
    const redis = new Redis(port, '127.0.0.1'), list = Array.from({ length: fault === 'reply' ? HISTORY : 20 }, (_, n) => `order ${n} of user ${n % 1000}`);
    for (let at = 0; at < list.length; at += 500) await redis.rpush('history', ...list.slice(at, at + 500));
    await redis.sadd('names:ann', 1, 2, 3);
    for (let n = 0; n < 60; n++) await redis.zadd('top', n, `product ${n}`);
    for (let at = 0; fault === 'keys' && at < KEYS; at += 500) await redis.mset(...Array.from({ length: 500 }, (_, n) => [`session:${at + n}`, 'x']).flat());
    await redis.quit();
    return list.reduce((sum, text) => sum + `$${text.length}\r\n${text}\r\n`.length, `*${list.length}\r\n`.length);
}

// Connections that take every message, and look at none.
function subscribe(count, port) {
    return Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1').on('error', () => {}).on('data', () => resolve(socket));
        socket.write('SUBSCRIBE orders\r\n');
    })));
}

async function putLoad(port, streams, slowFile) {
    const agent = new http.Agent({ keepAlive: true });
    const client = async ({ path, count, pause: gap, slowly }) => {
        for (let n = 0; n < count; n++) {
            const asked = ask(port, path(n), agent);
            if (slowly) { // who reads the file waits for this
                const file = await fs.promises.open(slowFile, 'w');
                await pause(LATE_MS);
                await file.writeFile('picture');
                await file.close();
            }
            const status = await asked;
            if (status !== 200) throw new Error(`${path(n)} was answered with ${status}`);
            if (gap) await pause(gap);
        }
    };
    await Promise.all(streams.flatMap((stream) => Array.from({ length: stream.clients }, () => client(stream))));
    agent.destroy();
}

// Times of fdatasync by the thread that Redis began with, as strace measured them.
function synced(file) {
    const calls = [...fs.readFileSync(file, 'utf8').matchAll(/^(\d+) +fdatasync\(.*<([\d.]+)>$/gm)];
    return calls.filter(([, thread]) => thread === calls[0][1]).reduce((sum, [, , seconds]) => sum + seconds * 1e9, 0);
}

async function run(t, fault) {
    const folder = temporary(t), out = path.join(folder, 'trace'), strace = path.join(folder, 'strace'), slowFile = path.join(folder, 'slow');
    for (const name of ['store', 'truth', 'redis']) fs.mkdirSync(path.join(folder, name));
    if (fault === 'file') execFileSync('mkfifo', [slowFile]);
    const store = await startStore(t, 'mariadb', path.join(folder, 'store'), TABLES(fault === 'sql' ? MOVEMENTS : 1000)), supplier = await startStore(t, 'upstream', folder);
    const redisPort = await freePort(), ports = {};
    for (const name of NAMES) ports[`${name.toUpperCase().replace('-', '_')}_PORT`] = String(await freePort());
    const redis = ['redis-server', '--port', String(redisPort), '--bind', '127.0.0.1', '--save', '', '--dir', path.join(folder, 'redis'), '--slowlog-log-slower-than', '5000', '--slowlog-max-len', '10000'];
    if (fault === 'fsync') redis.unshift('strace', '-f', '--seccomp-bpf', '-qq', '-T', '-o', strace, '-e', 'trace=fdatasync', '-e', `inject=fdatasync:delay_enter=${SYNC_LATE_US}`);
    if (fault === 'fsync') redis.push('--appendonly', 'yes', '--appendfsync', 'always');
    const env = { ...ports, TROUBLE: fault, TRUTH_FOLDER: path.join(folder, 'truth'), REDIS_PORT: String(redisPort), REDIS_COMMAND: JSON.stringify(redis), DB_PORT: String(store.port), SUPPLIER_PORT: String(supplier.port), SLOW_FILE: slowFile };
    const running = start(t, SONDE, ['run', '--json', '-o', out, '--', process.execPath, path.join(APPS, 'five', 'main.js')], { env });
    const [, port, pid] = await running.until(/listening (\d+) (\d+)/, { stream: 'stdout', timeoutMs: 120_000 });
    const history_bytes = await fill(redisPort, fault), sockets = await subscribe(FAULTS[fault].subscribers || 0, redisPort);
    await putLoad(Number(port), [USERS, ...FAULTS[fault].load], slowFile);
    const slow = slowlog(redisPort);
    for (const socket of sockets) socket.destroy();
    kill(Number(pid), 'SIGTERM');
    const { stdout, stderr } = await running.ended;
    if (process.env.KEEP) fs.cpSync(out, path.join(process.env.KEEP, fault), { recursive: true });
    const book = Object.fromEntries(NAMES.map((name) => [name, JSON.parse(fs.readFileSync(path.join(folder, 'truth', `${name}.json`), 'utf8'))]));
    Object.assign(book, { slow, history_bytes, synced_ns: fault === 'fsync' ? synced(strace) : 0 });
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', out]);
    return { report: JSON.parse(stdout.slice(stdout.indexOf('\n{') + 1)), requests: JSON.parse(spans.stdout).requests, book, store, stderr };
}

/* ---- judging ---- */

// Of the slow requests' critical paths: which service and step is the most, in how many of them.
function hops({ route }, requests) {
    const all = requests.filter((r) => r.service === 'gateway' && r.route === route && r.critical_path).sort((a, b) => b.latency_ns - a.latency_ns);
    return all.slice(0, Math.max(1, Math.floor(all.length * 0.8))).map(({ critical_path: { dominant, dominant_name: name, dominant_service: service } }) => ({ service: service || 'gateway', what: name ? `${dominant} ${name}` : dominant }));
}

function verdict(fault, result) {
    const row = FAULTS[fault], judged = judge({ expected: row.expected, also: ['events-lost', ...(row.also || [])] }, result);
    if (!row.route) return { ...judged, hop: '' };
    const [service, what] = row.hop, found = hops(row, result.requests), right = found.filter((hop) => service.test(hop.service) && what.test(hop.what));
    const counts = new Map();
    for (const { service, what } of found) counts.set(`${service} ${what}`, (counts.get(`${service} ${what}`) || 0) + 1);
    const [most, count] = [...counts].sort((a, b) => b[1] - a[1])[0] || ['none', 0], hop = `${most} (${count} of ${found.length})`;
    if (right.length * 2 <= found.length) judged.wrong.push(`the slow hop is ${hop}, not ${service} ${what}`);
    return { ...judged, right: !judged.wrong.length, hop };
}

// What the finding says, against the truth.
function amounts(fault, { report, book }) {
    const [expected] = FAULTS[fault].expected || [];
    if (!expected?.amount) return {};
    const [evidence, , truth] = expected.amount, found = report.findings.find((f) => f.kind === expected.kind && (!expected.text || expected.text.test(JSON.stringify(f))));
    return { kind: expected.kind, evidence, said: found?.evidence[evidence] ?? null, truth: Math.round(truth(book)) };
}

const chosen = process.argv.slice(2).length ? process.argv.slice(2) : Object.keys(FAULTS);
for (const fault of chosen) if (!FAULTS[fault]) throw new Error(`there is no fault '${fault}': ${Object.keys(FAULTS).join(', ')}`);
if (missingStore('mariadb')) throw new Error(missingStore('mariadb'));
const rows = [];
for (const fault of chosen) {
    const cleaners = [], t = { after: (f) => cleaners.unshift(f) };
    let line;
    try {
        const result = await run(t, fault), { right, wrong, hop, outline } = verdict(fault, result);
        line = { commit, time: new Date().toISOString(), fault, right, wrong, hop, ...amounts(fault, result), events: result.report.overhead.events_count, lost: result.report.losses.reduce((sum, { count }) => sum + count, 0) };
        if (!right) console.log(`${outline.replace(/^/gm, '    ')}`);
    } catch (error) {
        line = { commit, time: new Date().toISOString(), fault, right: false, wrong: [String(error.message)], hop: '' };
    }
    for (const clean of cleaners) await clean();
    fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    rows.push(line);
    console.log(`${line.right ? 'right' : 'WRONG'}  ${fault}${line.wrong.map((text) => `\n    ${text}`).join('')}`);
}
const text = (value) => (value >= 1e6 && value !== undefined ? `${(value / 1e6).toFixed(0)} ms` : String(value ?? '-'));
const off = ({ said, truth }) => (said && truth ? `${(100 * (said / truth - 1)).toFixed(1)} %` : '-');
console.log(['', '| fault | finding | says | truth | off | slow hop | |', '|---|---|---:|---:|---:|---|---|', ...rows.map((r) => `| ${r.fault} | ${r.kind || '-'} | ${text(r.said)} | ${text(r.truth)} | ${off(r)} | ${r.hop || '-'} | ${r.right ? 'right' : 'WRONG'} |`)].join('\n'));
console.log(`${rows.filter((r) => r.right).length} of ${rows.length} right`);
process.exitCode = rows.every((r) => r.right) ? 0 : 1;
