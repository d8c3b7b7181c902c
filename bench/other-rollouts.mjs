// 25 rollouts by a third generator, which assumes what neither tests/system/rollouts.mjs nor bench/unseen-rollouts.mjs does: latency is a mixture
// of log-normals (cached, computed, cold), clients retry what times out, pods come and go with a load that is hours apart in two regions, and
// canaries get 2 %. The truth of each was written before any was judged.
//   slower  the service and its newer version must be named, and nobody else
//   fine    no alarm, and "not slower"
//   quiet   no alarm; whether it can be told or not
//   node bench/other-rollouts.mjs build/sonde [SEEDS [FIRST-SEED [TEXT]]]     only rollouts whose name contains TEXT
// A run of all rollouts appends a line for each seed to bench/results/other-rollouts.jsonl, with the commit. KEEP=DIR keeps the spans of what was wrong.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawnSync } from 'node:child_process';

// Mulberry32, and what is drawn with it.
class Dice {
    constructor(seed) { this.state = seed >>> 0; }
    unit() {
        this.state = (this.state + 0x6d2b79f5) >>> 0;
        let x = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
        x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x;
        return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
    }
    normal() { return Math.sqrt(-2 * Math.log(1 - this.unit())) * Math.cos(2 * Math.PI * this.unit()); }
    logNormal(median, sigma) { return median * Math.exp(sigma * this.normal()); }
    id(bytes) { let s = ''; while (s.length < 2 * bytes) s += Math.floor(16 * this.unit()).toString(16); return s; }
}

const HOUR = 3600, REGIONS = ['eu', 'us'];
// Load of a region at a time of day in seconds, 0.3 to 1.
const loadOf = (region, second) => 0.65 + 0.35 * Math.sin((2 * Math.PI * (second / HOUR - (region === 'us' ? 8 : 0))) / 24);

// share: of a region's requests that the newer version gets at a time (0 to 1 of all the time).
const WAYS = {
    canary: () => 0.02,
    'canary that grows': (t) => [0.02, 0.1, 0.4, 1][Math.min(3, Math.floor(t * 4))],
    scaling: (t) => Math.min(1, Math.max(0, (t - 0.2) / 0.5)), // pods that are started later are newer
    'region by region': (t, region) => (t > (region === 'eu' ? 0.35 : 0.65) ? 1 : 0),
    half: () => 0.5,
    'pod by pod': (t) => Math.min(1, Math.max(0, (t - 0.4) / 0.15)),
};

// What the newer version does to one attempt: (dice, part, ms) => ms. part: cached, computed, cold.
const none = (_, __, ms) => ms;
const times = (k) => (_, __, ms) => ms * k;
const part = (which, k) => (_, p, ms) => (p === which ? ms * k : ms);
const pauses = (share, more) => (dice, _, ms) => ms + (dice.unit() < share ? more : 0);

