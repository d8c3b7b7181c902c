// The Trace Server Protocol 0.6: every call of the protocol's own client, what it answers against the protocol and against the
// history, one test for each way in which a viewer can be led astray, and a viewer's chart in a real browser.
// SPDX-License-Identifier: Apache-2.0
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { BROWSER, openBrowser } from './browser.mjs';
import { eventually, root, SONDE, start } from './helper.mjs';
import { faults } from './tsp-schema.mjs';

const require = createRequire(import.meta.url);
const { HttpTspClient } = require('tsp-typescript-client/lib/protocol/http-tsp-client');
const { RestClient } = require('tsp-typescript-client/lib/protocol/rest-client');
const { QueryHelper } = require('tsp-typescript-client/lib/models/query/query-helper');
const { Query } = require('tsp-typescript-client/lib/models/query/query');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-tsp-')), recording = path.join(folder, 'shop');
const STATES = 'sonde.states', COUNTS = 'sonde.counts', SHARES = 'sonde.shares', REQUESTS = 'sonde.requests';

before(() => execFileSync(path.join(root, 'tools', 'corpus'), ['unpack', 'shop-faults', recording]));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

async function serve(t, ...args) {
    const running = start(t, SONDE, ['serve', '--listen', '127.0.0.1:0', ...args]);
    const [, address] = await running.until(/the page is at (http:\/\/[^/]+\/)/);
    const [, below] = await running.until(/find it below (\S+)/);
    return { running, address, base: `${address.slice(0, -1)}${below}` };
}

// A client of the opened recording once it has been read: { client, id, start, end, rows by name, all() the history's states }.
async function opened(t, ...args) {
    const { base, address } = await serve(t, ...(args.length ? args : [recording])), client = new HttpTspClient(base);
    const read = await eventually('the recording is read', async () => {
        const [experiment] = (await client.fetchExperiments()).getModel();
        return experiment.indexingStatus === 'COMPLETED' && experiment;
    });
    const entries = (await client.fetchTimeGraphTree(read.UUID, STATES, new Query({}))).getModel().model.entries;
    return { base, address, client, experiment: read, id: read.UUID, start: BigInt(read.start), end: BigInt(read.end), entries, rows: entries.filter((e) => e.hasData) };
}

const range = (o, nbTimes, items, more) => QueryHelper.selectionTimeRangeQuery(o.start, o.end, nbTimes, items, more);
const post = async (url, parameters) => {
    const response = await fetch(url, { method: 'POST', body: JSON.stringify({ parameters }, (k, v) => (typeof v === 'bigint' ? Number(v) : v)) });
    return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
};

// json-bigint as the client's own lock file pins it: whatever has a fraction or an exponent is a number, and so is a safe integer.
// The release in the registry makes a BigInt of everything above 15 characters, and fails on a fraction.
function pinnedParse(text) {
    const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) => (/^"|[.eE]/.test(token) || Number.isSafeInteger(Number(token)) ? token : `"\u0000${token}"`));
    return JSON.parse(marked, (key, value) => (typeof value === 'string' && value[0] === '\u0000' ? BigInt(value.slice(1)) : value));
}

const PARSERS = { 'json-bigint 1.0.0': RestClient.jsonParse, 'json-bigint as pinned': pinnedParse };

// The states that a recording's kept history holds for an attribute.
const history = (attribute) => execFileSync(SONDE, ['trace', 'states', '--json', '-a', attribute, path.join(recording, 'view', 'states')], { maxBuffer: 1 << 28 }).toString().trim().split('\n').map((line) => JSON.parse(line));

