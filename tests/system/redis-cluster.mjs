// A Redis cluster whose nodes are recorded one by one, as on hosts of their own, with a traced client: for the test of
// `sonde redis --netflow` and for bench/redis-netflow.mjs. Clocks that differ are put onto the recordings afterwards.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './helper.mjs';

const LOST = 4; // sonde: events were lost
const CLIENT = fileURLToPath(new URL('redis-cluster-client.mjs', import.meta.url));

// place(n): { address, port, within } of node n, or of the client for n = nodes; within is what a command has to be put behind
// to run there. Everything is ended by end().
export class Cluster {
    running = new Set();
    constructor(sonde, folder, nodes, place, options = []) {
        Object.assign(this, { sonde, folder, nodes: Array.from({ length: nodes }, (_, n) => place(n)), client: place(nodes), options });
    }

    run(within, ...command) {
        const [program, ...args] = [...within, ...command].map(String);
        const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
        child.said = '';
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.said += data; });
        this.running.add(child);
        child.ended = new Promise((resolve) => child.once('close', (status) => { this.running.delete(child); child.over = true; resolve(status); }));
        return child;
    }

    record(within, name, ...command) {
        return this.run(within, this.sonde, 'run', '--quiet', ...this.options, '-o', path.join(this.folder, name), '--', ...command);
    }

    cli({ address, port, within }, ...args) {
        const [program, ...rest] = [...within, 'redis-cli', '-h', address, '-p', port, ...args].map(String);
        return execFileSync(program, rest, { encoding: 'utf8', timeout: 60_000, stdio: ['ignore', 'pipe', 'pipe'] });
    }

    // masters have the slots in equal parts, the others are their replicas in turn; recorded: of so many nodes, from the first one on.
    async start({ masters = this.nodes.length, recorded = this.nodes.length } = {}) {
        const { nodes } = this, slots = 16384;
        for (const [n, node] of nodes.entries()) {
            const own = path.join(this.folder, `data-${n}`), server = ['redis-server', '--bind', node.address, '--protected-mode', 'no', '--port', node.port, '--save', '', '--dir', own, '--cluster-enabled', 'yes', '--cluster-node-timeout', 60_000];
            fs.mkdirSync(own);
            node.recorder = n < recorded ? this.record(node.within, `node-${n}`, ...server) : this.run(node.within, ...server);
        }
        for (const node of nodes) await eventually('the node answers', () => { if (node.recorder.over) throw new Error(node.recorder.said); try { return this.cli(node, 'ping').includes('PONG'); } catch { return false; } });
        for (const [n, node] of nodes.entries()) {
            if (n < masters) this.cli(node, 'cluster', 'addslotsrange', Math.floor((n * slots) / masters), Math.floor(((n + 1) * slots) / masters) - 1);
            if (n) this.cli(nodes[0], 'cluster', 'meet', node.address, node.port);
        }
        const complete = (node) => { const info = this.cli(node, 'cluster', 'info'); return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`) && this.links(node) === 2 * (nodes.length - 1); };
        for (const node of nodes) await eventually('the cluster is complete', () => complete(node));
        for (const [n, node] of nodes.entries()) if (n >= masters) this.cli(node, 'cluster', 'replicate', this.cli(nodes[n % masters], 'cluster', 'myid').trim());
        const replicas = (nodes.length - masters) / masters;
        for (const node of nodes.slice(0, masters)) await eventually('its replicas follow', () => this.cli(node, 'info', 'replication').split('state=online').length - 1 === replicas);
        if (replicas) for (const node of nodes) await eventually('everybody knows of the replicas', () => this.cli(node, 'cluster', 'nodes').split('\n').filter((line) => / (myself,)?slave /.test(line)).length === nodes.length - masters);
    }

    links(node) {
        return this.cli(node, 'cluster', 'links').split('\n').filter((line) => line.includes('direction')).length;
    }

    // Runs so many of each command; what the client has measured: by kind, latencies in ns.
    async load(count) {
        const out = path.join(this.folder, 'latencies.json');
        const client = this.record(this.client.within, 'client', process.execPath, CLIENT, out, count, ...this.nodes.map(({ address, port }) => `${address}:${port}`));
        const status = await client.ended;
        if (status && status !== LOST) throw new Error(`the client ended with ${status}: ${client.said}`);
        return JSON.parse(fs.readFileSync(out, 'utf8'));
    }

    // Of all nodes, as they count them themselves.
    messages(which) {
        const count = (node) => Number(new RegExp(`cluster_stats_messages_publish_${which}:(\\d+)`).exec(this.cli(node, 'cluster', 'info'))?.[1] ?? 0);
        return this.nodes.reduce((sum, node) => sum + count(node), 0);
    }

    // A message that no subscriber of a node waits for may be under way when the client has ended.
    async stop() {
        await eventually('what was published has come to every node', () => this.messages('received') === this.messages('sent'));
        for (const node of this.nodes) this.run(node.within, 'redis-cli', '-h', node.address, '-p', node.port, 'shutdown', 'nosave');
        for (const node of this.nodes) await node.recorder.ended;
    }

    // Servers outlive a recorder that is killed.
    end() {
        for (const node of this.nodes) {
            if (!node.recorder || node.recorder.over) continue;
            try { this.cli(node, 'shutdown', 'nosave'); } catch {} // it does not answer, or has gone
        }
        for (const child of this.running) child.kill('SIGKILL');
    }
}

// Makes a recording's clock run fast by parts per million since the host was started, which puts an offset onto it as well; a
// factor that the reader applies to all its times.
export function shiftClock(recording, ppm) {
    const file = path.join(recording, 'ctf', 'metadata'), text = fs.readFileSync(file, 'latin1');
    const frequency = Math.round(1e9 / (1 + ppm / 1e6)), usual = 'freq = 1000000000;';
    if (!text.includes(usual)) throw new Error(`${file} has no clock of 1 GHz`);
    fs.writeFileSync(file, text.replace(usual, `freq = ${frequency};`), 'latin1');
    return 1e9 / frequency;
}

// The event classes of a recording by number: their names, and the sizes of their fields in bytes, 0 for a string.
function classesOf(metadata) {
    const classes = new Map();
    for (const [, name, id, fields] of metadata.matchAll(/event \{\s+name = "([^"]+)";\s+id = (\d+);.*?struct \{(.*?)\n\t\};/gs)) {
        classes.set(Number(id), { name, sizes: fields.trim().split('\n').map((field) => (/^\s*string/.test(field) ? 0 : Number(/size = (\d+)/.exec(field)[1]) / 8)) });
    }
    return classes;
}

// Takes every so manyth record of the named events out of a recording, as if a ring had been full: that some of the process are lost is
// told behind them, at the end of the packet, as sonde itself tells it later. How many were taken out.
export function loseRecords(recording, every, lose) {
    const PACKET = 72, EVENT = 10, folder = path.join(recording, 'ctf'), file = path.join(folder, 'metadata');
    let text = fs.readFileSync(file, 'latin1'), seen = 0, lost = 0;
    const classes = classesOf(text);
    let told = [...classes].find(([, { name }]) => name === 'trace:loss')?.[0];
    if (told === undefined) {
        told = Math.max(...classes.keys()) + 1;
        const integer = (bits, name) => `\t\tinteger { size = ${bits}; align = 8; signed = false; base = decimal; } _${name};\n`;
        text += `\nevent {\n\tname = "trace:loss";\n\tid = ${told};\n\tstream_id = 0;\n\tfields := struct {\n${integer(64, 'count')}${integer(32, 'pid')}${integer(32, 'tid')}${integer(8, 'reason')}\t};\n};\n`;
        fs.writeFileSync(file, text, 'latin1');
    }
    for (const name of fs.readdirSync(folder).filter((one) => one !== 'metadata')) {
        const bytes = fs.readFileSync(path.join(folder, name)), packets = [];
        for (let start = 0, end; start < bytes.length; start = end) {
            end = start + Number(bytes.readBigUInt64LE(start + 40)) / 8;
            const kept = [bytes.subarray(start, start + PACKET)], before = lost;
            for (let at = start + PACKET, next; at < end; at = next) {
                const event = classes.get(bytes.readUInt16LE(at));
                next = event.sizes.reduce((place, size) => (size ? place + size : bytes.indexOf(0, place) + 1), at + EVENT);
                if (lose(event.name) && ++seen % every === 0) lost++;
                else kept.push(bytes.subarray(at, next));
            }
            if (lost > before) {
                const loss = Buffer.alloc(EVENT + 17);
                loss.writeUInt16LE(told);
                loss.writeBigUInt64LE(bytes.readBigUInt64LE(start + 32), 2);
                loss.writeBigUInt64LE(BigInt(lost - before), EVENT);
                loss.writeUInt32LE(bytes.readUInt32LE(start + 64), EVENT + 8);
                kept.push(loss);
            }
            const packet = Buffer.concat(kept);
            for (const place of [40, 48]) packet.writeBigUInt64LE(BigInt(packet.length * 8), place);
            packets.push(packet);
        }
        fs.writeFileSync(path.join(folder, name), Buffer.concat(packets));
    }
    return lost;
}

// How far what was found for a clock is from the truth, in ns, at a time of the machine's clock; factors are shiftClock()'s.
export function clockError(clock, factor, reference, atNs) {
    const time = atNs * factor, found = time - clock.offset_ns - clock.drift * (time - clock.origin_ns);
    return Math.abs(found - atNs * reference);
}

export const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))];
