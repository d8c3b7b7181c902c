// Traces that LTTng's user-space tracer makes here, for the tests of reading them:
//     orders       events of many types from four threads, on a stream for each CPU, in many packets, with an index
//     lost         the same, where most events found no room
//     cyg-profile  two processes with a trace each, whose files have the same names
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const programs = path.join(path.dirname(fileURLToPath(import.meta.url)), 'programs');
export const ORDERS = { threads: 4, each: 5000, events: 4 * (5000 + 50) };

// What is missing, or false.
export const noLttng = ['lttng', 'lttng-sessiond', 'cc'].some((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0)
    || spawnSync('sh', ['-c', "echo '#include <lttng/tracepoint.h>' | cc -E -"], { stdio: 'ignore' }).status !== 0
    ? 'needs lttng-tools and liblttng-ust-dev' : false;

// Runs body with an LTTng session daemon: one that runs already, or else one of our own.
function withDaemon(home, body) {
    fs.mkdirSync(path.join(home, 'run'), { recursive: true });
    const env = { ...process.env, LTTNG_HOME: home, LTTNG_RUNDIR: path.join(home, 'run') };
    const run = (program, ...args) => {
        const r = spawnSync(program, args, { env, encoding: 'utf8', timeout: 60_000 });
        assert.equal(r.status, 0, `${program} ${args.join(' ')}: ${r.stdout}${r.stderr}`);
        return r.stdout;
    };
    const own = spawnSync('lttng', ['--no-sessiond', 'list'], { env, stdio: 'ignore', timeout: 30_000 }).status !== 0;
    // It keeps what it was started with open: no pipes.
    if (own) assert.equal(spawnSync('lttng-sessiond', ['--no-kernel', '-b', '--pidfile', path.join(home, 'pid')], { env, stdio: 'ignore', timeout: 60_000 }).status, 0);
    try {
        return body(run, env);
    } finally {
        if (own) process.kill(Number(fs.readFileSync(path.join(home, 'pid'), 'utf8')));
    }
}

// { orders, lost, 'cyg-profile' }: the folders of the traces, below home.
export function lttngTraces(home) {
    const orders = path.join(home, 'take-orders'), instrumented = path.join(home, 'instrumented'), folders = {};
    return withDaemon(home, (run, env) => {
        run('cc', '-O1', `-I${programs}`, '-o', orders, path.join(programs, 'orders.c'), '-llttng-ust', '-ldl', '-lpthread');
        fs.writeFileSync(`${instrumented}.c`, 'static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nint main(void) { return f(12) != 144; }\n');
        run('cc', '-O0', '-finstrument-functions', '-o', instrumented, `${instrumented}.c`);
        const session = (name, buffers, sizes, pattern, record) => {
            const own = `sonde-${process.pid}-${name}`;
            folders[name] = path.join(home, name);
            run('lttng', 'create', own, '-o', folders[name]);
            run('lttng', 'enable-channel', '-s', own, '-u', buffers, 'c', ...sizes);
            run('lttng', 'enable-event', '-s', own, '-u', pattern, '-c', 'c');
            run('lttng', 'add-context', '-s', own, '-u', '-t', 'vpid', '-t', 'vtid', '-t', 'procname', '-c', 'c');
            run('lttng', 'start', own);
            record();
            run('lttng', 'stop', own);
            run('lttng', 'destroy', own);
        };
        // Room for all events on one CPU, should the consumer not run meanwhile.
        session('orders', '--buffers-uid', ['--subbuf-size', '65536', '--num-subbuf', '128'], 'orders:*', () => run(orders, String(ORDERS.threads), String(ORDERS.each)));
        session('lost', '--buffers-uid', ['--subbuf-size', '4096', '--num-subbuf', '2'], 'orders:*', () => run(orders, '4', '5000'));
        session('cyg-profile', '--buffers-pid', ['--subbuf-size', '262144', '--num-subbuf', '4'], 'lttng_ust_cyg_profile:*', () => {
            for (let i = 0; i < 2; i++) {
                const r = spawnSync(instrumented, { env: { ...env, LD_PRELOAD: 'liblttng-ust-cyg-profile.so.1' }, encoding: 'utf8', timeout: 60_000 });
                assert.equal(r.status, 0, r.stderr);
            }
        });
        return folders;
    });
}

// Calls of f(12) and of main, each with its end, in both processes.
export const CYG_PROFILE_EVENTS = 2 * 2 * (465 + 1);