for (const [name, parser] of Object.entries(PARSERS))
    test(`every call of the client, ${name}`, async (t) => {
        const used = RestClient.jsonParse;
        RestClient.jsonParse = parser;
        t.after(() => (RestClient.jsonParse = used));
        const o = await opened(t), { client, id } = o, [row] = o.rows, whole = range(o, 500, o.rows.map((r) => r.id)), from = QueryHelper.timeRangeQuery(o.start, o.end, 500);
        const trace = o.experiment.traces[0], element = { elementType: 'STATE', time: o.start, duration: 1, entryId: row.id };
        const good = [
            ['health', client.checkHealth()], ['identifier', client.fetchIdentifier()], ['traces', client.fetchTraces()], ['trace', client.fetchTrace(trace.UUID)],
            ['trace', client.openTrace(new Query({ uri: recording, name: 'shop' }))], ['experiments', client.fetchExperiments()], ['experiment', client.fetchExperiment(id)],
            ['experiment', client.createExperiment(new Query({ name: 'shop', traces: [trace.UUID] }))], ['experiment', client.updateExperiment(id, new Query({ name: 'shop' }))],
            ['outputs', client.experimentOutputs(id)], ['timeGraphTree', client.fetchTimeGraphTree(id, STATES, from)], ['states', client.fetchTimeGraphStates(id, STATES, whole)],
            ['arrows', client.fetchTimeGraphArrows(id, STATES, from)], ['tooltip', client.fetchTimeGraphTooltip(id, STATES, QueryHelper.selectionTimeQuery([o.start + 5n], [row.id], { requested_element: element }))],
            ['markers', client.fetchMarkerSets(id)], ['categories', client.fetchAnnotationsCategories(id, STATES, 'Findings')], ['annotations', client.fetchAnnotations(id, STATES, whole)],
            ['styles', client.fetchStyles(id, STATES, new Query({}))], ['styles', client.fetchStyles(id, COUNTS, new Query({}))],
            ['xyTree', client.fetchXYTree(id, COUNTS, from)], ['xy', client.fetchXY(id, COUNTS, whole)], ['dataTree', client.fetchDataTree(id, SHARES, from)],
            ['columns', client.fetchTableColumns(id, REQUESTS, new Query({}))], ['lines', client.fetchTableLines(id, REQUESTS, QueryHelper.tableQuery([0, 2], 0, 200))],
            ['none', client.fetchConfigurationSourceTypes()], ['none', client.fetchOutputConfigurationTypes(id, STATES)],
        ];
        for (const [what, answer] of good) {
            const response = await answer;
            assert.equal(response.getStatusCode(), 200, `${what}: ${response.getText()}`);
            assert.deepEqual(faults(what, response.getText()), []);
            assert.ok(response.getModel(), `the client took ${what}: ${response.getText().slice(0, 200)}`);
        }
        const configuration = { name: 'x', parameters: {} };
        for (const answer of [client.fetchGenericXYTree(id, 'none', from), client.fetchGenericXY(id, 'none', whole), client.fetchXYToolTip(id, COUNTS, 1), client.fetchOutputConfigurationType(id, STATES, 'x'),
            client.createDerivedOutput(id, STATES, configuration), client.deleteDerivedOutput(id, STATES, 'x'), client.fetchConfigurationSourceType('x'), client.fetchConfigurations('x'),
            client.fetchConfiguration('x', 'y'), client.createConfiguration('x', configuration), client.updateConfiguration('x', 'y', configuration), client.deleteConfiguration('x', 'y'), client.fetchTrace('x')]) {
            const response = await answer;
            assert.ok([400, 404, 405].includes(response.getStatusCode()), response.getText());
            assert.deepEqual(faults('error', response.getText()), []);
            assert.equal(typeof response.getErrorResponse().title, 'string');
        }
        // What is deleted is off the list, and nothing else.
        assert.equal((await client.deleteTrace(trace.UUID)).getStatusCode(), 409, 'an experiment has it');
        assert.deepEqual(faults('experiment', (await client.deleteExperiment(id)).getText()), []);
        assert.deepEqual((await client.fetchExperiments()).getModel(), []);
        assert.deepEqual(faults('trace', (await client.deleteTrace(trace.UUID)).getText()), []);
        assert.deepEqual((await client.fetchTraces()).getModel(), []);
        assert.ok(fs.existsSync(path.join(recording, 'manifest.json')), 'nothing is deleted on the disk');
        assert.equal((await client.createExperiment(new Query({ name: 'again', traces: [trace.UUID] }))).getStatusCode(), 404);
        await client.openTrace(new Query({ uri: `file://${recording}`, name: 'again' }));
        const again = (await client.createExperiment(new Query({ name: 'again', traces: [trace.UUID] }))).getModel();
        assert.deepEqual([again.UUID, again.name, again.traces[0].name], [id, 'again', 'again']);
    });