const ROLLOUTS = {
    'canary of 2 %, alike': ['canary', none, 'fine', { requests: 15000 }],
    'canary of 2 %, 2 times': ['canary', times(2), 'slower', { requests: 15000 }],
    'canary that grows, alike': ['canary that grows', none, 'fine'],
    'canary that grows, 1.4 times': ['canary that grows', times(1.4), 'slower'],
    'pods by load, alike': ['scaling', none, 'fine'],
    'pods by load, 1.4 times': ['scaling', times(1.4), 'slower'],
    'pods by load, a busy pod is slower': ['scaling', none, 'fine', { queueing: 0.6 }],
    'pods by load, a busy pod is slower, 1.5 times': ['scaling', times(1.5), 'slower', { queueing: 0.6 }],
    'region by region, alike': ['region by region', none, 'quiet'],
    'region by region, 1.6 times': ['region by region', times(1.6), 'slower'],
    'half, alike': ['half', none, 'fine'],
    'half, 1.3 times': ['half', times(1.3), 'slower'],
    'half, what is computed takes twice': ['half', part('computed', 2), 'slower'],
    'half, what is cold takes 3 times': ['half', part('cold', 3), 'slower'],
    'half, pauses of 300 ms': ['half', pauses(0.08, 300), 'slower'],
    'half, fails and is tried again': ['half', none, 'slower', { fails: [0.01, 0.12] }],
    'half, both fail and are tried again': ['half', none, 'fine', { fails: [0.05, 0.05] }],
    'half, fewer pods for the newer one': ['half', none, 'fine', { pods: [9, 4] }],
    'half, a pod of the newer one is slow': ['half', none, 'fine', { badPod: 2.5 }],
    'half, faster': ['half', times(0.75), 'fine'],
    'pod by pod, alike': ['pod by pod', none, 'fine'],
    'pod by pod, 1.5 times': ['pod by pod', times(1.5), 'slower'],
    'pod by pod, beside an incident': ['pod by pod', none, 'quiet', { incident: [0.5, 0.54, 3] }],
    'pod by pod, the other service is slow later': ['pod by pod', none, 'quiet', { storeLater: 2 }],
    'pod by pod, a busy pod is slower': ['pod by pod', none, 'quiet', { queueing: 0.6 }],
};

const pairs = (o) => Object.entries(o).map(([key, value]) => ({ key, value: typeof value === 'number' ? { doubleValue: value } : { stringValue: value } }));

function make(name, seed, file) {
    const [way, effect, truth, options = {}] = ROLLOUTS[name];
    const dice = new Dice(seed * 2654435761 + [...name].reduce((h, c) => Math.imul(h ^ c.charCodeAt(0), 16777619), 2166136261));
    const seconds = (18 + 6 * dice.unit()) * HOUR, requests = options.requests || 7000, from = 8 * HOUR * dice.unit(), pods = options.pods || [7, 7];
    const base = 5 + 40 * dice.unit(), resources = new Map(), levels = new Map(), level = (pod) => { if (!levels.has(pod)) levels.set(pod, Math.exp(0.05 * dice.normal())); return levels.get(pod); };
    const put = (resource, span) => { const key = JSON.stringify(resource); (resources.get(key) || resources.set(key, []).get(key)).push(span); };
    const ns = (s) => String(1780000000000000000n + BigInt(Math.round(s * 1e9)));
    for (let i = 0; i < requests;) {
        const at = seconds * dice.unit(), region = REGIONS[Math.floor(2 * dice.unit())], load = loadOf(region, from + at);
        if (dice.unit() > load) continue; // fewer at night
        i++;
        const t = at / seconds, trace = dice.id(16), front = dice.id(8);
        const newer = dice.unit() < WAYS[way](t, region) ? 1 : 0, incident = options.incident && t > options.incident[0] && t < options.incident[1] ? options.incident[2] : 1;
        let now = at + 0.001;
        for (let attempt = 0; attempt < 3; attempt++) {
            const running = Math.max(2, Math.round(pods[newer] * load)), number = Math.floor(running * dice.unit()), pod = `checkout-${newer ? 'f7' : '2c'}-${region}-${number}`;
            const draw = dice.unit(), which = draw < 0.55 ? 'cached' : draw < 0.95 ? 'computed' : 'cold';
            let ms = { cached: () => dice.logNormal(base * 0.4, 0.3), computed: () => dice.logNormal(base, 0.45), cold: () => dice.logNormal(base * 5, 0.5) }[which]();
            ms *= level(pod) * incident * (1 + (options.queueing || 0) * (load - 0.3)) * (options.badPod && newer && number === 0 && region === 'eu' ? options.badPod : 1);
            if (newer) ms = effect(dice, which, ms);
            const failed = dice.unit() < (options.fails ? options.fails[newer] : 0.004), store = dice.logNormal(2, 0.3) * (options.storeLater && t > 0.7 ? options.storeLater : 1);
            const own = dice.id(8), whole = (ms + store) / 1e3;
            put({ 'service.name': 'checkout', 'service.version': newer ? '2026.3' : '2026.2', 'k8s.pod.name': pod, 'host.name': pod, 'cloud.region': region }, { traceId: trace, spanId: own, parentSpanId: front, name: 'POST /checkout', kind: 2, startTimeUnixNano: ns(now), endTimeUnixNano: ns(now + whole), status: failed ? { code: 2 } : {}, attributes: pairs({ 'http.request.method': 'POST', 'url.path': '/checkout' }) });
            put({ 'service.name': 'store', 'service.version': '14', 'host.name': `store-${region}` }, { traceId: trace, spanId: dice.id(8), parentSpanId: own, name: 'SELECT', kind: 2, startTimeUnixNano: ns(now + ms / 2e3), endTimeUnixNano: ns(now + ms / 2e3 + store / 1e3), status: {} });
            now += whole + 0.0005;
            if (!failed) break;
            now += 0.02; // before it is tried again
        }
        put({ 'service.name': 'gateway', 'service.version': '7', 'host.name': `gateway-${region}` }, { traceId: trace, spanId: front, name: 'POST /checkout', kind: 2, startTimeUnixNano: ns(at), endTimeUnixNano: ns(now), status: {}, attributes: pairs({ 'cloud.region': region }) });
    }
    const lines = [];
    for (const [resource, list] of resources)
        for (let i = 0; i < list.length; i += 250) lines.push(JSON.stringify({ resourceSpans: [{ resource: { attributes: pairs(JSON.parse(resource)) }, scopeSpans: [{ spans: list.slice(i, i + 250) }] }] }));
    fs.writeFileSync(file, `${lines.join('\n')}\n`);
    return truth;
}

