// Names that are read late: code that was sampled has left by then, and other code lies in its place. sonde is stopped meanwhile.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, noProfiles, start, temporary } from './helper.mjs';

const skip = noProfiles();
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const jvms = fs.existsSync('/usr/lib/jvm') ? fs.readdirSync('/usr/lib/jvm').map((name) => `/usr/lib/jvm/${name}/bin/java`) : [];
const JAVAS = [...new Set(['/usr/bin/java', ...jvms, ...(process.env.SONDE_JAVAS || '').split(':')].filter((file) => fs.existsSync(file)).map((file) => fs.realpathSync(file)))];

const TURNS = 8, TURN_MS = 60; // of CPU time

// Profiles a program that reads lines: "0" ... are turns, each of a function that is there for that turn only, "stays" is one of a
// function that stays. It answers with "NAME MS": how much CPU time that took. All but the first of the latter are sampled while
// sonde is stopped. Milliseconds by function, of the program's account and of the profile, and what is called gone.
async function late(t, command) {
    const program = start(t, command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'pipe'] });
    const account = {};
    const turn = async (name) => {
        const from = program.stdout.length;
        program.child.stdin.write(`${name}\n`);
        const answer = await eventually(`the answer to ${name}`, () => (program.over ? ['', '', program.stderr] : /^(\w+) (\d+)\n/m.exec(program.stdout.slice(from))));
        account[answer[1]] = (account[answer[1]] || 0) + Number(answer[2]);
    };
    await program.until(/ready/, { stream: 'stdout' });
    const sampling = start(t, SONDE, ['profile', '-F', '499', '-f', 'folded', String(program.pid)]);
    await eventually('it samples', () => sampling.over || /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${sampling.pid}/status`, 'utf8')));
    // The function that stays is named before sonde is stopped.
    for (let i = 0; i < 1000 / TURN_MS; i++) await turn('stays');
    sampling.child.kill('SIGSTOP');
    await eventually('it is stopped', () => /^State:\tT/m.test(fs.readFileSync(`/proc/${sampling.pid}/status`, 'utf8')));
    for (let i = 0; i < TURNS; i++) {
        await turn(i);
        await turn('stays');
    }
    sampling.child.kill('SIGINT'); // it names what it has got while the program is there
    sampling.child.kill('SIGCONT');
    const { status, stdout, stderr } = await sampling.ended;
    assert.equal(status, 0, stderr);
    const named = {};
    for (const line of stdout.trim().split('\n')) {
        const frames = line.slice(0, line.lastIndexOf(' ')).split(';').map((frame) => frame.replace(/_\[[jk]\]$/, ''));
        const name = frames.map((frame) => /^(?:Stays\.)?(stays)$|^(?:Turn\d\.)?(turn\d)$|^\(gone\)$/.exec(frame)).filter(Boolean).at(-1);
        if (name) named[name[1] || name[2] || 'gone'] = (named[name[1] || name[2] || 'gone'] || 0) + Number(line.slice(line.lastIndexOf(' '))) / 1e6;
    }
    return { account, named, stderr };
}

// No function has another one's time; what cannot be named is called gone, and nothing is lost.
function assertHonest(what, { account, named, stderr }) {
    const figures = `${what}: ${JSON.stringify({ account, named })}\n${stderr}`;
    for (let i = 0; i < TURNS; i++) assert.ok((named[`turn${i}`] ?? 0) < 1.5 * account[`turn${i}`], `turn${i} has another one's time. ${figures}`);
    assert.ok(named.stays > 0.8 * account.stays && named.stays < 1.2 * account.stays, `what stays has its name. ${figures}`);
    const sum = (of) => Object.values(of).reduce((a, b) => a + b, 0);
    assert.ok(sum(named) > 0.8 * sum(account), `something is missing. ${figures}`);
    assert.ok((named.gone ?? 0) > 0.3 * (sum(account) - account.stays), `nothing has left: this shows nothing. ${figures}`);
}

test('Java classes that were unloaded before their names were read have not their successors\' names', { skip: skip || (!have('javac') && 'needs a JDK') }, async (t) => {
    const folder = temporary(t), classes = path.join(folder, 'turns');
    const source = (name, method) => `public class ${name} { public static long ${method}() { var self = java.lang.management.ManagementFactory.getThreadMXBean(); long t = self.getCurrentThreadCpuTime(), n; while ((n = self.getCurrentThreadCpuTime() - t) < ${TURN_MS}_000_000L); return n; } }`;
    fs.mkdirSync(classes);
    for (let i = 0; i < TURNS; i++) fs.writeFileSync(path.join(classes, `Turn${i}.java`), source(`Turn${i}`, `turn${i}`));
    fs.writeFileSync(path.join(folder, 'Stays.java'), source('Stays', 'stays'));
    fs.writeFileSync(path.join(folder, 'Late.java'), `
public class Late {
    public static void main(String[] a) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        Stays.stays();
        System.out.println("ready");
        for (String line; (line = lines.readLine()) != null;) {
            if (line.equals("stays")) {
                System.out.println("stays " + Stays.stays() / 1000000);
                continue;
            }
            var loader = new java.net.URLClassLoader(new java.net.URL[] { java.nio.file.Path.of(a[0]).toUri().toURL() }, null);
            Object ns = loader.loadClass("Turn" + line).getMethod("turn" + line).invoke(null);
            loader.close();
            loader = null;
            System.gc();
            System.out.println("turn" + line + " " + (Long) ns / 1000000);
        }
    }
}`);
    execFileSync('javac', ['--release', '11', '-d', classes, ...Array.from({ length: TURNS }, (_, i) => path.join(classes, `Turn${i}.java`))]);
    execFileSync('javac', ['--release', '11', '-d', folder, path.join(folder, 'Stays.java'), path.join(folder, 'Late.java')]);
    for (const [java, ...options] of [...JAVAS.map((file) => [file]), [JAVAS[0], '-Xint']])
        assertHonest([java, ...options].join(' '), await late(t, [java, ...options, '-cp', folder, 'Late', classes]));
});

