// How right the verdicts of `sonde report` are: generated programs with known faults, real load, and the comparison
// of what sonde says with what was planted.
//   node bench/verdicts/run.mjs [--only TEXT] [--from N] [--to N] [--every N] [--seed N] [--jobs N] [--seconds S] [--json FILE] [--list]
// With --keep DIR programs and traces stay there, and `--keep DIR --again` analyses and scores them once more.
// Set SONDE to try another build. What was planted is kept in this process and, by each program, in a file outside
// of the trace: sonde cannot see it.
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { App } from './app.mjs';
import { Chance } from './chance.mjs';
import { calibration } from './faults/common.mjs';
import { load } from './load.mjs';
import { freePort, makeFixture, slowlog, startPeer, untilRedis } from './peers.mjs';
import { groupWithQuota } from '../../tests/system/quota.mjs';
import { scenarios } from './scenarios.mjs';
import { causeTable, confusionTable, score, sentence, summarise } from './score.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
    options: {
        only: { type: 'string', default: '' }, seed: { type: 'string', default: '1' }, jobs: { type: 'string', default: '1' }, seconds: { type: 'string', default: '3.5' },
        json: { type: 'string' }, keep: { type: 'string' }, again: { type: 'boolean', default: false }, from: { type: 'string', default: '1' }, to: { type: 'string', default: '1000' }, every: { type: 'string', default: '1' }, list: { type: 'boolean', default: false },
    },
});
const modules = path.join(here, 'node_modules');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-verdicts-'));
// A copy, so that a build meanwhile does not change what is measured.
const built = path.resolve(process.env.SONDE || path.join(here, '../../build/sonde')), sonde = path.join(work, 'sonde');
for (const name of ['sonde', 'libsonde-probe.so']) fs.copyFileSync(path.join(path.dirname(built), name), path.join(work, name));

/* ---- one scenario ---- */

function plant(scenario) {
    const chance = new Chance(scenario.seed), app = new App(chance, scenario), faults = [];
    for (const fault of scenario.faults) faults.push(fault.plant(app, fault));
    // When an operation of the pool was done, the program learns late where its loop stands still.
    if (faults.length > 1) for (const expected of faults.flatMap((fault) => fault.expect)) if (expected.cause.startsWith('pool')) delete expected.blamed;
    // What every service does beside its faults, and who suffers.
    const file = app.newFile();
    app.require(file, 'fs', 'fs');
    const quick = app.addHandler(file, chance.name(), ["ANSWER('hello ' + query.get('who') + '\\n');"]);
    const read = app.addHandler(file, chance.name(), app.style === 'promise' ? ["const text = await fs.promises.readFile(__filename, 'utf8');", "ANSWER(text.slice(0, 200) + '\\n');"]
        : ["fs.readFile(__filename, 'utf8', (error, text) => {", '    if (error) return done(error);', "    ANSWER(text.slice(0, 200) + '\\n');", '});']);
    const routes = [{ target: () => `${quick}?who=${chance.whole(1, 999)}`, everyMs: 45, atOnce: 12, warm: `${quick}?who=1` }];
    // Where all operations of the pool are counted, none is done that the program does not count.
    if (!faults.some((fault) => fault.ownPool)) routes.push({ target: () => read, everyMs: 60, atOnce: 12, warm: read });
    return { app, chance, faults, routes: [...faults.flatMap((fault) => fault.routes), ...routes] };
}

function command({ app, faults }, redisPort, dump, group) {
    const hogs = Math.max(0, ...faults.map((fault) => fault.hogs || 0));
    const pin = hogs ? ['taskset', '-c', String(os.cpus().length - 1)] : [];
    const node = [...pin, process.execPath, ...app.flags, app.main];
    if (group) return ['sh', '-c', `echo $$ > ${group.folder}/cgroup.procs && exec ${node.join(' ')}`]; // sonde itself stays outside
    if (!redisPort) return node;
    return ['sh', '-c', `redis-server --port ${redisPort} --bind 127.0.0.1 --dir '${path.dirname(dump)}' --save '' --slowlog-log-slower-than 10000 --slowlog-max-len 100000 > /dev/null 2>&1 & exec ${node.join(' ')}`];
}

const shims = new Map();
function shim() {
    if (!shims.has('slow')) {
        const out = path.join(work, 'slow.so');
        const made = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-w', '-o', out, path.join(here, 'slow.c'), '-ldl'], { encoding: 'utf8' });
        if (made.status !== 0) throw new Error(`cc: ${made.stderr}`);
        shims.set('slow', out);
    }
    return shims.get('slow');
}

