// Are the counts of `sonde redis` exact? Mixed commands, with MULTI, EVAL, EXEC, DISCARD, BLPOP, XREAD, refused and unknown ones,
// and in every second run on a node of a cluster that answers MOVED and ASK: what is counted from the events against the server's
// own counters (commandstats, total_net_input_bytes) and what the clients have. Each run appends a line to
// bench/results/redis-exact.jsonl, so that runs may be made in pieces; the sums so far are printed.
//   node bench/redis-exact.mjs [COMMANDS]   go on until so many commands have been compared (1000000)
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { VERSION, answers, cli, command } from '../tests/system/redis.mjs';
import { freePort, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-exact.jsonl');
const COMMANDS = Number(process.argv[2] || 1_000_000), OF_A_RUN = 60_000, BATCH = 40, CLIENTS = 4, SLOTS = 16384, HERE = 8192;
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();

// A number from 0 to below, the same in every run of that seed.
function random(seed) {
    let state = seed;
    return (below) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor((state / 2 ** 32) * below);
    };
}

// The type of the reply at a place, where it ends, and how many elements it has; null when it is not whole.
function replyAt(text, at) {
    const end = text.indexOf('\r\n', at);
    if (end < 0) return null;
    const kind = text[at], rest = text.slice(at + 1, end), length = Number(rest);
    if (kind === '$') return length < 0 ? { kind, end: end + 2 } : text.length >= end + 4 + length ? { kind, end: end + 4 + length } : null;
    if (kind !== '*') return { kind, rest, end: end + 2 };
    let next = end + 2;
    for (let n = 0; n < length; n++) {
        const element = replyAt(text, next);
        if (!element) return null;
        next = element.end;
    }
    return { kind, elements: length, end: next };
}

// Sends batches of commands, and counts the replies by what they say.
class Client {
    text = '';
    counts = { sent: 0, bytes: 0, received: 0, queued: 0, executed: 0, moved: 0, asked: 0, unknown: 0, aborted: 0, discarded: 0 };
    constructor(port) {
        this.socket = net.connect(port, '127.0.0.1').setNoDelay(true).setEncoding('latin1');
        this.socket.on('data', (text) => { this.counts.received += text.length; this.text += text; this.wake?.(); });
        this.socket.on('error', (error) => { this.failed = error; this.wake?.(); });
    }
    async send(list) {
        const bytes = Buffer.concat(list.map((words) => command(...words)));
        this.counts.sent += list.length;
        this.counts.bytes += bytes.length;
        this.socket.write(bytes);
        let queued = 0;
        for (const words of list) {
            let reply;
            while (!(reply = replyAt(this.text, 0))) {
                if (this.failed) throw this.failed;
                await new Promise((resolve) => { this.wake = resolve; });
            }
            this.text = this.text.slice(reply.end);
            const { kind, rest = '' } = reply, c = this.counts;
            if (kind === '+' && rest === 'QUEUED') queued++, c.queued++;
            if (kind === '-' && rest.startsWith('MOVED')) c.moved++;
            if (kind === '-' && rest.startsWith('ASK')) c.asked++;
            if (kind === '-' && rest.startsWith('ERR unknown command')) c.unknown++;
            if (words[0] === 'EXEC' && kind === '*') c.executed += reply.elements, queued = 0;
            if (words[0] === 'EXEC' && kind === '-') c.aborted += queued, queued = 0;
            if (words[0] === 'DISCARD') c.discarded += queued, queued = 0;
        }
    }
}

// A batch that is answered without waiting for anybody, but for a few milliseconds now and then.
function batch(pick, keyOf) {
    const list = [], simple = () => {
        const key = keyOf(pick);
        switch (pick(8)) {
            case 0: return ['GET', `s${key}`];
            case 1: return ['INCR', `n${key}`];
            case 2: return ['LPUSH', `l${key}`, 'value'];
            case 3: return ['LTRIM', `l${key}`, '0', '9'];
            case 4: return ['HSET', `h${key}`, `field${pick(10)}`, 'value'];
            case 5: return ['XADD', `x${key}`, 'MAXLEN', '20', '*', 'field', 'value'];
            default: return ['SET', `s${key}`, 'x'.repeat(pick(200))];
        }
    };
    while (list.length < BATCH) {
        const key = keyOf(pick), which = pick(100);
        if (which < 70) list.push(simple());
        else if (which < 80) list.push(['MULTI'], ...Array.from({ length: 1 + pick(5) }, simple), ...(pick(10) ? [] : [['NOSUCH', 'x']]), [pick(3) ? 'EXEC' : 'DISCARD']);
        else if (which < 86) list.push(['EVAL', "redis.call('SET', KEYS[1], 'x'); return redis.call('GET', KEYS[1])", '1', `e${key}`]);
        else if (which < 90) list.push(['LPUSH', `b${key}`, 'value'], ['BLPOP', `b${key}`, '1']);
        else if (which < 93) list.push(['XREAD', 'COUNT', '2', 'STREAMS', `x${key}`, '0']);
        else if (which < 96) list.push(['NOSUCH', 'x']);
        else if (which < 99) list.push(['GET']);
        else if (!pick(10)) list.push(pick(2) ? ['BLPOP', `nothing${key}`, '0.002'] : ['XREAD', 'BLOCK', '2', 'STREAMS', `nothing${key}`, '$']);
    }
    return list;
}

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of running) child.kill('SIGKILL'); process.exit(1); });
function run(program, args) {
    const child = spawn(program, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { child.said += text; });
    running.add(child);
    child.ended = new Promise((resolve) => child.once('close', () => { running.delete(child); resolve(); }));
    return child;
}

