// What tracing costs real services: CPU time per request, and requests a second at saturation, of one and the same process
// untraced, attached to, and untraced again. Two processes of one kind differ by up to a sixth, by the luck of their memory's
// layout; one with itself by little. The service has CPU 0, the load and sonde CPU 1.
//   node bench/overhead.mjs build/sonde [--cells redis,node-text,...] [--modes usual,...] [--node PATH]... [--seconds N]
//       measures for N seconds (200), what is rarest so far first, and prints what is known of this commit
//   node bench/overhead.mjs build/sonde --print [--commit NAME]         only prints; a commit as git shortens it
//   node bench/overhead.mjs build/sonde --load 0.3,0.6 [...]            the same traffic for both instead, these shares of what the untraced service can
//       do: requests that come at random times, the same ones each time (bench/open_loop.c), each timed from the moment at which it was due. At saturation a
//       service that is a little slower leaves its peers waiting more often, so that they answer one by one, and the kernel has more packets and
//       wakeups for each request: what a hook costs is seen there several times over, or not at all, as peers and CPUs happen to keep step
//   node bench/overhead.mjs build/sonde --profile CELL [--modes ...]    what a request costs more, by function of the probe and by kind
//       of kernel event, and what of the difference these do not explain
// Each pair is a line of bench/results/overhead.jsonl, so that a long measurement can be made in parts. The mode `twin` attaches
// nothing and shows how far medians can be trusted; `async-hooks` and `opentelemetry` are peers (bench/peers.js), and so is `uprobes`: bpftrace counts
// the calls of the same functions that sonde hooks (every process that runs the same file has them meanwhile, and sonde hooks none of those
// functions there: nothing else that concerns Redis may run). `lttng` records a server's own LTTng points. REDIS_SERVER=FILE measures another server,
// such as a Valkey that was built with USE_LTTNG=yes, the only one that has such points. What a change of a hook costs is seen better in bench/wrappers.txt.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { cpuTime, freePort, has, medianInterval, pause, pinned, REDIS_SERVER, startRedis, table } from './measure.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const { values: options, positionals: [sonde] } = parseArgs({
    allowPositionals: true,
    options: {
        cells: { type: 'string' }, modes: { type: 'string' }, node: { type: 'string', multiple: true }, seconds: { type: 'string', default: '200' },
        results: { type: 'string', default: path.join(here, 'results', 'overhead.jsonl') }, print: { type: 'boolean' }, commit: { type: 'string' },
        profile: { type: 'string' }, load: { type: 'string' },
    },
});
const git = (...words) => execFileSync('git', ['-C', here, ...words], { encoding: 'utf8' }).trim();
const commit = options.commit ?? git('rev-parse', '--short=9', 'HEAD') + (git('status', '--porcelain', '--', '../src') ? '+' : '');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));

// What is recorded; null: nothing.
const MODES = {
    twin: null,
    requests: ['--level', 'requests'],
    bounded: ['--no-kernel', '--context', 'bounded'],
    script: ['--no-kernel', '--context', 'script'],
    'no-kernel': ['--no-kernel'],
    usual: [],
    everything: ['--level', 'everything'],
    neighbour: [], // not of the service that is measured, but of an idle one beside it
};
// Other ways to look into a service of Node, measured the same way (bench/peers.js).
const PEERS = ['async-hooks', 'opentelemetry'];
// The kernel's way, for all cells: a trap at the entry of each function that sonde hooks.
const UPROBES = 'uprobes';
// The server's own points, where it was built with them.
const LTTNG = 'lttng', LTTNG_POINTS = 'valkey_*';
// The ratios of CPU time that are to be reached.
const GOALS = { requests: 1.015, 'no-kernel': 1.03, usual: 1.05 };

// ---- services ----

// Services and sondes that run; what is left of them is stopped however this ends.
const running = new Set();
const untilEnded = (child) => {
    running.add(child);
    return new Promise((resolve) => child.on('exit', (status) => (running.delete(child), resolve(status))));
};

// Starts a service on CPU 0.
function launch(command, stdout, env = {}) {
    const [program, ...args] = pinned(0, ...command);
    const child = spawn(program, args, { stdio: ['ignore', stdout, 'ignore'], env: { ...process.env, ...env } });
    const ended = untilEnded(child);
    const stop = async (pid) => {
        process.kill(pid, 'SIGTERM');
        await ended;
    };
    return { child, stop };
}

