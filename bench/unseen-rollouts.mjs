// Rollouts whose makers share nothing with tests/system/rollouts.mjs: how versions come to hosts, what they change, what else goes on
// meanwhile and how latency is distributed are chosen apart, and the spans are written by hand. A shape names its truth:
//   slower   the service and the version must be named, and nobody else
//   fine     "not slower"
//   quiet    no alarm; whether it can be told or not
// Which shapes there are and what is true of them was written before any of them was judged.
//   node bench/unseen-rollouts.mjs build/sonde [SEEDS [FIRST-SEED [TEXT]]]     only shapes whose name contains TEXT
// A run of all shapes appends a line for each seed to bench/results/unseen-rollouts.jsonl. KEEP=DIR keeps the spans of what was wrong.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawnSync } from 'node:child_process';

const MINUTE = 60e3;

// sfc32
function generator(seed) {
    let a = seed | 0, b = 0x9e3779b9, c = 0x243f6a88, d = 1;
    const next = () => {
        const t = (((a + b) | 0) + d) | 0;
        d = (d + 1) | 0;
        a = b ^ (b >>> 9);
        b = (c + (c << 3)) | 0;
        c = ((c << 21) | (c >>> 11)) + t | 0;
        return (t >>> 0) / 4294967296;
    };
    for (let i = 0; i < 16; i++) next();
    const of = {
        next, between: (low, high) => low + (high - low) * next(), whole: (low, high) => Math.floor(low + (high + 1 - low) * next()),
        one: (list) => list[Math.floor(list.length * next())], chance: (p) => next() < p,
        gauss: () => { let sum = -6; for (let i = 0; i < 12; i++) sum += next(); return sum; },
        hex: (digits) => Array.from({ length: digits }, () => Math.floor(16 * next()).toString(16)).join(''),
    };
    return of;
}

// ---- how versions come to hosts: (world) => (share of the time) => { version: 0 or 1 (or more), host } ----

const numbered = (name, count) => Array.from({ length: count }, (_, i) => `${name}${i}`);
const pods = (w, name, count) => Array.from({ length: count }, () => `${name}-${w.r.hex(5)}`);

function oneByOne(w, { from = w.r.between(0.2, 0.3), over = w.r.between(0.1, 0.2), fresh = false, never = 0 } = {}) {
    const old = fresh ? pods(w, 'api-5d8', w.hosts) : numbered('vm-', w.hosts), next = fresh ? pods(w, 'api-7c9', w.hosts) : old;
    return (share) => {
        const i = w.r.whole(0, w.hosts - 1), there = i < w.hosts - never && share >= from + (over * i) / w.hosts;
        return { version: there ? 1 : 0, host: there ? next[i] : old[i] };
    };
}

