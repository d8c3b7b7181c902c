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
