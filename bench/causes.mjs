// How well attributes are proposed and causes are found. Attributes: requests whose latency hangs on one or two of six
// attributes, before any version or slow-down is looked at; beside it the rule "largest ratio of two values' means".
// Causes: public traces (SONDE_DATA) with a slow-down planted into one combination of attribute values of a new version;
// beside it the rule that sonde prints too, the one value with the largest ratio.
// With PEERS, a checkout of github.com/shaido987/riskloc, the methods in it get the same data sets, as the tables that they read.
//   [PEERS=DIR] node bench/causes.mjs build/sonde [SEEDS [all|attributes|latency|errors [FIRST-SEED [VALUES]]]]   (VALUES: how many are planted)
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { files, publicSpans, randomFrom } from '../tests/system/spans.mjs';

const [, , sonde, given = '10', part = 'all', from = '1', values] = process.argv, seeds = Number(given), first = Number(from);
const isAsked = ([length]) => values === undefined || length === Number(values);
const KEYS = { 'hardware.generation': 3, 'cloud.region': 4, 'tenant.shard': 8, 'deployment.zone': 3, 'feature.cache': 2, 'queue.class': 5 };
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const text = (value) => ({ stringValue: String(value) });
const hex = (n, digits) => n.toString(16).padStart(digits, '0');
const pick = (random, list) => list[Math.floor(random() * list.length)];
const diagnose = (file, ...args) => JSON.parse(execFileSync(sonde, ['diagnose', '--json', ...args, file], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] }));

const valuesOf = (random) => Object.fromEntries(Object.entries(KEYS).map(([key, n]) => [key, `${key.slice(0, 3)}${Math.floor(random() * n)}`]));
const span = (trace, id, parent, name, kind, start_us, us) => ({ traceId: hex(trace, 32), spanId: hex(id, 16), ...(parent ? { parentSpanId: hex(parent, 16) } : {}), name, kind, startTimeUnixNano: String(Math.round(start_us * 1e3)), endTimeUnixNano: String(Math.round((start_us + us) * 1e3)) });
const group = (attributes, spans) => ({ resource: { attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: text(value) })) }, scopeSpans: [{ spans }] });
const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

// Latency that hangs on `planted` attributes: each of their values has a level of its own, spread by `strength`.
function attributes(seed, planted, strength) {
    const random = randomFrom(seed), levels = {}, lines = [], sums = {};
    for (const key of planted) for (let v = 0; v < KEYS[key]; v++) levels[`${key}${v}`] = strength * (v / (KEYS[key] - 1) - 0.5);
    for (let i = 0; i < 2000; i++) {
        const values = valuesOf(random);
        let log = Math.log(20000) + 0.35 * normal(random);
        for (const key of planted) log += levels[`${key}${values[key].slice(3)}`];
        const us = Math.exp(log);
        lines.push(JSON.stringify({ resourceSpans: [group({ 'service.name': 'shop', 'host.name': `h${i % 12}`, ...values }, [span(i + 1, i + 1, 0, 'GET /', 2, 1.7e12 / 1e3 * 1e3 + i * 1e4, us)])] }));
        for (const [key, value] of Object.entries(values)) {
            const s = ((sums[key] ??= {})[value] ??= [0, 0]);
            s[0] += us;
            s[1]++;
        }
    }
    const file = path.join(scratch, 'attributes.jsonl');
    fs.writeFileSync(file, lines.join('\n'));
    const ratio = (key) => { const means = Object.values(sums[key]).map(([sum, n]) => sum / n); return Math.max(...means) / Math.min(...means); };
    const rule = Object.keys(KEYS).sort((a, b) => ratio(b) - ratio(a));
    return { proposed: diagnose(file).diagnosis.attributes.map((a) => a.attribute), rule };
}

function measureAttributes() {
    const percent = (n, of) => `${((100 * n) / of).toFixed(0)} %`;
    for (const [count, strength] of [[1, 0.3], [1, 0.6], [2, 0.6]]) {
        let ours = 0, rules = 0, extra = 0;
        for (let seed = first; seed < first + seeds; seed++) {
            const keys = Object.keys(KEYS), planted = [];
            const random = randomFrom(seed * 7919);
            while (planted.length < count) { const key = pick(random, keys); if (!planted.includes(key)) planted.push(key); }
            const { proposed, rule } = attributes(seed * 31 + count, planted, strength);
            const all = (list) => planted.every((key) => list.slice(0, count).includes(key));
            ours += all(proposed);
            rules += all(rule);
            extra += proposed.filter((key) => !planted.includes(key)).length;
        }
        console.log(`attributes, ${count} planted, ${strength} in log latency from the fastest to the slowest value: proposed first in ${percent(ours, seeds)} of ${seeds}, ${extra} others proposed; rule (ratio of means) ${percent(rules, seeds)}`);
    }
    let wrong = 0;
    for (let seed = first; seed < first + seeds; seed++) wrong += attributes(seed * 97, [], 0).proposed.length;
    console.log(`attributes, none planted: ${wrong} proposed in ${seeds} data sets`);
}