const DEPLOYMENTS = {
    'side by side': (w) => { const share = w.r.between(0.35, 0.65); return () => { const version = w.r.chance(share) ? 1 : 0; return { version, host: `${'ab'[version]}${w.r.whole(1, w.hosts)}` }; }; },
    'host by host': (w) => oneByOne(w),
    'pod by pod': (w) => oneByOne(w, { fresh: true }),
    'all but one host': (w) => oneByOne(w, { never: 1 }),
    'at once': (w) => { const at = w.r.between(0.4, 0.6); return (share) => ({ version: share >= at ? 1 : 0, host: `vm-${w.r.whole(1, w.hosts)}` }); },
    'blue and green': (w) => { const at = w.r.between(0.4, 0.6); return (share) => { const version = share >= at ? 1 : 0; return { version, host: `${['blue', 'green'][version]}-${w.r.whole(1, w.hosts)}` }; }; },
    'in steps': (w) => {
        const from = w.r.between(0.15, 0.25), steps = [[0, 0.02], [0.12, 0.15], [0.25, 0.5], [0.45, 1]];
        return (share) => {
            const now = steps.filter(([after]) => share >= from + after).at(-1), version = now && w.r.chance(now[1]) ? 1 : 0;
            return { version, host: `${'ab'[version]}${w.r.whole(1, version ? Math.max(2, Math.round(w.hosts * Math.min(1, 2 * now[1]))) : w.hosts)}` };
        };
    },
    'canary that stays': (w) => { const from = w.r.between(0.1, 0.3); return (share) => { const version = share >= from && w.r.chance(0.06) ? 1 : 0; return { version, host: version ? `canary-${w.r.whole(1, 3)}` : `main-${w.r.whole(1, w.hosts)}` }; }; },
    'zone by zone': (w) => {
        const at = [0.25, 0.4, 0.55].map((x) => x + w.r.between(-0.04, 0.04)), levels = [0.85, 1, 1.2];
        return (share) => { const zone = w.r.whole(0, 2), host = `z${zone}-${w.r.whole(1, 3)}`; return { version: share >= at[zone] ? 1 : 0, host, level: levels[zone], attributes: { 'cloud.availability_zone': `zone-${zone}` } }; };
    },
    'back and forth': (w) => (share) => ({ version: (share > 0.25 && share < 0.35) || share > 0.6 ? 1 : 0, host: `vm-${w.r.whole(1, w.hosts)}` }),
    'both on each machine': (w) => { const share = w.r.between(0.3, 0.7); return () => ({ version: w.r.chance(share) ? 1 : 0, host: `vm-${w.r.whole(1, w.hosts)}` }); },
    'tried out before': (w) => { const at = w.r.between(0.45, 0.55), rest = oneByOne(w, { from: at, over: 0.15 }); return (share) => (share > 0.05 && share < 0.08 && w.r.chance(0.1) ? { version: 1, host: 'staging-1' } : rest(share)); },
    'pods that come and go': (w) => { const salt = w.r.hex(3); return (share) => { const version = w.r.chance(0.5) ? 1 : 0; return { version, host: `${'ab'[version]}-${salt}-${Math.floor(share * 8)}-${w.r.whole(1, w.hosts)}` }; }; },
    'three in a row': (w) => { const a = oneByOne(w, { from: 0.25, over: 0.1 }); return (share) => { const first = a(share); return share > 0.65 + 0.1 * (Number(first.host.slice(3)) / w.hosts) ? { ...first, version: 2 } : first; }; },
};

// ---- what else goes on: (world) => (share, host) => factor on the latency of both versions ----

const BACKGROUNDS = {
    steady: () => () => 1,
    day: (w) => { const phase = w.r.next(), height = w.r.between(0.3, 0.6); return (share) => 1 + height * (0.5 - 0.5 * Math.cos(2 * Math.PI * (share - phase))); },
    walk: (w) => { const steps = [0]; for (let i = 1; i <= 200; i++) steps.push(steps[i - 1] + 0.025 * w.r.gauss()); return (share) => Math.exp(steps[Math.floor(share * 200)]); },
    'more load later': (w) => { const at = w.r.between(0.65, 0.75); return (share) => (share > at ? 1.35 : 1); },
    'a bad quarter of an hour': (w) => { const at = w.r.between(0.3, 0.5); return (share) => (share > at && share < at + 0.06 ? 2.2 : 1); },
    neighbours: (w) => { const slots = new Map(); return (share, host) => { const key = `${host}|${Math.floor(share * 12)}`; if (!slots.has(key)) slots.set(key, w.r.chance(0.12) ? w.r.between(1.2, 1.5) : 1); return slots.get(key); }; },
};

// ---- latency, in ms ----

const NOISES = {
    narrow: (w) => () => w.base * Math.exp(0.2 * w.r.gauss()),
    wide: (w) => () => w.base * Math.exp(0.8 * w.r.gauss()),
    hits: (w) => { const miss = w.r.between(0.15, 0.3); return () => (w.r.chance(miss) ? 12 : 0.8) * w.base * 0.3 * Math.exp(0.25 * w.r.gauss()); },
    coarse: (w) => () => Math.max(1, Math.round(4 * Math.exp(0.4 * w.r.gauss()))),
    heavy: (w) => () => w.base * 0.6 * (1 - w.r.next()) ** (-1 / 2.2),
};

