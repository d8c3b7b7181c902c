// Ten real programs, sampled by sonde and by perf in the same run: the self time of the top functions, as a share of all CPU time.
// A shell waits until both listen, and then starts a server with its load, or a build: what is compared is the shell's descendants.
// perf samples the whole machine (-a), as sonde does: with single tasks (-p) it found more of finish_task_switch, perhaps since its
// timers start anew when a task is switched to. Functions are symbols (--no-inline; perf needs no call graph for self time). A
// difference is stated in standard errors of two independent samples of the sizes that both have; within 2 of them are 95 % of
// functions where nothing but chance differs.
// Resumable: a program appends one line to bench/results/profile-perf.jsonl with the commit, and is not run again at the same commit.
//   node bench/profile-perf.mjs [--sonde PATH] [--frequency HZ] [--for SECONDS] [--force] [PROGRAM...]
// --for: no other program is begun after so long. perf: Debian's linux-perf. What a program needs and is missing is named.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { commit } from './commit.mjs';
import { has, pause } from './measure.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values: options, positionals: wanted } = parseArgs({
    allowPositionals: true,
    options: { sonde: { type: 'string', default: path.join(root, 'build/sonde') }, frequency: { type: 'string', default: '2999' }, for: { type: 'string', default: '1e9' }, force: { type: 'boolean' } },
});
const results = path.join(root, 'bench/results/profile-perf.jsonl');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-perf-')), at = (name) => path.join(folder, name);
const write = (name, text) => (fs.writeFileSync(at(name), text), at(name));
const NOBODY = process.getuid() === 0 ? 'setpriv --reuid=65534 --regid=65534 --clear-groups ' : ''; // PostgreSQL refuses root
const LEAST_SHARE = 0.01, TOP = 15;
// An interpreter's time is that of the functions it interprets in sonde's profiles, as is that of code that a Java machine generates
// for calls; and what perf has no name for.
const INTERPRETERS = /^(Interpreter|PyEval_EvalFrameDefault|java\.lang\.invoke\.LambdaForm.*|\[unknown\]|)$/;

// Work of about three seconds of CPU in a few functions, in C-like languages: sorting, hashing, a filter.
const native = (attribute) => `
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <map>
#include <string>
#include <vector>
${attribute} long filter(std::vector<int> &v) { long s = 0; for (int x : v) s += (x ^ (x >> 3)) % 7 == 3 ? x : 1; return s; }
${attribute} void sort_all(std::vector<int> &v) { std::sort(v.begin(), v.end()); }
${attribute} long count_words(std::map<std::string, int> &m, unsigned n) { char t[32]; for (unsigned i = 0; i < 2000; i++) { snprintf(t, sizeof(t), "word %u", (n * 7919 + i * 31) % 5000); m[t]++; } return (long)m.size(); }
int main() { std::vector<int> v(20000); std::map<std::string, int> m; long s = 0;
    for (unsigned n = 0; n < 800; n++) { for (size_t i = 0; i < v.size(); i++) v[i] = (int)((i * 2654435761u) ^ n); s += filter(v); sort_all(v); s += count_words(m, n); }
    printf("%ld\\n", s); }`;
const cpp = (name, ...flags) => () => {
    execFileSync('g++', ['-O2', ...flags, '-o', at(name), write(`${name}.cpp`, native('__attribute__((noinline))'))]);
    return at(name);
};
const postgres = ['/usr/lib/postgresql/15/bin', '/usr/local/bin'].find((p) => fs.existsSync(`${p}/initdb`));