// Every public trace `copies` times as version 1 and as version 2, with attributes by chance; requests of version 2 that have
// all of `planted` take `factor` times as long.
// Or they fail with the probability `fails`; of all others, one of 200 does, and `everywhere` more of version 2.
function plant(folder, seed, planted, factor, copies = 1, fails = 0, everywhere = 0) {
    const random = randomFrom(seed), chance = randomFrom(seed * 7 + 1), lines = [], requests = [];
    let number = 0;
    for (const version of ['1', '2'])
        for (const name of Array(copies).fill(files(folder, '.json')).flat()) {
            const { spans, processes } = JSON.parse(fs.readFileSync(name, 'utf8')).data[0];
            const values = valuesOf(random), host = `${version}-${number % 8}`, slow = version === '2' && Object.entries(planted).every(([key, value]) => values[key] === value);
            const start = Math.min(...spans.map((s) => s.startTime)), scale = slow && !fails ? factor : 1, ids = new Map(spans.map((s, i) => [s.spanID, number * 4096 + i + 1]));
            const failed = (fails || everywhere) && chance() < (slow && fails ? fails : 0.005 + (version === '2' ? everywhere : 0));
            number++;
            requests.push({ newer: version === '2', values, failed, us: Math.max(...spans.map((s) => s.startTime + s.duration - start)) * scale });
            const groups = Object.entries(processes).map(([id, process]) => group({ 'service.name': process.serviceName, 'service.version': version, 'host.name': host, ...values },
                spans.filter((s) => s.processID === id).map((s) => span(number, ids.get(s.spanID), ids.get(s.references[0]?.spanID) || 0, s.operationName, 1, 1.7e15 + (version === '2' ? 3600e6 : 0) + number * 1e5 + (s.startTime - start) * scale, s.duration * scale)).map((s) => (failed && !s.parentSpanId ? { ...s, status: { code: 2 } } : s))));
            lines.push(JSON.stringify({ resourceSpans: groups }));
        }
    const file = path.join(scratch, 'planted.jsonl');
    fs.writeFileSync(file, lines.join('\n'));
    return { file, requests };
}

// The table that other methods read: a row for each combination of values that a request of version 2 has; `good` of a request is
// what is summed over its requests. What no older request had is predicted to be as all are.
function writeTable(requests, good, file) {
    const rows = new Map(), sums = [[0, 0], [0, 0]];
    for (const { newer, values, ...request } of requests) {
        const key = Object.values(values).join(), row = rows.get(key) || rows.set(key, [[0, 0], [0, 0]]).get(key);
        for (const both of [row, sums]) {
            both[+newer][0] += good(request);
            both[+newer][1]++;
        }
    }
    const mean = sums[0][0] / sums[0][1], lines = [[...Object.keys(KEYS), 'real_a', 'real_b', 'predict_a', 'predict_b'].join()];
    for (const [key, [[olderGood, older], [newerGood, newer]]] of rows) if (newer) lines.push([key, newerGood, newer, ((olderGood + mean) * newer) / (older + 1), newer].join());
    fs.writeFileSync(file, lines.join('\n'));
}

// The data sets of one case, for the peers.
class Peers {
    tables = [];
    add(requests, good, truth) {
        if (!process.env.PEERS) return;
        const file = path.join(scratch, `table-${this.tables.length}.csv`);
        writeTable(requests, good, file);
        this.tables.push({ file, truth });
    }
    say() {
        if (!this.tables.length) return;
        const list = path.join(scratch, 'tables.json');
        fs.writeFileSync(list, JSON.stringify(this.tables));
        const answers = JSON.parse(execFileSync('/usr/bin/python3', [path.join(import.meta.dirname, 'causes_peers.py'), process.env.PEERS, list], { encoding: 'utf8' }));
        console.log(`    ${Object.entries(answers).map(([name, { error, exact, named, failed }]) => `${name}: ${error ?? `${this.tables[0].truth ? `${exact} exact of ${named} named (F1 ${f1(exact, named, this.tables.length)})` : `${named} named`}${failed ? `, gave up on ${failed}` : ''}`}`).join('; ')}`);
    }
}
const isGood = ({ failed }) => Number(!failed), latency = ({ us }) => us;

// Of all that was planted, how much was named; of all that was named, how much was planted: one cause a data set.
const f1 = (exact, named, planted) => (exact ? (2 * exact) / (named + planted) : 0).toFixed(2);
const normalise = (words) => words.split(/ and |, /).map((w) => w.trim()).sort().join(' ');

