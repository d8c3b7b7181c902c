// A rollout in a fleet: six services in a row on twelve hosts of three hardware generations, under load. Version 42 of
// `disks` comes host by host; on one generation it creates disks one after another. A file ends the rollout: every host
// goes back to 41.
//   node fleet.js --stop FILE [--endpoint URL] [--seconds N] [--harmless]
// Each host is a server of its own in this process, with its own resource; requests between them go over HTTP.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const { context, propagation, ROOT_CONTEXT, SpanKind, trace } = require('@opentelemetry/api');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { Resource } = require('@opentelemetry/resources');
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const option = (name, fallback) => { const i = process.argv.indexOf(name); return i < 0 ? fallback : process.argv[i + 1]; };
const endpoint = option('--endpoint', 'http://127.0.0.1:4318'), stop = option('--stop'), seconds = Number(option('--seconds', '120'));
const newer = process.argv.includes('--harmless') ? '41.1' : '42';
const SERVICES = ['gateway', 'orders', 'stock', 'prices', 'disks', 'audit'];
const HOSTS = ['gen5', 'gen6', 'gen7'].flatMap((hardware) => [1, 2, 3, 4].map((n) => ({ hardware, name: `${hardware}-${n}` })));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const pause = (ms) => sleep(ms * (0.8 + 0.4 * Math.random()));

const providers = [], tracers = new Map();
new NodeTracerProvider().register(); // context and propagation

function tracerOf(service, version, host) {
    const key = `${service} ${version} ${host.name}`;
    if (!tracers.has(key)) {
        const provider = new NodeTracerProvider({
            resource: new Resource({ 'service.name': service, 'service.version': version, 'host.name': host.name, 'hardware.generation': host.hardware }),
            spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${endpoint}/v1/traces` }), { scheduledDelayMillis: 500 })],
        });
        providers.push(provider);
        tracers.set(key, provider.getTracer('fleet'));
    }
    return tracers.get(key);
}

// One service on one host. `version` may change while it runs.
class Instance {
    constructor(service, host) {
        Object.assign(this, { service, host, version: service === 'disks' ? '41' : '7' });
        this.server = http.createServer((request, response) => this.answer(request).then(() => response.end('{}'), (error) => { response.statusCode = 500; response.end(String(error)); }));
    }

    listen() { return new Promise((resolve) => this.server.listen(0, '127.0.0.1', () => { this.port = this.server.address().port; resolve(); })); }

    async answer(request) {
        const tracer = tracerOf(this.service, this.version, this.host);
        const span = tracer.startSpan(`POST /${this.service}`, { kind: SpanKind.SERVER }, propagation.extract(ROOT_CONTEXT, request.headers));
        const inner = trace.setSpan(ROOT_CONTEXT, span);
        try {
            await pause(1);
            if (this.service === 'disks') await this.createDisks(tracer, inner);
            const next = SERVICES[SERVICES.indexOf(this.service) + 1];
            if (next) await call(tracer, inner, next);
        } finally {
            span.end();
        }
    }

    async createDisks(tracer, parent) {
        const create = async () => { const span = tracer.startSpan('createDisk', {}, parent); await pause(6); span.end(); };
        if (this.version === '42' && this.host.hardware === 'gen7') for (let i = 0; i < 3; i++) await create();
        else await Promise.all([1, 2, 3].map(create));
    }
}

const instances = SERVICES.flatMap((service) => HOSTS.map((host) => new Instance(service, host)));
const agent = new http.Agent({ keepAlive: true });

function send(port, headers) {
    return new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port, method: 'POST', agent, headers }, (answer) => answer.resume().on('end', resolve));
        request.on('error', reject).end();
    });
}

async function call(tracer, parent, service) {
    const span = tracer.startSpan('POST', { kind: SpanKind.CLIENT }, parent), headers = {};
    propagation.inject(trace.setSpan(ROOT_CONTEXT, span), headers);
    const servers = instances.filter((instance) => instance.service === service);
    await send(servers[Math.floor(Math.random() * servers.length)].port, headers);
    span.end();
}

(async () => {
    await Promise.all(instances.map((instance) => instance.listen()));
    const until = Date.now() + seconds * 1000, gateways = instances.filter((i) => i.service === 'gateway'), disks = instances.filter((i) => i.service === 'disks');
    let over = false, requests = 0, stopped = false;
    const load = Array.from({ length: 12 }, async () => {
        while (!over) { await send(gateways[Math.floor(Math.random() * gateways.length)].port, {}); requests++; }
    });
    console.log(`version 41 of disks on ${HOSTS.length} hosts`);
    await sleep(5000);
    for (const instance of disks.filter((_, i) => i % 2)) { // half of the hosts of each generation
        if (fs.existsSync(stop)) break;
        instance.version = newer;
        console.log(`version ${newer} of disks on ${instance.host.name}`);
        await sleep(1000);
    }
    while (Date.now() < until && !(stopped = fs.existsSync(stop))) await sleep(200);
    if (stopped) {
        for (const instance of disks) instance.version = '41';
        console.log(`the rollout was stopped: ${fs.readFileSync(stop, 'utf8').trim()}`);
        await sleep(3000);
    } else {
        console.log('nobody stopped the rollout');
    }
    over = true;
    await Promise.all(load);
    await Promise.all(providers.map((provider) => provider.shutdown()));
    instances.forEach((instance) => instance.server.close());
    agent.destroy();
    console.log(`${requests} requests`);
    process.exitCode = stopped ? 0 : 1;
    context.disable();
})();
