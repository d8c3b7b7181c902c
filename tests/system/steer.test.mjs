// Profiles that steer themselves: rare threads are folded and the error is stated; rates follow the load; a stated error is reached.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-steer-'));
after(() => fs.rmSync(folder, { recursive: true }));

const skip = noProfiles();
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const compiler = skip || (!have('cc') && 'needs a C compiler');

const run = (...options) => spawnSync(sonde, ['profile', ...options], { encoding: 'utf8', maxBuffer: 1 << 26 });
const json = (...options) => {
    const r = run('-q', '--json', ...options);
    assert.ok(r.status === 0 || r.status === 5, r.stderr);
    return JSON.parse(r.stdout);
};

// A program of two functions: the amounts of work are given, a clock decides when it ends.
function build(name, body) {
    const source = path.join(folder, `${name}.c`), program = path.join(folder, name);
    fs.writeFileSync(source, `
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
__attribute__((noinline)) void hot(long n) { for (long i = 0; i < n; i++) sink += (unsigned long)i; __asm__ volatile(""); }
__attribute__((noinline)) void cold(long n) { for (long i = 0; i < n; i++) sink ^= (unsigned long)i; __asm__ volatile(""); }

static double began;
#define UNTIL(seconds) (now(CLOCK_MONOTONIC) - began < (seconds))
${body}`);
    execFileSync('cc', ['-O1', '-g', '-Wno-unused-function', '-pthread', '-o', program, source]);
    return program;
}

test('rare threads are folded, no time is lost, and the error is stated', { skip: compiler }, () => {
    // One thread works; forty do now and then.
    const program = build('threads', `
static void *rarely(void *x) { while (UNTIL(2.5)) { cold(20000); usleep(100000); } return x; }
int main(void)
{
    pthread_t t[40];
    began = now(CLOCK_MONOTONIC);
    for (int i = 0; i < 40; i++) pthread_create(&t[i], 0, rarely, 0);
    while (UNTIL(2.5)) hot(100000);
    for (int i = 0; i < 40; i++) pthread_join(t[i], 0);
}`);
    const file = path.join(folder, 'threads.pb.gz');
    execFileSync(sonde, ['profile', '-q', '-F', '1999', '--threads', '-o', file, '--', program]);
    const whole = json('--merge', file).profile, { pruned, ...part } = json('--merge', '--prune=90', file).profile;
    assert.equal(part.total, whole.total, 'no time is lost');
    assert.ok(pruned.threads_count > 10 && pruned.kept_count < pruned.threads_count, JSON.stringify(pruned));
    const own = (profile, name) => profile.functions.find((f) => f.function === name)?.self ?? 0;
    assert.equal(own(part, 'hot'), own(whole, 'hot'), 'the thread that works is kept');
    const rare = part.truncated['[rare threads]'];
    assert.ok(Math.abs((100 * rare) / whole.total - pruned.rare_percent) < 1e-6 && pruned.rare_percent < 10);
    // The stated error of the top five is what comparing both profiles gives.
    const code = whole.functions.filter((f) => !['group', 'truncated'].includes(f.language) && f.self > 0).slice(0, pruned.errors[0].top_count);
    const mean = code.reduce((sum, f) => sum + (100 * Math.abs(own(part, f.function) - f.self)) / f.self, 0) / code.length;
    assert.ok(Math.abs(mean - pruned.errors[0].mean_percent) < 1e-6, `${mean} against ${pruned.errors[0].mean_percent}`);
    const words = run('--merge', '--prune=90', file);
    assert.match(words.stderr, /threads are kept; the others, with \d+\.\d\d % of the weight, are "\[rare threads\]"/);
    assert.doesNotMatch(words.stdout, /\bthread /);
});

