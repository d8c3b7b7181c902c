// 28 rollouts by a fourth generator, of shapes that neither tests/system/rollouts.mjs nor bench/unseen-rollouts.mjs nor bench/other-rollouts.mjs
// has: queues with retries and dead letters, GraphQL with varying fields, bursts of cron, all traffic at once, A/B by a header, shards, caches that
// warm up, a failover in the same hour, back and forward again, clocks that differ, sampling by version, pipelines, sessions. OpenTelemetry's SDK
// makes the spans; latency is a constant and a gamma distribution. The truth of each of
// the first 25 was written before any was judged; three of them turned out to be undecidable (commits that run side by side from the beginning), so that
// these now have numbers as versions, and the commits rows of their own.
//   slower  the service and its newer version must be named, and nobody else
//   fine    no alarm, and "not slower"
//   quiet   no alarm; whether it can be told or not
//   untold  either an alarm is raised about one of the two versions of the service, or nothing can be told; never "not slower"
//   node bench/fourth-rollouts.mjs build/sonde [SEEDS [FIRST-SEED [TEXT]]]     only rollouts whose name contains TEXT
// A run of all rollouts appends a line for each seed to bench/results/fourth-rollouts.jsonl, with the commit. KEEP=DIR keeps the spans of what was wrong.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { execFileSync, spawnSync } from 'node:child_process';

const here = path.dirname(new URL(import.meta.url).pathname);
const require = createRequire(path.join(here, '..', 'examples', 'rollout', 'package.json'));
const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = require('@opentelemetry/api');
const { BasicTracerProvider } = require('@opentelemetry/sdk-trace-base');
const { Resource } = require('@opentelemetry/resources');
const { JsonTraceSerializer } = require('@opentelemetry/otlp-transformer');

const SECOND = 1e3, MINUTE = 60e3, EPOCH_S = Date.UTC(2026, 9, 20, 6) / 1000;
const time = (ms) => [EPOCH_S + Math.floor(ms / 1e3), Math.round((ms % 1e3) * 1e6)];

// xorshift128
class Chance {
    constructor(seed) {
        this.s = [seed ^ 0x9e3779b9, 0x7f4a7c15, (seed * 31) ^ 0x85ebca6b, 0xc2b2ae35].map((x) => x | 0 || 1);
        for (let i = 0; i < 40; i++) this.next();
    }
    next() {
        let t = this.s[3];
        this.s = [this.s[0], this.s[0], this.s[1], this.s[2]];
        t ^= t << 11;
        t ^= t >>> 8;
        this.s[0] = t ^ this.s[1] ^ (this.s[1] >>> 19);
        return (this.s[0] >>> 0) / 2 ** 32;
    }
    below(n) { return Math.floor(n * this.next()); }
    of(list) { return list[this.below(list.length)]; }
    happens(p) { return this.next() < p; }
    exponential(mean) { return -mean * Math.log(1 - this.next()); }
    // A fifth of it constant, the rest a gamma distribution of shape 3: mean ms.
    around(mean) { return 0.2 * mean + [1, 2, 3].reduce((sum) => sum + this.exponential(mean * 0.8 / 3), 0); }
    hex(bytes) { return Array.from({ length: bytes }, () => this.below(256).toString(16).padStart(2, '0')).join(''); }
}

