// What each way of telling requests apart costs (`sonde record --context`): CPU time per request of a Node service
// that awaits two Redis commands, with 32 requests in flight, against the same service untraced, and the time of one await.
// The services live side by side; short slices of load take turns, so that what else the machine does falls on all alike.
//   node bench/context.mjs build/sonde [ROUNDS]     6 rounds; SONDE_NODES=/path/to/node:... adds other versions of Node
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { cpuTime, freePort, has, pairedRatio, pinned, spread, table } from './measure.mjs';

const [sonde, rounds = '6'] = process.argv.slice(2);
const here = path.dirname(new URL(import.meta.url).pathname);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
const nodes = [process.execPath, ...(process.env.SONDE_NODES || '').split(':').filter(Boolean)];
const MODES = ['untraced', 'off', 'bounded', 'script', 'auto'];

async function launch(node, mode, redisPort) {
    const command = pinned(0, node, path.join(here, 'context-server.js'), redisPort);
    const folder = path.join(work, `${mode}-${fs.readdirSync(work).length}`);
    const words = mode === 'untraced' ? command : pinned(1, sonde, 'record', '--quiet', '--no-kernel', '--context', mode, '-o', folder, '--', ...command);
    const child = spawn(words[0], words.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => child.on('exit', resolve));
    const [pid, port] = await new Promise((resolve, reject) => {
        child.stdout.on('data', (part) => /^\d+ \d+$/m.test(part) && resolve(/^(\d+) (\d+)$/m.exec(part).slice(1).map(Number)));
        ended.then((status) => reject(new Error(`the service ended with ${status}`)));
    });
    const stop = async () => {
        process.kill(pid, 'SIGTERM');
        await ended;
        if (mode === 'untraced') return '';
        const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
        for (const loss of manifest.losses) console.error(`${mode}: ${loss.count} events were lost (${loss.reason}): the figures are too good`);
        fs.rmSync(folder, { recursive: true, force: true });
        return manifest.processes[0].context.mode;
    };
    return { mode, pid, port, stop, ns: [], awaits: [] };
}

function load(service) {
    const before = cpuTime(service.pid);
    const [command, ...args] = pinned(1, 'wrk', '-t', 1, '-c', 32, '-d', '1s', `http://127.0.0.1:${service.port}/`);
    const requests = Number(/(\d+) requests in/.exec(execFileSync(command, args, { encoding: 'utf8' }))[1]);
    return (cpuTime(service.pid) - before) / requests;
}

async function measure(node, redisPort) {
    const services = [];
    for (const mode of MODES) services.push(await launch(node, mode, redisPort));
    for (const service of services) load(service); // warms up
    for (let i = 0; i < Number(rounds); i++) {
        for (const service of i % 2 ? [...services].reverse() : services) {
            service.ns.push(load(service));
            service.awaits.push(Number(await (await fetch(`http://127.0.0.1:${service.port}/await`)).text()));
        }
        process.stderr.write(`\r${path.basename(node)}: round ${i + 1} of ${rounds} `);
    }
    process.stderr.write('\r\x1b[K');
    const rows = [];
    for (const service of services) {
        const used = await service.stop(), ratio = pairedRatio(service.ns, services[0].ns);
        const best = spread(service.ns).min;
        rows.push([service.mode === 'auto' ? `auto (${used})` : service.mode, (spread(service.ns).median / 1000).toFixed(1), ratio.median.toFixed(2),
            `${ratio.min.toFixed(2)}..${ratio.max.toFixed(2)}`, (best / 1000).toFixed(1), (best / spread(services[0].ns).min).toFixed(2),
            spread(service.awaits).min.toFixed(0)]);
    }
    table(`Node ${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()}`, ['--context', 'us a request', 'ratio', 'of all rounds', 'best round', 'ratio', 'ns an await'], rows);
}

if (!has('wrk') || !has('redis-server')) {
    console.log('skipped: needs wrk and redis-server');
} else {
    const port = await freePort();
    const redis = spawn(...(([command, ...args]) => [command, args])(pinned(1, 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', work)), { stdio: 'ignore' });
    try {
        for (const node of nodes) await measure(node, port);
    } finally {
        redis.kill();
        fs.rmSync(work, { recursive: true, force: true });
    }
}
