// Making spans for tests: OTLP requests as JSON, and posting them.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';
import http from 'node:http';
import { execFileSync } from 'node:child_process';
import { root } from './helper.mjs';

const text = (value) => ({ stringValue: String(value) });
export const hex = (number, digits = 16) => number.toString(16).padStart(digits, '0');

// spans: [{ trace, id, parent, name, kind, start_us, duration_us }] of one resource.
export function resourceSpans(attributes, spans) {
    return {
        resource: { attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: text(value) })) },
        scopeSpans: [{
            spans: spans.map((s) => ({
                traceId: hex(s.trace, 32), spanId: hex(s.id), ...(s.parent ? { parentSpanId: hex(s.parent) } : {}), name: s.name, kind: s.kind || 1,
                startTimeUnixNano: String(BigInt(s.start_us) * 1000n), endTimeUnixNano: String(BigInt(s.start_us + s.duration_us) * 1000n),
            })),
        }],
    };
}

export function post(port, body, headers = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port, path: '/v1/traces', method: 'POST', headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked', ...headers } }, (answer) => {
            let text = '';
            answer.on('data', (part) => (text += part));
            answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, text }));
        });
        request.on('error', reject);
        request.end(body);
    });
}

export async function get(port, url) {
    const answer = await fetch(`http://127.0.0.1:${port}${url}`);
    return { status: answer.status, text: await answer.text() };
}

export async function metric(port, name) {
    const { text } = await get(port, '/metrics');
    return Number(new RegExp(`^${name}\\S* (\\d+)$`, 'm').exec(text)?.[1]);
}

// The folder of span data that nobody here wrote, unpacked into a folder; or null.
export function publicSpans(name, folder) {
    const data = process.env.SONDE_DATA || path.join(root, '..', 'shared', 'data');
    const archive = path.join(data, 'spans', `${name}.tar.zst`);
    if (!fs.existsSync(archive)) return null;
    execFileSync('tar', ['-C', folder, '--zstd', '-xf', archive]);
    return path.join(folder, fs.readdirSync(folder)[0]);
}

export function files(folder, ending) {
    return fs.readdirSync(folder, { withFileTypes: true, recursive: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
        .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
}

// Random numbers that are the same in every run (mulberry32).
export function randomFrom(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

// Requests of the rollout story: an API asks an agent for a machine with three disks, which are created at once, or,
// where slow(version, hardware) says so, one after another. Returns one OTLP request (an object).
export function diskRequests({ from = 0, count, versions, slow = () => false, at_us = 1.7e15, seed = 1, hosts = 4 }) {
    const random = randomFrom(seed + from), resources = new Map();
    for (let i = from; i < from + count; i++) {
        const version = versions[i % versions.length], hardware = ['gen5', 'gen6', 'gen7'][Math.floor(i / versions.length) % 3];
        const host = `${hardware}-${version}-${Math.floor(i / 3 / versions.length) % hosts}`;
        const start_us = at_us + i * 1000, id = i * 8 + 1, trace = i + 1;
        let clock = 400, end = 0;
        const disks = [0, 1, 2].map((k) => {
            const duration_us = Math.round(9000 * Math.exp(0.15 * (random() + random() - 1)));
            const disk = { trace, id: id + 3 + k, parent: id + 2, name: 'createDisk', kind: 1, start_us: start_us + clock, duration_us };
            end = Math.max(end, clock + duration_us);
            if (slow(version, hardware)) clock = end + 50;
            return disk;
        });
        const put = (service, attributes, spans) => {
            const key = JSON.stringify([service, attributes]);
            if (!resources.has(key)) resources.set(key, { attributes: { 'service.name': service, ...attributes }, spans: [] });
            resources.get(key).spans.push(...spans);
        };
        put('api', { 'service.version': '7', 'host.name': 'api-1' }, [
            { trace, id, name: 'POST /vm', kind: 2, start_us, duration_us: end + 800 },
            { trace, id: id + 1, parent: id, name: 'POST', kind: 3, start_us: start_us + 100, duration_us: end + 500 }]);
        put('agent', { 'service.version': version, 'host.name': host, 'hardware.generation': hardware }, [
            { trace, id: id + 2, parent: id + 1, name: 'POST /disks', kind: 2, start_us: start_us + 300, duration_us: end + 100 - 300 + 100 }, ...disks]);
    }
    return { resourceSpans: [...resources.values()].map(({ attributes, spans }) => resourceSpans(attributes, spans)) };
}

// Makes some of a Jaeger trace's spans slower by a factor, and what waits for them later: siblings that began after them move, parents end
// as long after their last child as before. Returns the root's growth. Times are in microseconds.
export function slowDown(spans, slowed, factor) {
    const children = new Map(), ids = new Set(spans.map((s) => s.spanID));
    const roots = [];
    for (const s of spans) {
        const up = s.references.find((r) => ids.has(r.spanID))?.spanID;
        if (up) children.set(up, [...(children.get(up) || []), s]);
        else roots.push(s);
    }
    const end = (s) => s.startTime + s.duration;
    const move = (s, by) => { s.startTime += by; for (const c of children.get(s.spanID) || []) move(c, by); };
    const stretch = (s) => {
        const before = s.duration, within = (children.get(s.spanID) || []).sort((a, b) => a.startTime - b.startTime);
        const last = Math.max(0, ...within.filter((c) => end(c) <= end(s)).map(end)), rest = end(s) - last;
        within.forEach((c, i) => {
            const ended = end(c), grown = stretch(c);
            for (const later of within.slice(i + 1)) if (grown > 0 && later.startTime >= ended) move(later, grown);
        });
        if (last) s.duration = Math.max(s.duration, Math.max(...within.map(end)) + rest - s.startTime);
        if (slowed(s)) s.duration = Math.round(s.duration * factor);
        return s.duration - before;
    };
    const before = roots[0].duration;
    roots.forEach(stretch);
    return roots[0].duration / before;
}