// Attaches to it, on CPU 1; what is answered detaches and says what was recorded, which is nothing of one that is idle.
async function attach(pid, mode, idle = false) {
    const folder = path.join(work, `trace-${Date.now()}`);
    const [program, ...args] = pinned(1, sonde, 'attach', '--json', '--budget', '100,4096', ...mode, '-o', folder, pid);
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = untilEnded(child);
    let said = '';
    await new Promise((resolve, reject) => {
        child.stderr.on('data', (part) => /attached to 1/.test((said += part)) && resolve());
        ended.then((status) => reject(new Error(`sonde ended with ${status}: ${said}`)));
    });
    return async () => {
        child.kill('SIGINT');
        await ended;
        const { processes, losses, bytes, events, kernel } = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
        fs.rmSync(folder, { recursive: true, force: true });
        if (!idle && !processes.some((p) => p.events_written > 0)) throw new Error(`nothing was traced\n${said}`);
        return { bytes, events, kernel, hooks: processes[0]?.hooks, lost: losses.reduce((sum, loss) => sum + loss.count, 0) };
    };
}

// The functions that sonde hooks in a process, as { file, symbol }: those that a symbol names, which bpftrace needs.
const hooksKnown = new Map();
async function hooksOf(pid) {
    const exe = fs.readlinkSync(`/proc/${pid}/exe`);
    if (hooksKnown.has(exe)) return hooksKnown.get(exe);
    const { hooks } = await (await attach(pid, ['--no-kernel'], true))();
    const places = new Map(), files = new Set([...fs.readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/r-xp .* (\/\S+)$/gm)].map((match) => match[1]));
    for (const file of files)
        for (const words of [['-D'], []]) {
            const symbols = execFileSync('nm', [...words, '--defined-only', file], { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] });
            for (const [, symbol] of symbols.matchAll(/^\S+ [tTwW] ([^\s@]+)/gm)) if (!places.has(symbol)) places.set(symbol, file);
        }
    const known = hooks.filter((symbol) => places.has(symbol)).map((symbol) => ({ file: places.get(symbol), symbol }));
    if (!known.length) throw new Error(`no symbol names the functions that are hooked in ${exe}`);
    hooksKnown.set(exe, known);
    return known;
}

// Uprobes at the entries of these functions, counted; what is answered removes them and says how often they were entered.
async function probeEntries(pid) {
    const hooks = await hooksOf(pid), places = hooks.map(({ file, symbol }) => `uprobe:${file}:${symbol}`).join(',');
    // The interval comes only once everything is attached.
    const [program, ...args] = pinned(1, 'bpftrace', '-p', pid, '-e', `${places} { @entered = count(); } interval:ms:200 /!@ready/ { @ready = 1; printf("ready\\n"); }`);
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, BPFTRACE_MAX_PROBES: '4096' } }), ended = untilEnded(child);
    let said = '';
    await new Promise((resolve, reject) => {
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => /^ready$/m.test((said += part)) && resolve());
        ended.then((status) => reject(new Error(`bpftrace ended with ${status}: ${said.slice(-2000)}`)));
    });
    return async () => {
        child.kill('SIGINT');
        await ended;
        const events = Number(/^@entered: (\d+)$/m.exec(said)?.[1] ?? 0);
        if (!events) throw new Error(`nothing was counted\n${said.slice(-2000)}`);
        return { events, probes: hooks.length };
    };
}

// LTTng's daemon, which the servers that are measured find when they start; null: none is needed.
let lttng = null;
function startLttng() {
    const home = path.join(work, 'lttng'), env = { ...process.env, LTTNG_HOME: home, LTTNG_RUNDIR: path.join(home, 'run') };
    fs.mkdirSync(env.LTTNG_RUNDIR, { recursive: true });
    const [program, ...args] = pinned(1, 'lttng-sessiond', '--no-kernel', '-b', '--pidfile', path.join(home, 'pid'));
    execFileSync(program, args, { env, stdio: 'ignore' }); // it keeps what it was started with open: no pipes
    lttng = { env, home, stop: () => process.kill(Number(fs.readFileSync(path.join(home, 'pid'), 'utf8'))) };
}