class World {
    constructor(seed) {
        this.r = new Chance(seed);
        this.tracers = new Map();
        this.spans = [];
        this.traits = new Map();
    }
    // What is the same for a name each time it is asked for.
    trait(name, draw) {
        if (!this.traits.has(name)) this.traits.set(name, draw());
        return this.traits.get(name);
    }
    level(host) { return this.trait(`level ${host}`, () => 0.94 + 0.12 * this.r.next()); }
    tracer(service, version, host, resource) {
        return this.trait(`tracer ${service} ${version} ${host} ${JSON.stringify(resource)}`, () => new BasicTracerProvider({
            resource: new Resource({ 'service.name': service, 'service.version': version, 'host.name': host, ...resource }),
            idGenerator: { generateTraceId: () => this.r.hex(16), generateSpanId: () => this.r.hex(8) },
            spanProcessors: [{ onStart() {}, onEnd: (span) => this.spans.push(span), shutdown: async () => {}, forceFlush: async () => {} }],
        }).getTracer('fourth'));
    }
    // Begins a span at a time; { end(ms, failed), context }. who: { service, version, host, resource }.
    begin(who, name, kind, at, { parent = ROOT_CONTEXT, attributes, links } = {}) {
        const skew = this.skew ? this.skew(who.host) : 0;
        const span = this.tracer(who.service, who.version, who.host, who.resource).startSpan(name, { kind: SpanKind[kind.toUpperCase()], startTime: time(at + skew), attributes, links }, parent);
        return {
            context: trace.setSpan(ROOT_CONTEXT, span), link: { context: span.spanContext() },
            end: (ms, failed) => { if (failed) span.setStatus({ code: SpanStatusCode.ERROR }); span.end(time(ms + skew)); return ms; },
        };
    }
    // A span of so many ms; returns when it ends.
    did(who, name, kind, at, ms, options = {}) { return this.begin(who, name, kind, at, options).end(at + ms, options.failed); }
    // A call over the network, seen from both sides; serve(at, context) returns when the callee is done.
    call(from, name, at, parent, serve) {
        const client = this.begin(from, name, 'client', at, { parent });
        return client.end(serve(at + 0.2, client.context) + 0.2);
    }
    write(file) {
        const end = (span) => span.endTime[0] * 1e9 + span.endTime[1], spans = this.spans.sort((a, b) => end(a) - end(b)), lines = [];
        for (let i = 0; i < spans.length; i += 400) lines.push(Buffer.from(JsonTraceSerializer.serializeRequest(spans.slice(i, i + 400))).toString());
        fs.writeFileSync(file, `${lines.join('\n')}\n`);
    }
}

// Arrivals as of a Poisson process: each(at) for about `count` of them.
function poisson(w, count, minutes, each) {
    for (let at = 0; (at += w.r.exponential(minutes * MINUTE / count)) < minutes * MINUTE;) each(at, at / (minutes * MINUTE));
}

const either = (w, service, versions, hosts = 5, share = 0.5) => {
    const newer = w.r.happens(share) ? 1 : 0;
    return { newer, who: { service, version: versions[newer], host: `${service}-${'xy'[newer]}${w.r.below(hosts)}` } };
};
const HASHES = ['9c1f0de', '41b77aa'], DATES = ['2026-10-13', '2026-10-20'], NUMBERS = ['3.9.4', '3.10.0'];

// ---- the shapes: (world, options) => { service, version } of the newer one ----

// An API sends messages; workers of both versions take them, fail and try again after a while; what fails three times is a dead letter.
function queue(w, { factor = 1, fails = [0.1, 0.1] }) {
    poisson(w, 3000, 90, (at) => {
        const api = { service: 'api', version: '12', host: `api-${w.r.below(3)}` }, request = w.begin(api, 'POST /mails', 'server', at);
        const sent = w.begin(api, 'mails publish', 'producer', at + 1, { parent: request.context, attributes: { 'messaging.destination.name': 'mails' } });
        sent.end(at + 1.6);
        request.end(at + 1 + w.r.around(4));
        let now = at + 1.6;
        for (let attempt = 1; attempt <= 3; attempt++) {
            now += 2 + w.r.exponential(6) + (attempt > 1 ? 4 * SECOND * attempt : 0);
            const { who, newer } = either(w, 'mailer', NUMBERS), failed = w.r.happens(fails[newer]), ms = w.r.around(40) * w.level(who.host) * (newer ? factor : 1);
            now = w.did(who, 'mails process', 'consumer', now, ms, { parent: sent.context, failed, attributes: { 'messaging.destination.name': 'mails', 'messaging.delivery.attempt': attempt } });
            if (!failed) return;
        }
        w.did({ service: 'morgue', version: '1', host: 'morgue-0' }, 'mails.dead process', 'consumer', now + 5, w.r.around(3), { parent: sent.context });
    });
    return { service: 'mailer', version: NUMBERS[1] };
}

