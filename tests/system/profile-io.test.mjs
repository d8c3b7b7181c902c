// Requests to disks and connections by stack: how many, of which size, with which end, of whom.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { SONDE, buildProgram, noProfiles, profileWork, temporary } from './helper.mjs';

const skip = noProfiles();
const said = (x) => JSON.stringify(x, null, 1);
const PAGE = 4096;

// A file of 1 MB on a disk, all of it written; null: temporary files are on none.
function fileOnDisk(folder) {
    const file = path.join(folder, 'data');
    if (!fs.existsSync(`/sys/dev/block/${fs.statSync(folder).dev >> 8}:${fs.statSync(folder).dev & 255}`)) return null;
    const fd = fs.openSync(file, 'w');
    fs.writeSync(fd, Buffer.alloc(1 << 20, 5));
    fs.fsyncSync(fd);
    fs.closeSync(fd);
    return file;
}

const readyOf = (output) => output.match(/^ready(.*)$/m)[1].trim().split(' ').map(Number); // what the program said of itself
const foldedSum = (text) => [...text.matchAll(/ (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
// Of so many requests of a page; while one waits in its disk's queue, another program's for the blocks beside it may become part of it.
const isSum = (bytes, requests) => bytes >= requests * PAGE && bytes % 512 === 0 && bytes <= requests * PAGE + (4 << 20);
const place = (places, name) => places.find((p) => p.function === name) ?? assert.fail(`${name}: ${said(places)}`);

test('requests to a disk: each with its function, size and disk', { skip }, async (t) => {
    const folder = temporary(t), file = fileOnDisk(folder);
    if (!file) return t.skip('temporary files are on no disk');
    const { status, stdout, stderr } = await profileWork(t, ['--json', '--event', 'block'], [buildProgram(folder, 'disk'), file]);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /^sonde: each request to a disk takes about \d+ us more .*--hit-limit/m);
    const { unit, total, requests } = JSON.parse(stdout).profile;
    const rows = place(requests.places, 'read_rows'), log = place(requests.places, 'write_log');
    assert.deepEqual([rows.count, log.count], [40, 24], said(requests));
    assert.ok(isSum(rows.bytes, 40) && isSum(log.bytes, 24), said(requests));
    assert.deepEqual(rows.parts.map((p) => [p.operation, p.count]), [['read', 40]]);
    assert.deepEqual(log.parts.map((p) => [p.operation, p.count]), [['write', 24]]);
    assert.ok(fs.existsSync(`/sys/class/block/${rows.parts[0].disk}`), said(rows.parts));
    assert.ok(/disk\.c$/.test(rows.file) && rows.stack.includes('main'), said(rows));
    for (const p of [rows, log]) assert.ok(0 < p.mean_ns && p.mean_ns <= p.longest_ns && p.mean_ns * p.count <= p.total_ns && p.most_ns <= p.longest_ns && p.failed_count === 0, said(p));
    assert.ok(!requests.places.some((p) => p.function === 'write_with_buffers'), 'that it wrote with buffers is not its request');
    assert.equal(unit, 'bytes');
    assert.equal(total, requests.bytes);
    assert.equal(requests.by_kernel.count, 0, 'only the program was watched');
});

test('what was written with buffers is of threads of the kernel, not of the program', { skip }, async (t) => {
    const folder = temporary(t), file = fileOnDisk(folder);
    if (!file) return t.skip('temporary files are on no disk');
    const { status, stdout, stderr, pid } = await profileWork(t, ['-f', 'folded', '--event', 'block'], [buildProgram(folder, 'disk'), file], { all: true });
    assert.ok(status === 0 || status === 4, stderr);
    const lines = stdout.trim().split('\n').map((line) => ({ frames: line.slice(0, line.lastIndexOf(' ')).split(';'), bytes: Number(line.slice(line.lastIndexOf(' ') + 1)) }));
    const back = lines.filter(({ frames }) => frames.some((f) => f.startsWith('[write-back of buffered data]')));
    assert.ok(back.reduce((sum, { bytes }) => sum + bytes, 0) >= 10 * PAGE, stdout);
    for (const { frames } of back) assert.ok(frames[0].startsWith('['), `a thread of the kernel: ${frames[0]}`);
    const own = lines.filter(({ frames }) => frames[0] === `disk (${pid})`);
    assert.ok(own.some(({ frames }) => frames.includes('write_log')), stdout);
    assert.ok(!own.some(({ frames }) => frames.includes('write_with_buffers')), stdout);
});

test('formats carry bytes and nanoseconds as such, and the same sums', { skip }, async (t) => {
    const folder = temporary(t), file = fileOnDisk(folder), program = buildProgram(folder, 'disk');
    if (!file) return t.skip('temporary files are on no disk');
    const out = (name) => path.join(folder, name), least = 64 * PAGE;
    const written = async (event, name) => {
        const { status, stderr } = await profileWork(t, ['-q', '--event', event, '-o', out(name)], [program, file]);
        assert.equal(status, 0, stderr);
        return fs.readFileSync(out(name));
    };
    const speedscope = JSON.parse(await written('block', 'a.speedscope.json')).profiles[0];
    assert.equal(speedscope.unit, 'bytes');
    assert.ok(speedscope.endValue >= least && speedscope.weights.reduce((a, b) => a + b, 0) === speedscope.endValue, said(speedscope));
    assert.equal(JSON.parse(await written('block-time', 'b.speedscope.json')).profiles[0].unit, 'nanoseconds');
    const { threads } = JSON.parse(await written('block', 'c.firefox.json')), firefox = threads.find((x) => x.name && x.samples.length >= 64);
    assert.ok(firefox, said(threads.map(({ name, samples }) => [name, samples.length])));
    assert.equal(firefox.samples.weightType, 'bytes');
    assert.ok(firefox.samples.weight.filter((w) => w === PAGE).length >= 64, said(firefox.samples));
    const pprof = zlib.gunzipSync(await written('block', 'd.pb.gz')).toString('latin1');
    for (const word of ['block', 'bytes', 'read_rows']) assert.ok(pprof.includes(word), word);
    const folded = spawnSync(SONDE, ['profile', '--merge', '-f', 'folded', out('d.pb.gz')], { encoding: 'utf8' }).stdout;
    for (const [pattern, requests] of [[/;main;read_rows;.*\[read \w+\]\S* (\d+)$/m, 40], [/;main;write_log;.*\[write \w+\]\S* (\d+)$/m, 24]])
        assert.ok(isSum(Number(pattern.exec(folded)?.[1]), requests), folded);
    assert.equal(foldedSum(folded) % 512, 0, folded);
});

test('a list: who, how many, how long, of which disk', { skip }, async (t) => {
    const folder = temporary(t), file = fileOnDisk(folder);
    if (!file) return t.skip('temporary files are on no disk');
    const { status, stdout, stderr } = await profileWork(t, ['--event', 'block'], [buildProgram(folder, 'disk'), file]);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^\d+ requests to disks, .*: \S+ \ws on average, 99 % within .*, the longest /);
    assert.match(stdout, /^ +40 +[\d.]+ [KM]B .* read_rows  \S*disk\.c:\d+ < main.*\(read \w+ 40\)$/m);
    assert.match(stdout, /^ +24 +[\d.]+ [KM]B .* write_log  \S*disk\.c:\d+ < main.*\(write \w+ 24\)$/m);
    assert.match(stdout, /written back later, by threads of the kernel: --all shows those\.$/m);
});

test('connections: each with its function, peer and end', { skip }, async (t) => {
    const { status, stdout, stderr, output } = await profileWork(t, ['--json', '--event', 'connect'], [buildProgram(temporary(t), 'connects')]);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /^sonde: each connection takes about \d+ us more .*--hit-limit/m);
    const { unit, total, requests } = JSON.parse(stdout).profile, [v4, v6, nobody, full] = readyOf(output);
    const parts = Object.fromEntries(requests.places.map((p) => [p.function, p.parts.map((x) => `${x.count} ${x.peer} ${x.outcome}`)]));
    assert.deepEqual(parts, {
        open_many: [`30 127.0.0.1:${v4} established`],
        open_v6: [`7 [::1]:${v6} established`],
        open_refused: [`12 127.0.0.1:${nobody} refused`],
        open_late: [`1 127.0.0.1:${full} not established yet`],
    }, stdout);
    assert.deepEqual([unit, total, requests.count, requests.failed_count, requests.unfinished_count], ['count', 50, 50, 12, 1]);
    assert.ok(place(requests.places, 'open_many').stack.includes('main'));
    for (const p of requests.places) assert.ok(p.total_ns > 0 && p.longest_ns <= p.total_ns, said(p));
});

