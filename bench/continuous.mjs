#!/usr/bin/env node
// What profiling a machine for days takes: `sonde profile --all --store DIR --metrics`, at 20 Hz or what its limit of cost allows, for MINUTES, while whoever uses the machine
// goes on. A look at it every five seconds, the metrics every 15 (as often as Prometheus is commonly told to); every ten minutes a line of bench/results/continuous.jsonl, so that what is interrupted counts as far
// as it came, and pieces of several runs count together (goal: 0.3 % of a core and 64 MB for eight hours). In a line:
//   processes_percent  of one core: all processes of sonde; its program in the kernel takes program_ns_a_tick besides, in the line at the end
//   *_mb           own: memory that is sonde's alone (RssAnon of all its processes); rss and pss: as /proc counts them, with the mapped files
//                  of others' programs that sonde reads
//   hz             samples a second and CPU, on average; how many stacks there were is in the line at the end
//   busy_percent   of all CPUs, and forks: what the machine did meanwhile
//   bytes_a_day    what the store's windows of a length take for a day
//   node bench/continuous.mjs MINUTES [--frequency N (whatever it costs)] [--store DIR] [--sonde PATH] [--commit COMMIT]      (root)
//   node bench/continuous.mjs 0      what all runs of the newest commit say together
//   node bench/continuous.mjs MINUTES --against SONDE    the same beside another build, which samples the same minutes: CPU time and memory a stack
//                                    of both (a line with "against"); without --metrics, which both lack
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..'), results = path.join(root, 'bench/results/continuous.jsonl');
const text = (value) => ({ type: 'string', default: value });
const { values: o, positionals } = parseArgs({ allowPositionals: true, options: { frequency: text(''), store: text(path.join(os.tmpdir(), 'sonde-continuous')), sonde: text(path.join(root, 'build/sonde')), commit: text(''), piece: text('10'), against: text('') } });
const commit = o.commit || spawnSync('git', ['-C', root, 'log', '-1', '--format=%h', '--', 'src'], { encoding: 'utf8' }).stdout.trim();
const LOOK_MS = 5000, SCRAPE_EVERY = 3, TICK_HZ = 100, minutes = Number(positionals[0] ?? 480);

const read = (file) => {
    try {
        return fs.readFileSync(file, 'utf8');
    } catch {
        return '';
    }
};

// sonde's processes: the one that was started and those that it forked, by the store in their arguments.
const processes = (store, program) => fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && read(`/proc/${pid}/cmdline`).startsWith(`${program}\0profile\0`) && read(`/proc/${pid}/cmdline`).includes(`\0${store}\0`));

// Workers end a little later than who started them.
async function remove(at) {
    for (let left = 50; left > 0; left--) {
        try {
            return fs.rmdirSync(at);
        } catch {
            await pause(100);
        }
    }
}

// A control group in which all CPU time counts, also of processes that have ended: of the first version or of the second; NULL where there is none.
function group(name) {
    for (const [dir, file, perSecond] of [['/sys/fs/cgroup/cpuacct', 'cpuacct.usage', 1e9], ['/sys/fs/cgroup/unified', 'cpu.stat', 1e6], ['/sys/fs/cgroup', 'cpu.stat', 1e6]]) {
        const at = path.join(dir, `sonde-continuous-${process.pid}-${name}`);
        try {
            fs.mkdirSync(at);
        } catch {
            continue;
        }
        const seconds = () => Number(/^(?:usage_usec )?(\d+)/.exec(read(path.join(at, file)))?.[1] ?? NaN) / perSecond;
        if (Number.isFinite(seconds())) return { seconds, procs: path.join(at, 'cgroup.procs'), remove: () => remove(at) };
        fs.rmdirSync(at);
    }
    return null;
}
// sonde, in that group.
const launch = (within, args) => (within ? spawn('/bin/sh', ['-c', 'echo $$ > "$0" && exec "$@"', within.procs, ...args], { stdio: ['ignore', 'ignore', 'pipe'] }) : spawn(args[0], args.slice(1), { stdio: ['ignore', 'ignore', 'pipe'] }));

function look(store = o.store, program = o.sonde) {
    const sum = { cpu_s: 0, rss: 0, own: 0, pss: 0 };
    for (const pid of processes(store, program)) {
        const stat = read(`/proc/${pid}/stat`).split(') ').pop().split(' '), status = read(`/proc/${pid}/status`), kb = (of, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(of)?.[1] ?? 0) / 1024;
        sum.cpu_s += (Number(stat[11]) + Number(stat[12])) / TICK_HZ;
        sum.rss += kb(status, 'VmRSS');
        sum.own += kb(status, 'RssAnon');
        sum.pss += kb(read(`/proc/${pid}/smaps_rollup`), 'Pss');
    }
    return sum;
}