// ---- what a newer version changes: (context) => factor, or { plus } in ms ----

const times = (k) => () => k;
const EFFECTS = {
    none: times(1),
    'grows from when it came': (to) => (c) => 1 + (to - 1) * Math.min(1, Math.max(0, c.share - c.w.came) / 0.4),
    'slow to start': (c) => (c.age < 0.02 ? 1.8 : 1),
    'one endpoint': (k) => (c) => (c.endpoint === c.w.endpoints[1] ? k : 1),
    'one tenant': (k) => (c) => (c.tenant === 'tenant-3' ? k : 1),
    'under load': (k) => (c) => (c.background > 1.2 ? k : 1),
    'a tail': (share, k) => (c) => (c.w.r.chance(share) ? k : 1),
};

// [deployment, effect, truth, { background, noise, requests, hosts, minutes, ... }]
const SHAPES = {
    'host by host': ['host by host', EFFECTS.none, 'fine'],
    'host by host, 1.35 times': ['host by host', times(1.35), 'slower'],
    'host by host, day': ['host by host', EFFECTS.none, 'fine', { background: 'day' }],
    'host by host, day, 1.4 times': ['host by host', times(1.4), 'slower', { background: 'day' }],
    'host by host, walk': ['host by host', EFFECTS.none, 'fine', { background: 'walk' }],
    'host by host, walk, 1.5 times': ['host by host', times(1.5), 'slower', { background: 'walk' }],
    'host by host, more load later': ['host by host', EFFECTS.none, 'quiet', { background: 'more load later' }],
    'host by host, more load later, 1.5 times': ['host by host', times(1.5), 'slower', { background: 'more load later' }],
    'host by host, 8 ms more of 20': ['host by host', () => ({ plus: 8 }), 'slower', { base: 20 }],
    'host by host, grows to 3 times': ['host by host', EFFECTS['grows from when it came'](3), 'slower'],
    'host by host, a bad quarter of an hour': ['host by host', EFFECTS.none, 'quiet', { background: 'a bad quarter of an hour' }],
    'pod by pod, day': ['pod by pod', EFFECTS.none, 'fine', { background: 'day' }],
    'pod by pod, day, 1.5 times': ['pod by pod', times(1.5), 'slower', { background: 'day' }],
    'pod by pod, wide, 1.5 times': ['pod by pod', times(1.5), 'slower', { noise: 'wide' }],
    'pod by pod, slow to start': ['pod by pod', EFFECTS['slow to start'], 'quiet'],
    'in steps, day': ['in steps', EFFECTS.none, 'fine', { background: 'day' }],
    'in steps, day, 1.4 times': ['in steps', times(1.4), 'slower', { background: 'day' }],
    'canary that stays, hits': ['canary that stays', EFFECTS.none, 'fine', { noise: 'hits', requests: 12000 }],
    'canary that stays, hits, 1.6 times': ['canary that stays', times(1.6), 'slower', { noise: 'hits', requests: 12000 }],
    'zone by zone': ['zone by zone', EFFECTS.none, 'fine'],
    'zone by zone, 1.4 times': ['zone by zone', times(1.4), 'slower'],
    'all but one host, day': ['all but one host', EFFECTS.none, 'fine', { background: 'day' }],
    'all but one host, 1.4 times': ['all but one host', times(1.4), 'slower'],
    'back and forth, day': ['back and forth', EFFECTS.none, 'quiet', { background: 'day' }],
    'back and forth, 1.5 times': ['back and forth', times(1.5), 'slower'],
    'both on each machine': ['both on each machine', EFFECTS.none, 'fine'],
    'both on each machine, 1.25 times': ['both on each machine', times(1.25), 'slower'],
    'tried out before': ['tried out before', EFFECTS.none, 'fine'],
    'tried out before, 1.6 times': ['tried out before', times(1.6), 'slower'],
    'at once, steady': ['at once', EFFECTS.none, 'fine'],
    'at once, steady, 1.4 times': ['at once', times(1.4), 'slower'],
    'at once, day': ['at once', EFFECTS.none, 'quiet', { background: 'day' }],
    'blue and green': ['blue and green', EFFECTS.none, 'fine', { hosts: 8 }],
    'blue and green, 1.5 times': ['blue and green', times(1.5), 'slower', { hosts: 8 }],
    'pods that come and go': ['pods that come and go', EFFECTS.none, 'fine'],
    'pods that come and go, 1.5 times': ['pods that come and go', times(1.5), 'slower'],
    'a tail': ['side by side', EFFECTS['a tail'](0.06, 7), 'slower', { requests: 8000 }],
    'hits': ['side by side', EFFECTS.none, 'fine', { noise: 'hits', requests: 8000 }],
    'grows to 2.5 times': ['side by side', EFFECTS['grows from when it came'](2.5), 'slower'],
    'errors': ['side by side', EFFECTS.none, 'slower', { errors: [0.005, 0.05] }],
    'errors of both': ['host by host', EFFECTS.none, 'quiet', { errors: [0.03, 0.03] }],
    'one endpoint of six, twice': ['side by side', EFFECTS['one endpoint'](2), 'slower', { requests: 9000, endpoints: 6 }],
    'one tenant of twelve, 2.5 times': ['side by side', EFFECTS['one tenant'](2.5), 'slower', { requests: 9000, tenants: 12 }],
    'faster': ['side by side', times(0.8), 'fine'],
    'coarse': ['side by side', EFFECTS.none, 'fine', { noise: 'coarse' }],
    'coarse, 1.5 times': ['side by side', times(1.5), 'slower', { noise: 'coarse' }],
    'heavy': ['side by side', EFFECTS.none, 'fine', { noise: 'heavy' }],
    'heavy, 1.5 times': ['side by side', times(1.5), 'slower', { noise: 'heavy' }],
    'neighbours': ['side by side', EFFECTS.none, 'fine', { background: 'neighbours' }],
    'neighbours, 1.4 times': ['side by side', times(1.4), 'slower', { background: 'neighbours' }],
    'under load only, twice': ['side by side', EFFECTS['under load'](2), 'slower', { background: 'day' }],
    'three in a row, the second was slow': ['three in a row', (c) => (c.version === 1 ? 1.6 : 1), 'fine', { versions: 3 }],
    'three in a row, the third is slow': ['three in a row', (c) => (c.version === 2 ? 1.6 : 1), 'slower', { versions: 3 }],
    'eight services at once, none slower': ['host by host', EFFECTS.none, 'fine', { services: 8, requests: 2500 }],
    'eight services at once, one slower': ['host by host', times(1.5), 'slower', { services: 8, requests: 2500 }],
    'a new callee is slower': ['side by side', EFFECTS.none, 'slower', { callee: 1.8 }],
    'few requests': ['side by side', EFFECTS.none, 'quiet', { requests: 90 }],
};

