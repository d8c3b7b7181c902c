// Kills `sonde serve` at random moments while senders send over HTTP and gRPC, starts it again on the same folder, and compares at
// the end what it holds with what was acknowledged: nothing may be missing, neither in the journal nor in the store, and what was
// acknowledged may be stored only once. Each round is a line of bench/results/kills.jsonl with the commit; rounds add up.
//   node bench/kills.mjs build/sonde [ROUNDS [KILLS]]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { execFileSync, spawn } from 'node:child_process';
import { overGrpc, overHttp, request } from './otlp_bytes.mjs';
import { randomFrom } from '../tests/system/spans.mjs';

const [, , sonde, rounds = '5', kills = '10'] = process.argv;
const here = path.dirname(new URL(import.meta.url).pathname), results = path.join(here, 'results', 'kills.jsonl');
const commit = execFileSync('git', ['-C', here, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
const duckdb = createRequire(path.join(here, '..', 'tests', 'system', 'package.json'))('@duckdb/node-bindings-linux-x64/duckdb.node');
const SENDERS = 8, SPANS = 50;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Resolves with the server and its ports once it takes spans.
function start(folder) {
    const server = spawn(sonde, ['serve', '--listen', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--data', folder, '--idle-seconds', '0.5'], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    const ended = new Promise((resolve) => server.on('exit', resolve));
    return new Promise((resolve, reject) => {
        ended.then(() => reject(new Error(`sonde serve ended: ${said}`)));
        server.stderr.setEncoding('utf8').on('data', (text) => {
            said += text;
            const http = /OTLP on port (\d+)/.exec(said)?.[1], grpc = /gRPC on port (\d+)/.exec(said)?.[1];
            if (http && grpc) resolve({ server, ended, http, grpc });
        });
    });
}

const read = () => (fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : []);

async function round(seed) {
    const random = randomFrom(seed), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-kills-')), acknowledged = new Set();
    let next = 1, server;
    try {
        for (let kill = 0; kill < Number(kills); kill++) {
            let over = false;
            const running = await start(folder);
            server = running.server;
            const senders = Array.from({ length: SENDERS }, async (_, i) => {
                const connection = i % 2 ? overGrpc(running.grpc) : overHttp(running.http);
                while (!over) {
                    const first = next;
                    next += SPANS;
                    if (await connection.send(request(first, SPANS))) acknowledged.add(first);
                    else await sleep(20);
                }
                connection.close();
            });
            await sleep(20 + 3000 * random() ** 2);
            server.kill('SIGKILL');
            await running.ended;
            over = true;
            await Promise.all(senders);
        }
        const { server: last, http, ended } = await start(folder);
        server = last;
        const metric = async (name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`http://127.0.0.1:${http}/metrics`)).text())[1]);
        const wanted = acknowledged.size * SPANS, until = Date.now() + 120000;
        while (Date.now() < until && ((await metric('sonde_requests_total')) < wanted || (await metric('sonde_stored_spans')) < wanted)) await sleep(100);
        const requests = await metric('sonde_requests_total');
        last.kill('SIGTERM');
        await ended;
        const database = await duckdb.open(path.join(folder, 'spans.duckdb')), table = path.join(folder, 'stored.csv');
        await duckdb.query(await duckdb.connect(database), `COPY (SELECT trace_low, count(*) FROM spans GROUP BY trace_low) TO '${table}' (HEADER false)`);
        const times = new Map(fs.readFileSync(table, 'utf8').trim().split('\n').map((line) => line.split(',').map(Number)));
        let missing = 0, twice = 0;
        for (const first of acknowledged)
            for (let id = first; id < first + SPANS; id++) {
                missing += !times.has(id + 1);
                twice += (times.get(id + 1) || 0) > 1;
            }
        return { kills: Number(kills), acknowledged: wanted, stored: times.size, diagnosed: requests, missing, twice };
    } finally {
        server?.kill('SIGKILL');
        fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    }
}

const first = 1 + Math.max(0, ...read().map((line) => line.seed));
for (let seed = first; seed < first + Number(rounds); seed++) {
    const line = { commit, seed, ...(await round(seed)) };
    fs.appendFileSync(results, `${JSON.stringify(line)}\n`);
    console.log(JSON.stringify(line));
}
const all = read(), sum = (key) => all.reduce((n, line) => n + line[key], 0);
console.log(`${all.length} rounds, ${sum('kills')} kills, ${sum('acknowledged')} spans acknowledged: ${sum('missing')} missing, ${sum('twice')} stored twice, ${all.filter((line) => line.diagnosed < line.acknowledged).length} rounds with fewer diagnosed`);
