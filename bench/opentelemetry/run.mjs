// OpenTelemetry's automatic instrumentation and sonde in one process, which serves the same requests: each span of the one has its
// counterpart in the other, joined by the request's traceparent. Prints, for each kind of operation, how many spans of
// OpenTelemetry have one, and of how many of them begin and duration agree within the greater of 1 ms and 5 %; then the spans that have none because they
// are the frameworks' own. Appends the figures with the commit to bench/results/opentelemetry.jsonl. Once: npm ci in this folder.
//   node bench/opentelemetry/run.mjs [--rounds N] [--node PROGRAM] [--keep DIR | --again DIR]    keeps the recording, or compares a kept one again
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { missingStore, startStore } from '../../tests/applications/stores.mjs';
import { finish, kill, SONDE, start, temporary } from '../../tests/system/helper.mjs';
import { commit } from '../commit.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url)), RESULTS = path.join(HERE, '..', 'results', 'opentelemetry.jsonl');
const { values: options } = parseArgs({ options: { rounds: { type: 'string', default: '25' }, node: { type: 'string', default: process.execPath }, keep: { type: 'string' }, again: { type: 'string' } } });
const PATHS = ['/files', '/names', '/rows', '/others', '/keys', '/services', '/all'], CLIENTS = 3, SERVER = 1, WARMING = 'feed';

/* ---- the run ---- */

const ask = (port, target, agent, first = '') => new Promise((resolve, reject) => {
    const headers = { traceparent: `00-${first}${randomBytes(16).toString('hex').slice(first.length)}-${randomBytes(8).toString('hex')}-01` };
    http.get({ host: '127.0.0.1', port, path: target, agent, headers }, (response) => response.resume().on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`${target}: ${response.statusCode}`))))).on('error', reject);
});

async function record(t) {
    const folder = temporary(t), out = path.join(folder, 'trace'), file = path.join(folder, 'spans.json'), stores = {};
    for (const name of ['postgres', 'mariadb', 'redis']) {
        const missing = missingStore(name);
        if (missing) throw new Error(missing);
        fs.mkdirSync(path.join(folder, name));
        stores[name] = await startStore(t, name, path.join(folder, name));
    }
    const { postgres, mariadb, redis } = stores;
    const env = { SPANS: file, PG_PORT: String(postgres.port), PG_USER: postgres.user, MYSQL_PORT: String(mariadb.port), REDIS_PORT: String(redis.port), OTEL_METRICS_EXPORTER: 'none', OTEL_LOGS_EXPORTER: 'none', OTEL_NODE_RESOURCE_DETECTORS: 'none' };
    const run = start(t, SONDE, ['record', '-q', '-o', out, '--', 'sh', '-c', `"$@" >/dev/null & '${options.node}' '${path.join(HERE, 'app.js')}'; kill $!; wait`, 'sh', ...redis.command], { env });
    const [, port, pid] = await run.until(/listening (\d+) (\d+)/, { stream: 'stdout' });
    const agent = new http.Agent({ keepAlive: true });
    // Connections, and code that is loaded when it is first used: not compared.
    for (const target of PATHS) for (let i = 0; i < 2; i++) await ask(port, `${target}?ms=5`, agent, WARMING);
    const client = async (first) => {
        for (let round = 0; round < Number(options.rounds); round++)
            for (let i = 0; i < PATHS.length; i++) await ask(port, `${PATHS[(first + i) % PATHS.length]}?ms=${(round * 7 + i) % 60}`, agent);
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i)));
    agent.destroy();
    kill(Number(pid), 'SIGTERM');
    await run.ended;
    for (const name of options.keep ? ['trace', 'spans.json'] : []) fs.cpSync(path.join(folder, name), path.join(options.keep, name), { recursive: true });
    return folder;
}

async function spansOf(t, folder) {
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '1000000', path.join(folder, 'trace')]);
    return { theirs: JSON.parse(fs.readFileSync(path.join(folder, 'spans.json'), 'utf8')).spans, ours: JSON.parse(spans.stdout).requests };
}

/* ---- joining ---- */