test('Python functions that were freed before their names were read have not their successors\' names', { skip: skip || (!fs.existsSync('/usr/bin/python3') && 'needs Python') }, async (t) => {
    const file = path.join(temporary(t), 'late.py');
    fs.writeFileSync(file, `import gc, sys, time
def stays():
  start = time.process_time_ns()
  while time.process_time_ns() - start < ${TURN_MS}000000: pass
  return time.process_time_ns() - start
print("ready", flush=True)
for line in sys.stdin:
  name = line.strip()
  if name == 'stays':
    print(name, stays() // 1000000, flush=True)
    continue
  scope = {'time': time}
  exec(f"def turn{name}():\\n  start = time.process_time_ns()\\n  while time.process_time_ns() - start < ${TURN_MS}000000: pass\\n  return time.process_time_ns() - start", scope)
  f = scope[f'turn{name}']
  took = f()
  del f, scope
  gc.collect()
  print(f"turn{name} {took // 1000000}", flush=True)
`);
    assertHonest('Python', await late(t, ['/usr/bin/python3', file]));
});

// The first samples are from before the library was mapped: what is known of the process then is not all that will be.
test('a program that has ended before it is read, and had loaded a library meanwhile, has the library\'s names', { skip: skip || (!have('cc') && 'needs a C compiler') }, async (t) => {
    const folder = temporary(t), at = (name) => path.join(folder, name), spin = 'for (struct timespec now; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), now.tv_sec * 1000 + now.tv_nsec / 1000000 < until;) for (int i = 0; i < 10000; i++) sink += i;';
    fs.writeFileSync(at('library.c'), `#include <time.h>\nstatic volatile unsigned long sink;\nvoid inLibrary(long until) { ${spin} }\n`);
    fs.writeFileSync(at('program.c'), `#include <dlfcn.h>\n#include <time.h>\nstatic volatile unsigned long sink;\n__attribute__((noinline)) void inProgram(long until) { ${spin} __asm__ volatile(""); }
int main(void) { inProgram(60); void *library = dlopen("${at('library.so')}", RTLD_NOW); ((void (*)(long))dlsym(library, "inLibrary"))(180); return 0; }\n`);
    execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', at('library.so'), at('library.c')]);
    execFileSync('cc', ['-O1', '-o', at('program'), at('program.c'), '-ldl']);
    const shell = start(t, 'sh', ['-c', `echo ready; while read line; do ${at('program')}; ${at('program')}; ${at('program')}; echo done; done`], { stdio: ['pipe', 'pipe', 'pipe'] });
    await shell.until(/ready/, { stream: 'stdout' });
    const sampling = start(t, SONDE, ['profile', '-F', '997', '-f', 'folded', String(shell.pid)]);
    await eventually('it samples', () => sampling.over || /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${sampling.pid}/status`, 'utf8')));
    // What a program does before sonde is stopped shows that it samples.
    shell.child.stdin.write('first\n');
    await shell.until(/done/, { stream: 'stdout' });
    sampling.child.kill('SIGSTOP');
    await eventually('it is stopped', () => /^State:\tT/m.test(fs.readFileSync(`/proc/${sampling.pid}/status`, 'utf8')));
    shell.child.stdin.write('second\n');
    await shell.until(/done\ndone/, { stream: 'stdout' });
    sampling.child.kill('SIGINT');
    sampling.child.kill('SIGCONT');
    const { status, stdout, stderr } = await sampling.ended;
    assert.equal(status, 0, stderr);
    const lines = stdout.trim().split('\n').map((line) => [line.slice(0, line.lastIndexOf(' ')).split(';'), Number(line.slice(line.lastIndexOf(' ')))]);
    const sum = (name, pid) => lines.filter(([frames]) => frames[0] === pid && frames.some((frame) => frame === name)).reduce((all, [, weight]) => all + weight, 0) / 1e6;
    const processes = [...new Set(lines.map(([frames]) => frames[0]))].filter((name) => name.startsWith('program (') && sum('inProgram', name) > 0);
    assert.ok(processes.length >= 3, `${processes}: ${stdout}\n${stderr}`);
    for (const name of processes) assert.ok(sum('inLibrary', name) > sum('inProgram', name), `${name} computed for twice as long in the library as before: ${sum('inProgram', name)} ms, and ${sum('inLibrary', name)} ms: ${stdout}\n${stderr}`);
});
