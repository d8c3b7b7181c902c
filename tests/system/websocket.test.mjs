// WebSocket messages (the package ws on stock Node) are requests: what each one's handler did, joined to who sent it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root, traceOf } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'websocket.js'), ROUNDS = 8, TOGETHER = 8;
const installed = fs.existsSync(path.join(root, 'tests', 'system', 'node_modules', 'ws'));
const delayMs = (n) => 20 + ((n * 7) % 40);

test('each message is a request, below the one that sent it', { skip: !installed && 'ws is not installed in tests/system (make deps)' }, async (t) => {
    const traced = await traceOf(t, process.execPath, PROGRAM, ROUNDS);
    if (!traced) return;
    const { folder, requests, report } = traced;

    const messages = requests.filter((r) => r.method === 'MESSAGE');
    assert.equal(messages.reduce((sum, m) => sum + m.messages_count, 0), ROUNDS * TOGETHER);
    assert.ok(messages.every((m) => m.path === '/chat' && m.service === 'websocket' && m.state === 'finished'), JSON.stringify(messages.map((m) => [m.path, m.state])));
    assert.ok(messages.every((m) => m.spans.filter((s) => s.name === 'fs_read').length >= m.messages_count), 'the file that each handler read');

    const asked = requests.filter((r) => r.path.startsWith('/ask/'));
    assert.equal(asked.length, ROUNDS * TOGETHER);
    let joined = 0;
    const first = Math.min(...messages.map((m) => m.start_ns)); // of which no context is kept: nothing had asked for one
    for (const request of asked) {
        const calls = request.spans.filter((s) => s.name === 'MESSAGE /chat');
        assert.equal(calls.length, 1, `${request.path} sent one message`);
        const handled = calls[0].request;
        if (!handled) continue; // it came in one read with another one's
        joined++;
        const n = Number(request.path.split('/')[2]);
        if (handled.messages_count === 1 && handled.start_ns !== first) assert.ok(handled.latency_ns >= delayMs(n) * 0.95e6, `${request.path}: ${handled.latency_ns} ns`);
    }
    assert.equal(joined, messages.length, 'all are joined');
    t.diagnostic(`${messages.length} requests of ${ROUNDS * TOGETHER} messages; ${JSON.stringify(report.attribution)}`);
    assert.ok(report.endpoints.some((e) => e.method === 'MESSAGE' && e.route === '/chat'));
    assert.ok(!fs.readdirSync(path.join(folder, 'ctf')).some((name) => fs.readFileSync(path.join(folder, 'ctf', name)).includes('padding')), 'no payload is recorded');
});
