// Thousands of senders at once, each with a connection of its own that stays open, over HTTP or gRPC: whether each is served, how
// long its batches take, and what `sonde serve` needs for that. A line of bench/results/senders.jsonl each.
//   node bench/senders.mjs build/sonde [SENDERS [BATCHES [SPANS]]]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { overGrpc, overHttp, request } from './otlp_bytes.mjs';

const [, , sonde, senders = '3000', batches = '5', spans = '20'] = process.argv;
const here = path.dirname(new URL(import.meta.url).pathname), commit = execFileSync('git', ['-C', here, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();

for (const [protocol, connect] of [['http', overHttp], ['grpc', overGrpc]]) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
    const server = spawn(sonde, ['serve', '--listen', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--data', folder], { stdio: ['ignore', 'ignore', 'pipe'] });
    try {
        let said = '';
        const ports = await new Promise((resolve, reject) => {
            server.on('exit', () => reject(new Error(said)));
            server.stderr.setEncoding('utf8').on('data', (text) => {
                said += text;
                const ports = { http: /OTLP on port (\d+)/.exec(said)?.[1], grpc: /gRPC on port (\d+)/.exec(said)?.[1] };
                if (ports.http && ports.grpc) resolve(ports);
            });
        });
        server.removeAllListeners('exit');
        const metrics = async () => (await fetch(`http://127.0.0.1:${ports.http}/metrics`)).text();
        const metric = async (name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await metrics())[1]);
        const times = [], started = performance.now();
        let acknowledged = 0, refused = 0, most = 0;
        const all = Promise.all(Array.from({ length: Number(senders) }, async (_, sender) => {
            const connection = connect(ports[protocol]);
            for (let k = 0; k < Number(batches); k++) {
                const bytes = request((sender * Number(batches) + k) * Number(spans), Number(spans), `service-${sender % 100}`), begun = performance.now();
                if (await connection.send(bytes)) acknowledged += Number(spans);
                else refused++;
                times.push(performance.now() - begun);
                await new Promise((resolve) => setTimeout(resolve, 500 + ((sender * 7919) % 1000)));
            }
            // Open until all have sent: that is what is tried.
            return connection;
        }));
        const watch = setInterval(async () => { most = Math.max(most, await metric(`sonde_${protocol}_connections`)); }, 1000);
        const connections = await all;
        clearInterval(watch);
        most = Math.max(most, await metric(`sonde_${protocol}_connections`));
        const seconds = (performance.now() - started) / 1000, received = await metric('sonde_received_spans_total');
        connections.forEach((connection) => connection.close());
        times.sort((a, b) => a - b);
        const rss = Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]) / 1024;
        const line = { commit, protocol, senders: Number(senders), connections: most, batches: times.length, refused, acknowledged, received, seconds: Number(seconds.toFixed(1)), median_ms: Math.round(times[times.length >> 1]), p99_ms: Math.round(times[Math.floor(times.length * 0.99)]), peak_mb: Math.round(rss) };
        fs.appendFileSync(path.join(here, 'results', 'senders.jsonl'), `${JSON.stringify(line)}\n`);
        console.log(`${protocol}: ${most} connections at once, ${times.length} batches, ${refused} refused, ${acknowledged} spans acknowledged and ${received} received in ${line.seconds} s; a batch took ${line.median_ms} ms in the middle, ${line.p99_ms} ms at p99; peak memory ${line.peak_mb} MB`);
    } finally {
        server.kill('SIGKILL');
        fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    }
}