test('the rate changes while it samples, and no time is lost or counted twice', { skip: compiler }, () => {
    // The paper's preset changes its rate often; the program writes what its threads' clock says.
    const program = build('alternating', `
#include <stdio.h>
int main(void)
{
    began = now(CLOCK_MONOTONIC);
    for (double end = 1.5; end < 7; end += 1.5) {
        while (UNTIL(end)) hot(100000);
        end += 1.5;
        while (UNTIL(end)) cold(100000);
    }
    fprintf(stderr, "cpu %.6f\\n", now(CLOCK_PROCESS_CPUTIME_ID));
}`);
    for (const preset of ['paper-fine', 'usual']) {
        const r = run('--json', `--adaptive=${preset}`, '--window', '1', '-F', '500', '--', program);
        assert.equal(r.status, 0, r.stderr);
        const { profile } = JSON.parse(r.stdout), truth = 1e9 * Number(/^cpu ([\d.]+)$/m.exec(r.stderr)[1]);
        // What the machine does in interrupts is in the samples and not in the clock. Where the program had a CPU for a moment now and
        // then, the samples are few, and one stands for a period of the lowest rate.
        assert.ok(Math.abs(profile.total - truth) < 0.1 * truth + 2e9 / profile.rate.least_hz, `${profile.total} of ${truth} ns with ${preset}`);
        assert.ok(profile.rate.windows_count >= 6, JSON.stringify(profile.rate));
        if (preset === 'paper-fine') assert.ok(profile.rate.changes_count > 0 && profile.rate.most_hz > profile.rate.least_hz, JSON.stringify(profile.rate));
        assert.match(r.stderr, /the rate followed the load: \d+ Hz on average/);
    }
});