// A request asks for some of six fields; each resolver calls a service of its own, all at once. The newer version's clients may ask for more.
function graphql(w, { resolver = 1, wanted = [0.5, 0.5], versions = NUMBERS }) {
    const fields = ['price', 'stock', 'reviews', 'similar', 'seller', 'images'];
    poisson(w, 4000, 60, (at) => {
        const { who, newer } = either(w, 'graph', versions), chosen = fields.filter(() => w.r.happens(wanted[newer]));
        const request = w.begin(who, 'POST /graphql', 'server', at, { attributes: { 'graphql.operation.type': 'query' } });
        let end = at + 2 * w.level(who.host);
        for (const field of chosen) {
            const span = w.begin(who, `resolve ${field}`, 'internal', at + 1.5, { parent: request.context });
            const own = w.r.around(6) * w.level(who.host) * (newer && field === 'reviews' ? resolver : 1), callee = { service: `${field}-service`, version: '1', host: `${field}-${w.r.below(2)}` };
            const called = w.call(who, `GET /${field}`, at + 1.5 + own, span.context, (t, parent) => w.did(callee, `GET /${field}`, 'server', t, w.r.around(8 + 2 * fields.indexOf(field)), { parent }));
            end = Math.max(end, span.end(called));
        }
        request.end(end + w.r.around(3) * w.level(who.host));
    });
    return { service: 'graph', version: versions[1] };
}

// Every ten minutes sixty requests within two seconds, which slow each other; the rest comes evenly.
function bursts(w, { factor = 1 }) {
    const one = (at, crowd) => {
        const host = `rep-${w.r.below(6)}`, newer = at > (40 + 3 * Number(host.slice(4))) * MINUTE;
        const who = { service: 'reports', version: NUMBERS[newer ? 1 : 0], host };
        w.did(who, 'GET /reports/{id}', 'server', at, w.r.around(25) * w.level(host) * crowd * (newer ? factor : 1), { attributes: { 'http.route': '/reports/{id}' } });
    };
    poisson(w, 2500, 100, (at) => one(at, 1));
    for (let burst = 5; burst < 100; burst += 10) for (let i = 0; i < 60; i++) one(burst * MINUTE + i * 33, 1 + i / 15);
    return { service: 'reports', version: NUMBERS[1] };
}

// All requests go to other hosts from one moment on.
function blueGreen(w, { factor = 1, versions = HASHES }) {
    poisson(w, 4000, 80, (at, share) => {
        const newer = share > 0.55 ? 1 : 0, host = `${['blue', 'green'][newer]}-${w.r.below(8)}`, who = { service: 'accounts', version: versions[newer], host };
        const request = w.begin(who, 'GET /accounts', 'server', at), own = w.r.around(18) * w.level(host) * (newer ? factor : 1);
        const called = w.call(who, 'SELECT accounts', at + own / 2, request.context, (t, parent) => w.did({ service: 'ledger-db', version: '16', host: 'db-0' }, 'SELECT accounts', 'server', t, w.r.around(4), { parent }));
        request.end(called + own / 2);
    });
    return { service: 'accounts', version: versions[1] };
}

// A header decides; the spans have it as an attribute, so that it goes with the version.
function byHeader(w, { factor = 1 }) {
    poisson(w, 4000, 60, (at) => {
        const { who, newer } = either(w, 'ranking', DATES, 4), edge = { service: 'edge', version: '8', host: `edge-${w.r.below(2)}` }, attributes = { 'http.request.header.x-variant': 'ab'[newer], 'http.route': '/rank' };
        const request = w.begin(edge, 'GET /rank', 'server', at, { attributes });
        request.end(w.call(edge, 'GET /rank', at + 0.7, request.context, (t, parent) => w.did(who, 'GET /rank', 'server', t, w.r.around(30) * w.level(who.host) * (newer ? factor : 1), { parent, attributes })) + 0.5);
    });
    return { service: 'ranking', version: DATES[1] };
}

