// What sampling takes from a busy database: PostgreSQL under pgbench (-S, four clients), both on the last CPU, the samplers on the first, which
// sample the whole machine: sonde, and perf record with frame pointers and with copies of the stack, at each rate, in a random order in each
// round. The cost is how much fewer transactions a second there are than without a sampler in the same round. Quiet: nothing else runs.
// Loaded: a program on each CPU goes through 32 MB all the time, so that what ticks need is not in caches.
// Also what the samplers take themselves: CPU time; memory as /proc counts it (Pss of all their processes, private and in total, and what BPF
// maps are charged, in fdinfo); what they write, and what they lost. The median of the rounds with its 95 % interval, and the row in
// bench/results/database.jsonl.
//   node bench/database.mjs [--sonde PATH] [--rounds N (7)] [--seconds N (8)] [--loads quiet,loaded] [--rates 99,999] [--samplers sonde,fp,dwarf]
// About rounds x seconds x 16 with the defaults: 15 minutes. Needs root, Debian's postgresql-15 and linux-perf.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { commit } from './commit.mjs';
import { has, medianInterval, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: options } = parseArgs({
    options: { sonde: { type: 'string', default: path.join(root, 'build/sonde') }, rounds: { type: 'string', default: '7' }, seconds: { type: 'string', default: '8' }, loads: { type: 'string', default: 'quiet,loaded' }, rates: { type: 'string', default: '99,999' }, samplers: { type: 'string', default: 'sonde,fp,dwarf' } },
});
const sonde = fs.realpathSync(options.sonde), postgres = ['/usr/lib/postgresql/15/bin', '/usr/local/bin'].find((p) => fs.existsSync(`${p}/initdb`));
if (!postgres || !has('perf') || process.getuid() !== 0) throw new Error('needs root, postgresql-15 and linux-perf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-database-')), at = (name) => path.join(folder, name);
const CPUS = os.cpus().length, FIRST = ['taskset', '-c', '0'], LAST = ['taskset', '-c', String(CPUS - 1)];
const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'], where = ['-h', folder, '-p', '5598', '-U', 'bench'];
const run = (...command) => execFileSync(command[0], command.slice(1), { cwd: '/', encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1 << 28 });
const pgbench = has('pgbench') ? 'pgbench' : `${postgres}/pgbench`;
const control = (...words) => run(...nobody, `${postgres}/pg_ctl`, '-w', '-D', at('data'), '-l', at('log'), ...words);

// Transactions a second.
const work = (seconds) => Number(/tps = ([\d.]+)/.exec(run(...LAST, ...nobody, pgbench, ...where, '-S', '-c', '4', '-T', String(seconds), 'postgres'))[1]);

// ---- samplers ----

// Those whose program is this file, but for who was there before.
function processesOf(file, before) {
    return fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && !before.has(pid)).filter((pid) => {
        try {
            return fs.readlinkSync(`/proc/${pid}/exe`) === file;
        } catch {
            return false;
        }
    });
}
const read = (file) => {
    try {
        return fs.readFileSync(file, 'utf8');
    } catch {
        return '';
    }
};
function used(pids) {
    const all = { cpu_s: 0, pss_mb: 0, private_mb: 0, maps_mb: 0, processes: pids.length };
    const maps = new Map();
    for (const pid of pids) {
        const times = read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ') ?? [], rollup = read(`/proc/${pid}/smaps_rollup`);
        const kb = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(rollup)?.[1] ?? 0);
        all.cpu_s += (Number(times[11] ?? 0) + Number(times[12] ?? 0)) / 100;
        all.pss_mb += kb('Pss') / 1024;
        all.private_mb += (kb('Private_Clean') + kb('Private_Dirty')) / 1024;
        let descriptors = [];
        try {
            descriptors = fs.readdirSync(`/proc/${pid}/fdinfo`);
        } catch {} // it has ended
        for (const fd of descriptors) {
            const text = read(`/proc/${pid}/fdinfo/${fd}`), id = /^map_id:\s+(\d+)/m.exec(text)?.[1];
            if (id) maps.set(id, Number(/^memlock:\s+(\d+)/m.exec(text)?.[1] ?? 0)); // the same map in several processes is one
        }
    }
    all.maps_mb = [...maps.values()].reduce((sum, bytes) => sum + bytes, 0) / (1 << 20);
    return all;
}

