// How right profiles are. Spinners in C, C++, Python, Node.js, Java and Go: six functions of known shares, whose calls take
// 50 us to 1 ms of random length and are timed by the thread's CPU clock; and the layers of VGG16 in PyTorch, timed the same
// way. Printed: the mean absolute error of a function's share, beside what drawing as many samples at random would give
// (sqrt(2/pi * p(1-p)/n), the mean over the functions), and perf's for C (by DWARF: a leaf has no frame pointer).
//   node bench/accuracy.mjs SONDE [RATES] [SECONDS] [LANGUAGES]
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [sonde, rates = '99,997', seconds = '10', wanted = ''] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-accuracy-')), at = (name) => path.join(folder, name);
const write = (name, text) => { fs.writeFileSync(at(name), text); return at(name); };
const have = (p) => spawnSync('sh', ['-c', `command -v ${p}`]).status === 0;
const SHARES = [30, 25, 20, 15, 7, 3], each = (text) => SHARES.map((w, i) => text(`part${i + 1}`, i, w)).join('');

// Each prints "FUNCTION NANOSECONDS" lines. A unit of work is about 20 us.
const native = (head, spin) => `${head}
static unsigned long long now() { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static volatile unsigned long sink;
__attribute__((noinline)) static void ${spin}(long n) { unsigned long x = n; for (long i = 0; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } sink = x; }
${each((f) => `__attribute__((noinline)) void ${f}(long n) { ${spin}(n); __asm__ volatile(""); }\n`)}
int main() {
    unsigned long long used[${SHARES.length}] = {0}, start;
    while (now() < ${seconds} * 1000000000ull) {
${each((f, i, w) => `        start = now(); ${f}(${w} * (5000 + rand() % 10000)); used[${i}] += now() - start;\n`)}    }
${each((f, i) => `    printf("${f} %llu\\n", used[${i}]);\n`)}}
`;
const HEAD = '#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>';
const programs = {
    C: () => {
        execFileSync('cc', ['-O2', '-fno-omit-frame-pointer', '-o', at('c'), write('c.c', native(HEAD, 'spin'))]);
        return [at('c')];
    },
    'C++, no frame pointers': () => {
        execFileSync('g++', ['-O2', '-fomit-frame-pointer', '-o', at('cpp'), write('cpp.cpp', native(HEAD, 'spin'))]);
        return [at('cpp')];
    },
    Python: () => ['/usr/bin/python3', write('spin.py', `
import random, time
def spin(n):
    x = 1
    for i in range(n): x = (x * 31 + i) & 0xffff
    return x
${each((f) => `def ${f}(n): return spin(n)\n`)}
used = [0] * ${SHARES.length}
def call(i, f, n):
    start = time.thread_time_ns(); f(n); used[i] += time.thread_time_ns() - start
while time.thread_time() < ${seconds}:
${each((f, i, w) => `    call(${i}, ${f}, ${w} * random.randrange(100, 300))\n`)}
for i, u in enumerate(used): print(f'part{i + 1}', u)
`)],
    'Node.js': () => [process.execPath, write('spin.js', `
const cpu = () => { const u = process.threadCpuUsage ? process.threadCpuUsage() : process.cpuUsage(); return (u.user + u.system) * 1e3; };
function spin(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 31 + i) | 0; return x; }
${each((f) => `function ${f}(n) { let x = 0; for (let i = 0; i < 4; i++) x += spin(n); return x; }\n`)}
const parts = [${each((f) => `${f}, `)}], weights = ${JSON.stringify(SHARES)}, used = weights.map(() => 0);
while (cpu() < ${seconds}e9) for (let i = 0; i < parts.length; i++) { const n = weights[i] * 2500 * (0.5 + Math.random()), start = cpu(); parts[i](n); used[i] += cpu() - start; }
used.forEach((u, i) => console.log('part' + (i + 1), u));
`)],
    Java: () => {
        execFileSync('javac', ['-d', folder, write('Spin.java', `
public class Spin {
    static volatile long sink;
    static final java.lang.management.ThreadMXBean clock = java.lang.management.ManagementFactory.getThreadMXBean();
    static long spin(long n) { long x = n; for (long i = 0; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
${each((f) => `    static void ${f}(long n) { for (int i = 0; i < 4; i++) sink += spin(n); }\n`)}
    public static void main(String[] a) {
        long[] used = new long[${SHARES.length}];
        var random = new java.util.Random();
        while (clock.getCurrentThreadCpuTime() < ${seconds}_000_000_000L) {
            long start;
${each((f, i, w) => `            start = clock.getCurrentThreadCpuTime(); ${f}(${w} * (1250 + random.nextInt(2500))); used[${i}] += clock.getCurrentThreadCpuTime() - start;\n`)}        }
        for (int i = 0; i < used.length; i++) System.out.println("part" + (i + 1) + " " + used[i]);
    }
}`)]);
        return ['java', '-cp', folder, 'Spin'];
    },
    Go: () => {
        write('spin.go', `package main
import ("fmt"; "math/rand"; "runtime"; "syscall"; "unsafe")
func now() int64 { var t syscall.Timespec; syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0); return t.Nano() }
var sink uint64
//go:noinline
func spin(n int) { x := uint64(n); for i := 0; i < n; i++ { x ^= x << 13; x ^= x >> 7; x ^= x << 17 }; sink = x }
${each((f) => `//go:noinline\nfunc ${f}(n int) { spin(n) }\n`)}
func main() {
    runtime.LockOSThread()
    var used [${SHARES.length}]int64
    var start int64
    for now() < ${seconds}000000000 {
${each((f, i, w) => `        start = now(); ${f}(${w} * (5000 + rand.Intn(10000))); used[${i}] += now() - start\n`)}    }
    for i, u := range used { fmt.Println(fmt.Sprintf("part%d", i + 1), u) }
}
`);
        execFileSync('go', ['build', '-o', at('spin-go'), at('spin.go')], { env: { ...process.env, HOME: folder, GO111MODULE: 'off', GOFLAGS: '' } });
        return [at('spin-go')];
    },
    // The forward function of each kind of layer: the clock is read before and after each of the 39 layers.
    VGG16: () => ['/usr/bin/python3', write('vgg.py', `
import time, torch, torchvision
torch.set_num_threads(1)
model = torchvision.models.vgg16().eval()
used, started = {}, {}
def before(module, inputs): started[module] = time.thread_time_ns()
def after(module, inputs, output):
    name = type(module).forward.__qualname__
    used[name] = used.get(name, 0) + time.thread_time_ns() - started[module]
for m in model.modules():
    if not list(m.children()):
        m.register_forward_pre_hook(before)
        m.register_forward_hook(after)
image = torch.rand(1, 3, 224, 224)
with torch.no_grad():
    end = time.thread_time() + ${seconds}
    while time.thread_time() < end: model(image)
for name, ns in used.items(): print(name, ns)
`)],
};
const needs = { C: 'cc', 'C++, no frame pointers': 'g++', Java: 'javac', Go: 'go' };

function compare(name, truth, folded) {
    const functions = Object.keys(truth), seen = Object.fromEntries(functions.map((f) => [f, 0]));
    for (const line of folded.split('\n')) {
        const space = line.lastIndexOf(' '), frames = line.slice(0, space).split(';').map((f) => f.replace(/_\[[a-z]\]$/, '').replace(/ \(.*\)$/, ''));
        const f = functions.find((g) => frames.some((x) => x === g || x.endsWith(`.${g}`) || x.startsWith(`${g}(`)));
        if (f) seen[f] += Number(line.slice(space + 1));
    }
    const sum = (o) => Object.values(o).reduce((a, b) => a + b, 0);
    return { errors: functions.map((f) => Math.abs(seen[f] / sum(seen) - truth[f] / sum(truth))), shares: functions.map((f) => truth[f] / sum(truth)), found: sum(seen) };
}
const truthOf = (output) => Object.fromEntries([...output.matchAll(/^([\w.]+) (\d+)$/gm)].map(([, f, ns]) => [f, Number(ns)]));
const mean = (l) => l.reduce((a, b) => a + b, 0) / l.length;
function report(name, truth, folded, samplesOf) {
    const { errors, shares, found } = compare(name, truth, folded), n = samplesOf(found);
    const chance = mean(shares.map((p) => Math.sqrt(2 / Math.PI * p * (1 - p) / n)));
    console.log(`  ${name.padEnd(24)} mean error ${(100 * mean(errors)).toFixed(2)} %, largest ${(100 * Math.max(...errors)).toFixed(2)} %; by chance ${(100 * chance).toFixed(2)} % (${Math.round(n)} samples)`);
}

for (const rate of rates.split(',')) {
    console.log(`${rate} Hz, ${seconds} s of CPU time`);
    for (const [name, prepare] of Object.entries(programs)) {
        if ((wanted && !wanted.split(',').includes(name)) || (needs[name] && !have(needs[name]))) continue;
        if (name === 'VGG16' && spawnSync('/usr/bin/python3', ['-c', 'import torchvision']).status !== 0) { console.log('  VGG16: needs python3-torchvision'); continue; }
        const command = prepare(), output = at('x.folded');
        const run = spawnSync(sonde, ['profile', '-F', rate, '-o', output, '--', ...command], { encoding: 'utf8', maxBuffer: 1 << 26 });
        if (run.status !== 0) throw new Error(run.stderr);
        report(name, truthOf(run.stdout), fs.readFileSync(output, 'utf8'), (ns) => ns * Number(rate) / 1e9);
        if (name === 'C' && have('perf')) {
            const perf = spawnSync('perf', ['record', '-q', '-e', 'cpu-clock', '-F', rate, '--call-graph', 'dwarf', '-o', at('perf.data'), '--', ...command], { encoding: 'utf8' });
            const script = execFileSync('perf', ['script', '-F', 'ip,sym', '-i', at('perf.data')], { encoding: 'utf8', maxBuffer: 1 << 28 });
            const folded = script.split('\n\n').map((s) => s.trim().split('\n').map((l) => l.trim().split(' ')[1]).join(';') + ' 1').join('\n');
            report('C, perf', truthOf(perf.stdout), folded, (n) => n);
        }
    }
}
fs.rmSync(folder, { recursive: true });