test('states are those of the history: at most one a pixel and row, none invented', async (t) => {
    const o = await opened(t), times = 300, step = (o.end - o.start) / BigInt(times);
    const { rows } = (await o.client.fetchTimeGraphStates(o.id, STATES, range(o, times, o.rows.map((r) => r.id)))).getModel().model;
    assert.deepEqual(rows.map((r) => r.entryId), o.rows.map((r) => r.id));
    let compared = 0;
    const names = new Map((await (await fetch(`${o.address}api/v1/s/0/rows`)).json()).rows.map((r) => [r.n + 1, r.path]));
    for (const row of rows.filter((r, i) => i % 5 === 0)) {
        assert.ok(row.states.length <= times);
        const truth = history(names.get(row.entryId)).map((s) => ({ start: BigInt(s.from_ns), end: BigInt(s.to_ns), value: s.value }));
        const same = (state) => truth.some((s) => s.start === state.start && s.end === state.end && String(s.value ?? '') === (state.label ?? ''));
        for (const state of row.states) assert.ok(same(state), `${names.get(row.entryId)} ${state.start} ${state.label}`);
        // What lasts longer than a pixel is there.
        for (const s of truth.filter((s) => s.end - s.start > 2n * step)) assert.ok(row.states.some((state) => state.start === s.start), `${names.get(row.entryId)} from ${s.start}`);
        compared += row.states.length;
    }
    assert.ok(compared > 50, 'there is something to compare');
});

test('lines have the value that the history has at each time', async (t) => {
    const o = await opened(t), tree = (await o.client.fetchXYTree(o.id, COUNTS, QueryHelper.timeRangeQuery(o.start, o.end))).getModel().model.entries;
    const items = tree.filter((e) => e.hasData).map((e) => e.id), names = new Map((await (await fetch(`${o.address}api/v1/s/0/rows`)).json()).rows.map((r) => [r.n + 1, r.path]));
    assert.ok(items.length && tree.some((e) => /thread pool/.test(e.labels[0])), 'operations are counted');
    const { series } = (await o.client.fetchXY(o.id, COUNTS, range(o, 200, items))).getModel().model;
    assert.deepEqual(series.map((s) => s.seriesId), items);
    let highest = 0;
    for (const one of series) {
        const truth = history(names.get(one.seriesId));
        assert.equal(one.xValues.length, 200);
        for (const [i, x] of one.xValues.entries()) {
            const at = truth.find((s) => BigInt(s.from_ns) <= x && BigInt(s.to_ns) > x);
            assert.equal(one.yValues[i], at?.value ?? 0, `${one.seriesName} at ${x}`);
            highest = Math.max(highest, one.yValues[i]);
        }
    }
    assert.ok(highest > 0);
});

test('time in states adds up to the time asked for', async (t) => {
    const o = await opened(t), { entries, headers } = (await o.client.fetchDataTree(o.id, SHARES, new Query({}))).getModel().model;
    assert.equal(new Set(entries.map((e) => e.id)).size, entries.length);
    for (const e of entries) assert.equal(e.labels.length, headers.length);
    for (const row of o.rows) {
        const shares = entries.filter((e) => e.parentId === row.id).map((e) => parseFloat(e.labels[2]));
        assert.ok(shares.length && Math.abs(shares.reduce((a, b) => a + b) - 100) < 2.5, `${row.labels[0]}: ${shares}`);
    }
});

