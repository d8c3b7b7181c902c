// OTLP over gRPC: OpenTelemetry's own exporter as the sender; bad input is refused as it is over HTTP.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import net from 'node:net';
import path from 'node:path';
import zlib from 'node:zlib';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { eventually, kill, root, sonde, temporary } from './helper.mjs';
import { get, metric } from './spans.mjs';

const require = createRequire(path.join(root, 'examples', 'rollout', 'package.json'));
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-grpc');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { Resource } = require('@opentelemetry/resources');
const { ProtobufTraceSerializer } = require('@opentelemetry/otlp-transformer');
const grpc = createRequire(require.resolve('@opentelemetry/exporter-trace-otlp-grpc'))('@grpc/grpc-js');

const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

async function serve(t, ...args) {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--idle-seconds', '0.5', ...args);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    const [, grpcPort] = await running.until(/receiving OTLP\/gRPC on port (\d+)/);
    return { running, port: Number(port), grpcPort: Number(grpcPort) };
}

// A provider that sends what it makes over gRPC; resolves with the exporter's errors.
async function exportSpans(port, count, options = {}) {
    const exporter = new OTLPTraceExporter({ url: `http://127.0.0.1:${port}`, ...options }), results = [];
    const send = exporter.export.bind(exporter);
    exporter.export = (spans, done) => send(spans, (result) => { results.push(result); done(result); });
    const provider = new BasicTracerProvider({ resource: new Resource({ 'service.name': 'shop', 'service.version': '1', 'host.name': 'h1' }), spanProcessors: [new BatchSpanProcessor(exporter, { maxExportBatchSize: 100, maxQueueSize: count + 1 })] });
    const tracer = provider.getTracer('grpc');
    for (let i = 0; i < count; i++) tracer.startSpan('buy').end();
    await provider.forceFlush().catch(() => {});
    await provider.shutdown().catch(() => {});
    return results;
}

// Bytes as one call; resolves with [status, words].
function call(t, port, bytes, method = EXPORT, headers = {}) {
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure()), metadata = new grpc.Metadata();
    for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
    return new Promise((done) => {
        client.makeUnaryRequest(method, (b) => b, (b) => b, bytes, metadata, { deadline: Date.now() + 60000 }, (error, answer) => {
            client.close();
            done(error ? [error.code, error.details] : [0, answer]);
        });
    });
}

const batch = (spans) => {
    const made = [];
    const provider = new BasicTracerProvider({ resource: new Resource({ 'service.name': 'shop' }), spanProcessors: [{ onStart() {}, onEnd: (span) => made.push(span), shutdown: async () => {}, forceFlush: async () => {} }] });
    for (let i = 0; i < spans; i++) provider.getTracer('grpc').startSpan('buy').end();
    return Buffer.from(ProtobufTraceSerializer.serializeRequest(made));
};

test("OpenTelemetry's exporter sends over gRPC, plain and compressed", async (t) => {
    const { port, grpcPort } = await serve(t);
    for (const compression of ['none', 'gzip']) {
        const results = await exportSpans(grpcPort, 1000, { compression });
        assert.ok(results.length >= 10 && results.every((result) => result.code === 0), JSON.stringify(results));
    }
    await eventually('2000 requests', async () => (await metric(port, 'sonde_requests_total')) === 2000);
    const report = JSON.parse((await get(port, '/api/diagnosis')).text);
    assert.equal(report.diagnosis.buckets[0].bucket, 'shop buy');
    assert.equal((await get(port, '/healthz')).status, 200);
});