function machine() {
    const lines = read('/proc/stat').split('\n'), times = lines[0].trim().split(/\s+/).slice(1, 9).map(Number), all = times.reduce((a, b) => a + b, 0);
    return { all, idle: times[3] + times[4], forks: Number(lines.find((l) => l.startsWith('processes ')).split(' ')[1]), memory_mb: Number(/MemAvailable:\s+(\d+)/.exec(read('/proc/meminfo'))[1]) / 1024 };
}

function disk() {
    const windows = fs.existsSync(path.join(o.store, 'windows')) ? fs.readdirSync(path.join(o.store, 'windows')).map((f) => /^(\d+)-(\d+)\.pb\.gz$/.exec(f)).filter(Boolean) : [], days = {};
    let bytes = 0;
    for (const [name, , length] of windows) {
        const size = fs.statSync(path.join(o.store, 'windows', name), { throwIfNoEntry: false })?.size ?? 0;
        bytes += size;
        (days[length] ??= { windows: 0, bytes: 0 }).windows++;
        days[length].bytes += size;
    }
    return { bytes, bytes_a_day: Object.fromEntries(Object.entries(days).map(([length, d]) => [length, Math.round((d.bytes / d.windows / Number(length)) * 86400)])) };
}

const mean = (list) => list.reduce((a, b) => a + b, 0) / Math.max(1, list.length), round = (x) => Math.round(x * 1000) / 1000;

async function run() {
    const port = await freePort(), started = new Date().toISOString();
    fs.mkdirSync(o.store, { recursive: true });
    const within = group('one'), sonde = launch(within, [o.sonde, 'profile', '--all', ...(o.frequency ? ['-F', o.frequency] : []), '--store', o.store, '--metrics', `127.0.0.1:${port}`, '--service', 'machine']);
    let said = '', stops = false;
    sonde.stderr.setEncoding('utf8').on('data', (part) => (said += part));
    const ended = once(sonde, 'close'), end = Date.now() + minutes * 60000, pieces = [];
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => (stops = true));
    let counts = '';
    const told = async () => {
        counts = await fetch(`http://127.0.0.1:${port}/metrics`).then((r) => r.text()).catch(() => '');
        return (name) => Number(counts.split('\n').find((l) => l.startsWith(`${name} `))?.split(' ')[1] ?? NaN);
    };
    await pause(2000);
    while (!stops && sonde.exitCode === null && Date.now() < end) {
        const from = look(), used = within?.seconds(), start = Date.now(), before = machine(), looks = [];
        while (!stops && sonde.exitCode === null && Date.now() < end && Date.now() - start < Number(o.piece) * 60000) {
            await pause(Math.min(LOOK_MS, Math.max(1, end - Date.now())));
            if (sonde.exitCode === null) looks.push({ ...look(), ...(looks.length % SCRAPE_EVERY === 0 && { hz: (await told())('sonde_profile_frequency_hertz') }) });
        }
        if (!looks.length) break;
        const seconds = (Date.now() - start) / 1000, after = machine(), count = await told();
        const memory = Object.fromEntries(['own', 'rss', 'pss'].flatMap((k) => [[`${k}_mb`, round(mean(looks.map((l) => l[k])))], [`${k}_most_mb`, round(Math.max(...looks.map((l) => l[k])))]]));
        const line = { commit, run: started, ...(o.frequency && { frequency: Number(o.frequency) }), hz: round(mean(looks.map((l) => l.hz).filter(Number.isFinite))), minutes: round(seconds / 60), processes_percent: round((100 * (within ? within.seconds() - used : looks.at(-1).cpu_s - from.cpu_s)) / seconds), ...memory, lost: count('sonde_profile_lost_samples_total'), kept: count('sonde_profile_windows_total{result="kept"}'), failed: count('sonde_profile_windows_total{result="failed"}'), series: counts.split('\n').filter((l) => l.includes('function_cpu_seconds_total{')).length, ...disk(), busy_percent: round(100 * (1 - (after.idle - before.idle) / (after.all - before.all))), forks: after.forks - before.forks };
        pieces.push(line);
        fs.appendFileSync(results, `${JSON.stringify(line)}\n`);
    }
    if (sonde.exitCode === null) sonde.kill('SIGINT');
    await ended;
    await within?.remove();
    const number = (pattern) => Number(pattern.exec(said)?.[1] ?? NaN);
    const summary = { commit, run: started, ended: { minutes: round(pieces.reduce((s, p) => s + p.minutes, 0)), exit: sonde.exitCode, stacks: number(/sonde: (\d+) stacks/), complete_percent: number(/stacks, ([\d.]+) %/), lost: number(/; (\d+) lost/), program_ns_a_tick: number(/sampler (\d+) ns a tick/), agent_percent: number(/agent ([\d.]+) %/), maps_mb: number(/and (\d+) MB of maps/), said: said.trim().replaceAll(o.store, 'DIR') } };
    fs.appendFileSync(results, `${JSON.stringify(summary)}\n`);
}