// A router asks one of eight shards by key. One of them may be slow later; the newer router may ask a second one for some keys.
function shards(w, { hot = 1, second = 0, versions = NUMBERS }) {
    poisson(w, 4000, 60, (at, share) => {
        const { who, newer } = either(w, 'router', versions), key = Math.floor(8 * w.r.next() ** 1.5), request = w.begin(who, 'GET /rows', 'server', at);
        const ask = (from, shard) => w.call(who, 'query', from, request.context, (t, parent) => w.did({ service: 'shard', version: '9.2', host: `shard-${shard}` }, 'query', 'server', t, w.r.around(9) * (shard === 3 && share > 0.5 ? hot : 1), { parent, attributes: { 'db.namespace': `rows_${shard}` } }));
        let now = ask(at + 1, key);
        if (newer && w.r.happens(second)) now = ask(now + 0.1, (key + 1) % 8);
        request.end(now + w.r.around(2) * w.level(who.host));
    });
    return { service: 'router', version: versions[1] };
}

// After a host was switched its cache is empty: misses take ten times as long, and become rare within minutes.
function warming(w, { minutes = 4, factor = 1 }) {
    poisson(w, 5000, 120, (at) => {
        const host = `cat-${w.r.below(6)}`, came = (50 + 2 * Number(host.slice(4))) * MINUTE, newer = at > came ? 1 : 0;
        const missed = w.r.happens(0.08 + (newer ? 0.7 * Math.exp(-(at - came) / (minutes * MINUTE)) : 0)), who = { service: 'catalogue', version: DATES[newer], host };
        const request = w.begin(who, 'GET /items', 'server', at), own = w.r.around(3) * w.level(host) * (newer ? factor : 1);
        request.end(missed ? w.call(who, 'load item', at + own, request.context, (t, parent) => w.did({ service: 'items-db', version: '5', host: 'items-db-0' }, 'load item', 'server', t, w.r.around(30), { parent })) : at + own);
    });
    return { service: 'catalogue', version: DATES[1] };
}

// Two regions; one goes away, the other gets its load and is slower for both versions. The newer version came to the other one a little before.
function failover(w, { factor = 1, load = 1.4 }) {
    poisson(w, 5000, 100, (at, share) => {
        const gone = share > 0.6, region = gone || w.r.happens(0.5) ? 'west' : 'east', index = w.r.below(6), host = `${region}-${index}`;
        const newer = region === 'west' ? share > 0.3 + 0.02 * index : share > 0.42 + 0.02 * index;
        const who = { service: 'session', version: NUMBERS[newer ? 1 : 0], host, resource: { 'cloud.region': region } };
        w.did(who, 'PUT /session', 'server', at, w.r.around(region === 'west' ? 16 : 14) * w.level(host) * (gone ? load : 1) * (newer ? factor : 1));
    });
    return { service: 'session', version: NUMBERS[1] };
}

// Versions one after the other on the same hosts: [version, until (share of the time), factor].
function afterwards(w, { steps }) {
    poisson(w, 5000, 150, (at, share) => {
        const [version, , factor] = steps.find(([, until]) => share < until), host = `pay-${w.r.below(6)}`;
        w.did({ service: 'payments', version, host }, 'POST /payments', 'server', at, w.r.around(35) * w.level(host) * factor);
    });
    return { service: 'payments', version: steps.at(-1)[0] };
}

// Clocks are up to 80 ms off, so that callees begin before they are called; a callee has two versions.
function skewed(w, { factor = 1 }) {
    w.skew = (host) => w.trait(`skew ${host}`, () => 160 * (w.r.next() - 0.5));
    poisson(w, 3000, 60, (at) => {
        const front = { service: 'front', version: '4', host: `front-${w.r.below(3)}` }, { who, newer } = either(w, 'tax', NUMBERS, 4), request = w.begin(front, 'GET /basket', 'server', at);
        const own = w.r.around(10), called = w.call(front, 'GET /tax', at + own / 2, request.context, (t, parent) => w.did(who, 'GET /tax', 'server', t, w.r.around(12) * w.level(who.host) * (newer ? factor : 1), { parent }));
        request.end(called + own / 2);
    });
    return { service: 'tax', version: NUMBERS[1] };
}

