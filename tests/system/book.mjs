// Whose was it? What sonde says of each operation of programs/kinds.js, held against that program's own book.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { SONDE, finish, manifestOf, root, start } from './helper.mjs';

const PROGRAM = path.join(root, 'tests/system/programs/kinds.js');
// When the program makes its own AsyncLocalStorage.
// Requests before sonde is there have numbers below FIRST, again and again. Operations that are LARGEST larger than base are several at
// once, or none of the kind's: that allows for 500 requests.
// Where sonde's clock and the program's were apart, more than one of 100 calls is not found by its time: that run says nothing.
const FIRST = 200, LARGEST = 9000, ATTEMPTS = 4;
export const OWN = ['none', 'before', 'during', 'after'];

const agent = new http.Agent({ keepAlive: true, maxSockets: 50 });
const get = (port, where) => new Promise((resolve, reject) => {
    const read = (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part) => (text += part)).on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(`${where}: ${response.statusCode}`))));
    };
    http.get({ host: '127.0.0.1', port, path: encodeURI(where), agent }, read).on('error', reject);
});

// As many at a time, until n reaches to.
async function ask(port, kind, numbers, to, flying) {
    await Promise.all(Array.from({ length: flying }, async () => {
        while (numbers.next < to) await get(port, `/${kind}/${numbers.next++}`);
    }));
}

// The number that the book has for an operation; undefined: it is none of the kind's; null: one, but the book has none of that time.
function bookedNumber(kind, name, span, byTime) {
    if (kind.book === 'size' || kind.book === 'arguments') {
        if (kind.layer ? span.layer !== kind.layer : kind.span ? span.kind !== kind.span : span.layer === 'code' || span.kind === 'request') return undefined;
        const more = (kind.book === 'arguments' ? span.argument_bytes : span.written_bytes) - kind.base;
        return more >= 0 && more % kind.grain === 0 && more < LARGEST ? Math.floor(more / kind.grain / kind.steps) : undefined;
    }
    if (kind.book === 'path') {
        const [, up, called, n] = decodeURIComponent(span.request?.path || '').split('/');
        return up === 'up' && called === name ? Number(n) : undefined;
    }
    if (span.kind !== kind.span) return undefined;
    const entry = byTime.find(([, , from, to]) => from <= span.start_ns && span.start_ns <= to);
    return entry ? entry[1] : null;
}

// settled(n): request n began when what attaching and making a storage lose for a moment was over.
function scoreOf(kind, name, requests, booked, settled) {
    const byTime = booked.sort((a, b) => a[2] - b[2]), score = { requests: 0, operations: 0, proved: 0, inferred: 0, ambiguous: 0, none: 0, settled_operations: 0, settled_proved: 0, unchecked: 0, wrong: [] };
    for (const request of requests) {
        const [, of, text] = decodeURIComponent(request.path).split('/'), late = settled(Number(text));
        if (of !== name || Number(text) < FIRST) continue;
        score.requests++;
        score.operations += kind.operations;
        score.settled_operations += late && kind.operations;
        for (const span of request.spans) {
            const n = bookedNumber(kind, name, span, byTime);
            if (n === undefined) continue;
            if (span.known === 'proved' || span.known === 'inferred') {
                score[span.known]++;
                score.settled_proved += late && span.known === 'proved';
                score.unchecked += n === null;
                if (n !== null && n !== Number(text)) score.wrong.push(`${request.path}: ${span.name} of ${n}, ${span.known}`);
            } else score.ambiguous++;
        }
    }
    score.none = score.operations - score.proved - score.inferred - score.ambiguous;
    return score;
}

// One Node, one kind of application, one moment at which its own AsyncLocalStorage is made: sonde attaches under load to the program
// and to those (its Redis), and then count requests come, flying at a time. Returns { missing: why } or
// { score, mixed, mode, losses, contradictions }.
export async function measure(...of) {
    for (let attempt = 1; ; attempt++) {
        const result = await measureOnce(...of);
        if (result.missing || result.score.unchecked <= result.score.operations / 100) return result;
        if (attempt === ATTEMPTS) return { missing: `sonde's clock and the program's were apart in ${ATTEMPTS} runs: ${result.score.unchecked} of ${result.score.operations} calls are not in the book` };
    }
}

async function measureOnce(t, folder, { node, own, name, config, count, flying = 50, context = 'auto', those = [] }) {
    const trace = path.join(folder, `trace-${fs.readdirSync(folder).length}`), server = start(t, node, ['--no-warnings', PROGRAM, JSON.stringify({ ...config, kinds: [name] })]);
    const [, port, description] = await server.until(/^ready (\d+) (.*)$/m, { stream: 'stdout' }), kind = JSON.parse(description)[name], numbers = { next: 0 };
    try {
        if (kind.missing) return kind;
        if (own === 'before') await get(port, '/own/make');
        let attached = false;
        const meanwhile = Promise.all(Array.from({ length: flying }, async () => { while (!attached || numbers.next < flying) await get(port, `/${name}/${numbers.next++ % FIRST}`); }));
        const sonde = start(t, SONDE, ['attach', '--no-kernel', '--context', context, '-o', trace, server.pid, ...those]);
        if (own === 'during') await get(port, '/own/make');
        await sonde.until(/attached to \d+ process/);
        attached = true;
        await meanwhile;
        await get(port, '/again');
        numbers.next = FIRST;
        await ask(port, name, numbers, FIRST + count / 2, flying);
        if (own === 'after') await get(port, '/own/make');
        await ask(port, name, numbers, FIRST + count, flying);
        const mixed = Number(await get(port, '/own/end')), booked = JSON.parse(await get(port, '/book'));
        sonde.child.kill('SIGINT');
        await sonde.ended;
        const { processes, losses } = manifestOf(trace), spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '1000000', trace]);
        const { attribution } = JSON.parse((await finish(t, SONDE, ['report', '--json', trace])).stdout);
        return { score: scoreOf(kind, name, JSON.parse(spans.stdout).requests, booked, (n) => (n - FIRST) % (count / 2) >= count / 4), mixed, mode: processes.find((p) => p.pid === server.pid)?.context?.mode, losses, contradictions: attribution.handover_count };
    } finally {
        server.child.kill('SIGKILL');
        await server.ended;
    }
}