// All of the server's points, recorded in buffers as large as sonde's; what is answered stops that and says how many events there are.
async function recordPoints(pid) {
    const session = `bench-${Date.now()}`, folder = path.join(work, session), run = (...args) => execFileSync('lttng', args.map(String), { env: lttng.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    const registered = () => new RegExp(`^PID: ${pid} `, 'm').test(run('list', '-u'));
    for (let i = 0; !registered(); i++) if (i > 100) throw new Error(`${REDIS_SERVER} has no LTTng points (a Valkey has them that was built with USE_LTTNG=yes)`); else await pause(50);
    run('create', session, '-o', folder);
    run('enable-channel', '-s', session, '-u', '--subbuf-size', '1M', '--num-subbuf', '8', 'points');
    run('enable-event', '-s', session, '-u', LTTNG_POINTS, '-c', 'points');
    run('track', '-s', session, '-u', '-p', pid);
    run('start', session);
    return async () => {
        run('stop', session);
        run('destroy', session);
        const counted = execFileSync('babeltrace2', [folder, '-c', 'sink.utils.counter'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        const of = (what) => Number([...counted.matchAll(new RegExp(`([\\d,]+) ${what} messages`, 'g'))].at(-1)?.[1].replaceAll(',', '') ?? 0); // it also says the sums on its way
        const events = of('Event'), lost = of('Discarded event');
        const bytes = Number(execFileSync('du', ['-sb', folder], { encoding: 'utf8' }).split('\t')[0]);
        fs.rmSync(folder, { recursive: true, force: true });
        if (!events) throw new Error('LTTng recorded nothing');
        return { events, bytes, lost };
    };
}

// The peer of a service is switched on; what is answered switches it off.
async function switchOn(pid, state) {
    const until = async (word) => {
        process.kill(pid, 'SIGUSR2');
        while (!fs.existsSync(state) || fs.readFileSync(state, 'utf8') !== word) await pause(10);
    };
    await until('on');
    return () => until('off').then(() => ({}));
}

// Requests at random times, so many a second: { requests, waited, p50_us, p90_us, p99_us }.
const openLoop = (port, rate, ...more) => {
    const client = path.join(path.dirname(sonde), 'bench', 'open_loop');
    const [command, ...words] = pinned(1, client, port, rate.toFixed(0), 2, ...more);
    const answered = JSON.parse(execFileSync(command, words, { encoding: 'utf8' }));
    if (answered.unanswered) throw new Error(`${answered.unanswered} requests were not answered`);
    return answered;
};

// A Redis: load(n) sends n of each command (GET and SET, or those of the words for redis-benchmark) and answers { requests, perSecond }.
async function redis(pipeline, words = [], { secure = false, subscribers = 0 } = {}) {
    const { pid, port, load, stop } = await startRedis((command) => launch(command, 'ignore', lttng?.env), work, secure);
    const listeners = Array.from({ length: subscribers }, () => {
        const [program, ...args] = pinned(1, 'redis-cli', '-p', port, 'subscribe', 'channel'), child = spawn(program, args, { stdio: 'ignore' });
        return { child, ended: untilEnded(child) };
    });
    const measured = (n) => {
        const rates = [...load(n, '-P', pipeline, ...words).matchAll(/^"(?!test")[^"]*","([\d.]+)"/gm)].map((match) => Number(match[1]));
        return { requests: rates.length * n, perSecond: rates.length / rates.reduce((sum, rate) => sum + 1 / rate, 0) };
    };
    // A request of the open loop is a pipeline, of the same commands.
    const open = (rate) => {
        const answered = openLoop(port, rate / pipeline, 'redis', pipeline);
        return { ...answered, requests: answered.requests * pipeline };
    };
    return { pid, load: measured, open: words.length || secure ? null : open, stop: () => Promise.all([stop(pid), ...listeners.map(({ ended }) => ended)]) };
}

const answers = (port) => new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => (socket.destroy(), resolve(true))).on('error', () => resolve(false));
});

// The Redis that services of Node ask: untraced, on the load's CPU, one for all.
let store;
async function sharedRedis() {
    if (store) return store.port;
    const port = await freePort(), [command, ...args] = pinned(1, 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', work);
    store = { port };
    untilEnded(spawn(command, args, { stdio: 'ignore' }));
    while (!(await answers(port))) await pause(50);
    return port;
}

// How services are loaded, all with 20 connections or streams.
const wrk = (port, seconds) => ['wrk', '-t', 1, '-c', 20, '-d', `${seconds}s`, `http://127.0.0.1:${port}/`];
const h2load = (port, seconds) => ['h2load', '-t', 1, '-c', 2, '-m', 10, '-D', seconds, `http://127.0.0.1:${port}/`];
const websockets = (port, seconds) => [process.execPath, path.join(here, 'websocket-load.js'), port, seconds];
const LOADS = new Map([['http2', h2load], ['websocket', websockets]]);

// The PostgreSQL that the cell of pg asks, on the load's CPU: { port, user }.
let sql;
async function sharedPostgres() {
    if (sql) return sql;
    const { startStore } = await import('../tests/applications/stores.mjs'), folder = fs.mkdtempSync(path.join(work, 'sql-'));
    sql = await startStore({ after: (end) => stores.push(end) }, 'postgres', folder);
    execFileSync('taskset', ['-acp', '1', String(sql.pid)], { stdio: 'ignore' });
    return sql;
}
const stores = [];

async function http(node, peer, script, ...args) {
    const by = LOADS.get(args[0]) ?? wrk, { port: sqlPort, user } = args[0] === 'pg' ? await sharedPostgres() : {};
    if (sqlPort) args.push(sqlPort, user);
    const port = args.includes('REDIS') ? await sharedRedis() : 0, state = path.join(work, `peer-${Date.now()}`);
    const command = [node, ...(peer ? ['--require', path.join(here, 'peers.js')] : []), path.join(here, script), ...args.map((word) => (word === 'REDIS' ? port : word))];
    const { child, stop } = launch(command, 'pipe', { REDIS_PORT: String(port), ...(peer && { PEER: peer, PEER_STATE: state }) });
    const [pid, at] = await new Promise((resolve, reject) => {
        child.stdout.on('data', (part) => /^\d+ \d+$/m.test(part) && resolve(/^(\d+) (\d+)$/m.exec(part).slice(1).map(Number)));
        child.on('exit', (status) => reject(new Error(`the service ended with ${status}`)));
    });
    const load = (seconds) => {
        const [command, ...words] = pinned(1, ...by(at, seconds));
        const said = execFileSync(command, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        return { requests: Number(/(\d+) requests in|(\d+) succeeded/.exec(said).slice(1).find(Boolean)), perSecond: Number(/Requests\/sec:\s+([\d.]+)|([\d.]+) req\/s/.exec(said).slice(1).find(Boolean)) };
    };
    return { pid, load, open: by === wrk ? (rate) => openLoop(at, rate) : null, switchOn: () => switchOn(pid, state), stop: () => stop(pid) };
}

// No load: what a service costs that has nothing to do, for each second.
function idleFor(seconds) {
    execFileSync('sleep', [String(seconds)]);
    return { requests: seconds, perSecond: 1 };
}

// Each cell: what it is, how it is started, and how much load a slice is.
const CELLS = {
    redis: { text: 'Redis, GET and SET', launch: () => redis(1), slice: 40_000 },
    'redis-get': { text: 'Redis, GET', launch: () => redis(1, ['-t', 'get']), slice: 60_000 },
    'redis-set': { text: 'Redis, SET', launch: () => redis(1, ['-t', 'set']), slice: 60_000 },
    'redis-lpush': { text: 'Redis, LPUSH', launch: () => redis(1, ['-t', 'lpush']), slice: 60_000 },
    'redis-publish': { text: 'Redis, PUBLISH to four', launch: () => redis(1, ['publish', 'channel', 'message'], { subscribers: 4 }), slice: 40_000 },
    'redis-tls': { text: 'Redis, GET and SET by TLS', launch: () => redis(1, [], { secure: true }), slice: 30_000 },
    'redis-p16': { text: 'Redis, 16 in a pipeline', launch: () => redis(16), slice: 300_000 },
    'node-text': { text: 'Node, short text', node: true, launch: (node, peer) => http(node, peer, 'http-server.js'), slice: 1 },
    'node-hash': { text: 'Node, file and hash', node: true, launch: (node, peer) => http(node, peer, 'hash-server.js'), slice: 1 },
    'node-redis': { text: 'Node, two Redis commands', node: true, launch: (node, peer) => http(node, peer, 'context-server.js', 'REDIS'), slice: 1 },
    'node-pg': { text: 'Node, two queries by pg', node: true, launch: (node, peer) => http(node, peer, 'cell-server.js', 'pg'), slice: 1 },
    'node-ssr': { text: 'Node, a page rendered', node: true, launch: (node, peer) => http(node, peer, 'cell-server.js', 'ssr'), slice: 1 },
    'node-nest': { text: 'Node, NestJS', node: true, launch: (node, peer) => http(node, peer, 'cell-server.js', 'nest'), slice: 1 },
    'node-http2': { text: 'Node, HTTP/2', node: true, client: 'h2load', launch: (node, peer) => http(node, peer, 'cell-server.js', 'http2'), slice: 1 },
    'node-websocket': { text: 'Node, WebSockets', node: true, launch: (node, peer) => http(node, peer, 'cell-server.js', 'websocket'), slice: 1 },
    'node-idle': { text: 'Node, idle: a second', node: true, launch: async (node, peer) => ({ ...(await http(node, peer, 'http-server.js')), load: idleFor }), slice: 3, idle: true },
    'redis-idle': { text: 'Redis, idle: a second', launch: async () => ({ ...(await redis(1)), load: idleFor }), slice: 3, idle: true },
    'node-mixed': { text: 'Node, files, names, Redis', node: true, launch: (node, peer) => http(node, peer, 'mixed-server.js', 'REDIS'), slice: 1 },
};
const USUAL_CELLS = ['redis', 'redis-p16', 'node-text', 'node-hash', 'node-redis'];

// ---- measuring ----

const stolen = () => Number(fs.readFileSync('/proc/stat', 'utf8').split('\n')[0].trim().split(/\s+/)[8]);

// One service, a few times untraced, traced, untraced. What other work the machine does falls on all alike, and the mean of the
// two untraced slices takes out what drifts.
const TIMES = 4;
async function* pairs({ cell, mode, path: node, load }) {
    const { launch: start, slice } = CELLS[cell], peer = PEERS.includes(mode) ? mode : null, service = await start(node, peer);
    const target = mode === 'neighbour' ? await start(node) : service;
    const saturated = () => {
        const before = cpuTime(service.pid), { requests, perSecond } = service.load(slice);
        return { ns: (cpuTime(service.pid) - before) / requests, perSecond, requests };
    };
    for (let i = 0; i < 2; i++) saturated(); // warms up
    if (load && !service.open) throw new Error(`only a load at saturation is known for ${CELLS[cell].text}`);
    const rate = load * saturated().perSecond;
    const steady = () => {
        const before = cpuTime(service.pid), answered = service.open(rate);
        return { ns: (cpuTime(service.pid) - before) / answered.requests, ...answered };
    };
    const measured = load ? steady : saturated;
    let before = measured();
    for (let i = 0; i < TIMES; i++) {
        const steal = stolen(), detach = peer ? await service.switchOn() : mode === UPROBES ? await probeEntries(target.pid) : mode === LTTNG ? await recordPoints(target.pid) : MODES[mode] && (await attach(target.pid, MODES[mode], target !== service || CELLS[cell].idle));
        const first = detach ? measured().requests : 0; // it warms up too: names, caches, contexts
        const traced = measured(), told = detach ? await detach() : {};
        if (detach) measured();
        const after = measured(), bare = Object.fromEntries(Object.keys(after).map((key) => [key, (before[key] + after[key]) / 2]));
        const requests = first + traced.requests;
        yield { traced, bare, steal: stolen() - steal, lost: told.lost, trace_bytes: told.bytes / requests, events: told.events / requests, probes: told.probes };
        before = after;
    }
    await service.stop();
    if (target !== service) await target.stop();
}

const read = () => (fs.existsSync(options.results) ? fs.readFileSync(options.results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : []);
const keyOf = ({ cell, mode, node, server, load }) => `${cell} ${mode} ${node ?? server ?? ''}${load ? ` at ${100 * load} %` : ''}`;

function combinations() {
    const versions = (options.node ?? [process.execPath]).map((path) => ({ path, version: execFileSync(path, ['--version'], { encoding: 'utf8' }).trim() }));
    const cells = (options.cells?.split(',') ?? USUAL_CELLS).filter((cell) => {
        if (!(cell in CELLS)) throw new Error(`there is no cell '${cell}'; there are ${Object.keys(CELLS).join(', ')}`);
        const client = CELLS[cell].client ?? (CELLS[cell].node ? 'wrk' : 'redis-benchmark');
        if (!has(client)) console.log(`not measured: ${CELLS[cell].text}, ${client} is not installed (tools/install-deps bench)`);
        return has(client);
    });
    const modes = options.modes?.split(',') ?? ['twin', 'no-kernel', 'usual'];
    const others = [...PEERS, UPROBES, LTTNG];
    for (const mode of modes) if (!(mode in MODES) && !others.includes(mode)) throw new Error(`there is no mode '${mode}'; there are ${[...Object.keys(MODES), ...others].join(', ')}`);
    const needed = { [UPROBES]: ['bpftrace', 'nm'], [LTTNG]: ['lttng-sessiond', 'lttng', 'babeltrace2'] };
    const possible = modes.filter((mode) => (needed[mode] ?? []).every(has));
    for (const mode of modes) if (!possible.includes(mode)) console.log(`not measured: ${mode}, ${needed[mode].filter((program) => !has(program)).join(' and ')} is not installed (tools/install-deps bench)`);
    return cells.flatMap((cell) => possible.filter((mode) => (CELLS[cell].node ? mode !== LTTNG : !PEERS.includes(mode))).flatMap((mode) => (CELLS[cell].node ? versions.map(({ path, version }) => ({ cell, mode, node: version, path })) : [{ cell, mode }])))
        .map((combination) => ({ ...combination, ...(!CELLS[combination.cell].node && process.env.REDIS_SERVER && { server: path.basename(REDIS_SERVER) }) }))
        .flatMap((combination) => (options.load?.split(',') ?? [undefined]).map((load) => ({ ...combination, ...(load && { load: Number(load) }) })));
}

async function measure() {
    if (options.load && !fs.existsSync(path.join(path.dirname(sonde), 'bench/open_loop'))) execFileSync('ninja', ['-C', path.dirname(sonde), 'bench/open_loop'], { stdio: 'ignore' });
    const until = Date.now() + Number(options.seconds) * 1000, wanted = combinations();
    if (wanted.some(({ mode }) => mode === LTTNG)) startLttng();
    const counts = new Map(wanted.map((w) => [keyOf(w), 0]));
    for (const line of read()) if (line.commit === commit && counts.has(keyOf(line))) counts.set(keyOf(line), counts.get(keyOf(line)) + 1);
    fs.mkdirSync(path.dirname(options.results), { recursive: true });
    while (Date.now() < until) {
        const next = wanted.reduce((least, w) => (counts.get(keyOf(w)) < counts.get(keyOf(least)) ? w : least)), n = counts.get(keyOf(next));
        process.stderr.write(`\r\x1b[K${keyOf(next)}: pair ${n + 1}; ${Math.max(0, Math.round((until - Date.now()) / 1000))} s left `);
        const { cell, mode, node, server, load } = next;
        for await (const result of pairs(next))
            fs.appendFileSync(options.results, `${JSON.stringify({ commit, time: new Date().toISOString(), cell, mode, node, server, load, ...result })}\n`);
        counts.set(keyOf(next), n + TIMES);
    }
    process.stderr.write('\r\x1b[K');
}

// Of a cell's lines: the ratio of CPU time, its interval where enough pairs are known, how many pairs would make that 1 % wide, what of its goal.
function judged(lines) {
    const { mode } = lines[0], n = lines.length, { median, low, high } = medianInterval(lines.map((l) => l.traced.ns / l.bare.ns));
    const known = n > 5, needed = known ? Math.ceil(n * ((high - low) / 2 / 0.01) ** 2) : Infinity, goal = GOALS[mode];
    const verdict = !goal || !known ? '' : high <= goal ? `<= ${goal}: met` : low > goal ? `<= ${goal}: missed` : `<= ${goal}: open`;
    return { ratio: median.toFixed(3), interval: known ? `${low.toFixed(3)}..${high.toFixed(3)}` : '', pairs: String(n), needed: !known ? '?' : needed > n ? String(needed) : 'enough', verdict };
}

const middle = (values) => medianInterval(values).median;
const lostOf = (lines) => String(lines.reduce((sum, l) => sum + (l.lost ?? 0), 0) || '');

function printSteady(groups) {
    if (!groups.length) return;
    const rows = groups.map((lines) => {
        const { cell, mode, node, server, load } = lines[0], { ratio, interval, pairs: n, needed, verdict } = judged(lines);
        const between = (key) => middle(lines.map((l) => l.traced[key] / l.bare[key])).toFixed(3), p99 = medianInterval(lines.map((l) => l.traced.p99_us / l.bare.p99_us));
        return [CELLS[cell].text, node ?? server ?? '', mode, `${(100 * load).toFixed(0)} %`, (middle(lines.map((l) => l.bare.ns)) / 1000).toFixed(2), ratio, interval, middle(lines.map((l) => l.bare.p50_us)).toFixed(0),
            middle(lines.map((l) => l.bare.p99_us)).toFixed(0), between('p50_us'), between('p99_us'), lines.length > 5 ? `${p99.low.toFixed(3)}..${p99.high.toFixed(3)}` : '', lostOf(lines), n, needed, verdict];
    });
    table(`The same traffic traced and untraced, a share of what the untraced service can do, commit ${commit}: medians of pairs, with their 95 % intervals`,
        ['', 'of', 'mode', 'load', 'us untraced', 'CPU ratio', 'interval', 'us p50', 'us p99', 'p50 ratio', 'p99 ratio', 'interval', 'lost', 'pairs', 'for 1 %', 'goal'], rows);
}

function print() {
    const groups = new Map();
    for (const line of read()) if (line.commit === commit) groups.set(keyOf(line), [...(groups.get(keyOf(line)) ?? []), line]);
    const sorted = [...groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, lines]) => lines);
    printSteady(sorted.filter(([{ load }]) => load));
    const rows = sorted.filter(([{ load }]) => !load).map((lines) => {
        const { cell, mode, node, server } = lines[0], { ratio, interval, pairs: n, needed, verdict } = judged(lines);
        return [CELLS[cell].text, node ?? server ?? '', mode, (middle(lines.map((l) => l.bare.ns)) / 1000).toFixed(2), ratio, interval, middle(lines.map((l) => l.traced.perSecond / l.bare.perSecond)).toFixed(3),
            MODES[mode] || mode === LTTNG ? middle(lines.map((l) => l.trace_bytes)).toFixed(0) : '', lostOf(lines), n, needed, verdict];
    });
    if (rows.length)
        table(`Traced against untraced at saturation, commit ${commit}: medians of pairs, with their 95 % intervals`,
            ['', 'of', 'mode', 'us untraced', 'CPU ratio', 'interval', 'rate ratio', 'trace B/req', 'lost', 'pairs', 'for 1 %', 'goal'], rows);
}

// ---- by function ----

// What the probe calls of Node and V8 for its own ends, from hooks that call what they wrap besides.
const FOR_THE_PROBE = /ContinuationPreservedEmbedderData|v8::HandleScope::|AsyncHooksGetExecutionAsyncId/;

// Of a stack, from the outermost frame, the function that is to be charged to sonde; null: it is the program's own.
function chargedTo(stack, probe) {
    const innermost = stack.findLastIndex((name) => probe.has(name)), leaf = stack.length - 1;
    if (innermost < 0) return null;
    if (innermost === leaf) return stack[leaf];
    const called = stack[innermost + 1];
    return !stack[innermost].startsWith('sonde_wrap_') || FOR_THE_PROBE.test(called) ? `${stack[innermost]} -> ${called}` : null;
}

// Samples a service under load: what a request costs, how much of that in the kernel, and the samples charged to each function of the probe.
async function sampled(service, length) {
    const file = path.join(work, 'samples.folded');
    const sampler = spawn(sonde, ['profile', '-q', '-F', '2000', '-d', '600', '-o', file, String(service.pid)], { stdio: 'ignore' });
    await pause(1500);
    const before = cpuTime(service.pid), { requests } = service.load(length), ns = (cpuTime(service.pid) - before) / requests;
    sampler.kill('SIGINT');
    await untilEnded(sampler);
    const symbols = execFileSync('nm', [path.join(path.dirname(sonde), 'libsonde-probe.so')], { encoding: 'utf8' }).split('\n');
    const probe = new Set(symbols.map((line) => /^\S+ [tT] (\S+)$/.exec(line)?.[1]).filter(Boolean));
    const charged = new Map();
    let total = 0, kernel = 0;
    for (const line of fs.readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
        const [, frames, count] = /^(.*) (\d+)$/.exec(line), name = chargedTo(frames.split(';'), probe);
        total += Number(count);
        if (frames.endsWith('_[k]')) kernel += Number(count);
        if (name) charged.set(name, (charged.get(name) ?? 0) + Number(count));
    }
    return { ns, kernel: (ns * kernel) / total, user: ns * (1 - kernel / total), charged: new Map([...charged].map(([name, count]) => [name, (ns * count) / total])), total };
}

// One service, sampled untraced and traced in turns: where its additional time goes. In the kernel that is the programs of kernel events, and what
// the kernel does more or less for a request because peers are asked at other moments.
const ROUNDS = 4;
async function profile({ cell, mode, path: node, node: version }) {
    const { launch: start, slice } = CELLS[cell], service = await start(node), length = slice * (CELLS[cell].node ? 4 : 8);
    const mean = (list, of) => list.reduce((sum, item) => sum + of(item), 0) / list.length, bare = [], traced = [], told = [];
    for (let i = 0; i < 2; i++) service.load(slice); // warms up
    for (let i = 0; i < ROUNDS; i++) {
        service.load(slice);
        bare.push(await sampled(service, length));
        const counting = await attach(service.pid, MODES[mode]), { requests } = service.load(slice);
        told.push({ ...(await counting()), requests });
        const attached = await attach(service.pid, MODES[mode]);
        service.load(slice);
        traced.push(await sampled(service, length));
        await attached();
    }
    await service.stop();
    const names = [...new Set(traced.flatMap(({ charged }) => [...charged.keys()]))].map((name) => [name, mean(traced, ({ charged }) => charged.get(name) ?? 0)]).sort((a, b) => b[1] - a[1]);
    const range = (list, of) => `${Math.min(...list.map(of)).toFixed(0)} to ${Math.max(...list.map(of)).toFixed(0)}`, rows = names.slice(0, 30).map(([name, ns]) => [name, ns.toFixed(0), '']);
    const probe = names.reduce((sum, [, ns]) => sum + ns, 0), user = mean(traced, (t) => t.user) - mean(bare, (b) => b.user), kernel = mean(traced, (t) => t.kernel) - mean(bare, (b) => b.kernel);
    rows.push(['all of the probe', probe.toFixed(0), `${(traced.reduce((sum, { total }) => sum + total, 0) / 1e9).toFixed(1)} s were sampled, ${mean(told, (t) => t.bytes / t.requests).toFixed(0)} B of trace`]);
    rows.push(['the rest in user mode: caches, and how wrappers are called', (user - probe).toFixed(0), `user mode: ${mean(bare, (b) => b.user).toFixed(0)} ns untraced (${range(bare, (b) => b.user)}), ${mean(traced, (t) => t.user).toFixed(0)} traced (${range(traced, (t) => t.user)})`]);
    let programs = 0;
    for (const family of Object.keys(told[0].kernel?.families ?? {})) {
        const runs = mean(told, (t) => t.kernel.families[family].runs / t.requests), ns = mean(told, (t) => t.kernel.families[family].run_ns / t.requests);
        if (!runs) continue;
        programs += ns;
        rows.push([`kernel: ${family}`, ns.toFixed(0), `${runs.toFixed(1)} runs of ${(ns / runs).toFixed(0)} ns`]);
    }
    rows.push(['the rest in the kernel: packets and wakeups', (kernel - programs).toFixed(0), `the kernel: ${mean(bare, (b) => b.kernel).toFixed(0)} ns untraced (${range(bare, (b) => b.kernel)}), ${mean(traced, (t) => t.kernel).toFixed(0)} traced (${range(traced, (t) => t.kernel)})`]);
    rows.push(['traced less untraced', (user + kernel).toFixed(0), `${(mean(bare, (b) => b.ns) / 1000).toFixed(2)} us untraced, ${(mean(traced, (t) => t.ns) / mean(bare, (b) => b.ns)).toFixed(3)} times that`]);
    table(`${CELLS[cell].text}${version ? `, Node ${version}` : ''}, ${mode}, commit ${commit}: what a request costs more at saturation, sampled`, ['', 'ns a request', ''], rows);
}

try {
    if (options.profile) {
        options.cells = options.profile;
        options.modes ??= 'no-kernel,usual';
        for (const wanted of combinations().filter(({ mode }) => MODES[mode])) await profile(wanted);
    } else {
        if (!options.print) await measure();
        print();
    }
} finally {
    for (const end of stores.reverse()) await end();
    for (const child of running) child.kill('SIGTERM');
    lttng?.stop();
    fs.rmSync(work, { recursive: true, force: true });
}