function judge(truth, status, report) {
    const alarms = report.findings.filter((f) => ['regression', 'less-throughput', 'growing-queue'].includes(f.kind)), verdict = report.diagnosis?.verdict;
    if (truth !== 'slower') {
        if (alarms.length) return `an alarm: ${alarms[0].title}`;
        return truth === 'fine' && verdict !== 'not-slower' && !report.findings.length ? verdict : null;
    }
    if (!alarms.length) return `missed: ${verdict}`;
    const wrong = alarms.find((f) => f.evidence.service !== 'checkout' || f.evidence.version !== '2026.3');
    return wrong ? `blamed ${wrong.evidence.service} ${wrong.evidence.version}` : status === 10 ? null : `status ${status}`;
}

const [, , sonde, seeds = '1', first = '1', text = ''] = process.argv, scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-other-')), file = path.join(scratch, 'spans.jsonl');
const here = path.dirname(new URL(import.meta.url).pathname), results = path.join(here, 'results', 'other-rollouts.jsonl');
const git = (...args) => execFileSync('git', ['-C', here, ...args], { encoding: 'utf8' }).trim();
const commit = process.env.COMMIT || git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '../src') ? '+' : '');
let right = 0, all = 0;
try {
    for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
        const wrong = {}, names = Object.keys(ROLLOUTS).filter((n) => n.includes(text));
        for (const name of names) {
            const truth = make(name, seed, file), { status, stdout, stderr } = spawnSync(sonde, ['diagnose', '--json', '--gate', file], { encoding: 'utf8', maxBuffer: 1 << 28 });
            const mistake = stdout ? judge(truth, status, JSON.parse(stdout)) : `no answer: ${stderr}`;
            all++;
            if (!mistake) { right++; continue; }
            wrong[name] = mistake;
            console.log(`seed ${seed}: ${name}: ${mistake}`);
            if (process.env.KEEP) fs.copyFileSync(file, path.join(process.env.KEEP, `${name.replace(/\W+/g, '-')}-${seed}.jsonl`));
        }
        if (!text) fs.appendFileSync(results, `${JSON.stringify({ commit, seed, rollouts: names.length, right: names.length - Object.keys(wrong).length, wrong })}\n`);
    }
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(`${right} of ${all} rollouts judged rightly`);
process.exitCode = right === all ? 0 : 1;
