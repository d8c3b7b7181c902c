// OTLP requests as protobuf, small ones made quickly, and how they are sent: over HTTP and over gRPC.
// SPDX-License-Identifier: Apache-2.0
import http from 'node:http';
import http2 from 'node:http2';

const varint = (n) => { const bytes = []; for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128); return Buffer.from([...bytes, n]); };
const field = (number, bytes) => Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
const text = (key, value) => field(1, Buffer.concat([field(1, Buffer.from(key)), field(2, field(1, Buffer.from(value)))]));
const fixed = (number, value) => { const bytes = Buffer.alloc(9); bytes[0] = number * 8 + 1; bytes.writeBigUInt64LE(value, 1); return bytes; };

// A request of `count` spans, each of a trace of its own, whose ids are first, first + 1, ...
export function request(first, count, service = 'shop') {
    const spans = [];
    for (let id = first; id < first + count; id++) {
        const trace = Buffer.alloc(16), own = Buffer.alloc(8), start = 1700000000000000000n + BigInt(id) * 1000n;
        trace.writeBigUInt64BE(BigInt(id) + 1n, 8);
        own.writeBigUInt64BE(BigInt(id) + 1n);
        spans.push(field(2, Buffer.concat([field(1, trace), field(2, own), field(5, Buffer.from('buy')), fixed(7, start), fixed(8, start + 5000000n)])));
    }
    return field(1, Buffer.concat([field(1, Buffer.concat([text('service.name', service), text('host.name', 'h1')])), field(2, Buffer.concat(spans))]));
}

// A connection that stays open. send(bytes) resolves with whether they were acknowledged.
export function overHttp(port) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    return {
        send: (bytes) => new Promise((done) => {
            const call = http.request({ agent, host: '127.0.0.1', port, path: '/v1/traces', method: 'POST', headers: { 'Content-Type': 'application/x-protobuf', 'Content-Length': bytes.length } }, (answer) => answer.on('end', () => done(answer.statusCode === 200)).on('error', () => done(false)).resume());
            call.on('error', () => done(false)).end(bytes);
        }),
        close: () => agent.destroy(),
    };
}

export function overGrpc(port) {
    const session = http2.connect(`http://127.0.0.1:${port}`).on('error', () => {});
    return {
        send: (bytes) => new Promise((done) => {
            let status;
            if (session.destroyed || session.closed) { done(false); return; }
            const head = Buffer.alloc(5);
            head.writeUInt32BE(bytes.length, 1);
            const see = (headers) => { status = headers['grpc-status'] ?? status; };
            session.request({ ':method': 'POST', ':path': '/opentelemetry.proto.collector.trace.v1.TraceService/Export', 'content-type': 'application/grpc', te: 'trailers' })
                .on('response', see).on('trailers', see).on('error', () => done(false)).on('close', () => done(Number(status) === 0 && status !== undefined)).resume().end(Buffer.concat([head, bytes]));
        }),
        close: () => session.destroy(),
    };
}