async function runAgainst() {
    const sides = [o.sonde, o.against].map((program, i) => {
        const store = `${o.store}-${i}`, within = group(String(i));
        fs.mkdirSync(store, { recursive: true });
        const side = { program, store, within, own: [], text: '', said: () => side.text };
        side.child = launch(within, [program, 'profile', '--all', '-F', o.frequency || '20', '--store', store]);
        side.child.stderr.setEncoding('utf8').on('data', (part) => (side.text += part));
        side.ended = once(side.child, 'close');
        return side;
    });
    if (!sides[0].within) throw new Error('there is no control group to count CPU time in');
    const before = machine(), end = Date.now() + minutes * 60000;
    while (Date.now() < end) {
        await pause(LOOK_MS);
        for (const side of sides) side.own.push(look(side.store, side.program).own);
    }
    const after = machine();
    for (const { child } of sides) child.kill('SIGINT');
    const line = { commit, against: [], minutes, busy_percent: round(100 * (1 - (after.idle - before.idle) / (after.all - before.all))), forks: after.forks - before.forks };
    for (const { program, within, own, said, ended } of sides) {
        await ended;
        const stacks = Number(/sonde: (\d+) stacks/.exec(said())?.[1] ?? NaN), seconds = within.seconds();
        line.against.push({ sonde: program, stacks, lost: Number(/; (\d+) lost/.exec(said())?.[1]), complete_percent: Number(/stacks, ([\d.]+) %/.exec(said())?.[1]), cpu_percent: round((100 * seconds) / (60 * minutes)), us_a_stack: round((1e6 * seconds) / stacks), own_mb: round(mean(own)), own_most_mb: round(Math.max(...own)) });
        await within.remove();
    }
    fs.appendFileSync(results, `${JSON.stringify(line)}\n`);
    for (const side of line.against) console.log(`${side.sonde}: ${side.us_a_stack} us a stack, ${side.cpu_percent} % of a CPU, ${side.stacks} stacks, ${side.lost} lost, ${side.complete_percent} % complete, ${side.own_mb} MB (most ${side.own_most_mb})`);
    console.log(`machine ${line.busy_percent} % busy, ${line.forks} processes and threads started`);
    process.exit(0);
}

if (minutes > 0 && o.against) await runAgainst();
if (minutes > 0) await run();
const rows = (fs.existsSync(results) ? fs.readFileSync(results, 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l)) : []), newest = rows.at(-1)?.commit;
const lines = rows.filter((r) => r.commit === newest && r.minutes && !r.against), ends = rows.filter((r) => r.commit === newest && r.ended && Number.isFinite(r.ended.stacks));
const total = lines.reduce((s, l) => s + l.minutes, 0), weighted = (key) => lines.reduce((s, l) => s + l[key] * l.minutes, 0) / total, most = (key) => Math.max(...lines.map((l) => l[key]));
console.log(`${newest}: ${total.toFixed(0)} minutes in ${new Set(lines.map((l) => l.run)).size} runs, machine ${weighted('busy_percent').toFixed(0)} % busy, ${lines.reduce((s, l) => s + l.forks, 0)} processes and threads started`);
console.log(`CPU ${weighted('processes_percent').toFixed(2)} % of a core (at most ${most('processes_percent').toFixed(2)} in ten minutes; goal 0.3), at ${weighted('hz').toFixed(1)} Hz on average; ${ends.map((e) => `${e.ended.program_ns_a_tick} ns a tick`).join(', ')}`);
console.log(`memory ${weighted('own_mb').toFixed(1)} MB of its own (most ${most('own_most_mb').toFixed(1)}; goal 64), rss ${weighted('rss_mb').toFixed(1)} (${most('rss_most_mb').toFixed(1)}), pss ${weighted('pss_mb').toFixed(1)} (${most('pss_most_mb').toFixed(1)}), ${[...new Set(ends.map((e) => e.ended.maps_mb))].join(', ')} MB of maps`);
console.log(`${ends.reduce((s, e) => s + e.ended.stacks, 0)} stacks, ${Math.max(0, ...lines.map((l) => l.lost))} lost at most in a run, ${Math.max(...lines.map((l) => l.failed))} windows failed, ${lines.at(-1)?.series} series; a day takes ${Object.entries(lines.at(-1)?.bytes_a_day ?? {}).map(([s, b]) => `${(b / 1e6).toFixed(1)} MB in windows of ${s} s`).join(', ')}`);
