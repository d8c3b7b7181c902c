// One sampler for native code, Python, Node.js and Java: names, nesting, shares known by construction, formats, faults.
// SPDX-License-Identifier: Apache-2.0
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually, noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-profile-'));
after(() => fs.rmSync(folder, { recursive: true }));

const skip = noProfiles();
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

// Every Java that is installed, the usual one first.
const jvms = fs.existsSync('/usr/lib/jvm') ? fs.readdirSync('/usr/lib/jvm').map((name) => `/usr/lib/jvm/${name}/bin/java`) : [];
const JAVAS = [...new Set(['/usr/bin/java', ...jvms, ...(process.env.SONDE_JAVAS || '').split(':')].filter((file) => fs.existsSync(file)).map((file) => fs.realpathSync(file)))];
// Node as it is installed, and other builds that are at hand: named, or Debian's as `tools/runtimes install` puts it (its code
// in libnode.so and libuv.so; it reads /usr/share/nodejs, so that takes a mount of its own).
const debian = path.join(process.env.SONDE_RUNTIMES || path.join(os.homedir(), '.cache', 'sonde', 'runtimes'), 'debian-node');
const NODES = [process.execPath, ...(process.env.SONDE_NODES || '').split(':').filter(Boolean)].map((file) => [file]);
if (fs.existsSync(path.join(debian, 'usr/bin/node')) && process.getuid() === 0)
    NODES.push(['env', `LD_LIBRARY_PATH=${path.join(debian, 'usr/lib/x86_64-linux-gnu')}`, 'unshare', '-m', 'sh', '-c', 'mount --bind "$0/usr/share" /usr/share && exec "$0/usr/bin/node" "$@"', debian]);

// Profiles a command; its folded stacks as [[frames], weight].
function profile(command, options = []) {
    const result = spawnSync(sonde, ['profile', '-F', '997', '-f', 'folded', '-o', '-', ...options, '--', ...command], { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(result.status, 0, result.stderr);
    const stacks = result.stdout.trim().split('\n').filter(Boolean).map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice(0, at).split(';').map((f) => f.replace(/_\[[jk]\]$/, '')), Number(line.slice(at + 1))];
    });
    return { stacks, stdout: result.stdout, stderr: result.stderr };
}
// Of a process that may be gone.
const listed = (at) => { try { return fs.readdirSync(at); } catch { return []; } };
const descriptorsOf = (pid) => listed(`/proc/${pid}/fd`).map((fd) => { try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`); } catch { return ''; } });
const childrenOf = (pid) => listed(`/proc/${pid}/task`).flatMap((tid) => { try { return fs.readFileSync(`/proc/${pid}/task/${tid}/children`, 'utf8').split(' ').filter(Boolean); } catch { return []; } });
const weight = (stacks, keep = () => true) => stacks.filter(([frames]) => keep(frames)).reduce((sum, [, w]) => sum + w, 0);
const holds = (...names) => (frames) => {
    let at = 0;
    for (const f of frames) if (at < names.length && (f === names[at] || f.endsWith('.' + names[at]))) at++;
    return at === names.length;
};
const complete = (stacks) => 1 - weight(stacks, (f) => f.some((x) => x.startsWith('[truncated'))) / weight(stacks);
// heavy does three times the work of light; the spinner's own clock decides nothing here.
function assertShares(stacks, heavy, light) {
    const h = weight(stacks, heavy), l = weight(stacks, light);
    assert.ok(h + l > 0.7 * weight(stacks), `${h + l} of ${weight(stacks)} in the two functions`);
    const share = h / (h + l);
    assert.ok(share > 0.6 && share < 0.88, `share ${share}, 0.75 by construction`);
}

test('stripped C++ without frame pointers', { skip: skip || (!have('g++') && 'needs g++') }, () => {
    const source = path.join(folder, 'native.cpp'), program = path.join(folder, 'native');
    fs.writeFileSync(source, `
#include <cstdlib>
#include <ctime>
struct Shop {
    volatile unsigned long sink = 0;
    __attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sink += i * i; asm volatile(""); }
    __attribute__((noinline)) void heavy(long n) { spin(3 * n); asm volatile(""); }
    __attribute__((noinline)) void light(long n) { char large[50000]; asm volatile("" :: "r"(large) : "memory"); spin(n); asm volatile(""); } // a frame of more than 32 KB
};
int main() { Shop shop; for (timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), t.tv_sec < 3;) { long n = 20000 + rand() % 160000; shop.heavy(n); shop.light(n); } }
`);
    execFileSync('g++', ['-O2', '-fomit-frame-pointer', '-rdynamic', '-o', program, source]);
    execFileSync('strip', [program]); // .dynsym stays, as in a shared library
    const { stacks } = profile([program]);
    assertShares(stacks, holds('main', 'Shop::heavy', 'Shop::spin'), holds('main', 'Shop::light', 'Shop::spin'));
    assert.ok(complete(stacks) > 0.95, `${complete(stacks)} complete`);
});

// Inlined functions are frames of their own, also where the compiler writes no index of its units.
for (const compiler of ['g++', 'clang++-14'])
    test(`inlined C++ by ${compiler}`, { skip: skip || (!have(compiler) && `needs ${compiler}`) }, () => {
        const source = path.join(folder, 'inlined.cpp'), program = path.join(folder, 'inlined');
        fs.writeFileSync(source, `