// The second node has half of the slots, and one slot of ours moves to it.
async function makeCluster(port, other, bus) {
    cli(port, ['cluster', 'addslotsrange', '0', String(HERE - 1)]);
    cli(other, ['cluster', 'addslotsrange', String(HERE), String(SLOTS - 1)]);
    cli(port, ['cluster', 'meet', '127.0.0.1', String(other), String(bus)]);
    for (const end = Date.now() + 60_000; ![port, other].every((p) => cli(p, ['cluster', 'info']).includes('cluster_state:ok')); await pause(50)) if (Date.now() > end) throw new Error('the cluster is not whole within 60 s');
    const moving = Array.from({ length: 50 }, (_, n) => `{${n}}`).find((key) => Number(cli(port, ['cluster', 'keyslot', key])) < HERE);
    cli(port, ['cluster', 'setslot', cli(port, ['cluster', 'keyslot', moving]).trim(), 'migrating', cli(other, ['cluster', 'myid']).trim()]);
}

async function once(n) {
    const clustered = n % 2 === 1, folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-exact-')), trace = path.join(folder, 'trace');
    const port = await freePort(), other = await freePort(), bus = await freePort(), otherBus = await freePort();
    const options = (p, b, name) => ['--port', p, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...(clustered ? ['--cluster-enabled', 'yes', '--cluster-port', b, '--cluster-config-file', path.join(folder, `${name}.conf`)] : [])];
    const tracer = run(SONDE, ['run', '--quiet', '--no-kernel', '--budget', '80,512', '-o', trace, '--', 'redis-server', ...options(port, bus, 'traced')]);
    const peer = clustered ? run('redis-server', options(other, otherBus, 'other')) : null;
    try {
        await answers(port);
        if (clustered) {
            await answers(other);
            await makeCluster(port, other, otherBus);
        }
        // Half of the keys are in slots of the other node; keys of one batch's transactions may be in several.
        const keyOf = (pick) => (clustered ? `{${pick(50)}}` : String(pick(1000)));
        const clients = Array.from({ length: CLIENTS }, () => new Client(port));
        await Promise.all(clients.map(async (client, k) => {
            const pick = random(n * CLIENTS + k + 1);
            while (client.counts.sent < OF_A_RUN / CLIENTS) await client.send(batch(pick, keyOf));
        }));
        const own = clients.map((client) => client.counts).reduce((a, b) => Object.fromEntries(Object.keys(a).map((key) => [key, a[key] + b[key]])));
        const info = Object.fromEntries([...cli(port, ['info', 'all']).matchAll(/^([^:\r\n]+):(.*?)\r?$/gm)].map(([, key, value]) => [key, value]));
        for (const client of clients) client.socket.destroy();
        try { cli(port, ['shutdown', 'nosave']); } catch { /* it closes the connection */ }
        await tracer.ended;
        const { servers: [{ commands, work }], losses } = JSON.parse(execFileSync(SONDE, ['redis', '--json', trace], { encoding: 'utf8', maxBuffer: 1 << 26 }));
        const wrong = [], of = (name) => commands.find((c) => c.name === name) || { calls_count: 0, inner_calls_count: 0, refused_count: 0, redirected_count: 0, queued_count: 0 };
        const equal = (what, mine, its) => { if (mine !== its) wrong.push(`${what}: ${mine}, not ${its}`); };
        const sum = (what) => commands.reduce((total, c) => total + c[what], 0);
        let executed = 0;
        for (const [key, value] of Object.entries(info)) {
            const [, calls, refused] = /^calls=(\d+),.*rejected_calls=(\d+)/.exec(value) || [], name = key.replace('cmdstat_', '');
            if (!key.startsWith('cmdstat_') || name === 'info' || name === 'shutdown') continue; // the last INFO was not counted yet
            executed += Number(calls);
            equal(`executed ${name}`, of(name).calls_count + of(name).inner_calls_count, Number(calls));
            equal(`refused ${name}`, of(name).refused_count + of(name).redirected_count, Number(refused));
        }
        equal('unknown', of('unknown command').refused_count, own.unknown);
        equal('redirected', sum('redirected_count'), own.moved + own.asked);
        equal('queued', sum('queued_count'), own.queued);
        equal('queued, by what became of it', own.executed + own.aborted + own.discarded, own.queued);
        const inDifference = work.clients.in_bytes / Number(info.total_net_input_bytes) - 1;
        return { commit, time: new Date().toISOString(), version: VERSION, clustered, commands: own.sent, executed, queued: own.queued, unknown: own.unknown, moved: own.moved, asked: own.asked, in_bytes_difference: inDifference, lost: losses.reduce((total, loss) => total + loss.count, 0), wrong };
    } finally {
        for (const child of [tracer, peer]) child?.kill('SIGKILL');
        execFileSync('sh', ['-c', `redis-cli -p ${port} shutdown nosave >/dev/null 2>&1 || true`]);
        await Promise.all([tracer.ended, peer?.ended]);
        fs.rmSync(folder, { recursive: true, force: true });
    }
}

fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
const all = () => (fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').trim().split('\n').map((text) => JSON.parse(text)) : []);
const compared = () => all().filter((line) => !line.lost).reduce((sum, line) => sum + line.commands, 0);
while (compared() < COMMANDS) {
    const line = await once(all().length);
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line));
}
const lines = all(), wrong = lines.filter((line) => !line.lost && line.wrong.length);
console.log(`${compared()} commands compared in ${lines.length} runs (${lines.filter((line) => line.lost).length} with losses, not compared): ${wrong.length} runs with a wrong count; input bytes differ by at most ${(100 * Math.max(...lines.map((line) => Math.abs(line.in_bytes_difference)))).toFixed(3)} %`);
process.exitCode = wrong.length ? 1 : 0;