// ---- the spans ----

const attribute = ([key, value]) => ({ key, value: { stringValue: String(value) } });

class Spans {
    constructor(r) { this.r = r; this.resources = new Map(); }
    add(resource, span) {
        const key = JSON.stringify(resource);
        if (!this.resources.has(key)) this.resources.set(key, []);
        const start = BigInt(Math.round(span.at * 1e6)), end = BigInt(Math.round((span.at + span.ms) * 1e6)), zero = 1790000000n * 1000000000n;
        this.resources.get(key).push({ end, json: {
            traceId: span.trace, spanId: span.id, ...(span.parent ? { parentSpanId: span.parent } : {}), name: span.name, kind: span.kind, startTimeUnixNano: String(zero + start), endTimeUnixNano: String(zero + end),
            attributes: Object.entries(span.attributes || {}).map(attribute), ...(span.error ? { status: { code: 2 } } : {}),
        } });
    }
    write(file) {
        // As an agent for each resource would send them: batches by time.
        const lines = [];
        for (const [key, list] of this.resources)
            for (let i = 0; i < list.length; i += 200)
                lines.push([list[i].end, JSON.stringify({ resourceSpans: [{ resource: { attributes: Object.entries(JSON.parse(key)).map(attribute) }, scopeSpans: [{ spans: list.slice(i, i + 200).map((s) => s.json) }] }] })]);
        lines.sort(([a], [b]) => (a < b ? -1 : a > b));
        fs.writeFileSync(file, lines.map(([, line]) => line).join('\n') + '\n');
    }
}

