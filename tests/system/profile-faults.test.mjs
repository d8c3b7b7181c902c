// What a profiler meets: no privilege, 10,000 threads, a container without libc, broken and lying ELF files, a full disk.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-faults-'));
after(() => fs.rmSync(folder, { recursive: true }));
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const skip = noProfiles() || (!have('cc') ? 'needs a C compiler' : false);
const root = process.getuid() !== 0 && 'needs root';

function compile(name, source, ...options) {
    fs.writeFileSync(path.join(folder, `${name}.c`), source);
    execFileSync('cc', ['-O1', '-o', path.join(folder, name), path.join(folder, `${name}.c`), ...options]);
    return path.join(folder, name);
}
const BUSY = `#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void busy(void) { for (long i = 0; i < 1000000; i++) sink += i * i; __asm__ volatile(""); }
__attribute__((noinline)) void shop(void) { busy(); __asm__ volatile(""); }
int main(void) { struct timespec t; do { shop(); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (!t.tv_sec && t.tv_nsec < 300000000); return 0; }
`;
const profile = (...args) => spawnSync(sonde, ['profile', '-F', '997', ...args], { encoding: 'utf8', maxBuffer: 1 << 28 });

test('without privilege it says what to grant, and what works without', { skip: root || (!have('setpriv') && 'needs setpriv') }, () => {
    const drop = (...args) => spawnSync('setpriv', ['--reuid', '65534', '--regid', '65534', '--clear-groups', '--bounding-set=-all', sonde, 'profile', ...args], { encoding: 'utf8' });
    const refused = drop('--', 'true');
    assert.equal(refused.status, 3, refused.stderr);
    assert.match(refused.stderr, /cap_bpf,cap_perfmon/);
    assert.match(refused.stderr, /--merge/);
    const file = path.join(folder, 'taken.folded');
    fs.writeFileSync(file, 'a;b 3\n');
    fs.chmodSync(folder, 0o755);
    const merged = drop('--merge', '-f', 'folded', file);
    assert.equal(merged.stdout, 'a;b 3\n', merged.stderr);
});

test('10,000 threads', { skip }, () => {
    const program = compile('threads', `#include <pthread.h>
#include <unistd.h>
static volatile unsigned long sink;
static int from[2];
__attribute__((noinline)) void turn(void) { for (long i = 0; i < 200000; i++) sink += i * i; __asm__ volatile(""); }
static void *run(void *none) { char byte; if (read(from[0], &byte, 1) == 0) turn(); return none; }
int main(void)
{
    pthread_attr_t small; pthread_t thread; int count = 0;
    pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536); pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    if (pipe(from)) return 1;
    while (count < 10000 && pthread_create(&thread, &small, run, 0) == 0) count++;
    close(from[1]); /* all of them begin */
    pthread_exit((void *)0);
}
`, '-pthread');
    const result = profile('-f', 'folded', '--threads', '--', program);
    assert.equal(result.status, 0, result.stderr);
    const threads = new Set([...result.stdout.matchAll(/^[^;]*;(thread [^;]*);.*;turn[; ]/gm)].map((m) => m[1]));
    assert.ok(threads.size > 500, `turn() was seen in ${threads.size} threads: ${result.stderr}`);
    assert.match(result.stderr, /; 0 lost/);
});

test('a container without libc', { skip: skip || root }, () => {
    const jail = path.join(folder, 'jail');
    fs.mkdirSync(jail);
    fs.copyFileSync(compile('static', BUSY, '-static'), path.join(jail, 'shop'));
    fs.chmodSync(path.join(jail, 'shop'), 0o755);
    const result = profile('-f', 'folded', '--', 'unshare', '--mount', '--pid', '--fork', 'chroot', jail, '/shop');
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, /;main;shop;busy /);
});

test('unwind tables and symbols that lie, and headers that make no sense, cost frames and nothing else', { skip: skip || (!have('objcopy') && 'needs objcopy') }, () => {
    const good = fs.readFileSync(compile('good', BUSY, '-rdynamic'));
    const sections = Object.fromEntries([...execFileSync('readelf', ['-SW', path.join(folder, 'good')], { encoding: 'utf8' }).matchAll(/\] (\.\S+)\s+\S+\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)/g)].map((m) => [m[1], [parseInt(m[2], 16), parseInt(m[3], 16)]]));
    const headers = [Number(good.readBigUInt64LE(40)), good.readUInt16LE(60) * 64];
    const places = { '.eh_frame': sections['.eh_frame'], '.eh_frame_hdr': sections['.eh_frame_hdr'], '.symtab': sections['.symtab'], '.strtab': sections['.strtab'], 'section headers': headers };
    let seed = 1; // the same damage each time
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    for (const [name, [at, size]] of Object.entries(places)) {
        const bad = Buffer.from(good), file = path.join(folder, 'bad');
        for (let i = 0; i < size; i++) if (random(5) === 0) bad[at + i] = random(256);
        fs.writeFileSync(file, bad, { mode: 0o755 });
        const result = profile('-f', 'folded', '--', file);
        assert.equal(result.status, 0, `${name}: ${result.stderr}`);
        const weight = result.stdout.trim().split('\n').reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
        assert.ok(weight > 1e8, `${name}: ${weight} ns were seen of 300 ms; ${result.stderr}`);
    }
});