#include <cstdlib>
#include <ctime>
volatile unsigned long sink;
struct Engine {
    __attribute__((always_inline)) inline void step(long n) { for (long i = 0; i < n; i++) sink += i * i; }
    __attribute__((always_inline)) inline void heavy(long n) { step(3 * n); }
    __attribute__((always_inline)) inline void light(long n) { step(n); }
};
__attribute__((noinline)) void run(Engine &engine, long n) { engine.heavy(n); engine.light(n); }
int main() { Engine engine; for (timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), t.tv_sec < 2;) run(engine, 20000 + rand() % 160000); }
`);
        execFileSync(compiler, ['-g', '-O2', '-o', program, source]);
        const { stacks } = profile([program]);
        assertShares(stacks, holds('run', 'Engine::heavy', 'Engine::step'), holds('run', 'Engine::light', 'Engine::step'));
        const folded = execFileSync(sonde, ['profile', '-q', '--no-inline', '-F', '499', '-f', 'folded', '--', program], { encoding: 'utf8' });
        assert.match(folded, /;run \d/);
        assert.doesNotMatch(folded, /Engine::/);
    });

test('a program that keeps step with the sampling rate', { skip: skip || (!have('cc') && 'needs a C compiler') }, () => {
    const source = path.join(folder, 'step.c'), program = path.join(folder, 'step');
    fs.writeFileSync(source, `
#include <time.h>
static volatile unsigned long sink;
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
__attribute__((noinline)) void quarter(long until) { while (now(CLOCK_MONOTONIC) < until) for (int i = 0; i < 1000; i++) sink += i; __asm__ volatile(""); }
__attribute__((noinline)) void rest(long until) { while (now(CLOCK_MONOTONIC) < until) for (int i = 0; i < 1000; i++) sink += i; __asm__ volatile(""); }
int main(void) { long step = 1000000000l / 997; for (long t; t = now(CLOCK_MONOTONIC) / step * step, now(CLOCK_PROCESS_CPUTIME_ID) < 2000000000l;) { quarter(t + step / 4); rest(t + step); } }
`);
    execFileSync('cc', ['-O1', '-o', program, source]);
    const { stacks } = profile([program]), quarter = weight(stacks, holds('main', 'quarter')), rest = weight(stacks, holds('main', 'rest'));
    const share = quarter / (quarter + rest);
    assert.ok(share > 0.15 && share < 0.37, `share ${share}, 0.25 by construction`);
});

test('Python, each frame in its place', { skip: skip || (!have('/usr/bin/python3') && 'needs python3') }, () => {
    const source = path.join(folder, 'work.py');
    fs.writeFileSync(source, `
import random, time
class Shop:
    def spin(self, n):
        s = 0
        for i in range(n): s += i * i
        return s
    def heavy(self): return self.spin(3 * self.n)
    def light(self): return self.spin(self.n)
shop = Shop()
while time.process_time() < 3:
    shop.n = random.randrange(2000, 18000)
    list(map(lambda f: f(), [shop.heavy, shop.light]))
`);
    const { stacks } = profile(['/usr/bin/python3', source]);
    assertShares(stacks, holds('<module>', '<lambda>', 'Shop.heavy', 'Shop.spin'), holds('<module>', '<lambda>', 'Shop.light', 'Shop.spin'));
    assert.ok(complete(stacks) > 0.95, `${complete(stacks)} complete`);
});

test('Node.js, named from the first seconds on', { skip }, () => {
    const source = path.join(folder, 'work.js');
    fs.writeFileSync(source, `
