// The OTLP receiver under good, bad and violent conditions.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import zlib from 'node:zlib';
import { eventually, isRoot, kill, smallDisk, SONDE, sonde, start, temporary } from './helper.mjs';
import { diskRequests, get, metric, post, resourceSpans } from './spans.mjs';

async function serve(t, ...args) {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--idle-seconds', '0.5', ...args);
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

test('spans that nothing can be made of are counted back to the sender', async (t) => {
    const { port } = await serve(t);
    const broken = JSON.parse(batch(0, 3));
    broken.resourceSpans[0].scopeSpans[0].spans[1].spanId = '';
    delete broken.resourceSpans[0].scopeSpans[0].spans[2].endTimeUnixNano;
    const answer = await post(port, JSON.stringify(broken));
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.text), { partialSuccess: { rejectedSpans: '2', errorMessage: 'no trace id or span id' } });
    assert.equal(await metric(port, 'sonde_rejected_spans_total'), 2);
    assert.equal(await metric(port, 'sonde_received_spans_total'), 4);
    assert.deepEqual(JSON.parse((await post(port, batch(10, 1))).text), {});
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
    const disk = await smallDisk(t, '4m');
    if (!disk) return t.skip('no tmpfs can be mounted here');
    const first = await serve(t, '--data', disk.path, '--no-store');
    let acknowledged = 0, answer;
    for (let i = 0; i < 2000; i++) {
        answer = await post(first.port, batch(i * 50, 50));
        if (answer.status !== 200) break;
        acknowledged += 50;
    }
    assert.equal(answer.status, 503);
    assert.match(answer.text, /disk is full/);
    assert.ok(answer.headers['retry-after']);
    disk.resize('16m');
    assert.equal((await post(first.port, batch(1e6, 50))).status, 200, 'it goes on when there is room again');
    kill(first.running.pid, 'SIGKILL');
    await first.running.ended;
    const again = await serve(t, '--data', disk.path, '--no-store');
    await eventually('all requests', async () => (await metric(again.port, 'sonde_requests_total')) === acknowledged + 50);
});

test('a store without room catches up when there is some again, and loses nothing', async (t) => {
    if (!isRoot) return t.skip('needs root, to mount a small tmpfs');
    const disk = await smallDisk(t, '12m');
    if (!disk) return t.skip('no tmpfs can be mounted here');
    const { running, port } = await serve(t, '--data', disk.path);
    if (/not kept/.test(running.stderr)) return t.skip('libduckdb.so is not installed');
    let acknowledged = 0, answer;
    for (let i = 0; i < 2000; i++) {
        answer = await post(port, batch(i * 100, 100));
        if (answer.status !== 200) break;
        acknowledged += 200;
    }
    assert.equal(answer.status, 503, 'the journal has no room');
    await eventually('the store has none either', async () => (await metric(port, 'sonde_store_errors_total')) > 0);
    assert.ok((await metric(port, 'sonde_stored_spans')) < acknowledged);
    disk.resize('400m');
    await stored(port, acknowledged);
    assert.equal((await post(port, batch(1e6, 100))).status, 200);
    await stored(port, acknowledged + 200);
});

