// OpenTelemetry for one service of the example: HTTP is instrumented, spans go out over OTLP/HTTP protobuf to
// OTEL_EXPORTER_OTLP_ENDPOINT. Who it is comes from the environment: SERVICE, VERSION, HOST, HARDWARE.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { trace } = require('@opentelemetry/api');
const { NodeTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { Resource } = require('@opentelemetry/resources');
const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');

const provider = new NodeTracerProvider({
    resource: new Resource({
        'service.name': process.env.SERVICE,
        'service.version': process.env.VERSION,
        'host.name': process.env.HOST,
        ...(process.env.HARDWARE ? { 'hardware.generation': process.env.HARDWARE } : {}),
    }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ compression: 'gzip' }), { scheduledDelayMillis: 500, maxQueueSize: 20000 })],
});
provider.register();
registerInstrumentations({
    tracerProvider: provider,
    instrumentations: [new HttpInstrumentation({ ignoreOutgoingRequestHook: (request) => request.path === '/v1/traces' })],
});

// A service ends with the rollout, however that ends: its end closes the channel.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(1));

module.exports.tracer = trace.getTracer('rollout');
// Who received spans may be gone by now.
module.exports.stop = () => provider.shutdown().catch(() => {});
