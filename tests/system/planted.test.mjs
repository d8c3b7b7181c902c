// Slow-downs planted into public traces: one service, one version, one hardware generation; bucket, version, path and
// attribute must be found.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { finish, SONDE, temporary } from './helper.mjs';
import { files, publicSpans, slowDown } from './spans.mjs';

// Every trace twice: version 1 and version 2 of the slow service, over three generations and twelve hosts.
function plant(folder, to, service, operation, factor) {
    let number = 0;
    const offset = 3600e6;
    for (const file of files(folder, '.json')) {
        for (const version of ['1', '2']) {
            const trace = JSON.parse(fs.readFileSync(file, 'utf8')).data[0];
            const generation = `gen${5 + (number % 3)}`, host = `${generation}-${Math.floor(number / 3) % 12}`;
            trace.traceID = `${version}${trace.traceID}`;
            for (const process of Object.values(trace.processes))
                process.tags = [{ key: 'service.version', value: process.serviceName === service ? version : '1' }, { key: 'hostname', value: host }, { key: 'hardware.generation', value: generation }];
            for (const s of trace.spans) {
                s.traceID = trace.traceID;
                if (version === '2') s.startTime += offset;
            }
            if (version === '2' && generation === 'gen6')
                slowDown(trace.spans, (s) => trace.processes[s.processID].serviceName === service && s.operationName === operation, factor);
            fs.writeFileSync(path.join(to, `${number}-${version}.json`), JSON.stringify({ data: [trace] }));
        }
        number++;
    }
}

// The operation whose slow-down is planted: one with much time of its own, that requests wait for.
function choose(folder, factor) {
    const own = new Map(), sample = files(folder, '.json').slice(0, 60);
    const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8')).data[0];
    for (const { spans, processes } of sample.map(read)) {
        const below = new Map();
        for (const s of spans) for (const r of s.references) below.set(r.spanID, (below.get(r.spanID) || 0) + s.duration);
        for (const s of spans) {
            if (!s.references.length) continue;
            const key = JSON.stringify([processes[s.processID].serviceName, s.operationName]);
            own.set(key, (own.get(key) || 0) + s.duration - (below.get(s.spanID) || 0));
        }
    }
    for (const [key] of [...own].sort((a, b) => b[1] - a[1])) {
        const [service, operation] = JSON.parse(key);
        let growth = 0;
        for (const { spans, processes } of sample.map(read))
            growth += slowDown(spans, (s) => processes[s.processID].serviceName === service && s.operationName === operation, factor) / sample.length;
        if (growth > 1.25) return [service, operation];
    }
    throw new Error('no operation that requests wait for');
}

for (const name of ['traceweaver-hotel_load150', 'traceweaver-media_load50', 'traceweaver-node_0.8']) {
    test(`a slow-down planted into ${name} is found`, async (t) => {
        const folder = publicSpans(name, temporary(t)), to = temporary(t);
        if (!folder) return t.skip('the public traces are not here (SONDE_DATA)');
        const [service, operation] = choose(folder, 6);
        plant(folder, to, service, operation, 6);
        const { stdout, stderr, status } = await finish(t, SONDE, ['diagnose', '--json', '--gate', '--minimum-requests', '50', '--service', service, to]);
        assert.equal(status, 10, stderr + stdout.slice(0, 500));
        const { findings } = JSON.parse(stdout);
        for (const { evidence } of findings) {
            assert.match(evidence.bucket, /hardware\.generation=gen6/, 'no other generation');
            assert.equal(evidence.version, '2');
            assert.ok(evidence.path.endsWith(`${service} ${operation}`), `${evidence.path} for ${service} ${operation}`);
            assert.equal(evidence.cause, 'hardware.generation=gen6');
        }
        assert.ok(findings.length >= 1);
    });
}