function spin(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
class Shop { heavy(n) { let s = 0; for (let i = 0; i < 30; i++) s += spin(n); return s; } light(n) { let s = 0; for (let i = 0; i < 10; i++) s += spin(n); return s; } }
const shop = new Shop();
setTimeout(function main() { while (process.cpuUsage().user < 3e6) { const n = 4000 + 32000 * Math.random(); shop.heavy(n); shop.light(n); } }, 1);
`);
    for (const node of NODES) {
        const { stacks } = profile([...node, source]);
        const inMain = stacks.filter(([f]) => f.includes('main') && f.some((x) => x === 'heavy' || x === 'light'));
        assert.ok(weight(inMain) > 0.5 * weight(stacks), `${node}: ${weight(inMain)} of ${weight(stacks)}`);
        const h = weight(inMain, (f) => f.includes('heavy')), l = weight(inMain, (f) => f.includes('light'));
        assert.ok(h / (h + l) > 0.6 && h / (h + l) < 0.88, `${node}: share ${h / (h + l)}`);
        assert.ok(complete(stacks) > 0.9, `${node}: ${complete(stacks)} complete`);
    }
});

test('Java: compiled, inlined and interpreted methods, and who pays for the library', { skip: skip || (!have('javac') && 'needs a JDK') }, () => {
    fs.writeFileSync(path.join(folder, 'Gen.java'), `
import java.util.UUID;
public class Gen {
    static long sink;
    static int n;
    static void uuid100() { for (int i = 0; i < n; i++) sink += UUID.randomUUID().hashCode(); }
    static void uuid300() { for (int i = 0; i < 3 * n; i++) sink += UUID.randomUUID().hashCode(); }
    public static void main(String[] a) { var self = java.lang.management.ManagementFactory.getThreadMXBean(); while (self.getCurrentThreadCpuTime() < 4_000_000_000L) { n = 20 + (int) (160 * Math.random()); uuid100(); uuid300(); } }
}`);
    execFileSync('javac', ['--release', '11', '-d', folder, path.join(folder, 'Gen.java')]);
    for (const java of JAVAS) {
        const { stacks, stderr } = profile([java, '-cp', folder, 'Gen'], ['--business']);
        const h = weight(stacks, holds('Gen.main', 'Gen.uuid300', 'java.util.UUID.randomUUID'));
        const l = weight(stacks, holds('Gen.main', 'Gen.uuid100', 'java.util.UUID.randomUUID'));
        assert.ok(h + l > 0.08 * weight(stacks), `${java}: ${h + l} of ${weight(stacks)}`);
        assert.ok(h / (h + l) > 0.6 && h / (h + l) < 0.88, `${java}: share ${h / (h + l)}`);
        assert.ok(complete(stacks) > 0.9, `${java}: ${complete(stacks)} complete`);
        assert.match(stderr, /Java [\d.]+ % of/, java);
        assert.match(stderr, /application functions[\s\S]*Gen.uuid300\s[\s\S]*of it .* in java.util.UUID.randomUUID/, java);
    }
});

// A copy of a virtual machine in which the name of one field that a walk needs is another one.
test('Java: compiled code that pushes a word to compare strings is stepped through', { skip: skip || (!have('javac') && 'needs a JDK') }, () => {
    fs.writeFileSync(path.join(folder, 'Compare.java'), `
public class Compare {
    static long sink;
    static void compare(String[] s) { for (String a : s) for (String b : s) sink += a.compareTo(b); }
    public static void main(String[] a) {
        String[] s = new String[100];
        for (int i = 0; i < s.length; i++) s[i] = "x".repeat(500) + i;
        var self = java.lang.management.ManagementFactory.getThreadMXBean();
        while (self.getCurrentThreadCpuTime() < 3_000_000_000L) compare(s);
    }
}`);
    execFileSync('javac', ['--release', '11', '-d', folder, path.join(folder, 'Compare.java')]);
    for (const java of JAVAS) {
        const { stacks } = profile([java, '-cp', folder, 'Compare']);
        const inside = weight(stacks, holds('Compare.compare')), whole = weight(stacks, holds('Compare.main', 'Compare.compare'));
        assert.ok(inside > 0.5 * weight(stacks) && whole > 0.97 * inside, `${java}: ${whole} of ${inside} of ${weight(stacks)}`);
    }
});

test('Java: a class that takes the place of one that was unloaded has its own name', { skip: skip || (!have('javac') && 'needs a JDK') }, () => {
    const TURNS = 8, classes = path.join(folder, 'turns');
    fs.mkdirSync(classes);
    for (let i = 0; i < TURNS; i++)
        fs.writeFileSync(path.join(classes, `Turn${i}.java`), `
public class Turn${i} { public static void turn() { var self = java.lang.management.ManagementFactory.getThreadMXBean(); long t = self.getCurrentThreadCpuTime(); while (self.getCurrentThreadCpuTime() - t < 150_000_000L); } }`);
    fs.writeFileSync(path.join(folder, 'Unload.java'), `
public class Unload {
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < ${TURNS}; i++) {
            var loader = new java.net.URLClassLoader(new java.net.URL[] { java.nio.file.Path.of(a[0]).toUri().toURL() }, null);
            loader.loadClass("Turn" + i).getMethod("turn").invoke(null);
            loader.close();
            loader = null;
            System.gc();
        }
    }
}`);
    execFileSync('javac', ['--release', '11', '-d', classes, ...Array.from({ length: TURNS }, (_, i) => path.join(classes, `Turn${i}.java`))]);
    execFileSync('javac', ['--release', '11', '-d', folder, path.join(folder, 'Unload.java')]);
    for (const [java, ...options] of [...JAVAS.map((file) => [file]), [JAVAS[0], '-Xint']]) {
        const { stacks } = profile([java, ...options, '-cp', folder, 'Unload', classes]);
        const turns = Array.from({ length: TURNS }, (_, i) => weight(stacks, (f) => f.includes(`Turn${i}.turn`)));
        // What is named too late, by a sonde that had no CPU, has no name; it has never another's.
        const gone = weight(stacks, (f) => f.includes('(gone)')), told = `${java} ${options}: each took 0.15 s, and has ${turns.map((ns) => Math.round(ns / 1e6))} ms; ${Math.round(gone / 1e6)} ms gone`;
        assert.ok(turns.every((turn) => turn < 225e6 && turn + gone > 75e6), told);
        assert.ok(turns.filter((turn) => turn > 75e6).length >= TURNS / 2, told);
    }
});

test('Java of a virtual machine that is not known is truncated, and said to be', { skip: skip || (!have('javac') && 'needs a JDK') }, () => {
    const home = path.dirname(path.dirname(fs.realpathSync(JAVAS[0]))), copy = path.join(folder, 'java'), library = 'lib/server/libjvm.so';
    execFileSync('cp', ['-rs', home, copy]);
    for (const file of ['bin/java', 'lib/libjli.so', library]) {
        fs.rmSync(path.join(copy, file));
        fs.copyFileSync(path.join(home, file), path.join(copy, file));
    }
    fs.chmodSync(path.join(copy, 'bin/java'), 0o755);
    const bytes = fs.readFileSync(path.join(copy, library));
    for (let at; (at = bytes.indexOf('_log2_segment_size\0')) >= 0;) bytes[at + 1] = 'L'.charCodeAt(0);
    fs.writeFileSync(path.join(copy, library), bytes);
    fs.writeFileSync(path.join(folder, 'Busy.java'), 'public class Busy { static long sink; public static void main(String[] a) { for (long end = System.nanoTime() + 2_000_000_000L; System.nanoTime() < end;) for (int i = 0; i < 100000; i++) sink = sink * 31 + i; } }');
    execFileSync('javac', ['--release', '11', '-d', folder, path.join(folder, 'Busy.java')]);
    const { stacks, stderr } = profile([path.join(copy, 'bin/java'), '-Xint', '-cp', folder, 'Busy']);
    const truncated = weight(stacks, (f) => f.some((x) => x === '[truncated: a Java virtual machine that is not known]'));
    assert.ok(truncated > 0.3 * weight(stacks), `${truncated} of ${weight(stacks)}: ${stderr}`);
    assert.equal(weight(stacks, (f) => f.includes('[unknown code]') && !f.some((x) => x.startsWith('[truncated'))), 0, 'unknown code in stacks that count as complete');
    assert.ok(weight(stacks, (f) => f.includes('[unknown code]')) >= truncated, 'a reason without unknown code');
    assert.match(stderr, /truncated: .*\d+ a Java virtual machine that is not known/);
});

test('generated code: with a perf map it is named, without one stacks end there and say so', { skip: skip || (!have('cc') && 'needs a C compiler') }, () => {
    const source = path.join(folder, 'jit.c'), program = path.join(folder, 'jit');
    fs.writeFileSync(source, `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{   /* push rbp; mov rbp, rsp; 1: dec rdi; jnz 1b; pop rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};
    void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof(code));
    if (argc > 1) {
        char map[64];
        snprintf(map, sizeof(map), "/tmp/perf-%d.map", getpid());
        FILE *to = fopen(map, "w");
        fprintf(to, "%lx %zx generated_spin\\n", (long)at, sizeof(code));
        fclose(to);
        puts(map);
    }
    for (struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), t.tv_sec < 1;)
        ((void (*)(long))at)(100000 + rand() % 100000);
}
`);
    execFileSync('cc', ['-O1', '-fno-omit-frame-pointer', '-o', program, source]);
    const bare = profile([program]), all = weight(bare.stacks);
    assert.ok(weight(bare.stacks, (f) => f.includes('[truncated: generated code that nothing names]') && f.at(-1) === '[unknown code]') > 0.8 * all, bare.stderr);
    assert.match(bare.stderr, /truncated: .*generated code that nothing names/);
    const named = profile([program, 'map'], ['-o', path.join(folder, 'jit.folded')]);
    const text = fs.readFileSync(path.join(folder, 'jit.folded'), 'utf8');
    for (const [map] of named.stdout.matchAll(/\/tmp\/perf-\d+\.map/g)) fs.rmSync(map);
    assert.match(text, /;main;generated_spin_\[j\] \d{8}/);
    assert.doesNotMatch(text, /unknown code/);
});

test('Go, stripped', { skip: skip || (!have('go') && 'needs go') }, () => {
    fs.writeFileSync(path.join(folder, 'spin.go'), `package main
import ("math/rand"; "syscall"; "time")
var sink int
//go:noinline
func spin(n int) { for i := 0; i < n; i++ { sink += i * i } }
//go:noinline
func heavy(n int) { spin(3 * n) }
//go:noinline
func light(n int) { spin(n) }
func main() { done := make(chan bool); go func() { var u syscall.Rusage; for { for k := 0; k < 20; k++ { n := 20000 + rand.Intn(160000); heavy(n); light(n) }; syscall.Getrusage(0, &u); if u.Utime.Sec >= 1 { break } }; done <- true }(); <-done; time.Sleep(1) }
`);
    execFileSync('go', ['build', '-ldflags=-s -w', '-o', path.join(folder, 'spin-go'), path.join(folder, 'spin.go')], { env: { ...process.env, HOME: folder, GO111MODULE: 'off', GOFLAGS: '' } });
    const { stacks } = profile([path.join(folder, 'spin-go')]);
    assertShares(stacks, holds('main.main.func1', 'main.heavy', 'main.spin'), holds('main.main.func1', 'main.light', 'main.spin'));
    assert.ok(complete(stacks) > 0.95, `${complete(stacks)} complete`);
});

test('formats that others read', { skip }, () => {
    const spin = [process.execPath, '-e', 'function busy(){let s=0;for(let i=0;i<1e7;i++)s+=i;return s} for(let k=0;k<60;k++)busy()'];
    for (const name of ['p.pb.gz', 'p.html', 'p.folded', 'p.speedscope.json', 'p.firefox.json']) {
        const file = path.join(folder, name);
        const result = spawnSync(sonde, ['profile', '-F', '499', '-o', file, '--', ...spin], { encoding: 'utf8' });
        assert.equal(result.status, 0, result.stderr);
        const data = fs.readFileSync(file);
        assert.ok(data.length > 100);
        if (name === 'p.pb.gz') assert.ok(zlib.gunzipSync(data).includes('busy'));
        else if (name === 'p.html') assert.ok(zlib.gunzipSync(Buffer.from(/data-part="s\/0\/profile">([^<]*)</.exec(data)[1], 'base64')).includes('busy'));
        else assert.ok(data.includes('busy'), name);
        if (name.endsWith('.json')) {
            const json = JSON.parse(data);
            if (name.includes('speedscope')) {
                assert.equal(json.profiles[0].samples.length, json.profiles[0].weights.length);
                assert.ok(json.profiles[0].samples.every((s) => s.every((f) => f < json.shared.frames.length)));
            } else {
                assert.ok(json.threads.length > 0);
            }
        }
    }
    if (have('go')) assert.match(execFileSync('go', ['tool', 'pprof', '-raw', path.join(folder, 'p.pb.gz')], { encoding: 'utf8', env: { ...process.env, HOME: folder } }), /business_function:\[busy\]/);
});

test('Python code that takes the place of code that was freed has its own name', { skip: skip || (!fs.existsSync('/usr/bin/python3') && 'needs Python') }, () => {
    // Each function is alone when it runs, and the next one's code lies where its code lay (the program says so).
    const source = `import gc, time
seen, again = set(), 0
for i in range(12):
    scope = {'time': time}
    exec(f"def turn_{i}():\\n  end = time.process_time() + 0.1\\n  while time.process_time() < end: pass", scope)
    f = scope[f'turn_{i}']
    again += id(f.__code__) in seen
    seen.add(id(f.__code__))
    f()
    del f, scope
    gc.collect() # the function knows the scope that knows it
print(again)`;
    const file = path.join(folder, 'again.folded');
    const again = execFileSync(sonde, ['profile', '-q', '-F', '997', '-o', file, '--', '/usr/bin/python3', '-c', source], { encoding: 'utf8' });
    assert.ok(Number(again) >= 6, `only ${again} of 12 functions have the place of another one`);
    const stacks = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => [line.split(';').map((f) => f.replace(/ \d+$/, '')), Number(line.split(' ').at(-1))]);
    const turns = Array.from({ length: 12 }, (_, i) => weight(stacks, (f) => f.includes(`turn_${i}`)));
    assert.ok(turns.every((turn) => turn > 40e6 && turn < 200e6), `each took 0.1 s, and has ${turns.map((ns) => Math.round(ns / 1e6))} ms`);
});

test('a running process, and one that replaces itself', { skip }, async () => {
    // It works in a shell until that is sampled, then in Python until that has been.
    const go = path.join(folder, 'go'), done = path.join(folder, 'done'), PYTHON = `\nimport time\ndef inner(seconds):\n  end = time.process_time() + seconds\n  while time.process_time() < end: pass\ninner(1.5)\nopen("${done}", "w")\nwhile True: inner(1)`;
    const child = spawn('sh', ['-c', `until [ -e '${go}' ]; do :; done; exec /usr/bin/python3 -c '${PYTHON}'`]);
    after(() => child.kill('SIGKILL'));
    const sampling = spawn(sonde, ['profile', '-F', '499', '-f', 'folded', String(child.pid)], { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '', stderr = '', ended;
    sampling.stdout.setEncoding('utf8').on('data', (part) => (stdout += part));
    sampling.stderr.setEncoding('utf8').on('data', (part) => (stderr += part));
    sampling.on('close', (status) => (ended = { status }));
    const reads = () => /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${sampling.pid}/status`, 'utf8')); // from then on it does nothing else
    await eventually('it samples', () => ended || reads());
    fs.writeFileSync(go, '');
    if (fs.existsSync('/usr/bin/python3')) await eventually('Python has worked for a while', () => ended || fs.existsSync(done));
    sampling.kill('SIGINT');
    const { status } = await eventually('the profile', () => ended);
    child.kill('SIGKILL');
    assert.equal(status, 0, stderr);
    if (fs.existsSync('/usr/bin/python3')) assert.match(stdout, /;inner/);
});

test('where a process waits', { skip }, () => {
    const source = `const end = Date.now() + 600; while (Date.now() < end); const cell = new Int32Array(new SharedArrayBuffer(4));
function idle() { for (let i = 0; i < 4; i++) Atomics.wait(cell, 0, 0, 150); } idle();`;
    const { stacks } = profile([process.execPath, '-e', source], ['--event', 'off-cpu']);
    const idle = stacks.filter(([f]) => f.includes('idle') && f.some((x) => /futex/i.test(x)));
    assert.ok(weight(idle) > 300e6, JSON.stringify(stacks.slice(0, 5)));
    assert.ok(idle.every(([f]) => !/bpf/.test(f.at(-1))), 'the sampler itself is in the stacks');
});

// The fields of a protobuf message: [number, bytes or number].
function fieldsOf(bytes) {
    const fields = [];
    let at = 0;
    const number = () => {
        let n = 0, digit = 1, byte;
        do { byte = bytes[at++]; n += (byte & 127) * digit; digit *= 128; } while (byte > 127);
        return n;
    };
    while (at < bytes.length) {
        const key = number(), value = number();
        fields.push([key >> 3, (key & 7) === 2 ? bytes.subarray(at, (at += value)) : value]);
    }
    return fields;
}

// How many samples of a pprof profile have a function in their stack.
function samplesIn(file, name) {
    const profile = fieldsOf(zlib.gunzipSync(fs.readFileSync(file))), all = (message, number) => message.filter(([n]) => n === number).map(([, value]) => value);
    const numbers = (bytes) => { const list = []; for (let at = 0, n = 0, digit = 1; at < bytes.length; at++) { n += (bytes[at] & 127) * digit; digit *= 128; if (bytes[at] < 128) { list.push(n); n = 0; digit = 1; } } return list; };
    const strings = all(profile, 6).map(String), functions = new Set(all(profile, 5).map(fieldsOf).filter((f) => strings[all(f, 2)[0]] === name).map((f) => all(f, 1)[0]));
    const places = new Set(all(profile, 4).map(fieldsOf).filter((l) => all(l, 4).some((line) => functions.has(all(fieldsOf(line), 1)[0]))).map((l) => all(l, 1)[0]));
    return all(profile, 2).map(fieldsOf).filter((s) => numbers(all(s, 1)[0]).some((place) => places.has(place))).reduce((sum, s) => sum + numbers(all(s, 2)[0])[0], 0);
}

test('each wait is there, also where the kernel does not report that a thread has a CPU again', { skip: skip || (!have('cc') && 'needs a C compiler') }, () => {
    const source = path.join(folder, 'sleeps.c'), program = path.join(folder, 'sleeps'), file = path.join(folder, 'sleeps.pb.gz');
    fs.writeFileSync(source, `
#include <pthread.h>
#include <unistd.h>
static void *sleeps(void *x) { for (int i = 0; i < 1000; i++) usleep(300); return x; }
int main(void)
{
    pthread_t threads[8];
    usleep(300000); /* until its own code can be told apart */
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, sleeps, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
}`);
    execFileSync('cc', ['-O1', '-pthread', '-o', program, source]);
    const { status, stderr } = spawnSync(sonde, ['profile', '--event', 'off-cpu', '--off-cpu-min', '0', '-o', file, '--', program], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const lost = Number(/; (\d+) lost/.exec(stderr)[1]);
    assert.ok(samplesIn(file, 'sleeps') + lost >= 8000, `${samplesIn(file, 'sleeps')} of 8000 sleeps, ${lost} lost: ${stderr}`);
});

test('who ended a wait, and how long a thread that could run had no processor', { skip: skip || (!have('cc') && 'needs a C compiler') }, () => {
    const source = path.join(folder, 'waits.c'), program = path.join(folder, 'waits');
    fs.writeFileSync(source, `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn;
