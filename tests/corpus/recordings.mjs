// How the recordings of tests/corpus were made: one recipe a recording. `tools/corpus record` calls them in a mount
// namespace of its own, where the project lies under /opt/sonde and other Node.js versions under /opt/node-VERSION, so
// that a recording names no path of the machine on which it was made.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { childNamed, eventually, finish, freePort, kill, root, SONDE, start } from '../system/helper.mjs';

const PROGRAMS = path.join(root, 'tests', 'system', 'programs'), SHOP = path.join(root, 'examples', 'shop', 'shop.js');
const program = (name) => path.join(PROGRAMS, name);
const node = (version) => (version ? `/opt/node-${version}/bin/node` : process.execPath);

// Runs a command under `sonde record` to its end.
async function record(t, trace, options, ...command) {
    const ended = await finish(t, SONDE, ['record', '--quiet', '-o', trace, ...options, '--', ...command]);
    if (![0, 4].includes(ended.status)) throw new Error(ended.describe());
}

// A recording of a fixed command line.
const of = (options, ...command) => (t, trace) => record(t, trace, options, ...command);
const everything = (version, ...options) => of(['--no-kernel', ...options], node(version), program('everything.js'), '6');
const shop = (options, ...args) => of(options, process.execPath, SHOP, ...args);

// Scenario NUMBER of the generated programs with known faults (bench/verdicts, seed 1).
const verdict = (number, seconds = 2) => async (t, trace) => {
    const keep = `${trace}.verdicts`;
    const ended = await finish(t, process.execPath, [path.join(root, 'bench/verdicts/run.mjs'), '--only', `#${number}`, '--keep', keep, '--seconds', seconds]);
    if (ended.status) throw new Error(ended.describe());
    fs.renameSync(path.join(keep, String(number), 'trace'), trace);
};

function ask(port, target, agent) {
    return new Promise((resolve, reject) => {
        http.get({ host: '127.0.0.1', port, path: target, agent }, (response) => response.resume().on('end', () => resolve(response.statusCode))).on('error', reject);
    });
}

async function listening(running) {
    return Number((await running.until(/listening (?:on )?(\d+)/, { stream: 'stdout' }))[1]);
}