// What kind of operation a span of theirs is; null: a framework's own.
function kindOf(span) {
    if (span.scope === 'http') return span.kind === SERVER ? 'http server' : 'http client';
    if (span.scope === 'undici') return 'http client';
    if (span.scope === 'pg') return span.name.startsWith('pg.query') ? 'pg' : null;
    if (span.scope === 'mysql2') return 'mysql2';
    if (span.scope === 'ioredis') return span.name === 'connect' ? null : 'redis';
    if (span.scope === 'fs') return span.name.endsWith('Sync') ? 'file, synchronous' : 'file';
    return span.scope === 'dns' ? 'dns' : null;
}

// Which of a request's own spans may be such an operation.
const OWN = {
    'http client': (span) => span.kind === 'call',
    pg: (span) => span.kind === 'command' && span.layer === 'postgresql',
    mysql2: (span) => span.kind === 'command' && span.layer === 'mysql',
    redis: (span) => span.kind === 'command' && span.layer === 'redis',
    file: (span) => span.kind === 'pool' && span.name.startsWith('fs_'),
    'file, synchronous': (span) => span.kind === 'sync',
    dns: (span) => span.kind === 'pool' && span.name === 'getaddrinfo',
};

// All requests, those that other services received for one, too, by the ids that they came with.
function requestsById(requests, map = new Map()) {
    for (const request of requests) {
        if (request.trace_id) map.set(`${request.trace_id} ${request.parent_id}`, request);
        requestsById(request.spans.map((span) => span.request).filter(Boolean), map);
    }
    return map;
}

// The one that begins nearest to it; of a file that is read or written as a whole, and of a statement that is prepared first: the
// operations from the first to the last.
function counterpart(kind, span, request, taken) {
    if (kind === 'http server') return { start_ns: request.start_ns, end_ns: request.start_ns + request.latency_ns };
    const slack = tolerance(span), near = request.spans.filter((own) => OWN[kind](own) && own.end_ns && !taken.has(own) && own.start_ns >= span.start_ns - slack && own.start_ns <= span.end_ns);
    if (!near.length) return null;
    if (kind === 'file' && /File$/.test(span.name)) {
        const inside = near.filter((own) => own.end_ns <= span.end_ns + slack);
        inside.forEach((own) => taken.add(own));
        return inside.length ? { start_ns: Math.min(...inside.map((own) => own.start_ns)), end_ns: Math.max(...inside.map((own) => own.end_ns)) } : null;
    }
    const best = near.reduce((a, b) => (Math.abs(a.start_ns - span.start_ns) <= Math.abs(b.start_ns - span.start_ns) ? a : b));
    const next = kind === 'mysql2' && best.name === 'PREPARE' && near.find((own) => own.name === 'EXECUTE' && own.peer === best.peer && own.start_ns >= best.start_ns && own.end_ns <= span.end_ns + slack);
    taken.add(best);
    if (next) taken.add(next);
    return next ? { name: 'PREPARE, EXECUTE', start_ns: best.start_ns, end_ns: next.end_ns } : best;
}

const tolerance = (span) => Math.max(1e6, 0.05 * span.duration_ns);
const middle = (list) => [...list].sort((a, b) => a - b)[list.length >> 1] ?? 0;

