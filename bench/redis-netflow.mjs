// Is the way of every request through a cluster found? Six nodes in network namespaces of their own behind a bridge, a
// recording of each and of the client; get, set, subscribe and publish; offsets of up to a second and drifts are put onto the
// recorded clocks. Then: how many life cycles are complete, whether the clocks that were found are within the error that is
// stated, whether stages are in order, and whether they sum up to what the client has measured itself. Appends a line to
// bench/results/redis-netflow.jsonl.
//   node bench/redis-netflow.mjs [EACH [NODES [kernel]]]   commands of each kind (20000), nodes (6); with the kernel's events,
//                                                         so that segments that were sent again are seen. Root.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cluster, clockError, quantile, shiftClock } from '../tests/system/redis-cluster.mjs';
import { VERSION } from '../tests/system/redis.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'redis-netflow.jsonl');
const EACH = Number(process.argv[2] || 20_000), NODES = Number(process.argv[3] || 6), KERNEL = process.argv[4] === 'kernel';
const commit = execFileSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).trim();
const tag = `sn${process.pid % 100_000}`, space = (n) => `${tag}-${n}`, address = (n) => `10.99.0.${n + 1}`;
const ip = (...args) => execFileSync('ip', args.map(String), { stdio: ['ignore', 'pipe', 'inherit'] });