__attribute__((noinline)) void awaits_turn(void) { pthread_mutex_lock(&mutex); while (!turn) pthread_cond_wait(&condition, &mutex); turn--; pthread_mutex_unlock(&mutex); }
static void *worker(void *x) { for (int i = 0; i < 20; i++) awaits_turn(); return x; }
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
__attribute__((noinline)) void contends(void) { double began = cpu(); while (cpu() - began < 0.3) ; }
static void *spinner(void *x) { contends(); return x; }
int main(void)
{
    pthread_t first, second;
    cpu_set_t one;
    pthread_create(&first, 0, worker, 0);
    for (int i = 0; i < 20; i++) { usleep(50000); pthread_mutex_lock(&mutex); turn++; pthread_cond_signal(&condition); pthread_mutex_unlock(&mutex); }
    pthread_join(first, 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one); /* of both threads that are started now */
    pthread_create(&first, 0, spinner, 0);
    pthread_create(&second, 0, spinner, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
}`);
    execFileSync('cc', ['-O1', '-g', '-pthread', '-o', program, source]);
    const { stacks } = profile([program], ['--event', 'off-cpu', '--wakers']), ends = (text) => (f) => f.at(-1).startsWith(text);
    // Two threads of 0.3 s each on one CPU: while one runs the other could.
    assert.ok(weight(stacks, (f) => f.includes('contends') && ends('[waiting for a CPU]')(f)) > 200e6, JSON.stringify(stacks));
    assert.equal(weight(stacks, (f) => f.includes('contends') && ends('[woken')(f)), 0, 'it never slept');
    const turns = stacks.filter(([f]) => f.includes('awaits_turn') && ends('[woken by ')(f));
    assert.ok(weight(turns) > 200e6, JSON.stringify(stacks));
    assert.ok(turns.every(([f]) => ends('[woken by waits (')(f)), JSON.stringify(turns));
    assert.ok(weight(stacks, (f) => f.some((x) => /nanosleep/.test(x)) && ends('[woken by a timer]')(f)) > 200e6, JSON.stringify(stacks));
});

test('idle waits are left out, and their sum is reported; real ones are not', { skip }, () => {
    // The event loop and the workers have nothing to do; then the main thread waits in spawnSync(), which uses an event loop as well.
    const source = `const { spawnSync } = require('child_process');
        let left = 5;
        const turn = () => { spawnSync('sleep', ['0.1']); if (--left) require('fs').readFile('/etc/hosts', () => setTimeout(turn, 100)); };
        turn();`;
    const command = [process.execPath, '-e', source], blocked = (f) => f.some((x) => /SyncProcessRunner/.test(x));
    const waits = (f) => !f.at(-1).startsWith('[waiting for a CPU'), loop = (f) => waits(f) && f.some((x) => x === 'uv__io_poll') && !blocked(f);
    const usual = profile(command, ['--event', 'off-cpu', '--no-kernel']);
    assert.ok(weight(usual.stacks, blocked) > 400e6, JSON.stringify(usual.stacks));
    assert.equal(weight(usual.stacks, loop), 0, JSON.stringify(usual.stacks));
    const [, sum, unit, count] = /left out: ([\d.]+) (\w+) of (\d+) idle waits/.exec(usual.stderr) || assert.fail(usual.stderr);
    assert.ok(unit === 's' && Number(sum) > 1 && Number(count) > 4, usual.stderr); // four workers, V8's and the loop
    const all = profile(command, ['--event', 'off-cpu', '--no-kernel', '--idle']);
    assert.ok(weight(all.stacks, loop) > 350e6, JSON.stringify(all.stacks)); // four times 0.1 s
    assert.ok(weight(all.stacks, (f) => f.includes('worker') && waits(f)) > 400e6, JSON.stringify(all.stacks));
    assert.doesNotMatch(all.stderr, /left out/);
    const { profile: document } = JSON.parse(execFileSync(sonde, ['profile', '--json', '--event', 'off-cpu', '--', ...command], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
    assert.ok(document.quality.idle_ns > 1e9 && document.quality.idle_waits_count > 4, JSON.stringify(document.quality));
    assert.equal(spawnSync(sonde, ['profile', '--idle', '--', 'true']).status, 2, '--idle without waits');
});

test("the kernel's own threads, and the kernel's part of a process' first stacks", { skip: skip || (process.getuid() !== 0 && 'needs root') }, () => {
    // Every switch of a thread happens in the kernel; processes of milliseconds have few others than their first.
    const args = ['profile', '--all', '-e', 'context-switches', '-f', 'folded', '--', 'sh', '-c', 'for i in $(seq 20); do sleep 0.02; done'];
    const { stdout, stderr, status } = spawnSync(sonde, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.ok(status === 0 || status === 4, stderr); // 4: a loaded machine lost some
    const lines = stdout.trim().split('\n');
    assert.deepEqual(lines.filter((line) => !/_\[k\] \d+$/.test(line)), [], 'stacks without the kernel');
    const threads = lines.filter((line) => /^\[[^;]*\] \(\d+\);(?!\[truncated).*\bkthread_\[k\];/.test(line));
    assert.ok(threads.length, stdout.slice(0, 10000));
    const [, stacks] = /kernel 100.00 % of (\d+)/.exec(stderr) || assert.fail(stderr);
    assert.ok(Number(stacks) >= weight(threads.map((line) => [[], Number(line.split(' ').at(-1))])), stderr);
});

// The kernel times the programs of everybody while anyone asks it to: sonde times its own.
test('no BPF program of the host becomes slower', { skip: skip || (process.getuid() !== 0 && 'needs root') }, async () => {
    const child = spawn(sonde, ['profile', '-F', '997', '-o', path.join(folder, 'timed.folded'), '--', process.execPath, '-e', 'for (const end = Date.now() + 3000; Date.now() < end;);'], { stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = once(child, 'exit'), own = () => [child.pid, ...childrenOf(child.pid)], seen = new Set();
    let said = '';
    child.stderr.on('data', (part) => (said += part));
    while (child.exitCode === null && child.signalCode === null) {
        for (const pid of own()) for (const file of descriptorsOf(pid)) seen.add(file);
        await Promise.race([ended, pause(20)]);
    }
    assert.equal(child.exitCode, 0, said);
    assert.ok([...seen].some((file) => file.includes('bpf-prog')), 'its programs were seen');
    assert.ok(![...seen].some((file) => file.includes('bpf-stats')), [...seen].join(' '));
    assert.ok(Number(/sampler (\d+) ns a tick/.exec(said)?.[1]) > 0, said);
});

test('short-lived processes and execve storms end in a report', { skip }, () => {
    const { stacks } = profile(['sh', '-c', 'for i in $(seq 200); do /bin/true; done; /usr/bin/env sh -c "exec /bin/echo x" >/dev/null']);
    assert.ok(weight(stacks) > 0);
});

test('says what is wrong, and why nothing is there', { skip }, () => {
    const at = (...args) => spawnSync(sonde, ['profile', ...args], { encoding: 'utf8' });
    assert.equal(at().status, 2);
    assert.equal(at('-e', 'nonsense', '1').status, 2);
    assert.equal(at('-o', 'x.unknown', '1').status, 2);
    assert.match(at('4194303').stderr, /4194303/);
    const nothing = at('-d', '0.3', String(process.pid));
    assert.ok([0, 5].includes(nothing.status));
    const idle = spawn('sleep', ['1000']), sleeps = () => fs.readFileSync(`/proc/${idle.pid}/stat`, 'utf8').includes('(sleep) S');
    while (!sleeps()) execFileSync('sleep', ['0.05']); // until it has started
    const empty = at('-d', '0.3', String(idle.pid));
    idle.kill();
    assert.equal(empty.status, 5);
    assert.match(empty.stderr, /no samples.*off-cpu/s);
    assert.equal(at('--', '/nonexistent/program').status, 127);
    assert.equal(at('-q', '-f', 'folded', '--', 'sh', '-c', 'exit 9').status, 9);
    const full = at('-d', '0.2', '-o', '/dev/full/x.html', String(process.pid));
    assert.equal(full.status, 1);
});
