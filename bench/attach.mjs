// Attaching to and detaching from a service under full load, again and again: what its clients notice. Beside it
// lives an untouched twin; the same load goes to the one while it is attached to, and then for as long to the other,
// so that both suffer alike from everything but sonde.
//   node bench/attach.mjs build/sonde build/bench/attach_load [CYCLES [redis|node...]]    200 cycles, both
// Ends with status 1 when a client saw an error, the code is not as before, the p99 or the longest wait lies more
// than 10 ms above the twin's longest, or memory, mappings or descriptors grew.
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort, spread, table } from './measure.mjs';

const [sonde, loader, cycles = '200', ...chosen] = process.argv.slice(2);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const WIDTH = 16, MARGIN_NS = 10e6, SETTLE = 10; // cycles after which memory must not grow any more

function until(child, pattern) {
    return new Promise((resolve, reject) => {
        let said = '';
        child.stdout.on('data', (part) => {
            said += part;
            if (pattern.test(said)) resolve(pattern.exec(said));
        });
        child.on('exit', () => reject(new Error(`ended: ${said}`)));
    });
}

async function redis() {
    const port = await freePort();
    const child = spawn('redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--io-threads', Math.max(2, Math.min(4, os.cpus().length)), '--io-threads-do-reads', 'yes', '--dir', work].map(String), { stdio: ['ignore', 'pipe', 'inherit'] });
    await until(child, /Ready to accept connections/);
    return { child, port };
}

async function node() {
    const script = path.join(work, 'service.js');
    fs.writeFileSync(script, `
        const http = require('http'), fs = require('fs');
        const server = http.createServer((request, response) => {
            fs.readFile(__filename, (error, data) => {
                const body = request.url + data.length;
                response.setHeader('Content-Length', body.length);
                response.end(body);
            });
        }).listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`);
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    return { child, port: Number((await until(child, /port (\d+)/))[1]) };
}

const SERVICES = { redis: [redis, 'redis'], node: [node, 'http'] };

// The executable pages that belong to a file, as they are in memory now.
function codeOf(pid) {
    const hash = crypto.createHash('sha256'), memory = fs.openSync(`/proc/${pid}/mem`, 'r');
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const map = /^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +\/(?!memfd:)/.exec(line);
        if (!map) continue;
        const bytes = Buffer.alloc(parseInt(map[2], 16) - parseInt(map[1], 16));
        fs.readSync(memory, bytes, 0, bytes.length, parseInt(map[1], 16));
        hash.update(bytes);
    }
    fs.closeSync(memory);
    return hash.digest('hex');
}

// What sonde maps: the probe, its rings, executable memory without a file. What it keeps resident of them, which a
// runtime's own growth does not disturb.
function footprint(pid) {
    let ours = false, mappings = 0, rss = 0;
    for (const line of fs.readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
        if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) {
            ours = / \/memfd:|r-xp \S+ 00:00 0/.test(line);
            mappings += ours;
        } else if (ours && line.startsWith('Rss:')) {
            rss += parseInt(line.slice(4));
        }
    }
    return { mappings, rss, fds: fs.readdirSync(`/proc/${pid}/fd`).length };
}

class Load {
    constructor(protocol, ...ports) {
        this.child = spawn(loader, [protocol, WIDTH, ...ports].map(String), { stdio: ['pipe', 'pipe', 'inherit'] });
        this.lines = [];
        this.text = '';
        this.child.stdout.on('data', (part) => {
            this.text += part;
            for (let end; (end = this.text.indexOf('\n')) >= 0; this.text = this.text.slice(end + 1)) this.lines.shift()(JSON.parse(this.text.slice(0, end)));
        });
    }

    moveTo(number) {
        this.child.stdin.write(`${number}\n`);
    }

    since() {
        return new Promise((resolve) => {
            this.lines.push(resolve);
            this.child.stdin.write('\n');
        });
    }
}