// The bridge is in a namespace of its own, so that nothing is added to the host's network.
function network() {
    ip('netns', 'add', space('b'));
    ip('-n', space('b'), 'link', 'add', 'bridge', 'type', 'bridge');
    ip('-n', space('b'), 'link', 'set', 'bridge', 'up');
    for (let n = 0; n <= NODES; n++) {
        ip('netns', 'add', space(n));
        ip('-n', space(n), 'link', 'set', 'lo', 'up');
        ip('-n', space(n), 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', `port${n}`, 'netns', space('b'));
        ip('-n', space('b'), 'link', 'set', `port${n}`, 'master', 'bridge', 'up');
        ip('-n', space(n), 'addr', 'add', `${address(n)}/24`, 'dev', 'eth0');
        ip('-n', space(n), 'link', 'set', 'eth0', 'up');
    }
}

function remove() {
    for (const n of ['b', ...Array(NODES + 1).keys()]) try { execFileSync('ip', ['netns', 'del', space(n)], { stdio: 'ignore' }); } catch {} // it was not made
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-netflow-'));
const cluster = new Cluster(SONDE, folder, NODES, (n) => ({ address: address(n), port: 7000, within: ['ip', 'netns', 'exec', space(n)] }), [...(KERNEL ? [] : ['--no-kernel']), '--budget', '90,1024']);
try {
    network();
    await cluster.start();
    const begun = Number(process.hrtime.bigint()), own = await cluster.load(EACH), ended = Number(process.hrtime.bigint());
    await cluster.stop();
    const recordings = [...cluster.nodes.keys()].map((n) => `node-${n}`).concat('client'), second = 1e15 / begun; // ppm that make a second by now
    const ppm = recordings.map((_, n) => (n ? Math.min(200, second) * (((n * 37) % 19) / 9 - 1) : 0)), factors = recordings.map((name, n) => shiftClock(path.join(folder, name), ppm[n]));
    const start = process.hrtime.bigint();
    let said;
    try {
        said = execFileSync(SONDE, ['redis', '--netflow', '--json', folder], { encoding: 'utf8', maxBuffer: 1 << 28 });
    } catch (error) {
        if (error.status !== 4) throw error; // events were lost
        said = error.stdout;
    }
    const seconds = Number(process.hrtime.bigint() - start) / 1e9, { clocks, commands, nodes, ...flows } = JSON.parse(said);
    const lost = recordings.map((name) => JSON.parse(fs.readFileSync(path.join(folder, name, 'manifest.json'), 'utf8'))).reduce((sum, manifest) => sum + (manifest.losses || []).reduce((part, { count }) => part + count, 0), 0);
    const found = recordings.map((name) => clocks.find((clock) => path.dirname(clock.path) === path.join(folder, name) || clock.path === path.join(folder, name)));
    const reference = found.findIndex((clock) => clock.reference);
    // Stated are the error between the messages, looked at in their midst, and that of the whole recording, at both ends of the load.
    const clock = recordings.map((name, n) => {
        const off = (at) => +(clockError(found[n], factors[n], factors[reference], at) / 1000).toFixed(1);
        return { name, offset_ms: +((begun * factors[n] - begun) / 1e6).toFixed(3), drift_ppm: +((factors[n] - 1) * 1e6).toFixed(3), off_us: off((begun + ended) / 2), stated_us: +(found[n].error_between_ns / 1000).toFixed(1), off_at_ends_us: Math.max(off(begun), off(ended)), stated_whole_us: +(found[n].error_ns / 1000).toFixed(1) };
    });
    const measured = { get: ['get', 'reply'], set: ['set', 'reply'], subscribe: ['subscribe', 'reply'], publish: ['publish', 'reply'], 'message, same node': ['publish', 'message to a subscriber of the node'], 'message, other node': ['publish', 'message to a subscriber of another node'] };
    const kinds = Object.entries(measured).map(([kind, [command, way]]) => {
        const row = commands.find((one) => one.command === command && one.path === way), us = (ns) => +(ns / 1000).toFixed(1);
        return { kind, asked: own[kind].length, count: row.count, own_p50_us: us(quantile(own[kind], 0.5)), stages_p50_us: us(row.total.p50_ns), own_p99_us: us(quantile(own[kind], 0.99)), stages_p99_us: us(row.total.p99_ns), own_mean_us: us(own[kind].reduce((a, b) => a + b, 0) / own[kind].length), stages_mean_us: us(row.stages.reduce((sum, stage) => sum + stage.mean_ns, 0)), backlog_p50_us: us(row.socket_backlog.p50_ns), backlog_p99_us: us(row.socket_backlog.p99_ns), retransmitted: row.retransmitted_count, disordered: row.disordered_count, stages_us: Object.fromEntries(row.stages.map((stage) => [stage.name, us(stage.mean_ns)])) };
    });
    const line = { commit, time: new Date().toISOString(), server: VERSION, nodes: NODES, each: EACH, kernel: KERNEL, lost, seconds: +seconds.toFixed(1), flows: flows.flows_count, complete: flows.complete_count, complete_percent: +(100 * flows.complete_count / flows.flows_count).toFixed(3), incomplete: flows.incomplete, bus_messages: flows.bus_messages_count, unmatched_bus_messages: flows.unmatched_bus_messages_count, clock, kinds };
    fs.mkdirSync(path.dirname(RESULTS), { recursive: true });
    fs.appendFileSync(RESULTS, JSON.stringify(line) + '\n');
    console.log(JSON.stringify(line, null, 1));
    const wrong = [];
    if (!lost && line.complete_percent < 99.9) wrong.push(`only ${line.complete_percent} % are complete`);
    for (const { name, off_us, stated_us, off_at_ends_us, stated_whole_us } of clock) if (off_us > stated_us || off_at_ends_us > stated_whole_us) wrong.push(`${name}: the clock is ${off_us} us off, at most ${stated_us} was stated; at the ends ${off_at_ends_us} and ${stated_whole_us}`);
    if (lost) console.log(`${lost} events were lost: what is incomplete says why, and nothing is compared with the client's own times`);
    for (const { kind, own_p50_us, stages_p50_us, disordered } of kinds) {
        if (disordered) wrong.push(`${kind}: ${disordered} with stages out of order`);
        if (!lost && Math.abs(own_p50_us - stages_p50_us) > Math.max(20, own_p50_us * 0.05)) wrong.push(`${kind}: the client measures ${own_p50_us} us, the stages are ${stages_p50_us} us`);
    }
    for (const { kind, asked, count } of kinds) if (!lost && count < asked * 0.999) wrong.push(`${kind}: only ${count} of ${asked} were found`);
    for (const text of wrong) console.log(text);
    process.exitCode = wrong.length ? 1 : 0;
} finally {
    cluster.end();
    remove();
    fs.rmSync(folder, { recursive: true, force: true });
}