const SAMPLERS = {
    sonde: { file: sonde, command: (hz) => [sonde, 'profile', '--all', '-F', hz, '-o', at('out.pb.gz')], out: 'out.pb.gz', lost: (said) => Number(/; (\d+) lost/.exec(said)?.[1] ?? NaN) },
    ...Object.fromEntries([['fp', 'fp'], ['dwarf', 'dwarf,8192']].map(([name, graph]) => [name, {
        command: (hz) => ['perf', 'record', '-a', '-e', 'cpu-clock', '-F', hz, '--call-graph', graph, '-o', at('perf.data')], out: 'perf.data',
        lost: () => Number(/LOST_SAMPLES events: +(\d+)/.exec(spawnSync('perf', ['report', '--stats', '-i', at('perf.data')], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout)?.[1] ?? 0),
    }])),
};

async function sampled(sampler, hz) {
    const before = new Set(fs.readdirSync('/proc')), [program, ...words] = sampler.command(hz);
    const child = spawn(FIRST[0], [...FIRST.slice(1), program, ...words], { stdio: ['ignore', 'ignore', 'pipe'] }), ended = once(child, 'exit');
    let said = '';
    child.stderr.on('data', (part) => (said += part));
    await pause(2000); // until it samples
    const file = sampler.file ?? fs.readlinkSync(`/proc/${child.pid}/exe`);
    const start = used(processesOf(file, before)), tps = work(options.seconds), end = used(processesOf(file, before));
    child.kill('SIGINT');
    await ended;
    const row = { tps, cpu: (end.cpu_s - start.cpu_s) / Number(options.seconds), pss_mb: end.pss_mb, private_mb: end.private_mb, maps_mb: end.maps_mb, processes: end.processes, written_mb: fs.statSync(at(sampler.out)).size / (1 << 20), lost: sampler.lost(said) };
    fs.rmSync(at(sampler.out));
    return row;
}

// ---- rounds ----

const BUSY = 'const a = new Float64Array(4 << 20); for (let i = 0; ; i = (i + 4099) % a.length) a[i] += 1;';
function load(name) {
    return name === 'loaded' ? Array.from({ length: CPUS }, (_, cpu) => spawn('taskset', ['-c', String(cpu), process.execPath, '-e', BUSY], { stdio: 'ignore' })) : [];
}
function shuffled(list) {
    const copy = [...list];
    for (let i = copy.length - 1; i > 0; i--) {
        const k = Math.floor(Math.random() * (i + 1));
        [copy[i], copy[k]] = [copy[k], copy[i]];
    }
    return copy;
}

fs.chmodSync(folder, 0o777);
run(...nobody, `${postgres}/initdb`, '-D', at('data'), '-U', 'bench', '-A', 'trust');
const server = [...LAST, ...nobody, `${postgres}/pg_ctl`, '-w', '-D', at('data'), '-l', at('log'), '-o', `-p 5598 -k ${folder} -c listen_addresses=''`, 'start'];
execFileSync(server[0], server.slice(1), { cwd: '/', stdio: 'ignore' });
const results = path.join(root, 'bench/results/database.jsonl'), helpers = [];
const show = ({ median, low, high }, digits) => `${median.toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
try {
    run(...nobody, pgbench, '-i', '-q', '-s', '5', ...where, 'postgres');
    work(3); // until all is in memory
    for (const name of options.loads.split(',')) {
        const machine = os.loadavg()[0], busy = load(name), rows = {};
        helpers.push(...busy);
        await pause(name === 'loaded' ? 1000 : 0);
        const modes = options.rates.split(',').flatMap((hz) => options.samplers.split(',').map((sampler) => `${sampler} ${hz}`));
        for (let round = 0; round < Number(options.rounds); round++) {
            const these = {};
            let bare = 0, bares = 0;
            for (const mode of shuffled(['none', ...modes, 'none'])) { // twice, because all others are compared with it
                if (mode === 'none') bare += work(options.seconds), bares++;
                else these[mode] = await sampled(SAMPLERS[mode.split(' ')[0]], mode.split(' ')[1]);
                if (process.stderr.isTTY) process.stderr.write(`\r${name} ${round + 1} of ${options.rounds}: ${mode}        `);
            }
            for (const mode of modes) (rows[mode] ||= []).push({ ...these[mode], cost: 1 - these[mode].tps / (bare / bares) });
        }
        for (const child of busy) child.kill();
        console.log(`\n${name}: ${options.rounds} rounds of ${options.seconds} s, commit ${commit}, load before ${machine.toFixed(1)}\nsampler    Hz  fewer transactions, %      CPU of its own, %    Pss, private, BPF maps, MB  MB written a second  lost`);
        for (const mode of modes) {
            const [sampler, hz] = mode.split(' '), all = rows[mode], of = (key, times = 1) => medianInterval(all.map((r) => r[key] * times)), middle = (key) => of(key).median;
            const cost = of('cost', 100);
            console.log(`${(sampler === 'sonde' ? sampler : `perf ${sampler}`).padEnd(10)} ${hz.padStart(3)}  ${show(cost, 2).padEnd(26)} ${show(of('cpu', 100), 1).padEnd(20)} ${[middle('pss_mb'), middle('private_mb'), middle('maps_mb')].map((x) => x.toFixed(0)).join(', ').padEnd(27)} ${(middle('written_mb') / Number(options.seconds)).toFixed(2).padStart(10)} ${String(all.reduce((sum, r) => sum + r.lost, 0)).padStart(14)}`);
            fs.appendFileSync(results, `${JSON.stringify({ at: new Date().toISOString(), commit, machine_load: machine, load: name, sampler, hz: Number(hz), rounds: all.length, seconds: Number(options.seconds), cost_percent: cost, cpu_percent: of('cpu', 100), pss_mb: middle('pss_mb'), private_mb: middle('private_mb'), maps_mb: middle('maps_mb'), processes: middle('processes'), written_mb: middle('written_mb'), lost: all.reduce((sum, r) => sum + r.lost, 0) })}\n`);
        }
    }
} finally {
    for (const child of helpers) child.kill();
    control('-m', 'immediate', 'stop');
    fs.rmSync(folder, { recursive: true, force: true });
}
