// What each family of kernel events costs real services, beside strace, perf trace and bpftrace doing the same work:
// CPU time per request of redis-server under redis-benchmark and of a Node HTTP service under wrk, and how much
// slower they answer. The service has CPU 0; load and tracer have CPU 1. All variants take turns, one
// service at a time (a tracepoint that is on for one process costs every process of the machine something), each
// time with new processes.
//   node bench/kernel.mjs build/sonde [ROUNDS [SCENE...]]    5 rounds; scenes redis, node; needs root
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { cpuTime, has, pause, pinned, spread, startRedis, table } from './measure.mjs';

const [sonde, rounds = '5', ...scenes] = process.argv.slice(2);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const here = path.dirname(new URL(import.meta.url).pathname);
let traces = 0;

// The peers write to a file of their own and are told to count or to print, as people use them.
const BPFTRACE = `
tracepoint:raw_syscalls:sys_enter /pid == PID/ { @start[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @calls[args->id] = count(); @took[args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); }
tracepoint:sched:sched_switch { if (pid == PID) { @off[tid] = nsecs; } if (@off[args->next_pid]) { @waited[args->next_pid] = sum(nsecs - @off[args->next_pid]); delete(@off[args->next_pid]); } }`;

// name -> { wrap(command): what starts the service, beside(pid): what runs beside it, slow: less load is enough }
const family = (list) => ({ wrap: (command) => pinned(1, sonde, 'record', '--quiet', '--budget', '100,4096', '-o', path.join(work, `t${traces++}`), ...list, '--', ...command) });
const withTracefs = (command) => ['unshare', '-m', 'sh', '-c', 'mount -t tracefs none /sys/kernel/tracing && exec "$@"', 'sh', ...command];
const output = path.join(work, 'peer.out');
const VARIANTS = {
    untraced: { wrap: (command) => command },
    'sonde, no kernel events': family(['--no-kernel']),
    'sonde, sys': family(['--kernel=sys']),
    'sonde, sched': family(['--kernel=sched']),
    'sonde, wakeup': family(['--kernel=wakeup']),
    'sonde, tcp': family(['--kernel=tcp']),
    'sonde, block': family(['--kernel=block']),
    'sonde, sys,sched,block': family(['--kernel=sys,sched,block']),
    'sonde, all': family(['--kernel=all']),
    'bpftrace, calls and switches counted': { needs: 'bpftrace', wrap: (command) => command, beside: (pid) => withTracefs(['bpftrace', '-e', BPFTRACE.replaceAll('PID', pid)]), ready: /Attaching/ },
    'perf trace': { needs: 'perf', wrap: (command) => command, beside: (pid) => withTracefs(['perf', 'trace', '-o', output, '-p', String(pid)]) },
    'strace -f -c': { needs: 'strace', slow: true, wrap: (command) => pinned(1, 'strace', '-f', '-c', '-o', output, ...command) },
    'strace -f': { needs: 'strace', slow: true, wrap: (command) => pinned(1, 'strace', '-f', '-o', output, ...command) },
};

function launch(variant, command, stdout) {
    const words = variant.wrap(pinned(0, ...command));
    const child = spawn(words[0], words.slice(1), { stdio: ['ignore', stdout, 'ignore'] });
    return { child, ended: new Promise((resolve) => child.on('exit', resolve)) };
}

async function redis(variant) {
    const { pid, load, ended } = await startRedis((command) => launch(variant, command, 'ignore'), work);
    const some = (share) => {
        const n = Math.round(30_000 * share);
        load(n);
        return 2 * n;
    };
    return { pid, load: some, ended };
}

async function nodeHttp(variant) {
    const { child, ended } = launch(variant, [process.execPath, path.join(here, 'http-server.js')], 'pipe');
    const [pid, port] = await new Promise((resolve, reject) => {
        child.stdout.on('data', (part) => /^\d+ \d+$/m.test(part) && resolve(/^(\d+) (\d+)$/m.exec(part).slice(1).map(Number)));
        child.on('exit', (status) => reject(new Error(`the service ended with ${status}`)));
    });
    const load = (share) => {
        const [command, ...args] = pinned(1, 'wrk', '-t', 1, '-c', 32, '-d', share > 0.5 ? '2s' : '1s', `http://127.0.0.1:${port}/`);
        return Number(/(\d+) requests in/.exec(execFileSync(command, args, { encoding: 'utf8' }))[1]);
    };
    return { pid, load, ended };
}

