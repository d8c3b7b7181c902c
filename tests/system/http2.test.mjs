// HTTP/2 on stock Node: each stream is a request, joined to the stream that asked for it, many at a time on one connection.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { finish, reportOf, root, SONDE, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'http2.js'), ROUNDS = 6, TOGETHER = 20;
const number = (request) => Number(request.path.split('/')[2]);

for (const mode of ['auto', 'script']) test(`streams are requests, with their own calls (--context ${mode})`, async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const { status, stderr } = await finish(t, SONDE, ['run', '--quiet', '--context', mode, '-o', folder, '--', process.execPath, PROGRAM, String(ROUNDS)]);
    assert.ok([0, 4].includes(status), stderr);
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder]);
    const { requests } = JSON.parse(spans.stdout), report = await reportOf(t, folder, [0, 4]);
    const outer = requests.filter((r) => r.path.startsWith('/outer/')), inner = requests.filter((r) => r.path.startsWith('/inner/'));
    if (report.losses.length) return t.diagnostic(`events were lost on this machine: ${JSON.stringify(report.losses)}`);

    assert.deepEqual(outer.map(number).sort((a, b) => a - b), Array.from({ length: ROUNDS * TOGETHER }, (_, n) => n));
    assert.equal(inner.length, outer.length);
    for (const request of [...outer, ...inner]) {
        const n = number(request);
        assert.equal(request.status, n % 3 ? 200 : 404, request.path);
        assert.equal(request.method, n % 4 ? 'GET' : 'POST');
        assert.equal(request.state, 'finished');
        assert.ok(request.http2_stream > 0);
    }
    // A stream's time is its own, not its connection's: those with a long timer take longer. (Timers count from the turn's
    // start, so that a single one may seem early.)
    const mean = (some) => some.reduce((sum, r) => sum + r.latency_ns, 0) / some.length, wait = (r) => (number(r) * 7) % 40;
    assert.ok(mean(inner.filter((r) => wait(r) >= 30)) > mean(inner.filter((r) => wait(r) < 10)));
    // No operation is given to a wrong request, and where the context is followed each is found.
    const wrong = [];
    let joined = 0;
    for (const request of outer)
        for (const call of request.spans.filter((s) => s.layer === 'http' && s.request)) {
            joined++;
            if (number(call.request) !== number(request)) wrong.push([request.path, call.request.path, call.known]);
        }
    assert.deepEqual(wrong, []);
    t.diagnostic(`${joined} of ${outer.length} calls joined; ${JSON.stringify(report.attribution)}`);
    assert.equal(report.attribution.handover_count, 0, 'what the context says and what the streams say agree');
    assert.equal(joined, outer.length);
    assert.ok(outer.every((r) => r.spans.some((s) => s.name === 'fs_read')), 'files read by each');
    const unseen = outer.filter((r) => !r.critical_path.steps.some((s) => s.service === 'http2'));
    assert.deepEqual(unseen.map((r) => r.critical_path), []);
    const reset = requests.find((r) => r.path === '/reset');
    assert.equal(reset.state, 'aborted');
    assert.ok(!report.missing.some((m) => /HTTP\/2/.test(m.what)), JSON.stringify(report.missing));
});