// The older version keeps one trace in ten, the newer one all.
function sampled(w, { factor = 1, versions = NUMBERS }) {
    poisson(w, 12000, 60, (at) => {
        const { who, newer } = either(w, 'feed', versions, 5, 0.3), ms = w.r.around(22) * w.level(who.host) * (newer ? factor : 1);
        if (!newer && w.r.happens(0.9)) return;
        w.did(who, 'GET /feed', 'server', at, ms, { attributes: { 'sampling.probability': newer ? 1 : 0.1 } });
    });
    return { service: 'feed', version: versions[1] };
}

// A job every two minutes for a day, of five steps; the newer version from noon on.
function pipeline(w, { step = 1 }) {
    for (let i = 0; i < 720; i++) {
        const at = i * 2 * MINUTE + w.r.exponential(SECOND), newer = i >= 360 ? 1 : 0, who = { service: 'exports', version: DATES[newer], host: `batch-${w.r.below(4)}` }, job = w.begin(who, 'export', 'internal', at);
        let now = at + 5;
        for (const [name, mean] of [['list', 40], ['read', 400], ['join', 250], ['compress', 300], ['upload', 150]])
            now = w.did(who, name, 'internal', now, w.r.around(mean) * w.level(who.host) * (newer && name === 'join' ? step : 1), { parent: job.context }) + 1;
        job.end(now);
    }
    return { service: 'exports', version: DATES[1] };
}

// Sessions last minutes, as long as people stay; the messages within are what is served.
function sessions(w, { factor = 1 }) {
    poisson(w, 500, 90, (at) => {
        const { who, newer } = either(w, 'chat', HASHES), session = w.begin(who, 'GET /socket', 'server', at), stays = w.r.exponential(4 * MINUTE);
        let now = at + 20;
        while ((now += w.r.exponential(25 * SECOND)) < at + stays) {
            const ms = w.r.around(15) * w.level(who.host) * (newer ? factor : 1);
            w.did(who, 'message', 'server', now, ms, { parent: session.context });
            now += ms;
        }
        session.end(now);
    });
    return { service: 'chat', version: HASHES[1] };
}

const ROLLOUTS = {
    'queue with retries, alike': [queue, 'fine'],
    'queue with retries, the newer worker fails three times as often': [queue, 'slower', { fails: [0.1, 0.3] }],
    'queue with retries, the newer worker takes 1.5 times': [queue, 'slower', { factor: 1.5 }],
    'GraphQL, alike': [graphql, 'fine'],
    'GraphQL, clients of the newer version ask for more': [graphql, 'quiet', { wanted: [0.35, 0.6] }],
    'GraphQL, one resolver takes 3 times': [graphql, 'slower', { resolver: 3 }],
    'bursts of cron, alike': [bursts, 'fine'],
    'bursts of cron, 1.5 times': [bursts, 'slower', { factor: 1.5 }],
    'all traffic at once, alike': [blueGreen, 'quiet'],
    'all traffic at once, 1.7 times': [blueGreen, 'slower', { factor: 1.7 }],
    'A/B by header, alike': [byHeader, 'fine'],
    'A/B by header, 1.4 times': [byHeader, 'slower', { factor: 1.4 }],
    'shards, one is slow later': [shards, 'quiet', { hot: 4 }],
    'shards, the newer router asks a second one': [shards, 'slower', { second: 0.5 }],
    'a cache warms up': [warming, 'quiet', {}],
    'a cache warms up, and all takes 1.8 times': [warming, 'slower', { factor: 1.8, minutes: 2 }],
    'failover in the same hour, alike': [failover, 'quiet'],
    'failover in the same hour, 1.6 times': [failover, 'slower', { factor: 1.6 }],
    'back, and the next one is good': [afterwards, 'fine', { steps: [['2026-09-01', 0.25, 1], ['2026-09-15', 0.4, 1.6], ['2026-09-01', 0.65, 1], ['2026-09-16', 1, 1]] }],
    'back, and forward again': [afterwards, 'slower', { steps: [['ab12f90', 0.25, 1], ['77e0c3d', 0.4, 1.5], ['ab12f90', 0.65, 1], ['77e0c3d', 1, 1.5]] }],
    'clocks differ, alike': [skewed, 'fine'],
    'clocks differ, the callee takes 1.8 times': [skewed, 'slower', { factor: 1.8 }],
    'sampled by version, 1.35 times': [sampled, 'slower', { factor: 1.35 }],
    'a pipeline, one step takes twice': [pipeline, 'slower', { step: 2 }],
    'sessions, alike': [sessions, 'fine'],
    'GraphQL by commits, one resolver takes 3 times': [graphql, 'untold', { resolver: 3, versions: HASHES }],
    'shards by commits, one router asks a second one': [shards, 'untold', { second: 0.5, versions: HASHES }],
    'sampled by commit, 1.35 times': [sampled, 'untold', { factor: 1.35, versions: HASHES }],
};

