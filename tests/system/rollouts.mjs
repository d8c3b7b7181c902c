// Rollouts with known truth: fleets whose spans OpenTelemetry's SDK makes with chosen times, as the collector's JSON lines.
// A scenario (SCENARIOS, below) plans requests; the fleet lays out their spans; what sonde should say stands beside it.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { root } from './helper.mjs';
import { randomFrom } from './spans.mjs';

const require = createRequire(path.join(root, 'examples', 'rollout', 'package.json'));
const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = require('@opentelemetry/api');
const { BasicTracerProvider, AlwaysOnSampler } = require('@opentelemetry/sdk-trace-base');
const { Resource } = require('@opentelemetry/resources');
const { JsonTraceSerializer } = require('@opentelemetry/otlp-transformer');

const EPOCH_MS = Date.UTC(2026, 8, 14, 9);
const EDGE_MS = 0.3; // between a client's span and its server's, on either side
const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL, producer: SpanKind.PRODUCER, consumer: SpanKind.CONSUMER };

const hrTime = (ms) => { const ns = Math.round(ms * 1e6); return [Math.floor(EPOCH_MS / 1000) + Math.floor(ns / 1e9), ns % 1e9]; };

export class Fleet {
    constructor(seed) {
        this.random = randomFrom(seed);
        this.providers = new Map();
        this.finished = [];
        this.ids = randomFrom(seed ^ 0x5bd1e995);
        this.levels = new Map();
    }

    uniform(low, high) { return low + (high - low) * this.random(); }
    pick(list) { return list[Math.floor(this.random() * list.length)]; }
    normal() { return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random()); }
    noise(sigma = 0.25) { return Math.exp(sigma * this.normal()); }

    // How fast a host is, the same in every request: hosts differ by a few percent.
    level(host, spread = 0.04) {
        if (!this.levels.has(host)) this.levels.set(host, Math.exp(spread * this.normal()));
        return this.levels.get(host);
    }

    hex(bytes) {
        let text = '';
        for (let i = 0; i < bytes; i++) text += Math.floor(this.ids() * 256).toString(16).padStart(2, '0');
        return text;
    }

    tracer(who) {
        const key = JSON.stringify(who);
        if (!this.providers.has(key)) {
            const provider = new BasicTracerProvider({
                resource: new Resource(Object.fromEntries(Object.entries({ 'service.name': who.service, 'service.version': who.version, 'host.name': who.host, ...who.attributes }).filter(([, value]) => value !== undefined))),
                sampler: new AlwaysOnSampler(),
                idGenerator: { generateTraceId: () => this.hex(16), generateSpanId: () => this.hex(8) },
                spanProcessors: [{ onStart() {}, onEnd: (span) => this.finished.push(span), shutdown: async () => {}, forceFlush: async () => {} }],
            });
            this.providers.set(key, provider.getTracer('rollouts'));
        }
        return this.providers.get(key);
    }

    // Lays out a tree of operations from a time on; returns when its span ends. node: { who, name, kind, own (ms), attributes, error, calls, atOnce,
    // client: the caller's span is made too, detached: nobody waits for it, after: ms until it begins, around: extra ms in the client's span }.
    run(at, node, parent = ROOT_CONTEXT, links) {
        const span = this.tracer(node.who).startSpan(node.name, { kind: KINDS[node.kind || 'internal'], startTime: hrTime(at), attributes: node.attributes, links }, parent);
        const context = trace.setSpan(ROOT_CONTEXT, span);
        const own = node.own ?? 1, calls = node.calls || [];
        let clock = at + own / 2, end = clock;
        for (const call of calls) {
            const began = node.atOnce ? at + own / 2 : clock;
            let ended;
            if (call.client) {
                const edge = EDGE_MS + (call.around || 0) / 2;
                const client = this.tracer(node.who).startSpan(call.clientName || call.name, { kind: KINDS[call.detached ? 'producer' : 'client'], startTime: hrTime(began), attributes: call.clientAttributes }, context);
                const inner = this.run(began + edge + (call.after || 0), call, call.linked ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, client), call.linked ? [{ context: client.spanContext() }] : undefined);
                ended = call.detached ? began + 0.4 : inner + edge;
                client.end(hrTime(ended));
            } else {
                ended = this.run(began + (call.after || 0), call, context);
                if (call.detached) ended = began;
            }
            end = Math.max(end, ended);
            clock = ended;
        }
        end += own / 2;
        if (node.error) {
            if (!node.statusUnset) span.setStatus({ code: SpanStatusCode.ERROR, message: 'failed' });
            if (node.exception) span.recordException(new Error('failed'), hrTime(end));
        }
        span.end(hrTime(end));
        return end;
    }

    // The collector's file: a line per batch, in order of the spans' ends.
    write(file, batch = 500) {
        const time = (span) => span.endTime[0] * 1e9 + span.endTime[1];
        const spans = this.finished.sort((a, b) => time(a) - time(b)), lines = [];
        for (let i = 0; i < spans.length; i += batch) lines.push(Buffer.from(JsonTraceSerializer.serializeRequest(spans.slice(i, i + batch))).toString());
        fs.writeFileSync(file, lines.join('\n') + '\n');
    }
}

