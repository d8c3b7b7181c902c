// The OTLP receiver under good, bad and violent conditions.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { execFileSync } from 'node:child_process';
import { eventually, isRoot, kill, sonde, temporary } from './helper.mjs';
import { get, metric, post, resourceSpans } from './spans.mjs';

async function serve(t, ...args) {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', ...args);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    return { running, port: Number(port) };
}

// A batch of n traces with two spans each, numbered from `from`.
function batch(from, n) {
    const spans = [];
    for (let i = from; i < from + n; i++)
        spans.push({ trace: i + 1, id: 2 * i + 1, name: 'root', kind: 2, start_us: 1e12 + i * 1000, duration_us: 500 },
            { trace: i + 1, id: 2 * i + 2, parent: 2 * i + 1, name: 'child', start_us: 1e12 + i * 1000 + 100, duration_us: 300 });
    return JSON.stringify({ resourceSpans: [resourceSpans({ 'service.name': 'a', 'service.version': '1', 'host.name': 'h1' }, spans)] });
}

const stored = (port, count) => eventually(`${count} spans in the store`, async () => (await metric(port, 'sonde_stored_spans')) === count);

test('spans over OTLP are acknowledged, stored and diagnosed', async (t) => {
    const { running, port } = await serve(t, '--data', temporary(t));
    if (/not kept/.test(running.stderr)) return t.skip('libduckdb.so is not installed');
    assert.equal((await post(port, batch(0, 100))).status, 200);
    assert.equal((await post(port, zlib.gzipSync(batch(100, 100)), { 'Content-Encoding': 'gzip' })).status, 200);
    await stored(port, 400);
    const rows = (await get(port, '/api/trace?id=1')).text.trim().split('\n').map(JSON.parse);
    assert.deepEqual(rows.map((row) => [row.name, row.duration_ns, row.service, row.host]), [['root', '500000', 'a', 'h1'], ['child', '300000', 'a', 'h1']]);
    await eventually('200 requests', async () => (await metric(port, 'sonde_requests_total')) === 200);
    const report = JSON.parse((await get(port, '/api/diagnosis')).text);
    assert.equal(report.diagnosis.buckets[0].bucket, 'a root');
    assert.equal(report.diagnosis.buckets[0].groups[0].requests, 200);
});

test('bad input is refused as OTLP defines it', async (t) => {
    const { port } = await serve(t);
    const protobuf = { 'Content-Type': 'application/x-protobuf' };
    assert.equal((await post(port, 'not JSON')).status, 400);
    assert.equal((await post(port, '['.repeat(1e6))).status, 400);
    assert.equal((await post(port, '{"resourceSpans":' + '['.repeat(1e5))).status, 400);
    assert.equal((await post(port, Buffer.from([0x0a, 0xff, 0xff, 0x03, 1, 2, 3]), protobuf)).status, 400);
    assert.equal((await post(port, batch(0, 1), { 'Content-Type': 'text/plain' })).status, 415);
    assert.equal((await post(port, batch(0, 1), { 'Content-Encoding': 'br' })).status, 415);
    assert.equal((await post(port, zlib.gzipSync(Buffer.alloc(400e6)), { 'Content-Encoding': 'gzip' })).status, 413, 'a gzip bomb');
    assert.equal((await post(port, Buffer.alloc(70e6))).status, 413);
    const bad = await post(port, 'x', protobuf);
    assert.equal(bad.headers['content-type'], 'application/x-protobuf');
    assert.equal((await post(port, '', protobuf)).status, 200, 'an empty request is a request');
    assert.equal((await post(port, batch(0, 10))).status, 200, 'and it still works');
    assert.ok((await metric(port, 'sonde_refused_batches_total')) >= 4);
});

test('kill -9 while spans arrive loses nothing that was acknowledged', async (t) => {
    const folder = temporary(t);
    const { running, port } = await serve(t, '--data', folder);
    if (/not kept/.test(running.stderr)) return t.skip('libduckdb.so is not installed');
    let acknowledged = 0, sent = 0, over = false;
    const senders = [0, 1, 2, 3].map(async () => {
        while (!over) {
            const from = sent;
            sent += 50;
            try {
                if ((await post(port, batch(from, 50))).status === 200) acknowledged += 50;
            } catch {
                return; // it was killed
            }
        }
    });
    await eventually('some batches', () => acknowledged >= 3000);
    kill(running.pid, 'SIGKILL');
    over = true;
    await Promise.all(senders);
    const again = await serve(t, '--data', folder);
    const count = await metric(again.port, 'sonde_stored_spans');
    assert.ok(count >= 2 * acknowledged, `${count} stored of ${2 * acknowledged} acknowledged`);
    assert.ok(count <= 2 * sent, 'none twice');
    assert.equal((await post(again.port, batch(1e6, 10))).status, 200);
    await stored(again.port, count + 20);
    const trace = (await get(again.port, '/api/trace?id=1')).text.trim().split('\n');
    assert.equal(trace.length, 2);
});

test('a full disk is said to the sender, and nothing acknowledged is lost', async (t) => {
    if (!isRoot) return t.skip('needs root, to mount a small tmpfs');
    const small = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-test-'));
    let mounted = false;
    t.after(() => { // before the servers end: lazily
        if (mounted) execFileSync('umount', ['-l', small]);
        fs.rmdirSync(small);
    });
    try {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'sonde-test', small], { stdio: 'pipe' });
    } catch {
        return t.skip('a tmpfs cannot be mounted here');
    }
    mounted = true;
    const first = await serve(t, '--data', small, '--no-store');
    let acknowledged = 0, answer;
    for (let i = 0; i < 2000; i++) {
        answer = await post(first.port, batch(i * 50, 50));
        if (answer.status !== 200) break;
        acknowledged += 50;
    }
    assert.equal(answer.status, 503);
    assert.match(answer.text, /disk is full/);
    assert.ok(answer.headers['retry-after']);
    execFileSync('mount', ['-o', 'remount,size=16m', small]);
    assert.equal((await post(first.port, batch(1e6, 50))).status, 200, 'it goes on when there is room again');
    kill(first.running.pid, 'SIGKILL');
    await first.running.ended;
    const again = await serve(t, '--data', small, '--no-store');
    await eventually('all requests', async () => (await metric(again.port, 'sonde_requests_total')) === acknowledged + 50);
});

test('beyond loopback a token is needed', async (t) => {
    const refused = sonde(t, 'serve', '--listen', '0.0.0.0:0');
    const { status, stderr } = await refused.ended;
    assert.equal(status, 3, stderr);
    const file = path.join(temporary(t), 'token');
    fs.writeFileSync(file, 'secret\n');
    const { port } = await serve(t, '--token-file', file);
    assert.equal((await post(port, batch(0, 1))).status, 401);
    assert.equal((await post(port, batch(0, 1), { Authorization: 'Bearer secret' })).status, 200);
});