const NAMES = ['2024.11.3', '2024.11.4', '2024.12.0'], HASHED = ['1.8.0+a41c', '1.9.0+77de', '1.10.0+0b3f'], PLAIN = ['118', '119', '120'];

function makeService(r, number, shape) {
    const [deployment, effect, , options = {}] = shape;
    const w = {
        r, number, name: `${['ledger', 'search', 'basket', 'quotes', 'seats', 'routes', 'rates', 'files'][number]}`, hosts: options.hosts || r.whole(5, 8), base: options.base || r.between(8, 60), came: 0.3,
        versions: r.one([NAMES, HASHED, PLAIN]), endpoints: Array.from({ length: options.endpoints || 1 }, (_, i) => `GET /v1/${['items', 'prices', 'users', 'lists', 'reports', 'tags'][i]}`), levels: new Map(), born: new Map(),
    };
    w.deploy = DEPLOYMENTS[deployment](w);
    w.background = BACKGROUNDS[options.background || 'steady'](w);
    w.noise = NOISES[options.noise || 'narrow'](w);
    w.effect = options.services && number !== 5 ? EFFECTS.none : effect;
    w.level = (host) => { if (!w.levels.has(host)) w.levels.set(host, Math.exp(0.04 * r.gauss())); return w.levels.get(host); };
    return w;
}

function addRequest(w, spans, options, at, share) {
    const { version, host, level = 1, attributes = {} } = w.deploy(share), r = w.r;
    if (!w.born.has(host + version)) w.born.set(host + version, share);
    const c = { w, share, version, host, age: share - w.born.get(host + version), endpoint: r.one(w.endpoints), tenant: `tenant-${r.whole(1, options.tenants || 4)}` };
    c.background = w.background(share, host);
    const effect = version ? w.effect(c) : 1;
    let ms = w.noise() * w.level(host) * level * c.background;
    ms = typeof effect === 'number' ? ms * effect : ms + effect.plus * Math.exp(0.2 * r.gauss());
    const trace = r.hex(32), ids = [r.hex(16), r.hex(16), r.hex(16), r.hex(16)];
    const calleeNew = options.callee && r.chance(0.5), calls = r.between(2, 4) * (calleeNew ? options.callee : 1);
    const own = { 'service.name': w.name, 'service.version': w.versions[version], 'host.name': host, ...attributes };
    const error = options.errors && r.chance(options.errors[version ? 1 : 0]);
    spans.add({ 'service.name': 'front', 'service.version': '3', 'host.name': 'front-1' }, { trace, id: ids[0], name: `GET /${w.name}`, kind: 2, at, ms: ms + calls + 2.4 });
    spans.add(own, { trace, id: ids[1], parent: ids[0], name: c.endpoint, kind: 2, at: at + 1, ms: ms + calls + 0.6, error, attributes: { 'http.route': c.endpoint.slice(4), tenant: c.tenant } });
    spans.add(own, { trace, id: ids[2], parent: ids[1], name: 'look up', kind: 3, at: at + 1.2 + ms * 0.4, ms: calls + 0.3 });
    spans.add({ 'service.name': 'index', 'service.version': calleeNew ? '41' : '40', 'host.name': `index-${calleeNew ? 'n' : 'o'}${r.whole(1, 5)}` }, { trace, id: ids[3], parent: ids[2], name: 'Look', kind: 2, at: at + 1.3 + ms * 0.4, ms: calls });
}

