// Spans as fleets really send them: twice, late, out of order, without parents or beginnings, with clocks that are
// wrong and attributes that never repeat. They are handled, and what was done about them is said.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, finish, sonde, SONDE, temporary } from './helper.mjs';
import { get, metric, post, resourceSpans } from './spans.mjs';

const at = 1.7e15, host = (name, version = '1') => ({ 'service.name': 'shop', 'service.version': version, 'host.name': name });
const request = (...groups) => JSON.stringify({ resourceSpans: groups.map(([attributes, spans]) => resourceSpans(attributes, spans)) });
const root = (trace, more = {}) => ({ trace, id: trace * 10, name: 'GET /', kind: 2, start_us: at, duration_us: 1000, ...more });
const call = (trace, more = {}) => ({ trace, id: trace * 10 + 1, parent: trace * 10, name: 'call', kind: 3, start_us: at + 100, duration_us: 800, ...more });
const served = (trace, ahead_us = 0) => ({ trace, id: trace * 10 + 2, parent: trace * 10 + 1, name: 'serve', kind: 2, start_us: at + 200 + ahead_us, duration_us: 600 });

test('what is odd about spans in files is handled and said', async (t) => {
    const file = path.join(temporary(t), 'spans.jsonl'), ids = (from, n) => Array.from({ length: n }, (_, i) => from + i);
    fs.writeFileSync(file, [
        request([host('h2'), [served(1)]], [host('h1'), [call(1), root(1)]]), // children first
        request([host('h1'), [root(2), call(2), call(2)]]), // twice
        request([host('h1'), [root(3), call(3, { parent: 777 })]]), // an orphan
        request([host('h1'), [root(4), call(4)]], [host('fast'), [served(4, 3600e6)]]), // an hour ahead
        request([host('h1'), [call(5), { ...call(5), id: 57, parent: 58 }, { ...call(5), id: 58, parent: 57 }]]), // no beginning, and a ring
        request([host('h1'), [root(6, { duration_us: -5 })]]), // ends before it starts
        ...ids(1000, 300).map((id) => request([{ ...host('h1'), 'session': `s${id}` }, [root(id)]])),
    ].join('\n'));
    const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', '--requests', file]);
    assert.equal(status, 0, stderr);
    const { diagnosis, losses, missing, requests } = JSON.parse(stdout);
    assert.deepEqual(diagnosis.input, { spans: 315, traces: 306, requests: 305, duplicates: 1, orphans: 2, cycles: 1, skew_corrected: 1, skew_unexplained: 0 });
    assert.deepEqual(Object.fromEntries(losses.map((loss) => [loss.reason, loss.count])), { 'span-ends-before-start': 1, 'trace-without-root': 1 });
    assert.ok(missing.some((m) => /1 attribute with more than 200 values: session/.test(m.why)), JSON.stringify(missing));
    const critical = (trace) => requests.find((r) => r.trace === (trace).toString(16).padStart(16, '0')).critical_path.map((step) => [step.operation, step.critical_ns]);
    assert.deepEqual(critical(4), critical(1), 'the clock that was ahead makes no difference');
    const { stdout: words } = await finish(t, SONDE, ['diagnose', file]);
    assert.match(words, /315 spans, 305 requests, \d+ buckets?\n.*1 came more than once, 2 name a parent that never came, 1 are their own ancestors, 1 traces had a host's clock put right/);
    assert.match(words, /1 event: trace-without-root/);
    assert.match(words, /1 attribute with more than 200 values: session/);
});

test('a line that is half written, rounded times, and hosts as Zipkin names them', async (t) => {
    const folder = temporary(t), file = path.join(folder, 'spans.jsonl'), diagnose = async () => JSON.parse((await finish(t, SONDE, ['diagnose', '--json', folder])).stdout);
    const lines = [1, 2, 3].map((trace) => request([host('h1'), [root(trace)]]));
    fs.writeFileSync(file, `${lines.join('\n')}\n${lines[2].slice(0, lines[2].length / 2)}`);
    let { diagnosis, losses } = await diagnose();
    assert.equal(diagnosis.input.requests, 3);
    assert.deepEqual(losses.map((loss) => [loss.reason, loss.count]), [['span-malformed', 1]]);
    fs.writeFileSync(file, `{"resourceSpans": [\n${lines.join('\n')}\n`);
    ({ diagnosis } = await diagnose());
    assert.equal(diagnosis.input.requests, 3, 'the first line may be the bad one');

    const ms = (trace, from, to) => ({ start_us: at + from * 1000, duration_us: (to - from) * 1000, trace });
    fs.writeFileSync(file, [1, 2, 3].map((trace) => request(
        [host('h1'), [{ id: 1, name: 'GET /', kind: 2, ...ms(trace, 0, 10) }, { id: 2, parent: 1, name: 'call', kind: 3, ...ms(trace, 2, 8) }]],
        [host('h2'), [{ id: 3, parent: 2, name: 'serve', kind: 2, ...ms(trace, 1, 7) }]])).join('\n')); // truly 1.9 to 7.2 ms
    ({ diagnosis } = await diagnose());
    assert.deepEqual([diagnosis.input.skew_corrected, diagnosis.input.skew_unexplained], [0, 0], 'rounding is no skew');

    fs.unlinkSync(file);
    const zipkin = (version, i) => ({ traceId: (1000 + i).toString(16), id: (1000 + i).toString(16), name: 'get', kind: 'SERVER', timestamp: at + i * 1000, duration: 5000 + (i % 7), localEndpoint: { serviceName: 'shop', ipv4: '10.0.0.1' }, tags: { 'host.name': `h${version}-${i % 3}`, 'service.version': version } });
    fs.writeFileSync(path.join(folder, 'zipkin.json'), JSON.stringify(Array.from({ length: 600 }, (_, i) => zipkin(String(1 + (i % 2)), i))));
    ({ diagnosis } = await diagnose());
    assert.deepEqual([diagnosis.contrasts[0].hosts, diagnosis.contrasts[0].base_hosts], [3, 3]);
});

test('an empty result says why it is empty', async (t) => {
    const folder = temporary(t), file = path.join(folder, 'spans.jsonl');
    fs.writeFileSync(file, request([host('h1', '1'), [root(1)]], [host('h1', '2'), [root(2)]], [{ 'service.name': 'mail' }, [root(3)]]));
    const nothing = async (...args) => JSON.parse((await finish(t, SONDE, ['diagnose', '--json', ...args, file])).stdout).nothing;
    assert.match(await nothing(), /1 comparison of versions: 0 not slower, 1 cannot be decided. Undecided: shop GET \/ \(shop 2\), which would take 40 requests of either version/);
    assert.match(await nothing('--service', 'shup'), /No span is of the service shup; there are: shop, mail\./);
    assert.match(await nothing('--service', 'shop', '--base', '3'), /No span is of shop in version 3; there are: 1, 2\./);
    assert.match(await nothing('--service', 'mail'), /3 requests in 2 buckets, but mail was not seen in two versions/);
    fs.writeFileSync(file, '');
    const { status, stderr } = await finish(t, SONDE, ['diagnose', folder]);
    assert.equal(status, 1);
    assert.match(stderr, /no spans in 0 files \(1 passed over\)\n {2}Spans are read from OTLP/);
});

test('spans that arrive late, in pieces, or for traces that never finish', async (t) => {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--idle-seconds', '0.2');
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    const send = async (...groups) => assert.equal((await post(port, request(...groups))).status, 200);
    const requests = (n) => eventually(`${n} requests`, async () => (await metric(port, 'sonde_requests_total')) === n);
    await send([host('h1'), [call(1), call(2)]]); // their roots are still running
    await send([host('h1'), [root(3)]]);
    await requests(1);
    await send([host('h2'), [served(1)]]);
    await send([host('h1'), [root(1)]]);
    await requests(2);
    const { input, buckets } = JSON.parse((await get(port, '/api/diagnosis')).text).diagnosis;
    assert.equal(input.orphans, 0, 'all of the first request was waited for');
    assert.equal(input.traces, 2, 'the one that never finished waits');
    assert.deepEqual(buckets[0].critical_path.map((step) => step.call), ['shop GET /', 'shop call', 'shop serve']);
    await send([host('h1'), [call(3)]]);
    await eventually('the late one', async () => /sonde_lost_total\{reason="span-late"\} 1\n/.test((await get(port, '/metrics')).text));
    const { losses } = JSON.parse((await get(port, '/api/diagnosis')).text);
    assert.deepEqual(losses.map((loss) => [loss.reason, loss.count]), [['span-late', 1]]);
});
