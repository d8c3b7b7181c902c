// --function: calls of chosen JavaScript functions are spans, in a program that goes on as if nothing had happened.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { NODES, SONDE, eventually, finish, reportOf, root, start, temporary, versionOf } from './helper.mjs';

const PROGRAM = path.join(root, 'tests/system/programs/functions.js');
const choose = (...names) => names.flatMap((name) => ['--function', name]);
// All but those that are told of as not seen.
const ALL = ['checkout', 'functions-shop.js:compute', 'Cart.total', 'Cart.merge', 'Old', 'boom', 'fails', 'unawaited', 'late', 'whose', 'twice', 'greet'];

async function spansOf(t, folder) {
    const { stdout } = await finish(t, SONDE, ['spans', '--json', '--slowest', '10000', folder]);
    const { requests } = JSON.parse(stdout);
    return { requests, spans: requests.flatMap((r) => r.spans.filter((s) => s.kind === 'function')) };
}

for (const node of NODES)
    test(`calls are spans of their requests (${versionOf(node)})`, async (t) => {
        const folder = path.join(temporary(t), 'trace'), count = 30;
        const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, ...choose(...ALL), '--', node, PROGRAM, String(count)]);
        assert.ok([0, 4].includes(recording.status), recording.describe());
        const { wrong, calls, unhandled, unawaited } = JSON.parse(recording.stdout);
        assert.deepEqual(wrong, [], 'nothing about the functions has changed');
        assert.equal(unhandled, unawaited, 'every rejection that nobody handles is told to the program');
        const report = await reportOf(t, folder, [0, 4]);
        if (report.losses.length) return t.diagnostic('events were lost');
        assert.deepEqual(report.missing.filter((m) => m.what.startsWith('the function')), []);
        const { requests, spans } = await spansOf(t, folder);
        const of = (name) => spans.filter((s) => s.name === `functions-shop.js:${name}`), sum = (name) => report.functions.find((f) => f.name === `functions-shop.js:${name}`);
        for (const name of ['checkout', 'compute', 'Cart.total', 'Cart.merge', 'Old', 'boom', 'fails', 'unawaited', 'late', 'whose', 'Old.twice']) assert.ok(sum(name)?.count >= count, `${name}: ${JSON.stringify(sum(name))}`);
        assert.ok(report.functions.find((f) => f.name === 'greet')?.count >= count, 'found behind the server');
        assert.equal(sum('checkout').count, calls.checkout);
        assert.equal(sum('compute').count, calls.compute, 'not those of who had taken it before');
        assert.equal(sum('Cart.total').count, calls.total);
        assert.equal(sum('boom').threw_count, count);
        assert.equal(sum('fails').rejected_count, count);
        assert.equal(sum('unawaited').not_awaited_count, count);
        for (const request of requests.filter((r) => r.path.startsWith('/work'))) {
            const own = (name) => request.spans.filter((s) => s.kind === 'function' && s.name === `functions-shop.js:${name}`);
            const [checkout] = own('checkout'), [compute] = own('compute');
            assert.equal(own('checkout').length, 1, request.path);
            assert.equal(own('compute').length, 1, request.path);
            assert.ok(compute.start_ns >= checkout.work_end_ns && compute.end_ns <= checkout.end_ns, 'called within it, after it had waited');
            assert.equal(checkout.layer, 'js');
            assert.equal(checkout.known, 'proved');
        }
        t.diagnostic(`${spans.length} spans; checkout: ${JSON.stringify(sum('checkout'))}`);
    });

test('attached to under load: spans come, and afterwards everything is as it was', async (t) => {
    const folder = path.join(temporary(t), 'trace'), service = start(t, process.execPath, [PROGRAM]);
    const [port] = await service.until(/\d+/, { stream: 'stdout' });
    const get = async (what) => (await fetch(`http://127.0.0.1:${port}/${what}`)).json();
    let running = true, answers = 0;
    const load = Promise.all([1, 2, 3].map(async () => { while (running) { await get(`work/${answers}`); answers++; } }));
    await eventually('some load', () => answers > 5);
    const attached = start(t, SONDE, ['attach', '-o', folder, '--no-kernel', ...choose(...ALL, 'numbers', 'still', 'chekout', 'Cart', 'lazy'), service.pid]);
    await attached.until(/attached to/);
    await eventually('functions are replaced', async () => (await get('')).replaced.includes('checkout'));
    const { replaced } = await get('');
    for (const key of ['checkout', 'compute', 'Old', 'boom', 'fails', 'late', 'whose', 'Cart.total']) assert.ok(replaced.includes(key), `${key}: ${replaced}`);
    for (const key of ['Cart', 'numbers', 'frozen', 'failure']) assert.ok(!replaced.includes(key), key);
    const during = answers;
    await eventually('requests meanwhile', () => answers > during + 20);
    process.kill(attached.pid, 'SIGINT');
    const { status, stdout } = await attached.ended;
    assert.ok([0, 4].includes(status), attached.describe());
    assert.match(stdout, /Functions/);
    await eventually('the functions are back', async () => (await get('')).replaced.length === 0);
    const after = answers;
    await eventually('it serves on', () => answers > after + 5);
    running = false;
    await load;
    const end = await get('');
    assert.deepEqual(end.wrong, []);
    assert.equal(end.unhandled, end.unawaited);
    assert.equal(end.lookedAt, end.calls.total, 'no getter was called but by the program');
    const report = await reportOf(t, folder, [0, 4]);
    const missing = (name) => report.missing.find((m) => m.what === `the function ${name}`)?.why || '';
    assert.match(missing('chekout'), /no function of that name.*functions-shop\.js:checkout/);
    assert.match(missing('numbers'), /generator/);
    assert.match(missing('still'), /frozen/);
    assert.match(missing('Cart'), /is a class/);
    assert.match(missing('lazy'), /no function of that name/);
    const whole = (await spansOf(t, folder)).requests.filter((r) => r.state === 'finished' && r.spans.some((s) => s.name === 'functions-shop.js:checkout'));
    assert.ok(whole.length > 0);
    for (const { spans, path: of } of whole) {
        const [checkout, compute] = ['checkout', 'compute'].map((name) => spans.find((s) => s.name === `functions-shop.js:${name}`));
        assert.ok(!compute || (compute.start_ns >= checkout.work_end_ns && compute.end_ns <= checkout.end_ns), `${of}: ${JSON.stringify([checkout, compute])}`);
    }
});

test('a function that is called too often is left alone', async (t) => {
    const folder = path.join(temporary(t), 'trace'), service = start(t, process.execPath, [PROGRAM]);
    const [port] = await service.until(/\d+/, { stream: 'stdout' });
    const get = async (what) => (await fetch(`http://127.0.0.1:${port}/${what}`)).json();
    const attached = start(t, SONDE, ['attach', '-q', '-o', folder, '--no-kernel', ...choose('hot', 'compute'), service.pid]);
    await eventually('functions are replaced', async () => (await get('')).replaced.includes('hot'));
    const { replaced } = await get('hot/1000000');
    assert.ok(!replaced.includes('hot') && replaced.includes('compute'), replaced.join());
    process.kill(attached.pid, 'SIGINT');
    await attached.ended;
    const report = await reportOf(t, folder, [0, 4]);
    assert.match(report.missing.find((m) => m.what === 'the function hot').why, /called so often/);
    assert.ok(report.functions.find((f) => f.name.endsWith(':hot')).count < 10000);
});
