// The agent of one host: creates a virtual machine with three disks. Version 41 creates them at once; version 42
// does so one after another on the hardware generation that got a new driver.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { tracer, stop } = require('./telemetry');
const { SpanStatusCode } = require('@opentelemetry/api');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');

const sequential = process.env.VERSION === '42' && process.env.HARDWARE === 'gen7';
const folder = path.join(os.tmpdir(), `rollout-disk-${process.pid}`);
const image = Buffer.alloc(64 * 1024, 1);

function createDisk(number) {
    return tracer.startActiveSpan('createDisk', async (span) => {
        try {
            const file = path.join(folder, `${number}-${Math.random()}`);
            await fs.promises.writeFile(file, image);
            await new Promise((resolve) => setTimeout(resolve, 8 + Math.random() * 4)); // the device attaches it
            await fs.promises.unlink(file);
        } catch (error) {
            span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
            throw error;
        } finally {
            span.end();
        }
    });
}

async function createDisks() {
    if (!sequential) return Promise.all([1, 2, 3].map(createDisk));
    for (const number of [1, 2, 3]) await createDisk(number);
}

const server = http.createServer(async (request, response) => {
    try {
        await createDisks();
        response.end('{}');
    } catch (error) {
        response.statusCode = 500;
        response.end(String(error));
    }
});
fs.mkdirSync(folder, { recursive: true });
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
process.on('message', async () => {
    server.close();
    await stop();
    process.exit(0);
});