test('bad input over gRPC is refused with the statuses that it has over HTTP', async (t) => {
    const { port, grpcPort } = await serve(t);
    const refused = async (status, words, ...args) => {
        const [code, details] = await call(t, grpcPort, ...args);
        assert.equal(code, status, details);
        assert.match(details, words);
    };
    await refused(grpc.status.INVALID_ARGUMENT, /malformed/, Buffer.from([0x0a, 0xff, 0xff, 0x03, 1, 2, 3]));
    await refused(grpc.status.INVALID_ARGUMENT, /malformed/, Buffer.from('x'));
    await refused(grpc.status.RESOURCE_EXHAUSTED, /too large/, Buffer.alloc(70e6));
    await refused(grpc.status.UNIMPLEMENTED, /only spans/, batch(1), '/opentelemetry.proto.collector.logs.v1.LogsService/Export');
    // A bomb: grpc-js would compress it itself, so the frame is made by hand.
    const http2 = await import('node:http2');
    const bomb = zlib.gzipSync(Buffer.alloc(400e6)), head = Buffer.from([1, 0, 0, 0, 0]);
    head.writeUInt32BE(bomb.length, 1);
    const session = http2.connect(`http://127.0.0.1:${grpcPort}`);
    t.after(() => session.destroy());
    const stream = session.request({ ':method': 'POST', ':path': EXPORT, 'content-type': 'application/grpc', 'grpc-encoding': 'gzip', te: 'trailers' });
    stream.end(Buffer.concat([head, bomb]));
    const status = await new Promise((done, fail) => stream.on('response', (headers) => done(headers['grpc-status'])).on('error', fail));
    assert.equal(Number(status), grpc.status.RESOURCE_EXHAUSTED);
    assert.deepEqual(await call(t, grpcPort, Buffer.alloc(0)), [0, Buffer.alloc(0)], 'an empty request is a request');
    assert.equal((await call(t, grpcPort, batch(10)))[0], 0, 'and it still works');
    assert.ok((await metric(port, 'sonde_refused_batches_total')) >= 3);
    // What is no HTTP/2 at all.
    const socket = net.connect(grpcPort, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await new Promise((done) => socket.on('close', done).resume());
    assert.equal(await metric(port, 'sonde_grpc_broken_connections_total'), 1);
});

test('senders over gRPC need the token for senders', async (t) => {
    const file = path.join(temporary(t), 'token'), token = 'a-token-that-is-long-enough';
    fs.writeFileSync(file, `${token}\n`, { mode: 0o600 });
    const { port, grpcPort } = await serve(t, '--send-token-file', file);
    assert.equal((await call(t, grpcPort, batch(1)))[0], grpc.status.UNAUTHENTICATED);
    assert.equal((await call(t, grpcPort, batch(1), EXPORT, { authorization: `Bearer ${token}x` }))[0], grpc.status.UNAUTHENTICATED);
    const metadata = new grpc.Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    assert.ok((await exportSpans(grpcPort, 10, { metadata })).every((result) => result.code === 0));
    assert.equal(await metric(port, 'sonde_grpc_refused_calls_total'), 2);
    assert.equal(await metric(port, 'sonde_received_spans_total'), 10);
});

test('connections beyond the limit are closed at once and counted', async (t) => {
    const { port, grpcPort } = await serve(t, '--max-connections', '8');
    const sockets = Array.from({ length: 20 }, () => net.connect(grpcPort, '127.0.0.1'));
    let closed = 0;
    for (const socket of sockets) socket.on('error', () => {}).on('close', () => closed++).resume();
    t.after(() => sockets.forEach((socket) => socket.destroy()));
    await eventually('12 closed', () => closed === 12);
    assert.equal(await metric(port, 'sonde_grpc_refused_connections_total'), 12);
    assert.equal(await metric(port, 'sonde_grpc_connections'), 8);
    sockets.forEach((socket) => socket.destroy());
    await eventually('none open', async () => (await metric(port, 'sonde_grpc_connections')) === 0);
    assert.equal((await call(t, grpcPort, batch(1)))[0], 0);
});

test('a rollout is watched over gRPC', async (t) => {
    const running = sonde(t, 'watch', 'shop', '--listen', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--json');
    const [, port] = await running.until(/receiving OTLP\/gRPC on port (\d+)/);
    assert.ok((await exportSpans(Number(port), 300)).every((result) => result.code === 0));
    kill(running.pid, 'SIGINT');
    const { status, stdout } = await running.ended;
    assert.equal(status, 0);
    assert.equal(JSON.parse(stdout).diagnosis.buckets[0].groups[0].requests, 300);
});

test('kill -9 while spans arrive over gRPC loses nothing that was acknowledged', async (t) => {
    const folder = temporary(t);
    const { running, grpcPort } = await serve(t, '--data', folder, '--no-store');
    const client = new grpc.Client(`127.0.0.1:${grpcPort}`, grpc.credentials.createInsecure());
    t.after(() => client.close());
    let acknowledged = 0, over = false;
    const senders = Array.from({ length: 8 }, async () => {
        while (!over) {
            const ok = await new Promise((done) => client.makeUnaryRequest(EXPORT, (b) => b, (b) => b, batch(50), new grpc.Metadata(), { deadline: Date.now() + 20000 }, (error) => done(!error)));
            if (!ok) return;
            acknowledged += 50;
        }
    });
    await eventually('some batches', () => acknowledged >= 3000);
    kill(running.pid, 'SIGKILL');
    over = true;
    await Promise.all(senders);
    const again = await serve(t, '--data', folder, '--no-store');
    await eventually('all that was acknowledged', async () => (await metric(again.port, 'sonde_requests_total')) >= acknowledged);
});
