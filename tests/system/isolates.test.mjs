// One process with several isolates, each with a loop and a thread of its own; and libuv with and without an io_uring.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { SONDE, finish, manifestOf, root, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'everything.js');

async function record(t, ...env) {
    const trace = path.join(temporary(t), 'trace');
    const { status, stderr } = await finish(t, SONDE, ['record', '--no-kernel', '-o', trace, '--', 'env', ...env, process.execPath, PROGRAM, 20]);
    assert.ok(status === 0 || status === 4, stderr);
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', trace]);
    const { missing } = manifestOf(trace).processes.find((p) => p.runtime === 'node');
    return { missing, events: stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line)) };
}

test('the main thread and two workers: each has its callbacks, its loop, its operations and its collections', async (t) => {
    const { events } = await record(t);
    const threads = (name) => new Set(events.filter((e) => e.name === name).map((e) => e.tid));
    const isolates = [...threads('node:callback')];
    assert.equal(isolates.length, 3, isolates.join(' '));
    for (const name of ['node:async_init', 'uv:phase', 'uv:submit', 'uv:done', 'v8:gc'])
        for (const tid of isolates) assert.ok(threads(name).has(tid), `${name} of thread ${tid}`);
    // What V8 counts outside of the heap is told with each collection.
    for (const { tid, fields } of events.filter((e) => e.name === 'v8:gc')) assert.ok(fields.external > 0 && fields.external < 1e9, `${fields.external} bytes of thread ${tid}`);
});

for (const ring of [0, 1])
    test(`file operations with ${ring ? 'an' : 'no'} io_uring are seen, or it is said that they are not`, async (t) => {
        const { events, missing } = await record(t, `UV_USE_IO_URING=${ring}`);
        const files = events.filter((e) => e.name === 'uv:submit' && /^fs_/.test(e.fields['kind.label'] ?? ''));
        const said = missing.filter((m) => /io_uring carried out \d+/.test(m.why));
        assert.equal(said.length, files.some((e) => e.fields['kind.label'] === 'fs_read') ? 0 : 1, JSON.stringify(missing));
        if (!ring) assert.deepEqual(said, []);
    });