test('old spans leave the store while it runs, but not the evidence of a finding', async (t) => {
    const slow = (version, hardware) => version === '42' && hardware === 'gen7', folder = temporary(t);
    const first = await serve(t, '--data', folder, '--keep-days', '20000', '--look-seconds', '1');
    if (/not kept/.test(first.running.stderr)) return t.skip('libduckdb.so is not installed');
    for (let i = 0; i < 4; i++)
        assert.equal((await post(first.port, JSON.stringify(diskRequests({ from: i * 600, count: 600, versions: i ? ['41', '42'] : ['41'], slow })))).status, 200);
    await stored(first.port, 6 * 2400);
    const evidence = await eventually('the finding', async () => {
        const { findings } = JSON.parse((await get(first.port, '/api/diagnosis')).text);
        return findings.length && findings[0].affected.map((a) => a.request).filter(Boolean);
    });
    assert.ok(evidence.length >= 3);
    const looks = await metric(first.port, 'sonde_store_expirations_total');
    await eventually('a look that knows it', async () => (await metric(first.port, 'sonde_store_expirations_total')) >= looks + 2);
    assert.equal(await metric(first.port, 'sonde_stored_spans'), 6 * 2400, 'nothing is too old yet');
    kill(first.running.pid, 'SIGTERM');
    await first.running.ended;

    const { port } = await serve(t, '--data', folder, '--keep-days', '1', '--look-seconds', '1');
    const now = diskRequests({ from: 2400, count: 10, versions: ['41'], at_us: Date.now() * 1000 });
    assert.equal((await post(port, JSON.stringify(now))).status, 200);
    const kept = await eventually('the old spans are gone', async () => {
        const count = await metric(port, 'sonde_stored_spans');
        return (await metric(port, 'sonde_store_expirations_total')) >= 2 && count < 1000 && count;
    });
    for (const id of evidence) assert.equal((await get(port, `/api/trace?id=${id}`)).text.trim().split('\n').length, 6, `request ${id} is still there`);
    const others = await Promise.all([20, 21, 22, 23, 24].map(async (id) => (await get(port, `/api/trace?id=${id}`)).text.trim()));
    assert.ok(others.includes(''), 'but not any request');
    assert.ok(kept >= 60 + 6 * evidence.length, 'and new ones stay');
});

test('a store that is too large loses its oldest spans', async (t) => {
    const { running, port } = await serve(t, '--data', temporary(t), '--store-gb', '0.002', '--look-seconds', '1');
    if (/not kept/.test(running.stderr)) return t.skip('libduckdb.so is not installed');
    const batches = 30, each = 1000; // 3 MB, or a little less: the store's pages are filled differently each time
    for (let i = 0; i < batches; i++)
        assert.equal((await post(port, JSON.stringify(diskRequests({ from: i * each, count: each, versions: ['41'] })))).status, 200);
    await eventually('fewer spans', async () => (await metric(port, 'sonde_store_expirations_total')) >= 1 && (await metric(port, 'sonde_stored_spans')) < 6 * batches * each);
    assert.equal((await get(port, '/api/trace?id=1')).text.trim(), '', 'the oldest request is gone');
    const newest = (batches * each).toString(16);
    await eventually('the newest is there', async () => (await get(port, `/api/trace?id=${newest}`)).text.trim().split('\n').length === 6);
});

test('beyond loopback a token is needed', async (t) => {
    const refused = sonde(t, 'serve', '--listen', '0.0.0.0:0');
    const { status, stderr } = await refused.ended;
    assert.equal(status, 3, stderr);
    const file = path.join(temporary(t), 'token');
    const send = path.join(temporary(t), 'send'), token = 'a-token-for-readers', sendToken = 'a-token-for-senders';
    fs.writeFileSync(file, `${token}\n`, { mode: 0o600 });
    fs.writeFileSync(send, sendToken, { mode: 0o600 });
    const { port } = await serve(t, '--token-file', file, '--send-token-file', send);
    const posted = async (bearer) => (await post(port, batch(0, 1), bearer && { Authorization: `Bearer ${bearer}` })).status;
    const read = async (bearer) => (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: bearer ? { Authorization: `Bearer ${bearer}` } : {} })).status;
    assert.deepEqual([await posted(), await posted(token), await posted(sendToken)], [401, 401, 200]);
    assert.deepEqual([await read(), await read(sendToken), await read(token)], [401, 401, 200]);
    fs.chmodSync(file, 0o644);
    const open = await sonde(t, 'serve', '--listen', '127.0.0.1:0', '--token-file', file).ended;
    assert.equal(open.status, 3);
    assert.match(open.stderr, /may be read or written by others[^]*chmod 600/);
    fs.writeFileSync(send, 'short');
    const short = await sonde(t, 'serve', '--listen', '127.0.0.1:0', '--token-file', send).ended;
    assert.equal(short.status, 1);
    assert.match(short.stderr, /less than 16 characters/);
});

