// Loaded into a service of bench/overhead.mjs with --require: other ways to look into it, switched on and off by SIGUSR2 while
// it runs, so that they are measured as sonde is, against the same process without. PEER is which.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const path = require('path');

const PEERS = {
    // The four callbacks that follow asynchronous resources, each doing nothing.
    'async-hooks': () => require('async_hooks').createHook({ init() {}, before() {}, after() {}, destroy() {} }),
    // OpenTelemetry: spans of HTTP servers and clients in batches, contexts by AsyncLocalStorage; exported to nowhere.
    opentelemetry: () => {
        const load = (name) => require(require.resolve(name, { paths: [path.join(__dirname, '../examples/rollout')] }));
        const { NodeTracerProvider, BatchSpanProcessor } = load('@opentelemetry/sdk-trace-node');
        const { HttpInstrumentation } = load('@opentelemetry/instrumentation-http');
        const exporter = { export: (spans, done) => done({ code: 0 }), shutdown: async () => {} };
        const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter, { maxQueueSize: 100_000 })] });
        const instrumentation = new HttpInstrumentation();
        instrumentation.disable();
        provider.register();
        instrumentation.setTracerProvider(provider);
        return { enable: () => instrumentation.enable(), disable: () => instrumentation.disable() };
    },
};
const peer = PEERS[process.env.PEER]();
let on = false;
process.on('SIGUSR2', () => {
    on = !on;
    if (on) peer.enable();
    else peer.disable();
    fs.writeFileSync(process.env.PEER_STATE, on ? 'on' : 'off');
});
