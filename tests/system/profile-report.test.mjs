// What a profile says and where it goes: findings, outliers, OpenTelemetry and Pyroscope.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-profile-report-'));
after(() => fs.rmSync(folder, { recursive: true }));

const skip = noProfiles();

// Six instances that do the same work, and one that does twenty times of it in a function of its own. All are there until that
// one is done.
const service = `
const { fork } = require('node:child_process');
function spin(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
function usual() { let s = 0; for (let i = 0; i < 60; i++) s += spin(1e6 * (0.5 + Math.random())); return s; }
function runaway() { let s = 0; for (let i = 0; i < 1200; i++) s += spin(1e6 * (0.5 + Math.random())); return s; }
if (process.argv[2] === undefined) {
    const instances = Array.from({ length: 7 }, (_, i) => fork(__filename, [String(i)]));
    instances[3].on('message', () => instances.forEach((instance) => instance.connected && instance.disconnect()));
} else { usual(); if (process.argv[2] === '3') { runaway(); process.send?.('done'); } process.on('disconnect', () => {}); }
`;

test('hot functions, and the instance that costs more than its equals', { skip }, () => {
    const source = path.join(folder, 'service.js');
    fs.writeFileSync(source, service);
    const result = spawnSync(sonde, ['profile', '-F', '499', '--json', '--', process.execPath, source], { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(result.status, 0, result.stderr);
    const report = JSON.parse(result.stdout);
    const outlier = report.findings.find((f) => f.kind === 'outlier-instance' && f.evidence.function === 'spin');
    assert.ok(outlier, JSON.stringify(report.findings.map((f) => f.title)));
    assert.ok(outlier.evidence.equals_count >= 5); // one may have ended before its name could be read
    assert.ok(outlier.evidence.total_ns > 1.5 * outlier.evidence.median_ns);
    assert.ok(outlier.where.process > 0);
    const hot = report.findings.find((f) => f.kind === 'hot-function');
    assert.equal(hot.evidence.function, 'spin');
    assert.ok(hot.evidence.share > 0.3 && hot.evidence.share <= 1, `${hot.evidence.share}`);
    assert.ok(report.profile.functions.some((f) => f.function === 'spin'));
    assert.ok(report.profile.quality.complete_count <= report.profile.quality.stacks_count);
    assert.ok(report.profile.quality.not_kept_count <= report.profile.quality.lost_count);
});

// Each of these had an "outlier" among what are no equals: instances that began later, threads that do something else, files of
// one build.
test('what is no equal is not compared', { skip }, () => {
    const at = (name, text) => (fs.writeFileSync(path.join(folder, name), text), path.join(folder, name));
    const later = at('later.js', `
const { fork } = require('node:child_process');
function spin() { let s = 0; for (let i = 0; i < 4e6; i++) s = (s * 31 + i) | 0; return s; }
if (process.argv[2] === undefined) { // the first works 40 times alone, then all do it 20 times each
    const first = fork(__filename, ['0']), others = [];
    let ready = 0;
    const end = () => { if (++ready === 6) for (const i of [first, ...others]) i.disconnect(); };
    first.once('message', () => {
        for (let i = 1; i < 6; i++) others.push(fork(__filename, [String(i)]));
        for (const i of [first, ...others]) { i.on('message', end); i.send(20); }
    });
    first.send(40);
} else process.on('message', (times) => { const work = () => { spin(); if (--times) setTimeout(work, 2); else process.send('done'); }; work(); });
`);
    const threads = at('threads.py', `
import threading
done = threading.Event()
def spin(n):
    s = 0
    for i in range(n): s += i * i
    return s
def reader():
    while not done.wait(0.01): spin(2000)
def compute():
    for _ in range(60): spin(100000)
    done.set()
threads = [threading.Thread(target=f) for f in [reader] * 5 + [compute]]
for t in threads: t.start()
for t in threads: t.join()
`);
    const input = (n) => Array.from({ length: n }, (_, i) => `int f_${i}(int a) { int s = 0; for (int k = 0; k < a; k++) s += k * ${i}; return s; }`).join('\n');
    for (let i = 0; i < 8; i++) at(`input-${i}.c`, input(i === 4 ? 600 : 20));
    const commands = [[process.execPath, later], ['/usr/bin/python3', threads], ['sh', '-c', `for i in 0 1 2 3 4 5 6 7; do cc -O1 -S -o /dev/null ${folder}/input-$i.c; done`]];
    for (const command of commands.filter(([program]) => program !== '/usr/bin/python3' || fs.existsSync(program))) {
        const { status, stdout, stderr } = spawnSync(sonde, ['profile', '-q', '-F', '499', '--json', '--', ...command], { encoding: 'utf8', maxBuffer: 1 << 28 });
        assert.ok(status === 0 || status === 4, stderr); // 4: samples were lost
        assert.deepEqual(JSON.parse(stdout).findings.filter((f) => f.kind === 'outlier-instance').map((f) => f.title), []);
    }
});

test('of few samples no function is said to be hot', () => {
    const file = path.join(folder, 'few.folded'), merged = (text) => {
        fs.writeFileSync(file, text);
        return JSON.parse(spawnSync(sonde, ['profile', '--json', '--merge', file], { encoding: 'utf8' }).stdout);
    };
    const few = merged('main;work 2\nmain;rest 1\n');
    assert.deepEqual(few.findings, []);
    assert.equal(few.nothing, '3 samples are too few to say which functions take a fifth');
    const some = merged('main;work 40\nmain;rest 20\n').findings[0]; // with its interval, where that is wide
    assert.deepEqual([some.evidence.function, some.evidence.samples_count], ['work', 60]);
    assert.ok(some.evidence.share_low > 0.2 && some.evidence.share_low < 0.5 && some.evidence.share_high > 0.8, JSON.stringify(some.evidence));
    assert.match(some.detail, /With 60 samples its share may be anything from \d\d to \d\d %/);
    assert.doesNotMatch(merged('main;work 4000\nmain;rest 2000\n').findings[0].detail, /anything/);
});

test('what waits is known, however few waits there are', { skip: skip || (spawnSync('sh', ['-c', 'command -v cc']).status !== 0 && 'needs a C compiler') }, () => {
    const source = path.join(folder, 'waits.c'), program = path.join(folder, 'waits'); // the first wait may end before the program is known
    fs.writeFileSync(source, '#include <unistd.h>\n__attribute__((noinline)) void waits(void) { for (int i = 0; i < 4; i++) usleep(300000); }\nint main(void) { waits(); return 0; }\n');
    execFileSync('cc', ['-O1', '-o', program, source]);
    const { status, stdout, stderr } = spawnSync(sonde, ['profile', '-q', '--json', '--event', 'off-cpu', '--off-cpu-min', '100', '--', program], { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.ok(status === 0 || status === 4, stderr);
    const { findings } = JSON.parse(stdout), hot = findings.find((f) => f.evidence.function === 'waits');
    assert.ok(hot, stdout.slice(0, 2000));
    assert.match(hot.title, /^waits waits: \d+\.\d % of all waits \(.* off-cpu\)$/);
    assert.equal(hot.evidence.share_low, undefined);
    assert.deepEqual(findings.filter((f) => f.kind === 'outlier-instance'), []);
});

test('rules say whose code it is', { skip }, () => {
    const rules = path.join(folder, 'rules'), source = path.join(folder, 'rules.js');
    fs.writeFileSync(rules, 'javascript library spin\n');
    fs.writeFileSync(source, service.replace('process.argv[2] === undefined', 'false'));
    const result = spawnSync(sonde, ['profile', '-q', '-F', '499', '--json', '--rules', rules, '--', process.execPath, source, '3'], { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(result.status, 0, result.stderr);
    const hot = JSON.parse(result.stdout).findings.find((f) => f.kind === 'hot-function');
    assert.equal(hot.evidence.function, 'runaway');
    assert.equal(hot.evidence.library, 'spin');
    fs.writeFileSync(rules, 'nonsense\n');
    assert.equal(spawnSync(sonde, ['profile', '--rules', rules, '1']).status, 2);
});

test('sent to Pyroscope and to an OpenTelemetry collector', { skip }, async () => {
    const got = [];
    const server = http.createServer((request, response) => {
        const parts = [];
        request.on('data', (d) => parts.push(d));
        request.on('end', () => {
            got.push({ url: request.url, type: request.headers['content-type'], body: Buffer.concat(parts) });
            response.end('{}');
        });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const base = `http://127.0.0.1:${server.address().port}`;
    const push = (where) => new Promise((done) => spawn(sonde, ['profile', '-q', '-F', '499', '--push', base + where, '--service', 'my shop', '--', process.execPath, '-e', 'function busy(){let s=0;for(let i=0;i<1e7;i++)s+=i;return s} for(let k=0;k<40;k++)busy()'], { stdio: 'ignore' }).on('exit', done));
    try {
        assert.equal(await push('/ingest'), 0);
        assert.equal(await push('/v1development/profiles'), 0);
        assert.equal(await push('/nowhere'), 1);
    } finally {
        server.close();
    }
    assert.equal(got.length, 2);
    const [pyroscope, collector] = got, query = new URL(pyroscope.url, base).searchParams;
    assert.equal(query.get('name'), 'my shop.cpu');
    assert.equal(query.get('format'), 'pprof');
    assert.ok(Number(query.get('until')) >= Number(query.get('from')));
    const gzip = pyroscope.body.indexOf(Buffer.from([0x1f, 0x8b]));
    const boundary = Buffer.from('\r\n--' + /boundary=(.*)$/.exec(pyroscope.type)[1]);
    assert.ok(zlib.gunzipSync(pyroscope.body.subarray(gzip, pyroscope.body.indexOf(boundary, gzip))).includes('busy'));
    assert.equal(collector.type, 'application/x-protobuf');
    for (const text of ['my shop', 'busy', 'profile.frame.type', 'v8js']) assert.ok(collector.body.includes(text), text);
});