// ---- what the scenarios share ----

const hosts = (name, count) => Array.from({ length: count }, (_, i) => `${name}-${i + 1}`);

// Requests at even distances with some jitter, over minutes.
function traffic(fleet, count, minutes, each) {
    for (let i = 0; i < count; i++) each(((i + fleet.random()) / count) * minutes * 60e3, i);
}

// A service of two versions on hosts of their own behind a gateway of one version; `plan` sets what differs.
// plan: { requests, minutes, newerFrom (share of the time), newerShare, rolls (share of the time in which hosts get the newer version one by one), factor(context), own, extra(context), ... }
function pair(fleet, plan) {
    const p = { service: 'orders', older: '2.3.0', newer: '2.4.0', requests: 2400, minutes: 60, newerFrom: 0, newerShare: 0.5, hosts: 6, own: 20, ...plan };
    const olderHosts = hosts('node-a', p.hosts), newerHosts = p.sameHosts ? olderHosts : hosts('node-b', p.newerHosts || p.hosts);
    traffic(fleet, p.requests, p.minutes, (at, i) => {
        const share = at / (p.minutes * 60e3);
        let isNewer, host;
        if (p.rolls) { // host by host, in that share of the time
            host = fleet.pick(olderHosts);
            isNewer = share >= p.newerFrom + (p.rolls * olderHosts.indexOf(host)) / p.hosts;
        } else {
            isNewer = share >= p.newerFrom && fleet.random() < p.newerShare;
            host = fleet.pick(isNewer ? newerHosts : olderHosts);
        }
        const context = { at, i, share, isNewer, host, fleet, version: isNewer ? p.newer : p.older };
        const attributes = p.attributes ? p.attributes(context) : {};
        Object.assign(context, { attributes });
        const own = p.own * fleet.level(host) * fleet.noise() * (p.drift ? p.drift(share) : 1) * (isNewer && p.factor ? p.factor(context) : 1);
        const node = {
            who: { service: p.service, version: context.version, host, attributes: p.resource?.(context) }, client: true,
            name: p.name ? p.name(context) : 'GET /orders', kind: 'server', own, attributes,
            calls: p.calls ? p.calls(context) : [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: 4 * fleet.noise() }],
            atOnce: p.atOnce?.(context), around: p.around?.(context), error: p.error?.(context), exception: true, statusUnset: p.statusUnset,
        };
        if (p.bare) return fleet.run(at, { ...node, client: false });
        fleet.run(at, { who: { service: 'gateway', version: '1.0.0', host: 'gw-1' }, name: p.gatewayName?.(context) || 'GET /shop', kind: 'server', own: 2 * fleet.noise() + (p.gatewayOwn?.(context) || 0), calls: [node] });
    });
    return { service: p.service, version: p.newer, base: p.older };
}

// One service through a history of versions: [version, factor, requests] one after the other, on the same hosts.
function history(fleet, steps, plan = {}) {
    const machines = hosts('node', plan.hosts || 6);
    let at = 0;
    for (const [version, factor, requests = 900, error = 0] of steps)
        for (let i = 0; i < requests; i++) {
            at += 1500 * fleet.uniform(0.8, 1.2);
            const host = fleet.pick(machines);
            fleet.run(at, { who: { service: 'cart', version, host }, name: 'GET /cart', kind: 'server', own: 18 * factor * fleet.level(host) * fleet.noise(), error: fleet.random() < error });
        }
}