test('sampling ends when the error is what was asked for, and says so when it is not', { skip: compiler }, () => {
    // Three parts of the work in hot, one in cold.
    const program = build('endless', `
int main(void) { for (;;) { hot(300000); cold(100000); } }`);
    const r = run('--json', '--error', '30%@15%', '-F', '997', '-d', '60', '--', program);
    assert.equal(r.status, 0, r.stderr);
    const { profile } = JSON.parse(r.stdout);
    assert.equal(profile.target.reached, true, r.stderr);
    assert.match(r.stderr, /shares of 15 % or more are known to 30 %, at 95 %/);
    assert.ok(profile.target.worst_percent <= 30 && profile.target.shares_count >= 2);
    for (const f of profile.functions.filter((f) => ['hot', 'cold'].includes(f.function))) {
        assert.ok(f.self_low_share <= f.self_share && f.self_share <= f.self_high_share, JSON.stringify(f));
        assert.ok((f.self_high_share - f.self_low_share) / 2 / f.self_share <= 0.3);
    }
    const brief = build('brief', `
int main(void) { while (now(CLOCK_PROCESS_CPUTIME_ID) < 0.5) { hot(300000); cold(100000); } }`);
    const short = run('--json', '--error', '1%', '-F', '99', '--', brief);
    const { target } = JSON.parse(short.stdout).profile;
    assert.equal(target.reached, false);
    assert.ok(target.times_needed > 1 && target.unknown_count > 0);
    assert.match(short.stderr, /the error of 1 % was not reached for \d+ of \d+ shares.*times the samples would do it/);
    const file = path.join(folder, 'endless.pb.gz');
    execFileSync(sonde, ['profile', '-q', '-F', '499', '-o', file, '--', brief]);
    assert.match(zlib.gunzipSync(fs.readFileSync(file)).toString('latin1'), /sonde: hot: itself \d+\.\d+ % \[/);
    assert.match(run('-q', '--merge', file).stdout, /\[95 %\].*\n.*% \[\d/);
});

test('what to set is recommended', { skip: compiler }, () => {
    const program = build('tuned', `
static void *rarely(void *x) { while (UNTIL(4.5)) { cold(100000); usleep(100000); } return x; }
int main(void)
{
    pthread_t t[20];
    began = now(CLOCK_MONOTONIC);
    for (int i = 0; i < 20; i++) pthread_create(&t[i], 0, rarely, 0);
    while (UNTIL(4.5)) hot(100000);
    for (int i = 0; i < 20; i++) pthread_join(t[i], 0);
}`);
    const r = run('-q', '--json', '--tune=100', '--window', '1', '-F', '997', '--', program);
    assert.equal(r.status, 0, r.stderr);
    const tuning = JSON.parse(r.stdout), last = tuning.steps.at(-1);
    assert.equal(last.kept_percent, 100);
    assert.equal(last.error_percent, 0);
    assert.ok(tuning.steps[0].bytes < last.bytes, JSON.stringify(tuning.steps));
    assert.ok(tuning.prune_percent >= tuning.fitted_prune_percent && tuning.prune_percent <= 100);
    assert.ok(tuning.divergences_nats.length >= 2 && tuning.theta_nats >= 0);
    const words = run('-q', '--tune', '-d', '1', '-F', '997', '--', program).stdout;
    assert.match(words, /for an error of 1 %: --prune=\d+\.\d\n/);
    assert.match(words, /time = .*off by .*\nerror = .*log\(1 \+ /);
});

// Waits for a condition; what it was when it did not come true in half a minute.
async function until(condition) {
    for (let left = 300; left > 0 && !condition(); left--) await new Promise((done) => setTimeout(done, 100));
    return condition();
}

// Rows of a file are read when a stack leads into it; by then the process is no longer young.
test('at a low rate, code that is met late is walked and named', { skip: compiler }, () => {
    const source = path.join(folder, 'late-library.c'), library = path.join(folder, 'late-library.so');
    fs.writeFileSync(source, `
static volatile unsigned long sink;
__attribute__((noinline)) void late_inner(long n) { for (long i = 0; i < n; i++) sink += (unsigned long)i; __asm__ volatile(""); }
__attribute__((noinline)) void late_middle(long n) { late_inner(n); sink++; __asm__ volatile(""); }
void late_outer(long n) { late_middle(n); sink++; __asm__ volatile(""); }`);
    execFileSync('cc', ['-O2', '-fomit-frame-pointer', '-fPIC', '-shared', '-o', library, source]);
    const program = build('late', `
#include <dlfcn.h>
int main(int argc, char **argv)
{
    while (now(CLOCK_PROCESS_CPUTIME_ID) < 0.4) hot(100000);
    usleep(2500000);
    void (*late)(long) = (void (*)(long))dlsym(dlopen(argv[1], RTLD_NOW), "late_outer");
    while (now(CLOCK_PROCESS_CPUTIME_ID) < 1.4) late(100000);
}`);
    const stacks = run('-q', '-F', '20', '-f', 'folded', '--', program, library).stdout.trim().split('\n').map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]);
    const weight = (pattern) => stacks.filter(([stack]) => pattern.test(stack)).reduce((sum, [, ns]) => sum + ns, 0);
    const all = weight(/late_inner/), whole = weight(/^(?!.*truncated).*main;late_outer;late_middle;late_inner/);
    assert.ok(all > 0.5e9 && whole > 0.8 * all, JSON.stringify(stacks));
});

test('a store keeps windows, survives kill -9, and is compared in time', { skip: compiler }, async () => {
    const store = path.join(folder, 'kept-windows'), windows = () => (fs.existsSync(`${store}/windows`) ? fs.readdirSync(`${store}/windows`).filter((name) => /^\d+-1\.pb\.gz$/.test(name)) : []);
    const program = build('kept', `
int main(void) { for (;;) { hot(300000); cold(100000); } }`);
    const work = spawn(program, [], { stdio: 'ignore' }), began = Date.now();
    after(() => work.kill('SIGKILL'));
    try {
        const killed = spawn(sonde, ['profile', '-q', '--store', store, '--window', '1', '-F', '97', String(work.pid)], { stdio: 'ignore' });
        assert.ok(await until(() => windows().length >= 3), 'windows are kept');
        killed.kill('SIGKILL');
        await new Promise((done) => killed.on('exit', done));
        const before = windows();
        const again = spawn(sonde, ['profile', '--store', store, '--window', '1', '-F', '97', String(work.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
        let words = '';
        again.stderr.on('data', (part) => (words += part));
        assert.ok(await until(() => windows().length >= before.length + 3), 'and after it was killed');
        again.kill('SIGINT');
        assert.ok([0, 4].includes(await new Promise((done) => again.on('exit', done))), words); // 4: samples were lost
        assert.match(words, /\d+ windows were added to /);
        for (const name of before) assert.ok(windows().includes(name), 'what was there stays');
    } finally {
        work.kill('SIGKILL');
    }
    const took = Date.now() - began;
    // Every file is a profile by itself, of the service and without process numbers, and nothing is counted twice.
    const sum = json('--merge', ...windows().map((name) => `${store}/windows/${name}`)).profile;
    assert.ok(sum.functions.some((f) => f.function === 'hot'));
    assert.ok(sum.total <= took * 1.05e6, `${sum.total} ns in ${took} ms`);
    const names = JSON.stringify(spawnSync(sonde, ['profile', '-q', '-f', 'folded', '--merge', ...windows().map((name) => `${store}/windows/${name}`)], { encoding: 'utf8' }).stdout);
    assert.match(names, /kept;/); // of one window alone there may be nothing: the program may have had no CPU in it
    assert.doesNotMatch(names, /kept \(\d/);
    const diff = spawnSync(sonde, ['diff', '--since', '1h', store], { encoding: 'utf8' });
    assert.equal(diff.status, 5, diff.stderr);
    assert.match(diff.stdout, /before: nothing was sampled\nafter: .* of samples from \d{4}-/);
    assert.match(diff.stdout, /nothing to compare the time since .* with: the time before .* has no samples/);
    for (const [args, words] of [[['--since', 'soon', store], /--since takes 2h, 3d, yesterday/], [['--since', '1h', folder], /windows: No such file.*\n?.*sonde profile --all --store DIR/], [['--until', '1h', store, store], /--until goes with --since/]]) {
        const r = spawnSync(sonde, ['diff', ...args], { encoding: 'utf8' });
        assert.notEqual(r.status, 0);
        assert.match(r.stderr, words);
    }
});

test('a store whose disk is full says so once, goes on, and the gap shows', { skip: compiler || (process.getuid() !== 0 && 'needs root to mount a small file system') }, async (t) => {
    const store = path.join(folder, 'full-disk'), program = build('full', `
int main(void) { for (;;) { hot(300000); cold(100000); } }`);
    fs.mkdirSync(store);
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', store]).status !== 0) return t.skip('cannot mount a file system');
    try {
        fs.mkdirSync(`${store}/windows`);
        fs.writeFileSync(`${store}/ballast`, ''); // whatever is left
        assert.throws(() => { for (;;) fs.appendFileSync(`${store}/ballast`, Buffer.alloc(4096)); }, /ENOSPC/);
        const sampling = spawn(sonde, ['profile', '--store', store, '--window', '1', '-F', '97', '--', program], { stdio: ['ignore', 'ignore', 'pipe'] });
        let words = '';
        sampling.stderr.on('data', (part) => (words += part));
        assert.ok(await until(() => /windows are missing from now on/.test(words)), words);
        fs.rmSync(`${store}/ballast`);
        assert.ok(await until(() => /windows are kept again; \d+ are missing/.test(words)), words);
        sampling.kill('SIGINT');
        assert.equal(await new Promise((done) => sampling.on('exit', done)), 1, words); // not all was kept
        assert.equal(words.match(/missing from now on/g).length, 1);
        assert.equal(fs.readdirSync(`${store}/windows`).filter((name) => !/^\d+-1\.pb\.gz$/.test(name)).length, 0, 'nothing half-written stays');
    } finally {
        spawnSync('umount', [store]);
    }
});

// The machine's own clock stays as it is: what sonde asks for the time of day is moved by as many seconds as a file says.
test('a clock that is set back and forward counts nothing twice, and the gap shows', { skip: compiler }, async () => {
    const store = path.join(folder, 'moved-clock'), moved = path.join(folder, 'moved'), shim = path.join(folder, 'clock.so'), program = build('timed', `
int main(void) { for (;;) { hot(300000); cold(100000); } }`);
    fs.writeFileSync(moved, '0');
    fs.writeFileSync(`${shim}.c`, `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int fd = -1;
__attribute__((constructor)) static void begin(void) { fd = open(getenv("MOVED"), O_RDONLY | O_CLOEXEC); }
int clock_gettime(clockid_t clock, struct timespec *at)
{
    char text[16] = "";
    long r = syscall(SYS_clock_gettime, clock, at);
    if (r == 0 && clock == CLOCK_REALTIME && pread(fd, text, sizeof(text) - 1, 0) > 0) at->tv_sec += atol(text);
    return (int)r;
}`);
    execFileSync('cc', ['-shared', '-fPIC', '-o', shim, `${shim}.c`]);
    const starts = () => (fs.existsSync(`${store}/windows`) ? fs.readdirSync(`${store}/windows`).map((name) => Number(/^(\d+)-1\.pb\.gz$/.exec(name)?.[1])).filter(Boolean) : []);
    const began = Date.now(), near = (seconds) => starts().filter((start) => Math.abs(start - began / 1000 - seconds) < 1800);
    const work = spawn(program, [], { stdio: 'ignore' });
    after(() => work.kill('SIGKILL'));
    const sampling = spawn(sonde, ['profile', '--store', store, '--window', '1', '-F', '97', String(work.pid)], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, LD_PRELOAD: shim, MOVED: moved } });
    let words = '';
    sampling.stderr.on('data', (part) => (words += part));
    for (const seconds of [0, -3600, 3600, 0]) { // written in place: it is open
        const before = near(seconds).length;
        fs.writeFileSync(moved, String(seconds).padEnd(8));
        assert.ok(await until(() => near(seconds).length >= before + 3), `${seconds}: ${starts()} ${words}`);
    }
    sampling.kill('SIGINT');
    assert.ok([0, 4].includes(await new Promise((done) => sampling.on('exit', done))), words);
    work.kill('SIGKILL');
    const took = Date.now() - began, { total } = json('--merge', ...fs.readdirSync(`${store}/windows`).map((name) => `${store}/windows/${name}`)).profile;
    assert.ok(total > 0 && total <= took * 1.05e6, `${total} ns in ${took} ms`);
    assert.match(words, /windows were added to .*, 0 could not be/);
    assert.ok(near(-3600).length >= 3 && near(3600).length >= 3 && near(0).length >= 6);
    const gap = spawnSync(sonde, ['diff', '--since', '30m', store], { encoding: 'utf8' });
    assert.match(gap.stdout, /until its end were not sampled/, gap.stdout + gap.stderr);
});

test('functions of services are told to Prometheus, in its own eyes without fault, and their sum is what was sampled', { skip: compiler }, async () => {
    const store = path.join(folder, 'told-windows'), program = build('told', `
int main(void) { for (;;) { hot(300000); cold(100000); } }`);
    const sampling = spawn(sonde, ['profile', '--store', store, '--window', '1', '-F', '997', '--metrics', '127.0.0.1:0', '--', program], { stdio: ['ignore', 'ignore', 'pipe'] });
    let words = '', text = '';
    sampling.stderr.on('data', (part) => (words += part));
    after(() => sampling.kill('SIGKILL'));
    assert.ok(await until(() => /metrics at http:\S+/.test(words)), words);
    const url = /metrics at (http:\S+)/.exec(words)[1], get = async () => (text = await (await fetch(url)).text());
    const seconds = (name) => Number(new RegExp(`^sonde_function_cpu_seconds_total{service="told",function="${name}"} (\\S+)$`, 'm').exec(text)?.[1] ?? 0);
    const kept = async () => Number(/^sonde_profile_windows_total{result="kept"} (\d+)$/m.exec(await get())[1]);
    for (let left = 300; left > 0 && (await kept()) < 3; left--) await new Promise((done) => setTimeout(done, 100));
    assert.ok(seconds('hot') > seconds('cold') && seconds('cold') > 0, text);
    assert.match(text, /^sonde_business_function_cpu_seconds_total{service="told",function="hot"} \d/m);
    assert.match(text, /^sonde_profile_frequency_hertz 997$/m); // it was asked for, whatever it costs
    assert.match(text, /^sonde_profile_own_cpu_seconds_total 0\.\d*[1-9]/m);
    assert.equal((await fetch(url.replace('/metrics', '/'))).status, 404);
    const unpacked = path.join(os.homedir(), '.cache/sonde/prometheus/usr/bin/promtool'), promtool = fs.existsSync(unpacked) ? unpacked : have('promtool') && 'promtool'; // make prometheus has unpacked it
    if (promtool) {
        const checked = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
        assert.equal(checked.status, 0, checked.stdout + checked.stderr);
    }
    sampling.kill('SIGINT');
    assert.ok([0, 4].includes(await new Promise((done) => sampling.on('exit', done))), words);
    // What was told is no more than what is kept, of which the last window may not have been told.
    const all = [...text.matchAll(/^sonde_function_cpu_seconds_total{.*} (\S+)$/gm)].reduce((sum, [, s]) => sum + Number(s), 0);
    const files = fs.readdirSync(`${store}/windows`).map((name) => `${store}/windows/${name}`);
    assert.ok(all > 0 && all * 1e9 <= json('--merge', ...files).profile.total + 1e3, text);
});

test('a rate that would cost more than it may is lowered, and no time is lost', { skip: compiler }, () => {
    const program = build('dear', `
int main(void) { began = now(CLOCK_MONOTONIC); while (now(CLOCK_MONOTONIC) - began < 23) { hot(300000); cold(100000); } return now(CLOCK_PROCESS_CPUTIME_ID) * 10; }`);
    const r = spawnSync(sonde, ['profile', '--json', '-F', '400', '--cost', '0.001', '--', program], { encoding: 'utf8', maxBuffer: 1 << 26 });
    const { total, cost } = JSON.parse(r.stdout).profile, took = 1e8 * r.status; // the program says how many tenths of a second of CPU time it had
    assert.match(r.stderr, /sampling took [\d.]+ % of the CPUs \(--cost 0.001\), at [\d.]+ Hz on average \(\d+ to 400\) instead of 400/);
    assert.ok(cost.least_hz <= 200 && cost.most_hz === 400 && cost.mean_hz < 400 && cost.taken_percent > cost.limit_percent && cost.limit_percent > 0, JSON.stringify(cost));
    assert.ok(took > 0 && Math.abs(total / took - 1) < 0.1, `${total} of ${took} ns`);
    const free = run('-F', '400', '--cost', '0', '-d', '1', '--', program);
    assert.doesNotMatch(free.stderr, /sampling took/);
});

test('options that do not go together are refused with the reason', { skip: false }, () => {
    for (const [options, words] of [
        [['--adaptive=fast', 'true'], /--adaptive: invalid preset 'fast' \(usual, paper, paper-fine\)/],
        [['--adaptive', '--event', 'off-cpu', '-d', '1', '1'], /--adaptive changes the rate of --event cpu/],
        [['--window', '0', 'true'], /--window: invalid number '0' \(1 to 3600\)/],
        [['--error', '5', 'true'], /--error: invalid target '5' \(ERROR%@SHARE%/],
        [['--error', '5%', '--adaptive', 'true'], /not with --adaptive/],
        [['--cost', '1', '--adaptive', 'true'], /--cost changes the rate by what sampling costs: not with/],
        [['--cost', '1', '--event', 'off-cpu', 'true'], /--cost changes the rate of --event cpu/],
        [['--cost', 'much', 'true'], /--cost: invalid percentage 'much' \(0 to 100\)/],
        [['--store', '/tmp/x', '-o', 'x.html', '1'], /--store keeps windows in a directory/],
        [['--store', '/tmp/x', '--window', '3', '1'], /windows of a store are of 1, 2, 5 or 10/],
        [['--metrics', '127.0.0.1:0', '--all'], /--metrics exports what --store keeps/],
        [['--prune=101', 'true'], /--prune: invalid percentage '101' \(1 to 100\)/],
    ]) {
        const r = run(...options);
        assert.equal(r.status, 2, options.join(' '));
        assert.match(r.stderr, words);
    }
});
