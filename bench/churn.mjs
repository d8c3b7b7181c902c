// What the sampler itself takes while programs come and go: `sonde profile --all` beside short processes that start at a fixed
// rate (node, python3, a C compiler with debug information and the new program that it made, java), and two that stay (node, python3).
// Prints, every half minute and at the end, its own memory, its CPU time, and how the memory grew over the second half.
//   node bench/churn.mjs SONDE [MINUTES] [STARTS A SECOND] [FORMAT]
// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [sonde, minutes = '3', rate = '4', format = 'pb.gz'] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-churn-')), STEP_S = 30;
const NODE = `const o = []; const end = Date.now() + MS; function turn(n) { return JSON.parse(JSON.stringify({ n, list: Array(50).fill(n) })).list.map(String).join(); }
while (Date.now() < end) o[o.length % 1000] = turn(o.length); if (STAY) setInterval(() => { for (let i = 0; i < 200; i++) turn(i); }, 50);`;
const PYTHON = `import json, re, time, hashlib
end = time.time() + MS / 1000
def turn(n): return hashlib.sha256(re.sub('[0-9]+', 'x', json.dumps(list(range(n)))).encode()).hexdigest()
while time.time() < end: turn(200)
while STAY:
    for i in range(20): turn(i)
    time.sleep(0.05)`;
const program = (n) => `#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>
static int by_${n}(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
${Array.from({ length: 40 }, (_, i) => `int work_${n}_${i}(int *at, int count) { for (int k = 0; k < count; k++) at[k] = at[(k * ${i + 3}) % count] ^ rand(); qsort(at, count, sizeof(*at), by_${n}); return at[${i}]; }`).join('\n')}
int main(void) { static int at[4096]; unsigned sum = 0; for (int r = 0; r < 2; r++) {${Array.from({ length: 40 }, (_, i) => `sum += work_${n}_${i}(at, 4096);`).join(' ')}} printf("%u\\n", sum); }\n`;
const JAVA = `import java.util.*;
public class Turn {
    static int turn(int n) { List<Integer> l = new ArrayList<>(); for (int i = 0; i < 400; i++) l.add((i * 7919 + n) % 1009); Collections.sort(l); return l.toString().hashCode(); }
    public static void main(String[] a) { long end = System.nanoTime() + 300_000_000L; int sum = 0; while (System.nanoTime() < end) sum += turn(sum); System.out.println(sum); }
}`;
const write = (name, text) => fs.writeFileSync(path.join(folder, name), text);
for (const [stay, ms] of [[0, 60], [1, 1]]) {
    write(`${stay}.js`, NODE.replace('MS', ms).replace('STAY', stay));
    write(`${stay}.py`, PYTHON.replace('MS', ms).replace('STAY', stay));
}
write('Turn.java', JAVA);
const java = spawnSync('javac', ['-d', folder, path.join(folder, 'Turn.java')]).status === 0; // where there is one
const run = (command, ...args) => spawn(command, args, { cwd: folder, stdio: 'ignore' }).on('error', () => {}); // the folder goes at the end
let number = 0;
const kinds = [() => run(process.execPath, '0.js'), () => run('python3', '0.py'), () => {
    const n = number;
    write(`${n}.c`, program(n));
    run('cc', '-O2', '-g', '-o', `p${n}`, `${n}.c`).on('exit', (code) => {
        if (code === 0) run(`./p${n}`).on('exit', () => { for (const f of [`${n}.c`, `p${n}`]) fs.rmSync(path.join(folder, f), { force: true }); });
    });
}, ...java ? [() => run('java', '-cp', folder, 'Turn')] : []];

const stay = [run(process.execPath, '1.js'), run('python3', '1.py')];
const agent = spawn(sonde, ['profile', '--all', '-o', path.join(folder, `x.${format}`)], { stdio: ['ignore', 'inherit', 'pipe'] }), ended = once(agent, 'exit');
let said = '';
agent.stderr.on('data', (d) => { said += d; });
const load = setInterval(() => { kinds[number % kinds.length](); number++; }, 1000 / Number(rate));

const seen = [];
const look = () => {
    const status = fs.readFileSync(`/proc/${agent.pid}/status`, 'utf8'), stat = fs.readFileSync(`/proc/${agent.pid}/stat`, 'utf8').split(') ')[1].split(' ');
    const mb = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) / 1024;
    return { s: (performance.now() - start) / 1000, anon: mb('RssAnon'), file: mb('RssFile'), shared: mb('RssShmem'), cpu: (Number(stat[11]) + Number(stat[12])) / 100 };
};
const start = performance.now();
console.log('    s   own MB  files MB  shared MB  CPU %  started');
for (let at = STEP_S; at <= Number(minutes) * 60; at += STEP_S) {
    await sleep(Math.max(0, start + 1000 * at - performance.now()));
    const now = look(), before = seen.at(-1) || { s: 0, cpu: 0 };
    seen.push(now);
    console.log(`${now.s.toFixed(0).padStart(5)} ${now.anon.toFixed(1).padStart(8)} ${now.file.toFixed(1).padStart(9)} ${now.shared.toFixed(1).padStart(10)} ${(100 * (now.cpu - before.cpu) / (now.s - before.s)).toFixed(1).padStart(6)} ${String(number).padStart(8)}`);
}
clearInterval(load);
const { cpu } = look();
agent.kill('SIGINT');
for (const child of stay) child.kill();
await ended;
const half = seen.slice(seen.length >> 1), mean = (l) => l.reduce((a, b) => a + b, 0) / l.length;
const s = mean(half.map((x) => x.s)), mb = mean(half.map((x) => x.anon));
const slope = half.reduce((sum, x) => sum + (x.s - s) * (x.anon - mb), 0) / half.reduce((sum, x) => sum + (x.s - s) ** 2, 0);
const stacks = Number(/(\d+) stacks/.exec(said)?.[1]);
console.log(`over the second half: mean ${mb.toFixed(1)} MB, most ${Math.max(...half.map((x) => x.anon)).toFixed(1)} MB, ${half.length > 1 ? `slope ${(3600 * slope).toFixed(1)} MB an hour` : 'too short for a slope'}`);
console.log(`${cpu.toFixed(2)} s of processor time for ${stacks} stacks: ${(1e6 * cpu / stacks).toFixed(0)} us each`);
console.log(said.trim());
fs.rmSync(folder, { recursive: true, force: true });