test('the table: pages, times, search', async (t) => {
    const o = await opened(t), lines = async (parameters) => (await o.client.fetchTableLines(o.id, REQUESTS, new Query(parameters))).getModel().model;
    const all = await lines({ requested_table_index: 0, requested_table_count: 5000 }), times = all.lines.map((l) => BigInt(l.cells[0].content));
    assert.equal(all.lines.length, all.size);
    assert.deepEqual(times, [...times].sort((a, b) => Number(a - b)), 'in the order in which they began');
    assert.equal(all.size, (await (await fetch(`${o.address}api/v1/s/0/requests?limit=1`)).json()).total);
    const some = await lines({ requested_table_index: 3, requested_table_count: 2, requested_table_column_ids: [3, 0] });
    assert.deepEqual(some.lines.map((l) => [l.index, ...l.cells.map((c) => c.content)]), [3, 4].map((i) => [i, all.lines[i].cells[3].content, all.lines[i].cells[0].content]));
    // A time is that line or the next one; a viewer asks so for the line of a selection, with a count of 1.
    assert.deepEqual((await lines({ requested_times: [times[7]], requested_table_count: 1 })).lines.map((l) => l.index), [times.indexOf(times[7])]);
    assert.equal((await lines({ requested_times: [times[7] + 1n], requested_table_count: 1 })).lowIndex, times.findIndex((x) => x > times[7]));
    assert.deepEqual((await lines({ requested_times: [o.end], requested_table_count: 1 })).lines, []);
    const wanted = all.lines.map((l) => /ord.rs/i.test(l.cells[5].content)), first = wanted.indexOf(true, 10);
    assert.ok(first > 0);
    const found = await lines({ requested_table_index: 10, requested_table_count: 30, table_search_expressions: { 5: 'ORD.RS' }, table_search_direction: 'NEXT' });
    assert.equal(found.lowIndex, first);
    assert.deepEqual(found.lines.map((l) => l.tags ?? 0), wanted.slice(first, first + 30).map((hit) => (hit ? 8 : 0)));
    const back = await lines({ requested_table_index: 20, requested_table_count: 1, table_search_expressions: { 5: 'ord.rs' }, table_search_direction: 'PREVIOUS' });
    assert.equal(back.lowIndex, wanted.lastIndexOf(true, 20));
    assert.deepEqual((await lines({ requested_table_index: 0, requested_table_count: 9, table_search_expressions: { 5: 'nonsense' }, table_search_direction: 'NEXT' })).lines, []);
    for (const costly of ['(a+){500}', '(a)\\1', 'x'.repeat(300), '('])
        assert.equal((await o.client.fetchTableLines(o.id, REQUESTS, new Query({ requested_table_index: 0, requested_table_count: 1, table_search_expressions: { 5: costly } }))).getStatusCode(), 400, costly);
});

test('findings are annotations, calls are arrows, and a tooltip has words', async (t) => {
    const o = await opened(t), report = await (await fetch(`${o.address}api/v1/s/0/report`)).json();
    const { annotations } = (await o.client.fetchAnnotations(o.id, STATES, range(o, 100, []))).getModel().model;
    assert.deepEqual(annotations.Findings.map((a) => [a.label, Number(a.time)]), report.findings.map((f) => [f.title, f.from_ns]));
    assert.deepEqual((await o.client.fetchAnnotations(o.id, STATES, range(o, 100, [], { requested_marker_set: 'others' }))).getModel().model.annotations.Findings, []);
    const arrows = (await o.client.fetchTimeGraphArrows(o.id, STATES, QueryHelper.timeRangeQuery(o.start, o.end, 1000))).getModel().model, rows = new Map(o.rows.map((r) => [r.id, r.labels[0]]));
    assert.ok(arrows.length > 0 && arrows.length <= 1000);
    for (const a of arrows) {
        for (const row of [a.sourceId, a.targetId]) assert.match(rows.get(row), /^event loop \d+: phase/);
        assert.ok(a.end >= a.start);
    }
    const [first] = annotations.Findings, tip = async (elementType, time, items) => (await o.client.fetchTimeGraphTooltip(o.id, STATES, QueryHelper.selectionTimeQuery([time], items, { requested_element: { elementType, time, duration: 1 } }))).getModel().model;
    assert.equal((await tip('ANNOTATION', first.time, [])).Remedy, report.findings[0].remedy);
    const state = await tip('STATE', first.time, [arrows[0].sourceId]);
    assert.deepEqual([state.Row, Object.keys(state)], [rows.get(arrows[0].sourceId), ['Process', 'Row', 'State', 'Begins after', 'Lasts']]);
});

// ---- traps ----

test('trap: the type of every answer is exactly application/json, of refusals too', async (t) => {
    const { base } = await serve(t, recording);
    for (const address of ['/health', '/experiments', '/traces/nothing', '/nowhere']) assert.equal((await fetch(base + address)).headers.get('content-type'), 'application/json', address);
    for (const body of ['', '{', '[]', '{"parameters":3}']) {
        const response = await fetch(`${base}/traces`, { method: 'POST', body });
        assert.equal(response.status, 400);
        assert.equal(response.headers.get('content-type'), 'application/json');
        assert.deepEqual(faults('error', await response.text()), []);
    }
});