class Program {
    constructor(args, { cwd, env }) {
        this.output = this.errors = '';
        this.child = spawn(sonde, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
        this.child.stdout.setEncoding('utf8').on('data', (part) => (this.output += part));
        this.child.stderr.setEncoding('utf8').on('data', (part) => (this.errors += part));
        this.ended = new Promise((resolve) => {
            this.child.on('error', (error) => (this.errors += error.message));
            this.child.on('exit', (status) => resolve((this.status = status ?? -1)));
        });
    }

    async until(pattern, timeoutMs = 60_000) {
        for (const end = Date.now() + timeoutMs; Date.now() < end && this.status === undefined;) {
            const match = pattern.exec(this.output);
            if (match) return match;
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
        throw new Error(`no ${pattern}\n${this.output.slice(-2000)}\n${this.errors.slice(-2000)}`);
    }
}

function startHogs(count) {
    return Array.from({ length: count }, () => spawn('taskset', ['-c', String(os.cpus().length - 1), 'sh', '-c', 'while :; do :; done'], { stdio: 'ignore' }));
}

async function record(planted, folder, fixture) {
    const { app, faults, routes, chance } = planted, bookFile = path.join(folder, 'book.json'), trace = path.join(folder, 'trace');
    const wantsRedis = faults.find((fault) => fault.redis), context = { ports: {}, slowlog: [], late: {} };
    const started = [], quotaUs = Math.max(0, ...faults.map((fault) => fault.quotaUs || 0)), group = quotaUs ? groupWithQuota(quotaUs, `sonde-verdicts-${process.pid}`) : null;
    if (typeof group === 'string') throw new Error(group);
    let program, redisPort;
    try {
        for (const peer of faults.flatMap((fault) => fault.peers || [])) {
            const running = await startPeer(peer);
            started.push({ ...peer, ...running });
            context.ports[peer.variable] = running.port;
        }
        if (wantsRedis) context.ports[wantsRedis.redis.variable] = redisPort = await freePort();
        const env = { ...app.env, [app.bookVariable]: bookFile, ...Object.fromEntries(Object.entries(context.ports).map(([name, port]) => [name, String(port)])) };
        if (faults.some((fault) => fault.shim)) env.LD_PRELOAD = shim();
        app.write(path.join(folder, 'app'), modules);
        program = new Program(['record', '-q', '-o', trace, '--', ...command(planted, redisPort, fixture, group)], { cwd: path.join(folder, 'app'), env });
        const [, port, pid] = await program.until(/listening (\d+) (\d+)/);
        if (redisPort) await untilRedis(redisPort);
        const hogs = startHogs(Math.max(0, ...faults.map((fault) => fault.hogs || 0)));
        const counts = await load({ port, routes, seconds: Number(options.seconds), chance });
        hogs.forEach((hog) => hog.kill('SIGKILL'));
        if (redisPort) context.slowlog = slowlog(redisPort);
        for (const peer of started) context.late[peer.variable] = peer.late();
        process.kill(Number(pid), 'SIGTERM');
        const late = setTimeout(() => program.child.kill('SIGINT'), 20_000);
        await program.ended;
        clearTimeout(late);
        return { trace, book: JSON.parse(fs.readFileSync(bookFile, 'utf8')), context, counts };
    } finally {
        started.forEach((peer) => peer.stop());
        if (redisPort) spawnSync('redis-cli', ['-p', String(redisPort), 'shutdown', 'nosave']);
        if (program && program.status === undefined) program.child.kill('SIGKILL');
        for (let i = 0; group && !group.remove() && i < 100; i++) await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

function sondeSays(...args) {
    const run = spawnSync(sonde, args, { encoding: 'utf8', maxBuffer: 1 << 30 });
    if (![0, 4].includes(run.status)) throw new Error(`sonde ${args[0]}: status ${run.status}\n${run.stderr}`);
    return JSON.parse(run.stdout);
}

async function runScenario(scenario, fixture) {
    const folder = path.join(options.keep ? path.resolve(options.keep) : work, `${scenario.number}`);
    const notes = path.join(folder, 'notes.json'), again = options.again && fs.existsSync(notes);
    if (options.again && !again) throw new Error('it was not kept');
    const planted = plant(scenario);
    let recorded;
    if (again) {
        planted.app.write(path.join(work, `again-${scenario.number}`), modules); // it is known then what lies where
        recorded = { ...JSON.parse(fs.readFileSync(notes)), trace: path.join(folder, 'trace') };
    } else {
        fs.rmSync(folder, { recursive: true, force: true });
        fs.mkdirSync(folder, { recursive: true });
        recorded = await record(planted, folder, fixture);
        fs.writeFileSync(notes, JSON.stringify(recorded));
    }
    const { trace, book, context, counts } = recorded;
    const report = sondeSays('report', '--json', trace), { requests } = sondeSays('spans', '--json', '--slowest', '100000', trace);
    context.service = report.findings[0]?.where.service;
    const result = { number: scenario.number, name: scenario.name, ...score(planted.faults.flatMap((fault) => fault.expect), report, book, context, requests, counts.asked), requests: counts.sent, events: report.overhead.events_count, lost: report.losses.length };
    result.titles = report.findings.map((finding) => `${finding.severity} ${finding.kind}: ${finding.title}`);
    if (!options.keep) fs.rmSync(folder, { recursive: true, force: true });
    return result;
}

/* ---- all of them ---- */

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.round(seconds) % 60).padStart(2, '0')}`;

function tell(result, done, all, since) {
    const left = ((performance.now() - since) / 1000 / done) * (all - done);
    const missed = result.verdicts.filter((v) => !v.kind).map((v) => `missed ${v.cause}`);
    const misplaced = result.verdicts.filter((v) => v.kind && !v.place).map((v) => `wrong place of ${v.cause}`);
    const late = result.verdicts.filter((v) => v.time === false).map((v) => `${v.cause}: blamed ${(v.blamed_ns / 1e6).toFixed(0)} ms, truly ${(v.true_ns / 1e6).toFixed(0)} ms`);
    const alarms = result.alarms.map((alarm) => `false alarm: ${alarm.title}`);
    const wrong = [...missed, ...misplaced, ...late, ...alarms];
    console.error(`${String(done).padStart(3)}/${all} ${clock(left)} left  ${wrong.length ? 'WRONG' : 'ok   '} #${result.number} ${result.name}${wrong.map((text) => `\n          ${text}`).join('')}`);
    if (missed.length || misplaced.length) result.titles.slice(0, 6).forEach((title) => console.error(`          said: ${title}`));
}

async function main() {
    const all = scenarios(Number(options.seed)).filter((scenario) => scenario.name.includes(options.only) || `#${scenario.number}` === options.only)
        .filter((scenario) => !options.again || fs.existsSync(path.join(path.resolve(options.keep), String(scenario.number), 'notes.json')))
        .filter(({ number }) => number >= Number(options.from) && number <= Number(options.to) && (number + Number(options.seed)) % Number(options.every) === 0);
    if (options.list) return all.forEach((scenario) => console.log(`#${scenario.number} ${scenario.name}`));
    if (!fs.existsSync(modules)) throw new Error(`${modules} is missing: npm ci in ${here}`);
    const fixture = !options.again && all.some((scenario) => scenario.faults.some((fault) => fault.label.startsWith('redis'))) ? await makeFixture(path.join(work, 'redis')) : null;
    if (options.again) calibration.skip = true;
    const waiting = [...all], results = [], since = performance.now();
    const worker = async () => {
        for (let scenario; (scenario = waiting.shift());) {
            const result = await runScenario(scenario, fixture).catch((error) => ({ number: scenario.number, name: scenario.name, failed: String(error.stack || error), verdicts: [], alarms: [], titles: [] }));
            results.push(result);
            if (result.failed) console.error(`#${scenario.number} ${scenario.name} could not be run: ${result.failed}`);
            else tell(result, results.length, all.length, since);
        }
    };
    await Promise.all(Array.from({ length: Number(options.jobs) }, worker));
    results.sort((a, b) => a.number - b.number);
    const ran = results.filter((result) => !result.failed), summary = summarise(ran);
    console.log(`\n${causeTable(ran)}\n\n${confusionTable(ran)}\n\nSeed ${options.seed}: ${sentence(summary)}${ran.length < results.length ? `; ${results.length - ran.length} could not be run` : ''}`);
    if (options.json) fs.writeFileSync(options.json, JSON.stringify({ seed: Number(options.seed), summary, results }, null, 1));
    process.exitCode = ran.length < results.length ? 1 : 0;
}

try {
    await main();
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