// Six services in a row, each on three hosts of three hardware generations; service s3 gets version 42 on half of its hosts.
function chain(fleet, factor) {
    const generations = ['gen4', 'gen5', 'gen6'];
    traffic(fleet, 3000, 60, (at) => {
        const make = (k) => {
            const generation = fleet.pick(generations), isNewer = k === 3 && fleet.random() < 0.5, host = `s${k}-${generation}-${isNewer ? 'n' : 'o'}${1 + Math.floor(fleet.random() * 4)}`;
            return {
                who: { service: `s${k}`, version: k === 3 ? (isNewer ? '42' : '41') : '7', host, attributes: { 'hardware.generation': generation } }, client: k > 1,
                name: `POST /s${k}`, kind: 'server', own: 5 * fleet.level(host) * fleet.noise() * (isNewer && generation === 'gen5' ? factor : 1), calls: k < 6 ? [make(k + 1)] : [],
            };
        };
        fleet.run(at, make(1));
    });
    return { service: 's3', version: '42', base: '41', where: /gen5/, notWhere: /gen4|gen6/ };
}

const slower = (more) => ({ verdict: 'slower', status: 10, ...more });
const notSlower = (more) => ({ verdict: 'not-slower', status: 0, ...more });
const harmless = { harmless: true }; // whether that can be told or not
const cannotTell = (more) => ({ verdict: 'cannot-tell', status: 11, ...more });