async function once(pid, trace) {
    const child = spawn(sonde, ['attach', '-q', '-o', trace, '--duration', '0.2', String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    child.stderr.on('data', (part) => (said += part));
    const status = await new Promise((resolve) => child.on('exit', resolve));
    if (status !== 0 && status !== 4) throw new Error(`sonde attach: status ${status}\n${said}`);
    const manifest = JSON.parse(fs.readFileSync(path.join(trace, 'manifest.json'), 'utf8'));
    fs.rmSync(trace, { recursive: true });
    const [process_] = manifest.processes;
    if (!process_.events_written) throw new Error('nothing was recorded');
    return { ...process_.stops, events: process_.events_written, lost: manifest.losses.reduce((sum, loss) => sum + loss.count, 0) };
}

const ms = (ns) => (ns / 1e6).toFixed(2);

async function measure(name) {
    const [make, protocol] = SERVICES[name];
    const [service, twin] = [await make(), await make()];
    const load = new Load(protocol, service.port, twin.port);
    const failures = [];
    try {
        await new Promise((resolve) => setTimeout(resolve, 1500));
        const before = codeOf(service.child.pid), worst = [], stops = [];
        await load.since();
        let settled, lost = 0, events = 0;
        const began = Date.now();
        for (let i = 0; i < Number(cycles); i++) {
            load.moveTo(0);
            const moved = performance.now();
            const stop = await once(service.child.pid, path.join(work, 'trace'));
            load.moveTo(1);
            await new Promise((resolve) => setTimeout(resolve, performance.now() - moved));
            stops.push(stop.longest_ns);
            lost += stop.lost;
            events += stop.events;
            if (i === Math.min(SETTLE, Number(cycles) - 1)) settled = footprint(service.child.pid);
            if (i % 20 === 19) process.stderr.write(`${name}: ${i + 1} of ${cycles} cycles in ${((Date.now() - began) / 1e3).toFixed(0)} s\n`);
        }
        const [s, t] = await load.since();
        const end = footprint(service.child.pid);
        if (codeOf(service.child.pid) !== before) failures.push('the code is not as before');
        if (s.errors || t.errors) failures.push(`${s.errors} errors, the twin ${t.errors}`);
        for (const [what, value] of [['p99', s.p99_ns], ['longest wait', s.max_ns], ['longest gap', s.gap_ns]])
            if (value > t.max_ns + MARGIN_NS) failures.push(`${what} ${ms(value)} ms, the twin's longest ${ms(t.max_ns)} ms`);
        for (const key of ['mappings', 'rss', 'fds'])
            if (end[key] > settled[key]) failures.push(`${key} grew from ${settled[key]} to ${end[key]}`);
        table(`${name}: ${cycles} attachments of 0.2 s in ${((Date.now() - began) / 1e3).toFixed(0)} s, ${WIDTH} connections each, times in ms`,
            ['', 'requests', 'errors', 'p50', 'p99', 'p99.9', 'longest', 'longest gap'],
            [['attached', s], ['its twin', t]].map(([what, x]) => [what, x.answers, x.errors, ms(x.p50_ns), ms(x.p99_ns), ms(x.p999_ns), ms(x.max_ns), ms(x.gap_ns)]));
        const held = spread(stops);
        console.log(`  longest hold of an attachment, ms: median ${ms(held.median)}, worst ${ms(held.max)}; ${events} events, ${lost} lost (counted)`);
        console.log(`  ours in the service: ${end.rss} KB resident, ${end.mappings} mappings (after ${SETTLE} cycles ${settled.rss} KB, ${settled.mappings}); ${end.fds} descriptors (${settled.fds})`);
    } finally {
        for (const child of [load.child, service.child, twin.child]) child.kill('SIGKILL');
    }
    for (const failure of failures) console.log(`  MISSED: ${failure}`);
    return failures.length;
}

let missed = 0;
try {
    for (const name of chosen.length ? chosen : Object.keys(SERVICES)) {
        if (name === 'redis' && spawnSync('redis-server', ['--version']).error) console.log('redis: skipped, no redis-server here');
        else missed += await measure(name);
    }
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
process.exitCode = missed ? 1 : 0;