// Each: what it needs, and its preparation, which answers the shell's command.
const PROGRAMS = {
    postgresql: [[], () => {
        if (!postgres) return null;
        fs.chmodSync(folder, 0o777);
        const data = at('pg'), run = (line) => execFileSync('sh', ['-c', NOBODY + line], { cwd: '/', stdio: 'ignore' }), where = `-h ${folder} -p 5599`;
        run(`${postgres}/initdb -D ${data} -U bench -A trust`);
        const server = `${postgres}/pg_ctl -w -D ${data} -l ${at('pg.log')} -o "-p 5599 -k ${folder} -c listen_addresses=''"`;
        run(`${server} start`);
        run(`${has('pgbench') ? 'pgbench' : `${postgres}/pgbench`} -i -s 2 ${where} -U bench postgres`);
        run(`${server} stop`);
        return `${NOBODY}${server} start; ${NOBODY}${has('pgbench') ? 'pgbench' : `${postgres}/pgbench`} ${where} -U bench -S -c 4 -t 8000 postgres; ${NOBODY}${server} -m immediate stop`;
    }],
    mariadb: [['mariadbd', 'mariadb-install-db', 'mariadb'], () => {
        const data = at('my'), socket = at('my.sock'), user = `--user=${os.userInfo().username}`;
        execFileSync('mariadb-install-db', ['--no-defaults', `--datadir=${data}`, user, '--auth-root-authentication-method=normal'], { stdio: 'ignore' });
        write('load.sql', `CREATE DATABASE b; USE b; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n INT); INSERT INTO t SELECT seq, MD5(seq), seq % 977 FROM seq_1_to_60000;\n${'SELECT n, COUNT(*), MAX(v) FROM t GROUP BY n ORDER BY 2, 3 LIMIT 5;\nSELECT COUNT(*) FROM t WHERE v LIKE \'%ab%c\';\n'.repeat(20)}`);
        return `mariadbd --no-defaults --datadir=${data} --socket=${socket} --skip-networking ${user} & p=$!; until mariadb --no-defaults -S ${socket} -uroot -e 'SELECT 1'; do sleep 0.1; done; mariadb --no-defaults -S ${socket} -uroot < ${at('load.sql')}; kill $p; wait`;
    }],
    redis: [['redis-server', 'redis-benchmark', 'redis-cli'], () => `redis-server --unixsocket ${at('redis.sock')} --port 0 --save '' --dir ${folder} & until redis-cli -s ${at('redis.sock')} ping; do sleep 0.1; done; redis-benchmark -s ${at('redis.sock')} -t set,get,lpush,zadd -n 60000 -c 20 -r 10000; redis-cli -s ${at('redis.sock')} shutdown nosave; wait`],
    jvm: [['java', 'javac'], () => {
        write('Work.java', `import java.util.*; public class Work {
 static long hash(int n) { long s = 0; for (int i = 0; i < 40000; i++) { s = s * 31 + (i ^ n) % 13; } return s; }
 static long sort(int n) { int[] a = new int[6000]; for (int i = 0; i < a.length; i++) a[i] = (i * 40503) ^ n; Arrays.sort(a); return a[17]; }
 static long words(Map<String, Integer> m, int n) { for (int i = 0; i < 1000; i++) m.merge("w" + (n * 7 + i) % 3000, 1, Integer::sum); return m.size(); }
 public static void main(String[] x) { Map<String, Integer> m = new HashMap<>(); long s = 0; for (int n = 0; n < 6000; n++) s += hash(n) + sort(n) + words(m, n); System.out.println(s); } }`);
        execFileSync('javac', ['-d', folder, at('Work.java')]);
        // perf's names of compiled methods; inlining off, because perf cannot tell what was inlined
        return `java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:-Inline -cp ${folder} Work`;
    }],
    numpy: [[], () => {
        const python = ['/usr/bin/python3', 'python3'].find((p) => spawnSync(p, ['-c', 'import numpy']).status === 0);
        return python && `OPENBLAS_NUM_THREADS=1 ${python} ${write('work.py', `
import numpy as np
a = np.random.default_rng(1).random((300, 300))
for n in range(60):
    b = a @ a.T; np.linalg.svd(a[:120, :120]); np.sort(b.ravel()); np.fft.fft2(a); np.exp(a).sum()
`)}`;
    }],
    node: [['node'], () => `${process.execPath} --perf-basic-prof-only-functions --no-turbo-inlining ${write('work.js', `
function hash(n) { let s = 0; for (let i = 0; i < 400000; i++) s = (s * 31 + (i ^ n) % 13) | 0; return s; }
function sort(n) { const a = Array.from({ length: 3000 }, (_, i) => (i * 40503) ^ n); a.sort((x, y) => x - y); return a[7]; }
function words(m, n) { for (let i = 0; i < 3000; i++) { const k = 'w' + (n * 7 + i) % 3000; m.set(k, (m.get(k) || 0) + 1); } return m.size; }
const m = new Map(); let s = 0; for (let n = 0; n < 500; n++) s += hash(n) + sort(n) + words(m, n);
console.log(s);
`)}`],
    go: [['go'], () => {
        write('work.go', `package main
import ("crypto/sha256"; "fmt"; "sort"; "strings")
//go:noinline
func hash(n int) byte { b := []byte(strings.Repeat("x", 20000)); b[n%20000] = byte(n); s := sha256.Sum256(b); return s[3] }
//go:noinline
func order(n int) int { a := make([]int, 3000); for i := range a { a[i] = (i*40503) ^ n }; sort.Ints(a); return a[17] }
//go:noinline
func words(m map[string]int, n int) int { for i := 0; i < 1500; i++ { m[fmt.Sprintf("w%d", (n*7+i)%3000)]++ }; return len(m) }
func main() { m := map[string]int{}; s := 0; for n := 0; n < 2500; n++ { s += int(hash(n)) + order(n) + words(m, n) }; fmt.Println(s) }`);
        execFileSync('go', ['build', '-o', at('work-go'), at('work.go')], { env: { ...process.env, GOCACHE: at('go-cache'), GO111MODULE: 'off', HOME: folder } });
        return at('work-go');
    }],
    'c++ with frame pointers': [['g++'], cpp('with-fp', '-fno-omit-frame-pointer')],
    'c++ without': [['g++'], cpp('without-fp', '-fomit-frame-pointer')],
    build: [['cc'], () => {
        for (let i = 0; i < 30; i++) write(`part-${i}.c`, Array.from({ length: 40 + i * 3 }, (_, k) => `int f_${k}(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * ${k} + (s >> 2); return s; }`).join('\n'));
        return `for i in $(seq 0 29); do cc -O2 -c -o ${at('part.o')} ${folder}/part-$i.c; for k in 1 2 3 4; do grep -c f_ ${folder}/part-$i.c; done; done`;
    }],
};

