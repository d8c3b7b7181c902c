// Four kinds of leak, each beside its healthy twin: suspicion for the leak, none for the twin, with the heap after
// each major collection and the time in and between collections.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { outline, recorded, reportOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'leaks.js');

async function trace(t, ...args) {
    const folder = path.join(temporary(t), 'trace');
    await recorded(t, folder, '--quiet', '--', process.execPath, PROGRAM, ...args);
    return reportOf(t, folder, [0, 4]);
}

for (const kind of ['cache', 'closure', 'global', 'promises']) {
    test(`a leak is suspected, and not in its healthy twin: ${kind}`, async (t) => {
        const leak = await trace(t, kind, 'leak');
        const finding = leak.findings.find((f) => f.kind === 'memory-leak-suspected');
        assert.ok(finding, `${outline(leak)}\n${JSON.stringify(leak.loops.map((l) => l.gc))}`);
        assert.equal(finding.severity, 'warning');
        assert.equal(finding.where.service, 'leaks');
        const { heap_first_bytes: first, heap_last_bytes: last, tigc_ns, tbgc_ns } = finding.evidence;
        assert.ok(last > 2 * first, `${first} to ${last}`);
        assert.ok(tigc_ns > 0 && tbgc_ns > 0);
        const loop = leak.loops.find((l) => l.gc?.majors.length >= 2);
        assert.ok(loop, 'the majors are told');
        assert.ok(loop.bins.heap_bytes.some((bytes) => bytes > 30e6), 'the heap over time');

        const healthy = await trace(t, kind, 'healthy', '150');
        assert.ok(!healthy.findings.some((f) => f.kind === 'memory-leak-suspected'), outline(healthy));
        assert.ok(healthy.loops.some((l) => l.gc?.minor_count > 0), 'it collected, too');
    });
}