const ALARMS = ['regression', 'less-throughput', 'growing-queue'];

function judge(truth, culprit, status, report) {
    const alarms = report.findings.filter((f) => ALARMS.includes(f.kind)), verdict = report.diagnosis?.verdict;
    if (truth === 'untold') return verdict === 'not-slower' ? verdict : alarms.find((f) => f.evidence.service !== culprit.service) ? `blamed ${alarms[0].evidence.service}` : null;
    if (truth !== 'slower') return alarms.length ? `an alarm: ${alarms[0].title}` : truth === 'fine' && verdict !== 'not-slower' ? `${verdict}` : null;
    if (!alarms.length) return `missed: ${verdict}`;
    const wrong = alarms.find((f) => f.evidence.service !== culprit.service || f.evidence.version !== culprit.version);
    return wrong ? `blamed ${wrong.evidence.service} ${wrong.evidence.version}: ${wrong.title}` : status === 10 ? null : `status ${status}`;
}

const [, , sonde, seeds = '1', first = '1', text = ''] = process.argv, scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-fourth-')), file = path.join(scratch, 'spans.jsonl');
const git = (...args) => execFileSync('git', ['-C', here, ...args], { encoding: 'utf8' }).trim();
const commit = process.env.COMMIT || git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '../src') ? '+' : '');
const names = Object.keys(ROLLOUTS).filter((n) => n.includes(text));
let right = 0, all = 0;
try {
    for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
        const wrong = {};
        for (const name of names) {
            const [plan, truth, options = {}] = ROLLOUTS[name], w = new World(seed * 7919 + Object.keys(ROLLOUTS).indexOf(name)), culprit = plan(w, options);
            w.write(file);
            const { status, stdout, stderr } = spawnSync(sonde, ['diagnose', '--json', '--gate', file], { encoding: 'utf8', maxBuffer: 1 << 28 });
            const mistake = stdout ? judge(truth, culprit, status, JSON.parse(stdout)) : `no answer: ${stderr}`;
            all++;
            if (!mistake) { right++; continue; }
            wrong[name] = mistake;
            console.log(`seed ${seed}: ${name}: ${mistake}`);
            if (process.env.KEEP) fs.copyFileSync(file, path.join(process.env.KEEP, `fourth-${name.replace(/\W+/g, '-')}-${seed}.jsonl`));
        }
        if (!text) fs.appendFileSync(path.join(here, 'results', 'fourth-rollouts.jsonl'), `${JSON.stringify({ commit, seed, rollouts: names.length, right: names.length - Object.keys(wrong).length, wrong })}\n`);
    }
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(`${right} of ${all} rollouts judged rightly`);
process.exitCode = right === all ? 0 : 1;