// Redis alone: pipelines, many connections, a slow script, commands of several kinds.
async function redis(t, trace) {
    const port = await freePort();
    const recording = start(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', '/opt/tmp']);
    const cli = async (...words) => (await finish(t, 'redis-cli', ['-p', port, ...words])).stdout.trim();
    await eventually('Redis answers', async () => (await cli('ping')) === 'PONG');
    await finish(t, 'redis-benchmark', ['-p', port, '-q', '-n', 1500, '-c', 10, '-t', 'set,get,lpush,hset']);
    await finish(t, 'redis-benchmark', ['-p', port, '-q', '-n', 800, '-P', 16, '-t', 'get']);
    const busy = cli('EVAL', 'local n = 0 for i = 1, 6000000 do n = n + i end return n', '0');
    await Promise.all([busy, cli('get', 'key:1'), cli('get', 'key:2')]);
    await cli('debug', 'sleep', '0.15');
    await cli('shutdown', 'nosave');
    await recording.ended;
}

// Attached to in the middle of requests: two have begun before, one has not ended when sonde leaves.
async function attach(t, trace) {
    const holder = start(t, process.execPath, [program('holder.js')]);
    const port = await listening(holder), get = (url) => ask(port, url, false);
    const before = [get('/held-1'), get('/held-2')];
    await holder.until(/held-[^]*held-/, { stream: 'stdout' });
    const recorder = start(t, SONDE, ['attach', '--kernel=all', '-o', trace, holder.pid]);
    await recorder.until(/attached to 1 process/);
    await get('/release');
    await Promise.all(before);
    for (let i = 0; i < 20; i++) await get(`/whole-${i}`);
    const after = get('/held-3');
    await holder.until(/held-3/, { stream: 'stdout' });
    kill(recorder.pid, 'SIGINT');
    await recorder.ended;
    await get('/release');
    await after;
}

// sonde stands still until a ring overflows.
async function losses(t, trace) {
    const recording = start(t, SONDE, ['record', '--no-kernel', '-o', trace, '--', process.execPath, program('hello.js')]);
    const port = await listening(recording), agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
    kill(recording.pid, 'SIGSTOP');
    for (let wave = 0; wave < 80; wave++) await Promise.all(Array.from({ length: 50 }, () => ask(port, '/', agent)));
    kill(recording.pid, 'SIGCONT');
    agent.destroy();
    await ask(port, '/end', false);
    if ((await recording.ended).status !== 4) throw new Error('nothing was lost');
}

// Asks a service one thing after another until the promise is settled.
async function askUntil(settled, port, everyMs) {
    let over = false;
    const end = () => (over = true);
    settled.then(end, end);
    while (!over) {
        await ask(port, '/', false);
        await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
    return settled;
}

// The recorder is killed while requests are served: no last manifest, streams that end anywhere.
async function killed(t, trace) {
    const recording = start(t, SONDE, ['record', '--kernel=all', '-o', trace, '--', process.execPath, program('hello.js')]);
    const port = await listening(recording);
    const size = () => fs.readdirSync(path.join(trace, 'ctf')).filter((name) => name !== 'metadata').reduce((sum, name) => sum + fs.statSync(path.join(trace, 'ctf', name)).size, 0);
    await askUntil(eventually('streams are being written', () => size() > 60_000), port, 2);
    kill(recording.pid, 'SIGKILL');
    await ask(port, '/end', false);
    await recording.ended;
}

// What tracing costs is above a budget that nothing can hold: events are left out, then tracing stops.
async function budget(t, trace) {
    const recording = start(t, SONDE, ['record', '--budget', '0.0001,128', '-o', trace, '--', process.execPath, program('hello.js')]);
    const port = await listening(recording);
    await askUntil(recording.until(/tracing has stopped/, { timeoutMs: 120_000 }), port, 20);
    await ask(port, '/end', false);
    await recording.ended;
}

// Stacks sampled meanwhile join the recording as a stream of their own.
async function samples(t, trace) {
    const recording = start(t, SONDE, ['record', '--no-kernel', '-o', trace, '--', process.execPath, program('hello.js')]);
    const port = await listening(recording);
    const profile = finish(t, SONDE, ['profile', '-q', '-F', '999', '--duration', '1.5', '--trace', trace, '-o', `${trace}.folded`, '-f', 'folded', childNamed(recording.pid, 'hello.js')]);
    const { status } = await askUntil(profile, port, 3);
    await ask(port, '/end', false);
    await recording.ended;
    if (status) throw new Error((await profile).describe());
}

export const RECORDINGS = {
    'shop-faults': shop(['--no-kernel'], '--fault', 'all', '--duration', '7', '--rate', '40'),
    'shop-healthy-kernel': shop(['--kernel=all,wakeup,tcp'], '--duration', '2', '--rate', '20'),
    'shop-database': shop(['--no-kernel'], '--fault', 'database', '--duration', '4', '--rate', '25', '--database'),
    'verdict-run-queue': verdict(79),
    'verdict-short-callbacks': verdict(102),
    'verdict-regexp-leak-redis': verdict(125),
    'verdict-pool-regexp': verdict(88),
    'verdict-serialisation-name': verdict(91),
    'verdict-name-ipc-json': verdict(127),
    'verdict-lock-peer-crypto': verdict(129),
    'verdict-redis-regexp-file': verdict(130),
    'node-18': everything('18'),
    'node-20': everything(),
    'node-22-script': everything('22', '--context', 'script'),
    'node-24-native': everything('24', '--context', 'native'),
    redis,
    http2: of(['--no-kernel'], process.execPath, program('http2.js'), '3'),
    websocket: of(['--no-kernel'], process.execPath, program('websocket.js'), '5'),
    ipc: of(['--no-kernel'], process.execPath, program('ipc.js'), 'late', 'full', 'quick', 'crowd'),
    workers: of([], process.execPath, program('threads.js'), '12'),
    functions: of(['--no-kernel', ...['checkout', 'functions-shop.js:compute', 'Cart.total', 'boom', 'fails', 'nowhere'].flatMap((name) => ['--function', name])], process.execPath, program('functions.js'), '12'),
    joins: of(['--no-kernel'], process.execPath, program('joins.js'), '3'),
    leak: of(['--no-kernel'], process.execPath, program('leaks.js'), 'closure', 'leak', '250'),
    'attach-middle': attach,
    losses,
    killed,
    budget,
    samples,
};