// The function's name as both can write it: no parameters, types, clones of the compiler, marks of a virtual machine.
function plain(name) {
    let text = name.trim().replace(/_\[[kji]\]$/, '').replace(/^(LazyCompile|Function|JS|Script|Eval|RegExp):[*~^+]?/, '').replace(/ (?:\/|file:|node:|evalmachine|\[eval).*$/, '');
    text = text.replace(/\.(isra|constprop|part|cold|llvm|abi0|abiinternal)(\.\d+)*/g, '').replace(/@@?[A-Z][\w.]*$/, '');
    let depth = 0, out = '';
    for (const c of text) { // arguments in brackets of both kinds
        if (c === '<' || c === '(') depth++;
        if (!depth) out += c;
        if ((c === '>' || c === ')') && depth) depth--;
    }
    return (out.trim().split(' ').at(-1) || text).replace(/^(Builtins_|_+(libc_|GI_+)?_*)/, ''); // aliases of one address
}
const add = (map, key, n) => map.set(key, (map.get(key) || 0) + n);

// Samples by function, of the process and its descendants; what no symbol names counts as "[unknown]" in both.
function ofPerf(data, pid) {
    const shares = new Map(), family = new Set([pid]);
    const text = execFileSync('perf', ['script', '-i', data, '--show-task-events', '-F', 'pid,time,event,ip,sym'], { encoding: 'utf8', maxBuffer: 1 << 29, stdio: ['ignore', 'pipe', 'ignore'] });
    for (const line of text.split('\n')) {
        const [, child, parent] = /PERF_RECORD_FORK\((\d+):\d+\):\((\d+):/.exec(line) || [];
        if (child && family.has(Number(parent))) family.add(Number(child));
        const [, of, symbol] = /^\s*(\d+)\s+[\d.]+:\s+cpu-clock[^:]*:\s+[0-9a-f]+ (.*)$/.exec(line) || [];
        if (symbol && family.has(Number(of))) add(shares, symbol === '[unknown]' ? symbol : plain(symbol), 1);
    }
    return shares;
}
function ofSonde(file) {
    const shares = new Map();
    for (const line of fs.readFileSync(file, 'utf8').trim().split('\n')) {
        const end = line.lastIndexOf(' '), leaf = line.slice(line.lastIndexOf(';', end) + 1, end);
        add(shares, /\+0x[0-9a-f]+$|^\[(?!kernel)/.test(leaf) ? '[unknown]' : plain(leaf), Number(line.slice(end + 1)));
    }
    return shares;
}

async function compare(name, command) {
    const data = at('perf.data'), folded = at('sonde.folded');
    const target = spawn('sh', ['-c', `read go; ${command}`], { stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' }), ended = once(target, 'exit');
    const sonde = spawn(options.sonde, ['profile', '-F', options.frequency, '--no-inline', '-f', 'folded', '-o', folded, String(target.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
    const perf = spawn('perf', ['record', '-q', '-e', 'cpu-clock', '-F', options.frequency, '-o', data, '-a'], { stdio: 'ignore' });
    const both = Promise.all([once(sonde, 'exit'), once(perf, 'exit')]);
    let said = '';
    sonde.stderr.on('data', (part) => (said += part));
    await pause(2500); // until both listen
    target.stdin.end('\n');
    await ended;
    sonde.kill('SIGINT'); // what the shell left behind ends with it
    perf.kill('SIGINT');
    await both;
    const theirs = ofPerf(data, target.pid), ours = ofSonde(folded), sum = (m) => [...m.values()].reduce((a, b) => a + b, 0);
    const n = sum(theirs), weight = sum(ours), m = Number(/(\d+) stacks/.exec(said)?.[1]) || n;
    const functions = [...theirs].filter(([f, k]) => k / n >= LEAST_SHARE && !INTERPRETERS.test(f)).sort((a, b) => b[1] - a[1]).slice(0, TOP).map(([f, k]) => {
        const p = k / n, q = (ours.get(f) || 0) / weight, middle = (k + q * m) / (n + m);
        return { function: f, perf: p, sonde: q, errors: (q - p) / Math.sqrt(middle * (1 - middle) * (1 / n + 1 / m)) };
    });
    fs.rmSync(data);
    return { perf_samples: n, sonde_samples: m, functions };
}

const began = Date.now(), done = fs.existsSync(results) ? fs.readFileSync(results, 'utf8').trim().split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
if (!has('perf')) throw new Error('perf is missing: Debian has it in linux-perf');
for (const [name, [needs, prepare]] of Object.entries(PROGRAMS)) {
    if (wanted.length && !wanted.includes(name)) continue;
    if (!options.force && done.some((row) => row.commit === commit && row.program === name)) continue;
    if (Date.now() - began > Number(options.for) * 1000) break;
    const missing = needs.filter((program) => !has(program)), command = missing.length ? null : prepare();
    if (!command) {
        console.log(`${name}: not run, ${missing.join(', ') || 'it'} is missing`);
        continue;
    }
    const row = { commit, program: name, load: os.loadavg()[0], ...await compare(name, command) };
    fs.appendFileSync(results, `${JSON.stringify(row)}\n`);
    done.push(row);
}
console.log(`${'program'.padEnd(26)} ${'perf'.padStart(7)} ${'sonde'.padStart(7)} samples; top functions within 2 and 3 standard errors; the largest difference`);
const mine = done.filter((r) => r.commit === commit), count = (rows, k) => rows.flatMap((r) => r.functions).filter((f) => Math.abs(f.errors) <= k).length;
for (const row of mine) {
    const within = (k) => count([row], k);
    const [worst] = [...row.functions].sort((a, b) => Math.abs(b.errors) - Math.abs(a.errors));
    console.log(`${row.program.padEnd(26)} ${String(row.perf_samples).padStart(7)} ${String(row.sonde_samples).padStart(7)} ${within(2)} and ${within(3)} of ${row.functions.length}; ${worst.function}: perf ${(100 * worst.perf).toFixed(2)} %, sonde ${(100 * worst.sonde).toFixed(2)} % (${worst.errors.toFixed(1)})`);
}
console.log(`in total ${count(mine, 2)} and ${count(mine, 3)} of ${count(mine, Infinity)} functions`);
fs.rmSync(folder, { recursive: true, force: true });