function compare({ theirs, ours }) {
    const requests = requestsById(ours), byId = new Map(theirs.map((span) => [span.id, span])), kinds = new Map(), without = new Map(), taken = new Set(), wrong = [];
    const serverOf = (span) => (span && span.scope === 'http' && span.kind === SERVER ? span : span && serverOf(byId.get(span.parent)));
    for (const span of theirs.filter((span) => !span.trace.startsWith(WARMING)).sort((a, b) => a.start_ns - b.start_ns)) {
        const kind = kindOf(span), server = serverOf(span);
        if (!kind || !server) {
            const name = kind ? `${span.scope} ${kind}, outside of any request` : `${span.scope} ${span.name.replace(/\d+/g, 'N')}`;
            without.set(name, (without.get(name) || 0) + 1);
            continue;
        }
        const sum = kinds.get(kind) || kinds.set(kind, { spans: 0, joined: 0, within: 0, waited: 0, off_ns: [] }).get(kind);
        sum.spans++;
        const request = requests.get(`${server.trace} ${server.parent}`), own = request && counterpart(kind, span, request, taken);
        if (!own) {
            wrong.push(`${kind}: ${span.name} has no counterpart${request ? '' : ', nor has its request'}`);
            continue;
        }
        sum.joined++;
        const late_ns = own.start_ns - span.start_ns, longer_ns = own.end_ns - own.start_ns - span.duration_ns, right = Math.abs(late_ns) <= tolerance(span) && Math.abs(longer_ns) <= tolerance(span);
        sum.off_ns.push(Math.abs(longer_ns));
        sum.within += right;
        // The two look at the clock at different moments of one turn; between them the thread may have had no CPU.
        const apart_ns = Math.max(Math.abs(late_ns), Math.abs(late_ns + longer_ns)), waited = !right && Math.max(0, ...(request.threads || []).map((thread) => thread.runnable_ns || 0)) >= apart_ns;
        sum.waited += waited;
        if (!right && !waited) wrong.push(`${kind}: ${span.name} of ${(span.duration_ns / 1e6).toFixed(2)} ms begins ${(late_ns / 1e6).toFixed(2)} ms later, takes ${(longer_ns / 1e6).toFixed(2)} ms more (${own.name || 'request'})`);
    }
    return { kinds, without, wrong, left: [...requests.values()].filter((request) => !request.trace_id.startsWith(WARMING)).flatMap((request) => request.spans).filter((own) => !taken.has(own) && own.end_ns && Object.values(OWN).some((is) => is(own))) };
}

/* ---- all ---- */

const cleaners = [], t = { after: (f) => cleaners.unshift(f) };
let compared;
try {
    compared = compare(await spansOf(t, options.again || (await record(t))));
} finally {
    for (const clean of cleaners) await clean();
}
const { kinds, without, wrong, left } = compared, rows = {};
console.log('| operation | spans | joined | within | or its thread waited as long for a CPU | median difference |\n|---|---:|---:|---:|---:|---:|');
let all = 0, right = 0, excused = 0;
for (const [kind, { spans, joined, within, waited, off_ns }] of [...kinds].sort()) {
    rows[kind] = { spans, joined, within, waited, median_off_us: Math.round(middle(off_ns) / 1000) };
    all += spans;
    right += within;
    excused += waited;
    console.log(`| ${kind} | ${spans} | ${joined} | ${((100 * within) / spans).toFixed(1)} % | ${((100 * (within + waited)) / spans).toFixed(1)} % | ${rows[kind].median_off_us} us |`);
}
console.log(`\n${((100 * right) / all).toFixed(2)} % of ${all} spans within the greater of 1 ms and 5 %; ${((100 * (right + excused)) / all).toFixed(2)} % with those whose request waited as long for a CPU`);
console.log(`\nWithout a counterpart, as frameworks' own:\n${[...without].sort((a, b) => b[1] - a[1]).map(([name, count]) => `  ${count} x ${name}`).join('\n')}`);
const leftBy = new Map();
for (const own of left) leftBy.set(`${own.layer} ${own.name}`, (leftBy.get(`${own.layer} ${own.name}`) || 0) + 1);
console.log(`\nOf sonde's own, what OpenTelemetry has no span for:\n${[...leftBy].sort((a, b) => b[1] - a[1]).map(([name, count]) => `  ${count} x ${name}`).join('\n') || '  nothing'}`);
if (wrong.length) console.log(`\nWrong:\n${wrong.slice(0, 40).map((line) => `  ${line}`).join('\n')}`);
const versions = JSON.parse(fs.readFileSync(path.join(HERE, 'package.json'), 'utf8')).dependencies;
if (!options.again) fs.appendFileSync(RESULTS, JSON.stringify({ commit, node: execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim(), instrumentations: versions['@opentelemetry/auto-instrumentations-node'], load: Number(os.loadavg()[0].toFixed(2)), share: Number((right / all).toFixed(4)), with_waits: Number(((right + excused) / all).toFixed(4)), rows, without: Object.fromEntries(without) }) + '\n');
process.exitCode = right >= 0.95 * all ? 0 : 1;
