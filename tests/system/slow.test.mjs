// Requests that wait for others: a slow file, a slow name server, an untraced peer and a traced one are each named,
// with what is on the critical path; the same peers when they are quick are not.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { SONDE, finish, outline, recorded, reportOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'slow.js');

async function trace(t, ...args) {
    const folder = path.join(temporary(t), 'trace');
    await recorded(t, folder, '--quiet', '--', process.execPath, PROGRAM, ...args);
    return reportOf(t, folder, [0, 4]);
}

const routes = (finding) => new Set(finding.affected.filter((a) => a.service === 'slow').map((a) => a.route));
const longest = (report, route) => report.requests.find((r) => r.service === 'slow' && r.route === route);

test('who is slow is named, each with its own requests', async (t) => {
    const report = await trace(t);
    const find = (kind, key, value) => report.findings.find((f) => f.kind === kind && f.evidence[key].match?.(value));

    const file = find('slow-io', 'operation', /^fs_open$/);
    assert.ok(file, outline(report));
    assert.deepEqual([...routes(file)], ['/file']);

    const names = find('slow-io', 'operation', /^DNS/);
    assert.ok(names, outline(report));
    assert.deepEqual([...routes(names)], ['/names']);

    const python = find('slow-peer', 'traced', /^no$/);
    assert.ok(python, outline(report));
    assert.match(python.evidence.peer, /^127\.0\.0\.1:\d+$/);
    assert.deepEqual([...routes(python)], ['/python']);

    const stock = find('slow-peer', 'peer', /^stock$/);
    assert.ok(stock, outline(report));
    assert.equal(stock.evidence.traced, 'yes');
    assert.deepEqual([...routes(stock)], ['/stock']);
    for (const finding of [file, names, python, stock]) assert.equal(finding.severity, 'warning');

    // Nothing is charged twice, and nothing to who was quick.
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info').length, 4, outline(report));

    const waits = { '/file': 'at work on a pool thread', '/python': 'waits for an answer', '/stock': 'waits for a timer or something unseen' };
    for (const [route, what] of Object.entries(waits)) {
        const request = longest(report, route), critical = request.critical_path;
        assert.equal(critical.dominant, what, JSON.stringify(critical));
        assert.equal(critical.steps.reduce((sum, s) => sum + s.duration_ns, 0), request.latency_ns, 'the steps cover the request');
        assert.equal(critical.t_ns + critical.waits_ns, critical.l_ns);
    }
    const open = longest(report, '/file').spans.find((s) => s.name === 'fs_open');
    assert.ok(open.states.S5 > open.states.S4 && open.states.S6 === null, JSON.stringify(open.states));
    assert.ok(report.operations.some((o) => o.name === 'fs_read' && o.count > 0 && o.attl_p50_ns > 0));
});

test('quick peers and files are not blamed', async (t) => {
    const report = await trace(t, '/ready,/healthy');
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info'), [], outline(report));
});

test('the first exchange over a connection shows what the other service did, too', async (t) => {
    const folder = path.join(temporary(t), 'trace'), rounds = 100;
    const program = path.join(root, 'tests', 'system', 'programs', 'fresh.js');
    await recorded(t, folder, '--quiet', '--', process.execPath, program, String(rounds));
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder]);
    const outer = JSON.parse(spans.stdout).requests.filter((r) => r.path === '/outer');
    assert.equal(outer.length, rounds);
    const unseen = outer.filter((r) => !r.critical_path.steps.some((s) => s.service && s.what === 'runs'));
    assert.deepEqual(unseen.map((r) => r.critical_path), []);
});
