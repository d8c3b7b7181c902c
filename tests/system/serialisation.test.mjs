// Files sent over a WebSocket as JSON text and as binary: the text costs encoding, and is said to; reading is
// microseconds.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { outline, recorded, reportOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'text-or-binary.js');

async function trace(t, form) {
    const folder = path.join(temporary(t), 'trace');
    await recorded(t, folder, '--quiet', '--', process.execPath, PROGRAM, form, '32');
    return reportOf(t, folder, [0, 4]);
}

test('files as JSON text: the time is in encoding, and from which size on', async (t) => {
    const report = await trace(t, 'text');
    const finding = report.findings.find((f) => f.kind === 'serialisation' && f.evidence.called === 'JSON.stringify');
    assert.ok(finding, outline(report));
    assert.equal(finding.severity, 'warning');
    assert.equal(finding.where.layer, 'js');
    assert.match(finding.where.source.file, /text-or-binary\.js$/);
    // 2000 KB become 2048000 numbers with commas; the text of 10 KB is the smallest.
    assert.ok(finding.evidence.worst_bytes > 4_000_000, JSON.stringify(finding.evidence));
    assert.ok(finding.evidence.hurts_from_bytes < 4_000_000);
    assert.ok(finding.evidence.encoding_ns > finding.evidence.read_ns, 'the reads are short, also where they wait for a CPU');
    assert.ok(!report.findings.some((f) => f.kind === 'slow-io'), outline(report));
});

test('the same files as binary: nothing', async (t) => {
    const report = await trace(t, 'binary');
    assert.ok(!report.findings.some((f) => f.kind === 'serialisation'), outline(report));
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info').map((f) => f.kind), []);
});
