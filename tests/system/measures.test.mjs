// performance.measure: what the program measured is in its request's tree, with the times that the program saw.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { NODES, SONDE, finish, reportOf, root, temporary, versionOf } from './helper.mjs';

const program = path.join(root, 'tests/system/programs/measures.js');
const sorted = (measures) => measures.map(({ name, ns }) => `${name} ${ns}`).sort();

for (const node of NODES)
    test(`measures are spans of the request that made them (${versionOf(node)})`, { skip: Number(versionOf(node).slice(1, 3)) < 16 && 'this Node queues no measures for observers' }, async (t) => {
        const folder = path.join(temporary(t), 'trace'), count = 40;
        const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, '--', node, program, String(count)]);
        assert.ok([0, 4].includes(recording.status), recording.describe());
        const { losses } = await reportOf(t, folder, [0, 4]);
        if (losses.length) return t.diagnostic('events were lost');
        const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '1000', folder])).stdout);
        assert.equal(requests.length, count + 2);
        const found = [], apart = [];
        for (const request of requests) {
            const n = Number(request.path.split('/')[2]), measures = request.spans.filter((s) => s.kind === 'measure');
            // The script begins with the first request's callbacks: it may miss the first measure.
            if (n === 0) { measures.forEach((s) => found.push({ n, name: s.name, ns: s.duration_ns })); continue; }
            assert.deepEqual(measures.map((s) => s.name), [`computing ${n % 3} \u20ac`, 'waiting'], request.path);
            for (const span of measures) {
                assert.equal(span.layer, 'js');
                assert.equal(span.known, 'proved');
                assert.ok(span.start_ns >= request.start_ns && span.end_ns <= request.start_ns + request.latency_ns, 'within its request');
                found.push({ n, name: span.name, ns: span.duration_ns });
            }
            const [computing, waiting] = measures, stat = request.spans.find((s) => s.kind === 'pool');
            // Unless something came between two readings of clocks, eight times.
            apart.push(Math.abs(computing.start_ns - waiting.start_ns));
            assert.ok(stat, 'the operation that is measured');
        }
        apart.sort((a, b) => a - b);
        t.diagnostic(`two measures that began at once: ${apart[apart.length >> 1]} ns apart in the middle, ${apart.at(-1)} at most`);
        assert.ok(apart[apart.length >> 1] < 100e3, 'what began at once does so in the trace');
        const seen = JSON.parse(recording.stdout).filter(({ name }) => name !== 'since the start' && name !== 'to come')
            .map(({ name, duration }) => ({ name, ns: Math.round(duration * 1e6) }));
        const missed = seen.length - found.length;
        assert.ok(missed === 0 || missed === 1, `${found.length} of ${seen.length}`);
        const left = sorted(seen);
        for (const one of sorted(found)) {
            const at = left.indexOf(one);
            assert.ok(at >= 0, `${one} was not measured`);
            left.splice(at, 1);
        }
        const { stdout } = await finish(t, SONDE, ['trace', 'events', '--name', 'js:measure', folder]);
        assert.ok(!stdout.includes('PRIVATE'));
        const names = new Set(stdout.match(/one of many \d+/g));
        assert.ok(names.size > 200 && names.size <= 256, `${names.size} names`);
    });
