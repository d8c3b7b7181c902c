// Requests that wait for another process over a pipe: for an answer that comes late, for a reader that does not read.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { outline, recorded, reportOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'ipc.js');

async function trace(t, ...args) {
    const folder = path.join(temporary(t), 'trace');
    await recorded(t, folder, '--quiet', '--', process.execPath, PROGRAM, ...args);
    return reportOf(t, folder, [0, 4]);
}

const blocked = (report, waits) => report.findings.find((f) => f.kind === 'ipc-blocked' && f.evidence.waits_for === waits);

test('an answer that comes late, and a pipe that is full: who waits for whom, on which descriptor', async (t) => {
    const report = await trace(t, 'late', 'full', 'quick');
    const late = blocked(report, 'answer');
    assert.ok(late, outline(report));
    assert.equal(late.severity, 'warning');
    assert.match(late.evidence.channel, /^descriptor \d+, to ipc-child \(process \d+\) on its descriptor \d+$/);
    assert.deepEqual([...new Set(late.affected.map((a) => a.route))], ['/late']);
    const full = blocked(report, 'reader');
    assert.ok(full, outline(report));
    assert.match(full.evidence.channel, /^descriptor \d+/);
    assert.deepEqual([...new Set(full.affected.map((a) => a.route))], ['/full']);

    const channel = report.channels.find((c) => c.service === 'ipc' && c.to_service === 'ipc-child' && c.answers_count > 0);
    assert.ok(channel, JSON.stringify(report.channels));
    const request = report.requests.find((r) => r.route === '/late');
    assert.equal(request.critical_path.dominant, 'waits for an answer', JSON.stringify(request.critical_path));
});

test('requests whose bytes stand behind others in a buffer of Node wait for the reader, too', async (t) => {
    const report = await trace(t, 'crowd');
    const full = blocked(report, 'reader');
    assert.ok(full, outline(report));
    assert.deepEqual([...new Set(full.affected.map((a) => a.route))], ['/crowd']);
    assert.ok(full.affected_count > 5, `of 15 requests, 5 of which are the first: ${full.affected_count}`);
    assert.ok(full.evidence.waits_count > 5, JSON.stringify(full.evidence));
});

test('a child that answers at once is not blamed', async (t) => {
    const report = await trace(t, 'quick');
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info'), [], outline(report));
});