test('trap: no number but a time has more than 15 characters', async (t) => {
    const o = await opened(t), items = o.rows.map((r) => r.id), texts = [];
    for (const [kind, output, what] of [['timeGraph', STATES, 'tree'], ['timeGraph', STATES, 'states'], ['XY', COUNTS, 'tree'], ['XY', COUNTS, 'xy'], ['data', SHARES, 'tree']])
        texts.push((await post(`${o.base}/experiments/${o.id}/outputs/${kind}/${output}/${what}`, { requested_timerange: { start: o.start, end: o.end, nbTimes: 64 }, requested_items: items })).text);
    const numbers = texts.join('\n').replace(/"(?:start|end)":\d+|"xValues":\[[^\]]*\]|"(?:[^"\\]|\\.)*"/g, '').match(/-?\d[\d.eE+-]*/g);
    assert.ok(numbers.length > 100);
    for (const number of numbers) assert.ok(number.length <= 15, number);
});

test('trap: the first entry of the tree begins with the experiment, and parents come before their children', async (t) => {
    const o = await opened(t), seen = new Set([-1]);
    assert.deepEqual([o.entries[0].start, o.entries[0].end, o.entries[0].parentId], [o.start, o.end, -1]);
    for (const e of o.entries) {
        assert.ok(seen.has(e.parentId) && !seen.has(e.id) && Number.isSafeInteger(e.id), `${e.id} below ${e.parentId}`);
        seen.add(e.id);
    }
});

test('trap: items that are none, twice there, or of nothing', async (t) => {
    const o = await opened(t), [row] = o.rows, url = (what) => `${o.base}/experiments/${o.id}/outputs/${what}`, requested_timerange = { start: o.start, end: o.end, nbTimes: 10 };
    // A viewer asks for no items first; that is no mistake.
    assert.deepEqual(JSON.parse((await post(url(`XY/${COUNTS}/xy`), { requested_timerange, requested_items: [] })).text).model.series, []);
    assert.deepEqual(JSON.parse((await post(url(`timeGraph/${STATES}/states`), { requested_timerange, requested_items: [] })).text).model.rows, []);
    const rows = JSON.parse((await post(url(`timeGraph/${STATES}/states`), { requested_timerange, requested_items: [row.id, row.id, 0, -5, 1e15, o.entries[0].id, 'x'] })).text).model.rows;
    assert.deepEqual(rows.map((r) => r.entryId), [row.id]);
    for (const parameters of [{ requested_timerange }, { requested_items: [row.id] }, { requested_items: 5, requested_timerange }, { requested_items: [], requested_timerange: { start: 'x', end: 2 } }]) {
        const { status, text } = await post(url(`timeGraph/${STATES}/states`), parameters);
        assert.equal(status, 400, text);
    }
});

test('trap: times outside the recording, backwards, and too many of them', async (t) => {
    const o = await opened(t), [row] = o.rows, ask = async (what, start, end, nbTimes) => {
        const { status, text } = await post(`${o.base}/experiments/${o.id}/outputs/${what}`, { requested_timerange: { start, end, nbTimes }, requested_items: [row.id] });
        assert.equal(status, 200, text);
        return JSON.parse(text).model;
    };
    const early = o.start - 1000000n;
    for (const [start, end] of [[0, 1], [early, o.end + 5n], [o.end + 5n, o.end + 9n], [o.end, o.start], [o.start, o.start], [-5, -2]])
        for (const nbTimes of [0, 1, 1e9, -1]) {
            const { rows } = await ask(`timeGraph/${STATES}/states`, start, end, nbTimes);
            assert.equal(rows.length, 1);
            for (const state of rows[0].states) assert.ok(BigInt(state.start) >= o.start && BigInt(state.end) <= o.end);
            const { series } = await ask(`XY/${COUNTS}/xy`, start, end, nbTimes);
            for (const one of series) assert.ok(one.xValues.length === one.yValues.length && one.xValues.length <= 8192);
        }
});

test('trap: a conflict makes the client try one name after another, so the same path is the same trace', async (t) => {
    const { client, id, experiment } = await opened(t), traces = experiment.traces.map((one) => one.UUID);
    for (const name of ['shop', 'other', 'shop']) {
        const trace = await client.openTrace(new Query({ uri: recording, name })), made = await client.createExperiment(new Query({ name, traces }));
        assert.deepEqual([trace.getStatusCode(), trace.getModel().UUID, made.getStatusCode(), made.getModel().UUID, made.getModel().name], [200, traces[0], 200, id, name]);
    }
    assert.equal((await client.fetchExperiments()).getModel().length, 1);
});