// id: the scenario; plan(fleet): makes the spans, may return what is expected of the finding; expect: verdict, exit status of --gate, and
// service, version, base (the version the remedy names), since, where, severity; args: further arguments of `diagnose`.
export const SCENARIOS = {
    // ---- the base ----
    'slow already, one version later': { expect: slower({ service: 'cart', version: '1.12.0', base: '1.10.0', since: '1.11.0' }), plan: (f) => history(f, [['1.10.0', 1], ['1.11.0', 1.5], ['1.12.0', 1.5]]) },
    'slow already, several versions later': { expect: slower({ service: 'cart', base: '1.8.0', since: '1.9.0' }), plan: (f) => history(f, [['1.6.0', 1], ['1.7.0', 1.02], ['1.8.0', 0.99], ['1.9.0', 1.4], ['1.10.0', 1.41], ['1.11.0', 1.38]].map((s) => [...s, 600])) },
    'slow once, mended since': { expect: notSlower(), plan: (f) => history(f, [['1.10.0', 1], ['1.11.0', 1.6], ['1.12.0', 1]]) },
    'an older number deployed later': { expect: slower({ service: 'cart', version: '1.9.9', base: '2.0.0' }), plan: (f) => history(f, [['2.0.0', 1], ['1.9.9', 1.5]]) },
    'commits as versions': { expect: slower({ service: 'cart', version: '0b71e2f', base: 'f3a9c41' }), plan: (f) => history(f, [['f3a9c41', 1], ['0b71e2f', 1.5]]) },
    'commits, both from the beginning': {
        // The first request is of the slow one, so that the fast one would count as the newer if nothing else were asked.
        expect: cannotTell(), plan: (f) => void pair(f, { bare: true, older: 'f3a9c41', newer: '0b71e2f', newerFrom: 0.0005, factor: () => 1 / 1.5 }),
    },
    'commits, one of them a canary from the beginning': {
        expect: slower(), plan: (f) => pair(f, { bare: true, requests: 4000, older: '0b71e2f', newer: 'f3a9c41', newerShare: 0.1, factor: () => 1.6 }),
    },
    'commits, of which the slower one has a tenth of the requests or nine': {
        // Whether it is a canary that got faster, or what is left of a faster version.
        expect: cannotTell(), plan: (f) => void pair(f, { bare: true, requests: 4000, older: 'f3a9c41', newer: '0b71e2f', newerShare: 0.15, factor: () => 1 / 1.5 }),
    },
    'commits, one of which takes a fifth longer': {
        expect: cannotTell(), plan: (f) => void pair(f, { bare: true, requests: 6000, hosts: 10, older: 'f3a9c41', newer: '0b71e2f', newerFrom: 0.0003, factor: () => 1 / 1.2 }),
    },
    // ---- time ----
    'slower already, shortly before the deployment': {
        expect: harmless, plan: (f) => void pair(f, { bare: true, requests: 4800, minutes: 600, newerFrom: 0.6, newerShare: 1, sameHosts: true, drift: (share) => (share < 0.55 ? 1 : 1.3) }),
    },
    'drift of both versions': { expect: notSlower(), plan: (f) => void pair(f, { requests: 4000, newerFrom: 0.4, drift: (share) => Math.exp(0.5 * share) }) },
    'a daily peak when the new version comes': { expect: notSlower(), plan: (f) => void pair(f, { requests: 4000, minutes: 600, newerFrom: 0.45, newerShare: 0.4, drift: (share) => 1 + 0.5 * Math.exp(-(((share - 0.7) / 0.2) ** 2)) }) },
    'slower beside drift': { plan: (f) => pair(f, { requests: 4000, newerFrom: 0.4, drift: (share) => Math.exp(-0.4 * share), factor: () => 1.5 }), expect: slower() },
    'host by host, beside a daily peak': {
        plan: (f) => pair(f, { bare: true, requests: 6000, minutes: 600, newerFrom: 0.25, rolls: 0.2, drift: (share) => 1 + 0.6 * Math.exp(-(((share - 0.6) / 0.25) ** 2)), factor: () => 1.5 }), expect: slower(),
    },
    'host by host, beside a daily peak, harmless': {
        expect: notSlower(), plan: (f) => void pair(f, { bare: true, requests: 6000, minutes: 600, newerFrom: 0.25, rolls: 0.2, drift: (share) => 1 + 0.6 * Math.exp(-(((share - 0.6) / 0.25) ** 2)) }),
    },
    // ---- the mix ----
    'more of an expensive tenant': {
        expect: notSlower(), mix: /tenant/, plan: (f) => void pair(f, {
            requests: 4000, attributes: ({ isNewer }) => ({ tenant: f.random() < (isNewer ? 0.6 : 0.15) ? 'big' : 'small' }),
            calls: ({ attributes }) => [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: (attributes.tenant === 'big' ? 90 : 5) * f.noise() }],
        }),
    },
    'more of an expensive sub-operation': {
        expect: notSlower(), mix: /./, plan: (f) => void pair(f, {
            requests: 4000, calls: ({ isNewer, version, host }) => { const export_ = f.random() < (isNewer ? 0.55 : 0.15); return [{ who: { service: 'orders', version, host }, name: export_ ? 'export' : 'list', own: (export_ ? 80 : 4) * f.noise() }]; },
        }),
    },
    'more of a few expensive tenants of many': {
        expect: notSlower(), mix: /tenant/, plan: (f) => void pair(f, {
            requests: 6000, attributes: ({ isNewer }) => ({ 'app.tenant': `t${Math.floor(f.random() < (isNewer ? 0.5 : 0.12) ? 4 * f.random() : 4 + 36 * f.random())}`, 'app.region': f.pick(['eu', 'us', 'ap']), 'app.plan': f.pick(['free', 'team', 'large']) }),
            calls: ({ attributes }) => [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: (Number(attributes['app.tenant'].slice(1)) < 4 ? 70 : 5) * f.noise() }],
        }),
    },
    'more classes of requests than are told apart': {
        // The newer version comes when there is no room for classes any more: its requests must not count as those that have no sub-operation.
        expect: notSlower(), plan: (f) => void pair(f, {
            bare: true, requests: 1000, newerFrom: 0.45, newerShare: 1, hosts: 6, attributes: () => ({ 'app.tenant': `t${Math.floor(f.random() * 100)}`, 'app.shard': `s${Math.floor(f.random() * 50)}` }),
            own: 10, calls: ({ version, host }) => (f.random() < 0.5 ? [{ who: { service: 'orders', version, host }, name: 'render', own: 80 * f.noise() }] : []),
        }),
    },
    'slower for a sixth of the requests': {
        plan: (f) => ({ ...pair(f, { requests: 3000, attributes: () => ({ 'app.region': f.pick(['eu', 'us', 'ap']), 'app.plan': f.pick(['free', 'team']), 'app.shard': `s${Math.floor(f.random() * 8)}` }), factor: ({ attributes }) => (attributes['app.region'] === 'eu' && attributes['app.plan'] === 'free' ? 1.7 : 1) }), cause: /^(app.plan=free and app.region=eu|app.region=eu and app.plan=free)$/ }),
        expect: slower(),
    },
    'slower for a few requests, with a feature': {
        plan: (f) => ({ ...pair(f, { requests: 3000, attributes: () => ({ 'feature.cache': String(f.random() < 0.08), 'app.plan': f.pick(['free', 'team']) }), factor: ({ attributes }) => (attributes['feature.cache'] === 'true' ? 2 : 1) }), cause: /^feature.cache=true$/ }),
        expect: slower(),
    },
    'slow for a part of the requests, as before': {
        expect: notSlower(), plan: (f) => void pair(f, { requests: 3000, attributes: () => ({ 'app.region': f.pick(['eu', 'us', 'ap']), 'app.plan': f.pick(['free', 'team']), 'app.shard': `s${Math.floor(f.random() * 8)}` }), drift: () => 1, calls: ({ attributes: a }) => (a['app.region'] === 'eu' && a['app.plan'] === 'free' ? [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: 40 * f.noise() }] : []) }),
    },
    'slower within a shifted mix': {
        plan: (f) => pair(f, { requests: 4000, factor: () => 1.6, attributes: ({ isNewer }) => ({ tenant: f.random() < (isNewer ? 0.2 : 0.6) ? 'big' : 'small' }), own: 20, calls: ({ attributes }) => [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: (attributes.tenant === 'big' ? 20 : 4) * f.noise() }] }), expect: slower(),
    },
    // ---- where a service stands ----
    'one generation of one service of six, three times': { plan: (f) => chain(f, 3), expect: slower() },
    'one generation of one service of six, 1.6 times': { plan: (f) => chain(f, 1.6), expect: slower() },
    // ---- blame ----
    'one after another instead of at once': {
        plan: (f) => ({ ...pair(f, { own: 5, atOnce: ({ isNewer }) => !isNewer, calls: () => [1, 2, 3].map((k) => ({ who: { service: 'prices', version: '3.1.0', host: `prices-${k}` }, client: true, name: 'GET /price', kind: 'server', own: 10 * f.noise() })) }), change: 'sequential' }), expect: slower(),
    },
    'the caller itself takes longer, the callee is new': {
        expect: { verdict: 'not-slower', status: 0, notService: 'orders' }, plan: (f) => void pair(f, { newerFrom: 0.5, newerShare: 1, gatewayOwn: ({ share }) => (share > 0.5 ? 12 : 0) }),
    },
    'the caller takes longer where it meets the new version': {
        expect: { verdict: 'slower', status: 10, service: 'gateway' }, plan: (f) => void pair(f, { gatewayOwn: ({ isNewer }) => (isNewer ? 12 : 0) }),
    },
    'a queue before the new version': {
        plan: (f) => ({ ...pair(f, { around: ({ isNewer }) => (isNewer ? 15 : 0) * f.noise() }), change: 'edge' }), expect: slower(),
    },
    'a dependency is at fault': {
        plan: (f) => ({ ...pair(f, { calls: ({ isNewer }) => [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: (isNewer ? 40 : 5) * f.noise() }] }), path: /stock/ }), expect: slower(),
    },
    'more calls': {
        plan: (f) => ({ ...pair(f, { own: 6, calls: ({ isNewer }) => Array.from({ length: isNewer ? 6 : 2 }, () => ({ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: 4 * f.noise() })) }), change: 'more-calls' }), expect: slower(),
    },
    // ---- no verdict ----
    'nobody sent the service': { expect: cannotTell(), args: ['--service', 'billing'], plan: (f) => void pair(f, {}) },
    'too few requests': { expect: cannotTell(), plan: (f) => void pair(f, { requests: 70 }) },
    'one version only': { expect: cannotTell(), plan: (f) => history(f, [['1.0.0', 1]]) },
    'three hosts that differ': { expect: cannotTell(), plan: (f) => { for (let i = 1; i <= 3; i++) { f.levels.set(`node-a-${i}`, [0.7, 1, 1.5][i - 1]); f.levels.set(`node-b-${i}`, [0.9, 1.4, 2][i - 1]); } pair(f, { hosts: 3 }); } },
    // ---- errors ----
    'errors of the new version': { plan: (f) => pair(f, { error: ({ isNewer }) => f.random() < (isNewer ? 0.08 : 0.005) }), expect: slower({ measure: 'errors' }) },
    'exceptions of the new version, its spans without a status': { plan: (f) => pair(f, { statusUnset: true, error: ({ isNewer }) => f.random() < (isNewer ? 0.08 : 0.005) }), expect: slower({ measure: 'errors' }) },
    'errors of the new version in one region for one plan': { plan: (f) => pair(f, { attributes: ({ i }) => ({ 'cloud.region': `r${i % 4}`, 'tenant.plan': ['free', 'team', 'firm'][Math.floor(i / 4) % 3] }), error: ({ isNewer, i }) => f.random() < (isNewer && i % 4 === 1 && Math.floor(i / 4) % 3 === 2 ? 0.3 : 0.01) }), expect: slower({ measure: 'errors', cause: /^(cloud.region=r1 and tenant.plan=firm|tenant.plan=firm and cloud.region=r1)$/ }) },
    'errors of both alike': { expect: notSlower(), plan: (f) => void pair(f, { error: () => f.random() < 0.05 }) },
    // ---- names ----
    'unique names of roots': { plan: (f) => pair(f, { bare: true, factor: () => 1.5, name: ({ i }) => `GET /orders/${1000000 + i * 7}` }), expect: slower() },
    'spans named GET only': { plan: (f) => ({ ...pair(f, { bare: true, requests: 4000, attributes: ({ i }) => ({ 'http.route': i % 4 ? '/list' : '/item/:id' }), name: () => 'GET', factor: ({ i }) => (i % 4 ? 1 : 2) }), where: /item/ }), expect: slower() },
    'operations renamed by the new version': { plan: (f) => pair(f, { bare: true, factor: () => 1.6, name: ({ isNewer }) => (isNewer ? 'OrdersController.list' : 'GET /orders') }), expect: slower() },
    // ---- behind queues ----
    'a consumer behind a finished request': {
        expect: slower({ service: 'mailer', version: '9', base: '8' }), plan: (f) => traffic(f, 2400, 60, (at) => {
            const isNewer = f.random() < 0.5, host = `mail-${isNewer ? 'n' : 'o'}${1 + Math.floor(f.random() * 5)}`;
            fleetOrder(f, at, { who: { service: 'mailer', version: isNewer ? '9' : '8', host }, kind: 'consumer', name: 'mail process', own: 15 * f.level(host) * f.noise() * (isNewer ? 1.7 : 1) });
        }),
    },
    'a linked batch job': {
        expect: slower({ service: 'mailer', version: '9', base: '8' }), plan: (f) => traffic(f, 2400, 60, (at) => {
            const isNewer = f.random() < 0.5, host = `mail-${isNewer ? 'n' : 'o'}${1 + Math.floor(f.random() * 5)}`;
            fleetOrder(f, at, { who: { service: 'mailer', version: isNewer ? '9' : '8', host }, kind: 'consumer', linked: true, name: 'mail process', own: 15 * f.level(host) * f.noise() * (isNewer ? 1.7 : 1) });
        }),
    },
    // ---- throughput and queues: 12 hosts with two slots complete 240 messages a minute ----
    'workers that take one message at once instead of two': {
        expect: { status: 10, verdict: 'slower', kind: 'less-throughput' }, plan: (f) => workers(f, { rate: (share) => (share < 0.3 ? 80 : share < 0.75 ? 210 : 60), hosts: [...workerHosts('8', 6, 2), ...workerHosts('9', 6, 1)] }),
    },
    'fewer messages of each host, after a rollout that nothing waited for before': {
        expect: { status: 10, verdict: 'slower', kind: 'less-throughput' }, plan: (f) => workers(f, { rate: () => 100, hosts: [...workerHosts('8', 6, 2, { until: 0.5 }), ...workerHosts('9', 6, 1, { from: 0.5 })] }),
    },
    'a peak that all workers are too few for, and that passes': {
        expect: harmless, plan: (f) => void workers(f, { rate: (share) => (share < 0.3 ? 100 : share < 0.6 ? 290 : 100), hosts: [...workerHosts('8', 6, 2), ...workerHosts('9', 6, 2)] }),
    },
    'a canary that gets a tenth of the messages': {
        expect: harmless, plan: (f) => void workers(f, { rate: () => 90, queueOf: () => (f.random() < 0.1 ? '9' : '8'), hosts: [...workerHosts('8', 6, 2), ...workerHosts('9', 6, 2)] }),
    },
    'traffic that shifts to the new version': {
        expect: harmless, plan: (f) => void workers(f, { rate: () => 90, queueOf: (_, share) => (f.random() < share ? '9' : '8'), hosts: [...workerHosts('8', 6, 2), ...workerHosts('9', 6, 2)] }),
    },
    'more load since the new version came, which it bears': {
        expect: harmless, plan: (f) => void workers(f, { rate: (share) => (share < 0.5 ? 60 : share < 0.75 ? 135 : 60), hosts: [...workerHosts('8', 6, 2, { until: 0.5 }), ...workerHosts('9', 6, 2, { from: 0.5 })] }),
    },
    'workers that look every half minute, while less and less comes': {
        expect: harmless, plan: (f) => void workers(f, { poll: 30e3, rate: (share) => 100 * (1.1 - share), own: 2000, hosts: [...workerHosts('8', 6, 4, { until: 0.5 }), ...workerHosts('9', 6, 4, { from: 0.5 })] }),
    },
    'a queue that grows, whatever the version': {
        expect: { status: 10, kind: 'growing-queue' }, plan: (f) => void workers(f, { rate: (share) => (share < 0.5 ? 100 : 300), hosts: [...workerHosts('8', 6, 2), ...workerHosts('9', 6, 2)] }),
    },
    // ---- hosts ----
    'one bad host of six': { expect: { status: 10, kind: 'outlier-instance', instance: 'node-b-2' }, plan: (f) => void pair(f, { factor: ({ host }) => (host === 'node-b-2' ? 3 : 1) }) },
    // ---- severity ----
    'critical when it doubles': { plan: (f) => pair(f, { factor: () => 3 }), args: ['--gate=critical'], expect: slower({ severity: 'critical' }) },
    'a few percent are not critical': { plan: (f) => pair(f, { requests: 4000, hosts: 10, factor: () => 1.35 }), args: ['--gate=critical'], expect: { verdict: 'slower', status: 0 } },
    'many operations, each with few requests': {
        expect: harmless, plan: (f) => void pair(f, { bare: true, requests: 5400, name: () => `GET /op${Math.floor(30 * f.random())}` }),
    },
    // ---- good, to be kept ----
    'nothing changed': { expect: notSlower(), plan: (f) => void pair(f, {}) },
    'faster': { expect: notSlower(), plan: (f) => void pair(f, { factor: () => 0.7 }) },
    'a canary of 5 %': { plan: (f) => pair(f, { requests: 8000, newerShare: 0.05, newerHosts: 3, factor: () => 1.8 }), expect: slower() },
    'a harmless canary of 5 %': { expect: notSlower(), plan: (f) => void pair(f, { requests: 8000, newerShare: 0.05, newerHosts: 3 }) },
    'a feature flag': { plan: (f) => ({ ...pair(f, { requests: 4000, attributes: () => ({ 'feature.checkout': f.random() < 0.4 ? 'on' : 'off' }), factor: ({ attributes }) => (attributes['feature.checkout'] === 'on' ? 2.5 : 1) }), cause: /feature\.checkout=on/ }), expect: slower() },
    'a tail of 5 %': { plan: (f) => pair(f, { requests: 6000, factor: () => (f.random() < 0.08 ? 8 : 1) }), expect: slower() },
    'a new call': { plan: (f) => ({ ...pair(f, { calls: ({ isNewer }) => [{ who: { service: 'stock', version: '5.0.1', host: 'stock-1' }, client: true, name: 'GET /stock', kind: 'server', own: 4 * f.noise() }, ...(isNewer ? [{ who: { service: 'audit', version: '1', host: 'audit-1' }, client: true, name: 'POST /audit', kind: 'server', own: 15 * f.noise() }] : [])] }), path: /audit/ }), expect: slower() },
    'hosts upgraded in place': { plan: (f) => pair(f, { sameHosts: true, newerFrom: 0.5, newerShare: 1, factor: () => 1.4 }), expect: slower() },
    'hosts upgraded in place, harmless': { expect: notSlower(), plan: (f) => void pair(f, { sameHosts: true, newerFrom: 0.5, newerShare: 1 }) },
};

