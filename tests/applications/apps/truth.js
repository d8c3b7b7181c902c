// What was planted, by the program's own clock: begin('name') before the planted work, and the function that it returns after
// it. Written to $TRUTH when the program is asked to end. sonde never reads it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');

const sums = {};

// With TRUTH_REQUESTS also what each request of this process took, and what was begun in it, for a look at single requests:
// { method, path, from_ns, to_ns, parts: [{ name, from_ns, to_ns, cpu_ns }] } by the clock of CLOCK_MONOTONIC.
const requests = [], now = () => Number(process.hrtime.bigint());
let current = null;
if (process.env.TRUTH_REQUESTS) {
    const { AsyncLocalStorage } = require('node:async_hooks'), { Server } = require('node:http'), { emit } = Server.prototype;
    current = new AsyncLocalStorage();
    Server.prototype.emit = function (name, request, response) {
        if (name !== 'request') return emit.apply(this, arguments);
        const one = { method: request.method, path: request.url, from_ns: now(), to_ns: 0, parts: [] };
        response.once('finish', () => (one.to_ns = now()));
        requests.push(one);
        return current.run(one, () => emit.apply(this, arguments));
    };
}

// The time for which this thread was on a CPU, and for which it waited for one, ns: what V8's other threads collect and compile
// meanwhile is not what the loop is blocked for.
const scheduled = () => fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ').map(Number);

// Nanoseconds, and how often; what of it this thread was on a CPU for, and what it did not wait for one (own_ns): in a collection
// it waits for V8's other threads as well.
exports.begin = (name) => {
    const [cpu, queued] = scheduled(), start = process.hrtime.bigint(), request = current?.getStore();
    return () => {
        const took = Number(process.hrtime.bigint() - start), [cpuNow, queuedNow] = scheduled(), cpu_ns = cpuNow - cpu;
        request?.parts.push({ name, from_ns: Number(start), to_ns: Number(start) + took, cpu_ns });
        const sum = (sums[name] ??= { count: 0, ns: 0, worst_ns: 0, cpu_ns: 0, own_ns: 0 });
        sum.count++;
        sum.ns += took;
        sum.worst_ns = Math.max(sum.worst_ns, took);
        sum.cpu_ns += cpu_ns;
        sum.own_ns += took - (queuedNow - queued);
    };
};

// Work of so many milliseconds of CPU time, however fast the machine is: do something small, while (more()).
exports.during = (ms) => {
    const cpu = process.cpuUsage();
    return () => {
        const used = process.cpuUsage(cpu);
        return used.user + used.system < ms * 1000;
    };
};

exports.trouble = process.env.TROUBLE || 'healthy';

// What is known so far; with that of another process of the same program taken in.
exports.book = (others = {}) => {
    for (const [name, other] of Object.entries(others)) {
        const sum = (sums[name] ??= { count: 0, ns: 0, worst_ns: 0, cpu_ns: 0, own_ns: 0 });
        for (const field of ['count', 'ns', 'cpu_ns', 'own_ns']) sum[field] += other[field];
        sum.worst_ns = Math.max(sum.worst_ns, other.worst_ns);
    }
    return sums;
};

exports.save = () => {
    if (process.env.TRUTH) fs.writeFileSync(process.env.TRUTH, JSON.stringify(sums));
    if (process.env.TRUTH_REQUESTS) fs.writeFileSync(process.env.TRUTH_REQUESTS, JSON.stringify(requests));
    process.exit(0);
};

// The server listens: its port is told to who started it, and SIGTERM ends it.
exports.ready = (server, finish = exports.save) => {
    console.log(`listening ${server.address().port} ${process.pid}`);
    process.on('SIGTERM', finish);
};