test('trap: only recordings of the command line are opened, whatever else is on the disk', async (t) => {
    const { client } = await opened(t), texts = new Set();
    for (const uri of ['/', '/etc/passwd', '/no/such/thing', `${recording}/..`, `${recording}/ctf`, folder, '../shop', '']) {
        const answer = await client.openTrace(new Query({ uri, name: 'x' }));
        assert.equal(answer.getStatusCode(), 404, uri);
        texts.add(answer.getText());
    }
    assert.equal(texts.size, 1, 'the answer does not tell what is there');
    assert.equal((await client.openTrace(new Query({ uri: `${recording}/../shop/`, name: 'x' }))).getStatusCode(), 200);
});

test('trap: an analysis that runs is asked again, one that failed is not', async (t) => {
    // Reading waits for a manifest that nobody has written yet.
    const slow = path.join(folder, 'slow'), manifest = path.join(slow, 'manifest.json'), broken = path.join(folder, 'broken');
    fs.cpSync(recording, slow, { recursive: true, filter: (file) => !/view|manifest/.test(path.basename(file)) });
    execFileSync('mkfifo', [manifest]);
    fs.mkdirSync(broken);
    const { base } = await serve(t, '--no-keep', slow, broken), client = new HttpTspClient(base), status = async (UUID) => {
        const answer = await client.fetchTimeGraphTree(UUID, STATES, new Query({}));
        assert.deepEqual(faults('timeGraphTree', answer.getText()), []);
        return [(await client.fetchExperiment(UUID)).getModel().indexingStatus, answer.getModel().status];
    };
    const [one, two] = (await client.fetchExperiments()).getModel().map((e) => e.UUID);
    assert.deepEqual(await status(one), ['RUNNING', 'RUNNING']);
    assert.deepEqual(faults('lines', (await client.fetchTableLines(one, REQUESTS, QueryHelper.tableQuery([], 0, 5))).getText()), []);
    assert.deepEqual(faults('states', (await client.fetchTimeGraphStates(one, STATES, QueryHelper.selectionTimeRangeQuery(0n, 5n, 5, [1]))).getText()), []);
    await eventually('the broken one has failed', async () => (await status(two)).join() === 'CLOSED,FAILED');
    start(t, 'sh', ['-c', 'while cat "$0" > "$1"; do :; done', path.join(recording, 'manifest.json'), manifest]);
    await eventually('the other one is read', async () => (await status(one)).join() === 'COMPLETED,COMPLETED');
});