// One service under one tracer: CPU time and time per request, in us.
async function measure(start, variant) {
    const service = await start(variant);
    let tracer;
    if (variant.beside) {
        const [command, ...args] = pinned(1, ...variant.beside(service.pid));
        tracer = spawn(command, args, { stdio: ['ignore', 'ignore', 'ignore'] });
        await pause(1500); // attached
        if (tracer.exitCode !== null) throw new Error(`${command} ${args.join(' ')}: ended with ${tracer.exitCode}`);
    }
    const share = variant.slow ? 0.1 : 1;
    service.load(share / 2);
    const before = cpuTime(service.pid), from = process.hrtime.bigint();
    const requests = service.load(share);
    const cpu = (cpuTime(service.pid) - before) / requests / 1000;
    const wall = Number(process.hrtime.bigint() - from) / requests / 1000;
    if (tracer) {
        tracer.kill('SIGINT');
        await new Promise((resolve) => (tracer.exitCode === null && tracer.signalCode === null ? tracer.on('exit', resolve) : resolve()));
    }
    process.kill(service.pid, 'SIGTERM');
    await service.ended;
    for (const name of fs.readdirSync(work)) fs.rmSync(path.join(work, name), { recursive: true, force: true });
    return { cpu, wall };
}

const SCENES = { redis: { text: 'redis-server, GET and SET, 50 connections', start: redis }, node: { text: 'Node HTTP service, 32 connections', start: nodeHttp } };

async function compare(name) {
    const { text, start } = SCENES[name], all = {}, failed = {};
    for (let round = 0; round < Number(rounds); round++) {
        const order = Object.keys(VARIANTS).filter((variant) => !failed[variant]);
        for (const variant of round % 2 ? order.reverse() : order) {
            process.stderr.write(`\r\x1b[K${name}: round ${round + 1} of ${rounds}, ${variant} `);
            if (VARIANTS[variant].needs && !has(VARIANTS[variant].needs)) failed[variant] = `${VARIANTS[variant].needs} is not installed`;
            else
                try {
                    (all[variant] ??= []).push(await measure(start, VARIANTS[variant]));
                } catch (error) {
                    failed[variant] = error.message;
                }
        }
    }
    process.stderr.write('\r\x1b[K');
    const base = all.untraced;
    const rows = Object.keys(VARIANTS).filter((variant) => !failed[variant]).map((variant) => {
        const figure = (key) => spread(all[variant].map((x) => x[key]));
        const ratio = (key) => spread(all[variant].map((x, i) => x[key] / base[i][key]));
        const cpu = ratio('cpu'), wall = ratio('wall');
        return [variant, figure('cpu').median.toFixed(2), cpu.median.toFixed(2), `${cpu.min.toFixed(2)}..${cpu.max.toFixed(2)}`, wall.median.toFixed(2), `${wall.min.toFixed(2)}..${wall.max.toFixed(2)}`];
    });
    table(`${text}, ${rounds} rounds`, ['', 'CPU us/request', 'CPU ratio', 'spread', 'time ratio', 'spread'], rows);
    for (const [variant, why] of Object.entries(failed)) console.log(`  not measured: ${variant}: ${why}`);
}

if (process.getuid() !== 0) {
    console.log('not measured: kernel events need root');
    process.exit(0);
}
try {
    for (const name of scenes.length ? scenes : Object.keys(SCENES)) {
        if (!(name in SCENES)) throw new Error(`there is no scene '${name}'; there are ${Object.keys(SCENES).join(', ')}`);
        if (name === 'node' && !has('wrk')) console.log('not measured: Node HTTP service, wrk is not installed (tools/install-deps bench)');
        else await compare(name);
    }
} finally {
    fs.rmSync(work, { recursive: true, force: true });
}