const SETS = ['traceweaver-hotel_load150', 'traceweaver-media_load50', 'traceweaver-node_0.8'];

function measureCauses() {
    for (const [at, set] of SETS.entries()) {
        const folder = publicSpans(set, fs.mkdtempSync(path.join(scratch, 'set-')));
        if (!folder) { console.log(`${set}: not here (SONDE_DATA)`); continue; }
        for (const [length, copies] of [[0, 1], [1, 1], [2, 1], [3, 1], [3, 4]].filter(isAsked)) {
            let detected = 0, named = 0, exact = 0, rule = 0;
            const peers = new Peers();
            for (let seed = first + at * 1000; seed < first + seeds + at * 1000; seed++) {
                const random = randomFrom(seed * 104729 + length), planted = {};
                const keys = ['hardware.generation', 'cloud.region', 'deployment.zone', 'feature.cache'];
                while (Object.keys(planted).length < length) { const key = pick(random, keys); planted[key] ??= `${key.slice(0, 3)}${Math.floor(random() * KEYS[key])}`; }
                const { file, requests } = plant(folder, seed, planted, length ? 2 : 1, copies), { findings } = diagnose(file, '--minimum-requests', '40', '--bucket-by', 'none');
                const truth = Object.entries(planted).map(([key, value]) => `${key}=${value}`).sort().join(' ');
                peers.add(requests, latency, truth.replaceAll(' ', '&'));
                if (!findings.length) continue;
                detected++;
                named += Boolean(findings[0].evidence.cause);
                exact += normalise(findings[0].evidence.cause || '') === truth;
                rule += normalise(findings[0].evidence.rule_cause || '') === truth;
            }
            if (!length) console.log(`causes, ${set}, none planted: ${detected} of ${seeds} with a finding, ${named} with a cause`);
            else console.log(`causes, ${set}, ${length} attribute${length > 1 ? 's' : ''}${copies > 1 ? `, every trace ${copies} times` : ''}, twice as slow: ${detected} of ${seeds} detected; of these named exactly ${exact} (F1 ${f1(exact, named, seeds)}), by the simple rule ${rule} (${f1(rule, detected, seeds)})`);
            peers.say();
        }
    }
}

// The same for errors: a part of version 2's requests fails, or all of them more often.
function measureErrorCauses() {
    for (const [at, set] of SETS.entries()) {
        const folder = publicSpans(set, fs.mkdtempSync(path.join(scratch, 'set-')));
        if (!folder) { console.log(`${set}: not here (SONDE_DATA)`); continue; }
        for (const [length, fails, copies] of [[0, 0, 1], [1, 0.2, 1], [2, 0.4, 1], [3, 0.8, 1], [3, 0.8, 4]].filter(isAsked)) {
            let detected = 0, named = 0, exact = 0;
            const peers = new Peers();
            for (let seed = first + at * 1000; seed < first + seeds + at * 1000; seed++) {
                const random = randomFrom(seed * 15485863 + length), planted = {};
                const keys = ['hardware.generation', 'cloud.region', 'deployment.zone', 'feature.cache'];
                while (Object.keys(planted).length < length) { const key = pick(random, keys); planted[key] ??= `${key.slice(0, 3)}${Math.floor(random() * KEYS[key])}`; }
                const { file, requests } = plant(folder, seed, planted, 1, copies, fails, length ? 0 : 0.08), { findings } = diagnose(file, '--minimum-requests', '40', '--bucket-by', 'none');
                const truth = Object.entries(planted).map(([key, value]) => `${key}=${value}`).sort().join(' '), found = findings.find((f) => f.evidence.measure === 'errors');
                peers.add(requests, isGood, truth.replaceAll(' ', '&'));
                if (!found) continue;
                detected++;
                named += Boolean(found.evidence.cause);
                exact += normalise(found.evidence.cause || '') === truth;
            }
            if (!length) console.log(`causes of errors, ${set}, 8.5 % fail everywhere: ${detected} of ${seeds} detected, ${named} with a cause`);
            else console.log(`causes of errors, ${set}, ${length} attribute${length > 1 ? 's' : ''}${copies > 1 ? `, every trace ${copies} times` : ''}, ${fails * 100} % of its requests fail, else 0.5 %: ${detected} of ${seeds} detected; of these named exactly ${exact} (F1 ${f1(exact, named, seeds)})`);
            peers.say();
        }
    }
}

try {
    if (['all', 'attributes'].includes(part)) measureAttributes();
    if (['all', 'latency'].includes(part)) measureCauses();
    if (['all', 'errors'].includes(part)) measureErrorCauses();
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