test('connections as stacks: counted, and by time', { skip }, async (t) => {
    const program = buildProgram(temporary(t), 'connects'), counted = await profileWork(t, ['-f', 'folded', '--event', 'connect'], [program]);
    assert.equal(counted.status, 0, counted.stderr);
    assert.match(counted.stdout, /;main;open_many;.*\[to 127\.0\.0\.1:\d+\]\S* 30$/m);
    assert.match(counted.stdout, /;main;open_refused;.*\[to 127\.0\.0\.1:\d+: refused\]\S* 12$/m);
    assert.match(counted.stdout, /;main;open_late;.*: not established yet\]\S* 1$/m);
    assert.equal(foldedSum(counted.stdout), 50, counted.stdout);
    const timed = await profileWork(t, ['-f', 'folded', '--event', 'connect-time', '--no-kernel'], [program]);
    assert.ok(Number(timed.stdout.match(/;main;open_many;\S*;\[to \S+\]\S* (\d+)$/m)[1]) > 30 * 100, `more than 100 ns each: ${timed.stdout}`);
});

test('Python: the function of the application, not of the library', { skip: skip || (spawnSync('python3', ['--version']).status !== 0 && 'there is no Python') }, async (t) => {
    const script = `
import socket, sys
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(9)
def ask_shop():
    return socket.create_connection(server.getsockname())
print("ready", flush=True); sys.stdin.readline()
for i in range(5):
    ask_shop().close()
print("done", flush=True); sys.stdin.read()
`;
    const file = path.join(temporary(t), 'asks.py');
    fs.writeFileSync(file, script);
    const { status, stdout, stderr } = await profileWork(t, ['--json', '--event', 'connect'], ['python3', file]);
    assert.equal(status, 0, stderr);
    assert.deepEqual(JSON.parse(stdout).profile.requests.places.map((p) => [p.function, p.count, p.failed_count]), [['ask_shop', 5, 0]], stdout);
});

test('what cannot be had has a reason', { skip }, (t) => {
    const nothing = spawnSync(SONDE, ['profile', '--event', 'connect', '--', 'true'], { encoding: 'utf8' });
    assert.equal(nothing.status, 5, nothing.stderr);
    assert.match(nothing.stderr, /no samples: what was watched opened no TCP connection in this time\. Connections that it accepts/);
    for (const event of ['block', 'connect-time']) assert.equal(spawnSync(SONDE, ['profile', '--event', event, '--store', path.join(temporary(t), 'store'), '--all']).status, 2, event);
    for (const event of ['blocks', 'connected', 'block-bytes']) assert.equal(spawnSync(SONDE, ['profile', '--event', event, '--', 'true']).status, 2, event);
});