test('it says that it is well, and what it does not know is not found', async (t) => {
    const { port, running } = await serve(t, '--data', temporary(t));
    assert.deepEqual(JSON.parse((await get(port, '/healthz')).text), { schema: 1, status: 'ok', error: '' });
    assert.equal((await get(port, '/api/trace?id=abc')).status, 404);
    assert.equal((await get(port, '/api/trace?id=xyz')).status, 400);
    assert.equal((await post(port, batch(0, 1))).status, 200);
    await eventually('the span in the store', async () => (await get(port, '/api/trace?id=1')).status === 200);
    const [row] = (await get(port, '/api/trace?id=1')).text.trim().split('\n').map(JSON.parse);
    assert.match(row.trace_id, /^0{31}1$/);
    assert.match(row.span_id, /^[0-9a-f]{16}$/);
    running.child.kill('SIGTERM');
});

// A request with any headers, which fetch() does not allow; the answer's status.
const ask = (port, headers, { method = 'GET', path = '/metrics' } = {}) => new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, path, method, headers }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode)));
    request.on('error', reject).end();
});

test('names and pages of others are refused, whatever they ask for', async (t) => {
    const { port } = await serve(t, '--allow-host', 'sonde.example');
    for (const Host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '10.1.2.3', '127.1'])
        for (const path of ['/metrics', '/api/diagnosis', '/evidence', '/nothing']) assert.equal(await ask(port, { Host }, { path }), 421, `${Host} ${path}`);
    assert.equal(await ask(port, { Host: 'evil.example' }, { path: '/v1/traces', method: 'POST' }), 421);
    for (const Host of [`localhost:${port}`, '127.0.0.1', '[::1]:1', 'sonde.example']) assert.equal(await ask(port, { Host }), 200, Host);
    const Host = `127.0.0.1:${port}`;
    for (const Origin of ['http://evil.example', 'null', 'http://localhost:1', 'file://'])
        for (const method of ['GET', 'POST', 'OPTIONS']) assert.equal(await ask(port, { Host, Origin }, { method, path: '/v1/traces' }), 403, `${method} ${Origin}`);
    assert.equal(await ask(port, { Host, 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors' }), 403);
    assert.equal(await ask(port, { Host, 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate' }), 200, 'a link may be followed');
    assert.equal(await ask(port, { Host, Origin: `http://${Host}` }), 200);
    const { text } = await get(port, '/metrics');
    assert.match(text, /refused_requests_total{reason="host"} 21\n/);
    assert.match(text, /refused_requests_total{reason="origin"} 13\n/);
});

// A connection that says nothing yet.
const connect = (t, port) => new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => resolve(socket));
    socket.on('error', reject).resume();
    t.after(() => socket.destroy());
});

// More clients than the server lets in: each is served or closed at once, none waits, and there is room again when they go.
async function crowd(t, port, limit) {
    const sockets = [];
    for (let i = 0; i < limit + 40; i++) sockets.push(await connect(t, port).catch(() => null));
    const answers = await Promise.all(sockets.map((socket) => new Promise((resolve) => {
        if (!socket || socket.destroyed) return resolve('closed');
        socket.once('data', (data) => resolve(String(data).split('\r\n')[0])).once('close', () => resolve('closed'));
        socket.write('GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n');
    })));
    const served = answers.filter((answer) => answer === 'HTTP/1.1 404 Not Found').length, closed = answers.filter((answer) => answer === 'closed').length;
    assert.equal(served + closed, answers.length, String(answers));
    assert.ok(Math.abs(served - limit) <= 8, `${served} of ${limit} served`); // several threads may let one in at the same moment
    for (const socket of sockets) socket?.destroy();
    const refused = await eventually('room again', () => metric(port, 'sonde_http_refused_connections_total').catch(() => 0));
    assert.ok(refused >= closed, `${refused} refused, ${closed} closed`);
}

test('connections above the limit are closed at once and counted', async (t) => {
    const { port } = await serve(t, '--max-connections', '40');
    await crowd(t, port, 40);
});

test('as many connections as the limit of open files allows, and no client hangs', async (t) => {
    const running = start(t, 'prlimit', ['--nofile=200:200', SONDE, 'serve', '--listen', '127.0.0.1:0']);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    const limit = await metric(port, 'sonde_http_connections_max');
    assert.equal(limit, 150);
    await crowd(t, Number(port), limit);
});
