// worker_threads: who posts to whom, how long an answer takes, and which request waits for it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { finish, root, SONDE, traceOf } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'threads.js'), ROUNDS = 20, BUSY_NS = 15e6;

test('a request waits for a thread: its message, the work, the answer', async (t) => {
    const traced = await traceOf(t, process.execPath, PROGRAM, ROUNDS);
    if (!traced) return;
    const { folder, requests, report } = traced;

    const unseen = report.missing.find((m) => m.what.startsWith('messages between worker threads')); // Debian's Node
    if (unseen) {
        assert.match(unseen.why, /no symbol/);
        assert.deepEqual(report.channels, []);
        return t.diagnostic(`${unseen.what}: ${unseen.why}`);
    }
    const there = report.channels.find((c) => c.to_thread && c.answers_count === ROUNDS);
    assert.ok(there, JSON.stringify(report.channels));
    const back = report.channels.find((c) => c.thread === there.to_thread && c.to_thread === there.thread && c.writes_count === ROUNDS + 1); // and one that it is ready
    assert.ok(back, JSON.stringify(report.channels));
    assert.ok(there.answer_mean_ns >= BUSY_NS && there.answer_worst_ns >= there.answer_mean_ns, JSON.stringify(there));

    const waited = requests.filter((r) => r.path.startsWith('/work/')), quick = requests.filter((r) => r.path === '/quick');
    assert.equal(waited.length, ROUNDS);
    for (const request of waited) {
        const messages = request.spans.filter((s) => s.kind === 'message');
        assert.equal(messages.length, 1, JSON.stringify(request.spans));
        assert.match(messages[0].peer, new RegExp(`^thread ${there.to_thread} of the same process$`));
        assert.ok(messages[0].work_end_ns - messages[0].work_start_ns >= BUSY_NS * 0.99, JSON.stringify(messages[0]));
        assert.ok(messages[0].end_ns >= messages[0].work_end_ns);
        assert.equal(request.critical_path.steps.reduce((sum, s) => sum + s.duration_ns, 0), request.latency_ns);
        assert.ok(request.critical_path.steps.some((s) => s.what === 'waits for an answer' && s.duration_ns >= BUSY_NS * 0.99), JSON.stringify(request.critical_path));
    }
    const text = await finish(t, SONDE, ['report', folder]);
    assert.match(text.stdout, new RegExp(`threads, thread ${there.thread} +to thread ${there.to_thread} +${ROUNDS} messages, ${ROUNDS} answered: [0-9.]+ ms on average, at most`));
    assert.ok(quick.every((r) => !r.spans.some((s) => s.kind === 'message')));
    assert.ok(report.operations.some((o) => o.name === 'message to a thread and answer' && o.count === ROUNDS && o.attl_p50_ns >= BUSY_NS), JSON.stringify(report.operations));
});