// An order that is answered at once, and mail that is sent behind it.
function fleetOrder(fleet, at, consumer) {
    fleet.run(at, {
        who: { service: 'shop', version: '3', host: 'shop-1' }, name: 'POST /order', kind: 'server', own: 6 * fleet.noise(),
        calls: [{ client: true, clientName: 'mail send', detached: true, after: 20, ...consumer }],
    });
}

// A queue before workers that take a message each for some time, in order of arrival, whichever worker is free first.
// plan: { rate(share): messages a minute, minutes, own: ms of one, hosts: [{ host, version, slots, from, until (shares of the time) }], queueOf(fleet, share): the version
// whose workers a message is for (all), poll: ms between two looks of a worker into the queue (0) }
function workers(fleet, plan) {
    const p = { minutes: 60, own: 6000, poll: 0, service: 'mailer', ...plan }, end = p.minutes * 60e3;
    const slots = p.hosts.flatMap((h) => Array.from({ length: h.slots }, () => ({ ...h, free: (h.from || 0) * end })));
    for (let at = 0; at < end;) {
        at += (-Math.log(1 - fleet.random()) * 60e3) / p.rate(at / end);
        const version = p.queueOf?.(fleet, at / end), can = slots.filter((s) => (!version || s.version === version) && Math.max(s.free, at) < (s.until ?? 2) * end);
        const soonest = Math.max(at, Math.min(...can.map((s) => s.free))), slot = fleet.pick(can.filter((s) => s.free <= soonest));
        const begins = p.poll ? Math.ceil(soonest / p.poll) * p.poll : soonest, own = p.own * fleet.level(slot.host) * fleet.noise(0.2);
        slot.free = begins + own;
        fleet.run(at, {
            who: { service: 'shop', version: '3', host: 'shop-1' }, name: 'POST /order', kind: 'server', own: 6 * fleet.noise(),
            calls: [{ client: true, clientName: 'mail send', detached: true, after: begins - at + 5, who: { service: p.service, version: slot.version, host: slot.host }, kind: 'consumer', name: 'mail process', own }],
        });
    }
    return { service: p.service, version: '9', base: '8' };
}
const workerHosts = (version, count, slots, more) => hosts(`mail-${version}`, count).map((host) => ({ host, version, slots, ...more }));