function makeShape(name, seed, file) {
    const shape = SHAPES[name], [, , truth, options = {}] = shape;
    const r = generator(seed * 7919 + [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) | 0, 7)), spans = new Spans(r);
    const minutes = r.between(240, 900), requests = options.requests || r.whole(4000, 7000);
    let culprit;
    for (let s = 0; s < (options.services || 1); s++) {
        const w = makeService(r, s, shape);
        let at = 0;
        for (let i = 0; i < requests; i++) { // a Poisson process
            at += (-Math.log(1 - r.next()) * minutes * MINUTE) / requests;
            if (at < minutes * MINUTE) addRequest(w, spans, options, at, at / (minutes * MINUTE));
        }
        if (!options.services || s === 5) culprit = options.callee ? { service: 'index', version: '41' } : { service: w.name, version: w.versions[options.versions === 3 ? 2 : 1] };
    }
    spans.write(file);
    return { truth, culprit };
}

function judge({ truth, culprit }, status, report) {
    const said = report.diagnosis?.verdict, findings = (report.findings || []).filter((f) => ['regression', 'outlier-instance'].includes(f.kind)), e = findings[0]?.evidence || {};
    if (truth === 'quiet') return status === 0 || status === 11 ? null : `an alarm: ${findings[0]?.title}`;
    if (truth === 'fine') return status === 0 && !findings.length ? null : findings.length ? `an alarm: ${findings[0].title}` : said === 'cannot-tell' ? 'cannot tell' : `status ${status}`;
    if (status !== 10 || !findings.length) return said === 'cannot-tell' ? 'missed: cannot tell' : `missed: ${said}`;
    if (e.service !== culprit.service || e.version !== culprit.version) return `blamed ${e.service} ${e.version}, not ${culprit.service} ${culprit.version}`;
    const others = findings.filter((f) => f.evidence.service !== culprit.service);
    return others.length ? `${others[0].evidence.service} is blamed, too` : null;
}

const [, , sonde, seeds = '3', first = '1', text = ''] = process.argv;
const here = path.dirname(new URL(import.meta.url).pathname), results = path.join(here, 'results', 'unseen-rollouts.jsonl');
const git = (...args) => execFileSync('git', ['-C', here, ...args], { encoding: 'utf8' }).trim();
const commit = process.env.COMMIT || git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '../src') ? '+' : '');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-unseen-'));
let right = 0, all = 0;
const kinds = {};
try {
    for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
        const wrong = {}, names = Object.keys(SHAPES).filter((n) => n.includes(text));
        for (const name of names) {
            const file = path.join(scratch, 'spans.jsonl'), made = makeShape(name, seed, file);
            const { status, stdout, stderr } = spawnSync(sonde, ['diagnose', '--json', '--gate', file], { encoding: 'utf8', maxBuffer: 1 << 28 });
            let report = {};
            try { report = JSON.parse(stdout); } catch { /* said below */ }
            const mistake = stdout ? judge(made, status, report) : `no answer: ${stderr}`;
            all++;
            if (!mistake) { right++; continue; }
            wrong[name] = mistake;
            kinds[mistake.split(':')[0]] = (kinds[mistake.split(':')[0]] || 0) + 1;
            console.log(`seed ${seed}: ${name}: ${mistake}`);
            if (process.env.KEEP) fs.copyFileSync(file, path.join(process.env.KEEP, `${name.replace(/\W+/g, '-')}-${seed}.jsonl`));
        }
        if (!text) fs.appendFileSync(results, `${JSON.stringify({ commit, seed, shapes: names.length, right: names.length - Object.keys(wrong).length, wrong })}\n`);
    }
    console.log(`${right} of ${all} rollouts judged rightly (${(right / all).toFixed(3)}); ${Object.entries(kinds).map(([what, n]) => `${n} ${what}`).join(', ') || 'none wrong'}`);
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
process.exitCode = right === all ? 0 : 1;