test('trap: colours are #rrggbb, no value of a style is 0, and every state has one', async (t) => {
    const o = await opened(t), { styles } = (await o.client.fetchStyles(o.id, STATES, new Query({}))).getModel().model;
    for (const [key, { values }] of Object.entries(styles))
        for (const [property, value] of Object.entries(values)) assert.ok(property.endsWith('color') ? /^#[0-9a-f]{6}$/.test(value) : value > 0, `${key}: ${property} ${value}`);
    const { rows } = (await o.client.fetchTimeGraphStates(o.id, STATES, range(o, 500, o.rows.map((r) => r.id)))).getModel().model, used = new Set();
    for (const state of rows.flatMap((r) => r.states)) {
        assert.equal(state.label === undefined, state.style === undefined, 'blank, or with a label and a style');
        if (state.style) used.add(state.style.parentKey);
    }
    assert.ok(used.size > 2);
    for (const key of used) assert.ok(styles[key], key);
    // The same colours as the page's.
    const source = fs.readFileSync(path.join(root, 'web/src/colour.ts'), 'utf8'), hex = (text) => `#${text.split(',').map((c) => Number(c).toString(16).padStart(2, '0')).join('')}`;
    const known = [...source.matchAll(/(\w+): \[(\d+, \d+, \d+)\]/g)], palette = [...source.match(/PALETTE: Rgb\[\] = \[(.*)\];/)[1].matchAll(/\[([\d, ]+)\]/g)];
    assert.ok(known.length > 10 && palette.length === 10);
    for (const [, value, colour] of known) assert.equal(styles[value].values['background-color'], hex(colour), value);
    for (const [i, [, colour]] of palette.entries()) assert.equal(styles[`colour${i}`].values['background-color'], hex(colour));
});

test('trap: what a search does not match is dimmed, or blank', async (t) => {
    const o = await opened(t), items = o.rows.map((r) => r.id), ask = async (filter_expressions_map) => (await o.client.fetchTimeGraphStates(o.id, STATES, range(o, 400, items, filter_expressions_map && { filter_query_parameters: { filter_expressions_map, strategy: 'SAMPLED' } }))).getModel().model.rows.flatMap((r) => r.states);
    const plain = await ask(), dimmed = await ask({ 1: ['POLL'] }), excluded = await ask({ 4: ['poll'] });
    assert.ok(plain.some((s) => s.label && /poll/i.test(s.label)) && plain.some((s) => s.label && !/poll/i.test(s.label)));
    assert.deepEqual(dimmed.map((s) => s.tags ?? 0), plain.map((s) => (s.label && !/poll/i.test(s.label) ? 1 : 0)));
    assert.deepEqual(excluded.map((s) => s.label), plain.map((s) => (/poll/i.test(s.label ?? '') ? s.label : undefined)));
});

test('trap: no client can send an Authorization, so the token is in the path', async (t) => {
    const token = path.join(folder, 'token');
    fs.writeFileSync(token, 'a-secret-of-a-token\n', { mode: 0o600 });
    const { address, base } = await serve(t, '--token-file', token, recording);
    assert.equal(base, `${address}t/TOKEN/tsp/api`);
    assert.equal((await new HttpTspClient(base.replace('TOKEN', 'a-secret-of-a-token')).checkHealth()).getModel().status, 'UP');
    for (const wrong of ['tsp/api', 't/wrong/tsp/api']) assert.equal((await fetch(`${address}${wrong}/health`)).status, 401);
});

test('trap: pages of editors and of loopback may ask, others may not', async (t) => {
    const { base, address } = await serve(t, recording), ask = (origin, method = 'GET') => fetch(`${base}/health`, { method, headers: { Origin: origin } });
    for (const origin of ['vscode-webview://0abc', 'http://localhost:3000', 'http://127.0.0.1:1']) {
        const preflight = await ask(origin, 'OPTIONS'), answer = await ask(origin);
        assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-origin'), answer.status, answer.headers.get('access-control-allow-origin')], [204, origin, 200, origin]);
        assert.match(preflight.headers.get('access-control-allow-methods'), /POST.*PUT.*DELETE/);
        assert.match(preflight.headers.get('access-control-allow-headers'), /Content-Type/);
        assert.equal((await fetch(`${address}api/v1/sources`, { headers: { Origin: origin } })).status, 403, 'the page itself stays closed');
    }
    for (const origin of ['http://evil.example', 'https://localhost.evil.example', 'null']) for (const method of ['GET', 'OPTIONS']) assert.equal((await ask(origin, method)).status, 403, origin);
});

test("a viewer's chart on a page of another origin draws our states", { skip: BROWSER ? false : 'chromium is not installed' }, async (t) => {
    const o = await opened(t), esbuild = path.join(root, 'web', 'node_modules', 'esbuild', 'bin', 'esbuild');
    if (!fs.existsSync(esbuild)) return t.skip('npm packages of web/ are not installed');
    const script = execFileSync(esbuild, [path.join(root, 'tests', 'system', 'programs', 'tsp-viewer.js'), '--bundle', '--format=iife', '--log-level=error', '--define:global=globalThis'], { maxBuffer: 1 << 26 });
    const other = http.createServer((request, response) => {
        response.setHeader('Content-Type', request.url === '/viewer.js' ? 'text/javascript' : 'text/html');
        response.end(request.url === '/viewer.js' ? script : '<!doctype html><title>viewer</title><div id=chart></div><script src=viewer.js></script>');
    });
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
    t.after(() => other.close());
    const browser = await openBrowser();
    t.after(() => browser.close());
    const page = await browser.newPage(), trouble = [];
    page.on('pageerror', (error) => trouble.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && !/favicon/.test(message.location().url) && trouble.push(message.text()));
    await page.goto(`http://127.0.0.1:${other.address().port}/`);
    const drawn = await page.evaluate((base) => globalThis.view(base), o.base);
    assert.deepEqual(trouble, []);
    assert.ok(drawn.states > 20, JSON.stringify(drawn));
    // Each colour that is in the chart's picture is one that our styles gave it.
    assert.ok(drawn.colours.length >= 2, JSON.stringify(drawn));
});