// Makes a scenario's spans; what is expected of them.
export function makeRollout(name, seed, file) {
    const scenario = SCENARIOS[name], fleet = new Fleet(seed);
    const more = scenario.plan(fleet);
    fleet.write(file);
    const expect = { ...scenario.expect, ...more };
    if (expect.verdict !== 'slower') for (const key of ['service', 'version', 'base']) delete expect[key];
    return { args: scenario.args || [], mix: scenario.mix, expect };
}

// What is wrong with an answer; empty when it is right. report: of `diagnose --json`.
export function judgeAnswer({ expect, mix }, status, report) {
    const wrong = [], check = (what, ok) => ok || wrong.push(what);
    const all = report.findings || [], findings = all.filter((f) => f.kind === (expect.kind || 'regression')), e = findings[0]?.evidence || {};
    check(`status ${status} instead of ${expect.status}`, expect.harmless ? status === 0 || status === 11 : status === expect.status);
    if (expect.verdict) check(`verdict ${report.diagnosis?.verdict} instead of ${expect.verdict}`, report.diagnosis?.verdict === expect.verdict);
    if (expect.harmless || (expect.verdict && expect.verdict !== 'slower')) check(`a finding: ${all[0]?.title}`, !all.length);
    for (const [key, field] of Object.entries({ service: 'service', version: 'version', base: 'base_version', since: 'since_version', measure: 'measure', change: 'path_change', instance: 'instance' }))
        if (expect[key]) check(`${field} ${e[field]} instead of ${expect[key]}`, e[field] === expect[key]);
    if (expect.severity) check(`severity ${findings[0]?.severity}`, findings[0]?.severity === expect.severity);
    if (expect.base) check(`the remedy does not name ${expect.base}: ${findings[0]?.remedy}`, findings[0]?.remedy?.includes(expect.base));
    for (const [key, fields] of Object.entries({ where: ['bucket', 'cause'], path: ['path'], cause: ['cause'] }))
        if (expect[key]) check(`${fields.join(' and ')} ${fields.map((f) => e[f])} do not match ${expect[key]}`, expect[key].test(fields.map((f) => e[f]).join(' ')));
    if (expect.notWhere) for (const f of findings) check(`bucket ${f.evidence.bucket}`, !expect.notWhere.test(f.evidence.bucket));
    if (expect.service) for (const f of findings) check(`${f.evidence.service} is blamed too: ${f.title}`, f.evidence.service === expect.service);
    if (mix) check(`no contrast says that the mix changed by ${mix}`, report.diagnosis?.contrasts?.some((c) => mix.test(c.mix_changed || '')));
    return wrong;
}