test('a full disk leaves what was there', { skip: skip || root }, () => {
    const disk = path.join(folder, 'disk');
    fs.mkdirSync(disk);
    const result = spawnSync('unshare', ['--mount', 'sh', '-c', `mount -t tmpfs -o size=8k none ${disk} && cd ${disk} && echo before > x.html && ${sonde} profile -q -o x.html -- ${compile('busy', BUSY)}; echo "status $?"; cat x.html; ls`], { encoding: 'utf8' });
    assert.match(result.stdout, /status 1\nbefore\nx\.html\n$/, result.stdout + result.stderr);
    assert.match(result.stderr, /No space left/);
});

test('what cannot work is said before anything is sampled', { skip }, () => {
    const marker = path.join(folder, 'marker'), missing = path.join(folder, 'missing', 'x.html');
    const refused = profile('-o', missing, '--', 'touch', marker);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /missing\/x\.html: No such file or directory/);
    assert.equal(fs.existsSync(marker), false, 'the command was run for a profile that cannot be written');
    for (const wrong of [['-d', '0'], ['-d', 'soon'], ['-n', 'many'], ['--all', String(process.pid)], [String(process.pid), '--', 'true']])
        assert.equal(profile(...wrong).status, 2, wrong.join(' '));
    assert.match(profile('999999999').stderr, /process 999999999: No such process/);
});

test('options after processes and files', { skip }, () => {
    const own = profile(String(process.pid), '-d', '0.1', '-f', 'folded');
    assert.ok([0, 5].includes(own.status), own.stderr); // this process only waits for the profile: it may have no sample
    const file = path.join(folder, 'part.folded');
    fs.writeFileSync(file, 'a;b 3\n');
    assert.equal(profile('--merge', file, file, '-f', 'folded').stdout, 'a;b 6\n');
    const deep = `${Array.from({ length: 3000 }, (_, i) => `f${i}`).join(';')} 5\n`;
    fs.writeFileSync(file, deep);
    assert.equal(profile('--merge', file, '-f', 'folded').stdout, deep, 'the outermost calls are there');
});

test('a link and a pipe that are written to stay what they are', () => {
    const link = path.join(folder, 'link.folded'), target = path.join(folder, 'target.folded'), from = path.join(folder, 'from.folded'), pipe = path.join(folder, 'pipe.folded');
    fs.writeFileSync(from, 'a;b 3\n');
    fs.writeFileSync(target, 'before');
    fs.symlinkSync(target, link);
    assert.equal(profile('--merge', '-o', link, from).status, 0);
    assert.ok(fs.lstatSync(link).isSymbolicLink());
    assert.equal(fs.readFileSync(target, 'utf8'), 'a;b 3\n');
    execFileSync('mkfifo', [pipe]);
    const read = execFileSync('sh', ['-c', `cat ${pipe} & ${sonde} profile --merge -o ${pipe} ${from}; wait`], { encoding: 'utf8', timeout: 60_000 });
    assert.equal(read, 'a;b 3\n');
    assert.ok(fs.lstatSync(pipe).isFIFO());
});

test('lines of one function are told apart when that is asked for', { skip }, () => {
    const program = compile('lines', BUSY.replace('sink += i * i;', '\n{ sink += i * i;\nsink ^= i; }'), '-g');
    const lines = new Set([...profile('-q', '--lines', '-f', 'folded', '--', program).stdout.matchAll(/;busy:(\d+)[ ;]/g)].map((m) => m[1]));
    assert.ok(lines.size > 1, [...lines].join());
});

test('files that are no profiles', () => {
    const nothing = path.join(folder, 'nothing.folded'), other = path.join(folder, 'other'), spans = path.join(folder, 'some.otlp');
    fs.writeFileSync(nothing, '');
    fs.writeFileSync(other, '{"a": 1}\n');
    fs.writeFileSync(spans, Buffer.from([0x0a, 0x02, 0x08, 0x01])); // a message, but without pprof's table of strings
    assert.match(profile('--merge', nothing).stderr, /there are no stacks/);
    assert.match(profile('--merge', other).stderr, /neither pprof nor folded text/);
    assert.match(profile('--merge', spans).stderr, /not a pprof profile/);
});

test('no room for the rules by which stacks are walked: that is said, and what makes room', { skip }, () => {
    const busy = ['--', process.execPath, '-e', 'for (let i = 0, end = process.cpuUsage().user + 3e5; process.cpuUsage().user < end; i++);'];
    const small = profile('-f', 'folded', '--unwind-mb', '1', ...busy), usual = profile('-f', 'folded', ...busy);
    // 2: what it was before it executed the program counts as another one
    assert.match(small.stderr, /no room for the rules by which stacks are walked in (1 process|2 processes), so that stacks there may end early; a larger --unwind-mb than 1 makes room/);
    assert.doesNotMatch(usual.stderr, /no room/);
});
