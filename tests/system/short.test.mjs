// A request that is served in many short callbacks, none of them a stall: what most of them do is named.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { outline, recorded, reportOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'short.js');

async function trace(t, what) {
    const folder = path.join(temporary(t), 'trace');
    await recorded(t, folder, '--quiet', '--', process.execPath, PROGRAM, what);
    return reportOf(t, folder, [0, 4]);
}

for (const [what, kind, name] of [['javascript', 'event-loop-blocked', 'grind'], ['json', /^(event-loop-blocked|serialisation)$/, 'convert'], ['regexp', 'blocking-regexp', 'match']])
    test(`${what} in many short callbacks is named`, async (t) => {
        const report = await trace(t, what);
        const found = report.findings.filter((f) => f.severity !== 'info' && f.kind.match(kind));
        assert.equal(found.length, 1, outline(report));
        const [finding] = found;
        if (finding.kind !== 'serialisation') {
            assert.equal(finding.where.source.function, name, JSON.stringify(finding));
            assert.ok(finding.where.source.file.endsWith('/short.js'));
            assert.ok(finding.evidence.stalls_count > finding.affected.length, 'several callbacks a request');
            assert.ok(finding.evidence.blocked_ns >= 50e6 && finding.evidence.samples_agree_count * 2 >= finding.evidence.samples_count);
        }
        assert.deepEqual([...new Set(finding.affected.map((a) => a.route))], ['/pieces']);
        assert.deepEqual(report.findings.filter((f) => f.severity !== 'info' && f !== finding), [], outline(report));
    });
