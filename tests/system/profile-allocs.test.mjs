// Who allocates, and what is not freed: against the programs' own accounts.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { NODES, SONDE, buildProgram, finish, noProfiles, profileWork, root, start, temporary, versionOf } from './helper.mjs';

const skip = noProfiles();
const PROGRAMS = path.join(root, 'tests/system/programs');
const told = (x) => JSON.stringify(x, null, 1);

const build = (t, ...flags) => buildProgram(temporary(t), 'allocs', '-pthread', ...flags);

// { place: { made, alive, count } } of what tests/system/programs/allocs.c prints.
const accountOf = (text) => Object.fromEntries([...text.matchAll(/^(\w+) (\d+) (\d+) (\d+)$/gm)].map(([, place, made, alive, count]) => [place, { made: Number(made), alive: Number(alive), count: Number(count) }]));
const near = (is, truth, share, what) => assert.ok(Math.abs(is - truth) <= share * truth, `${what}: ${is}, by the program's own account ${truth}`);

function compare({ allocations }, account, share) {
    assert.equal(Object.keys(account).length, 7, told(account));
    for (const [place, truth] of Object.entries(account)) {
        const found = allocations.places.find((p) => p.function === place);
        assert.ok(found, `${place}: ${told(allocations)}`);
        near(found.allocated.bytes, truth.made, share(), place);
        near(found.allocated.count, truth.count, 2 * share(), `${place}, pieces`);
        near(found.not_freed.bytes, truth.alive, share(), `${place}, not freed`);
    }
    return allocations;
}

test('every allocation: exactly what the program did', { skip }, async (t) => {
    const { status, stdout, stderr, output: account } = await profileWork(t, ['--json', '--event', 'alloc', '--alloc-interval', '1'], [build(t)]);
    assert.equal(status, 0, stderr);
    compare(JSON.parse(stdout).profile, accountOf(account), () => 0);
});

// Some 200 MB, of which one byte in 500 is chosen: the error is far below 5 %.
test('allocations by bytes, and what is not freed, within 5 % of the program', { skip }, async (t) => {
    const { status, stdout, stderr, output: account } = await profileWork(t, ['--json', '--event', 'alloc', '--alloc-interval', '500'], [build(t)]);
    assert.equal(status, 0, stderr);
    const { places, sampled_count: sampled } = compare(JSON.parse(stdout).profile, accountOf(account), () => 0.05);
    assert.ok(sampled < 60_000, `${sampled} of 77,500: it does not take all`);
    const leaks = places.filter((p) => p.not_freed.bytes > 1e6).map((p) => p.function).sort();
    assert.deepEqual(leaks, ['keep_half', 'leak_aligned', 'leak_of_thread', 'leak_small', 'leak_zeroed'], 'what leaks, by name');
    const thread = places.find((p) => p.function === 'leak_of_thread');
    assert.ok(thread.stack.includes('other') && /allocs\.c$/.test(thread.file), told(thread));
});

test('errors that are stated hold', { skip }, async (t) => {
    const { status, stdout, stderr, output: account } = await profileWork(t, ['--json', '--event', 'alloc', '--alloc-interval', '20000'], [build(t)]);
    assert.equal(status, 0, stderr);
    const { allocations } = JSON.parse(stdout).profile;
    for (const [place, truth] of Object.entries(accountOf(account))) {
        const found = allocations.places.find((p) => p.function === place);
        assert.ok(found && found.allocated.error_bytes > 0, `${place}: ${told(allocations)}`);
        // Twice half of a 95 % interval: one in 10,000.
        assert.ok(Math.abs(found.allocated.bytes - truth.made) < 2 * found.allocated.error_bytes, `${place} ${told(found)} ${told(truth)}`);
    }
});

test('a list, and as any profile: what is allocated, or what is not freed', { skip }, async (t) => {
    const program = build(t), list = await profileWork(t, ['--event', 'alloc', '--alloc-interval', '1000'], [program]);
    assert.match(list.stdout, /^allocated: \S+ MB .* not freed when sampling ended: \S+ MB/);
    const [first] = list.stdout.split('\n').slice(2);
    assert.match(first, /leak_of_thread .*allocs\.c:\d+ < other/);
    const made = await profileWork(t, ['--event', 'alloc', '-f', 'folded'], [program]), alive = await profileWork(t, ['--event', 'alloc-live', '-f', 'folded'], [program]);
    assert.match(made.stdout, /;main;grow \d/);
    assert.match(made.stdout, /;churn \d/);
    assert.doesNotMatch(alive.stdout, /;grow |;churn /);
    assert.match(alive.stdout, /;other;leak_of_thread \d/);
});

test('a command, whose memory is counted when it has ended', { skip }, async (t) => {
    const sonde = start(t, SONDE, ['profile', '--json', '--event', 'alloc', '--alloc-interval', '1', '--', build(t)], { stdio: ['pipe', 'pipe', 'pipe'] });
    await sonde.until(/^ready$/m, { stream: 'stdout' });
    sonde.child.stdin.end('\n');
    const { status, stdout, stderr } = await sonde.ended;
    assert.equal(status, 0, stderr);
    const at = stdout.indexOf('\n{\n') + 1;
    assert.ok(at, stdout);
    // Until the program has been read, stacks are not known; bytes are. What the C library takes for itself is little.
    const { allocations } = JSON.parse(stdout.slice(at)).profile, account = Object.values(accountOf(stdout.slice(0, at)));
    const sum = (of) => account.reduce((all, place) => all + of(place), 0);
    assert.ok(sum((p) => p.made) > 2e8, stdout);
    near(allocations.allocated.bytes, sum((p) => p.made), 0.001, 'allocated');
    near(allocations.not_freed.bytes, sum((p) => p.alive), 0.001, 'not freed');
    // How soon it is read is the machine's affair; what has a name has the right one.
    const known = allocations.places.find((p) => p.function === 'leak_of_thread')?.allocated.bytes ?? 0;
    assert.ok(known <= 10_000 * 3049.5 * 1.001, `leak_of_thread: ${known}`);
});

test('what cannot be had is said', { skip }, async (t) => {
    const all = await finish(t, SONDE, ['profile', '--event', 'alloc', '--all', '-d', '1']);
    assert.equal(all.status, 2);
    assert.match(all.stderr, /takes a trap into the kernel.*name processes/s);
    const program = start(t, build(t, '-static', '-s'), [], { stdio: ['pipe', 'pipe', 'pipe'] });
    await program.until(/^ready$/m, { stream: 'stdout' });
    const none = await finish(t, SONDE, ['profile', '--event', 'alloc', '-d', '1', String(program.pid)]);
    assert.equal(none.status, 1, none.stderr);
    assert.match(none.stderr, /exports malloc\(\) and free\(\).*--event page-faults/s);
    program.child.stdin.end();
});

for (const node of NODES)
    test(`V8's heap: functions that allocate (Node ${versionOf(node)})`, { skip }, async (t) => {
        const { status, stdout, stderr, output: account } = await profileWork(t, ['--json', '--event', 'alloc'], [node, '--expose-gc', '--min-semi-space-size=16', '--max-semi-space-size=16', path.join(PROGRAMS, 'allocs.js')]);
        assert.ok(status === 0 || status === 4, stderr);
        const { places } = JSON.parse(stdout).profile.allocations, own = JSON.parse(/^\{.*\}$/m.exec(account)[0]);
        for (const [name, truth] of Object.entries(own)) {
            const found = places.find((p) => p.function === name);
            assert.ok(found, told(places));
            near(found.allocated.bytes, truth, 0.05, name);
            assert.equal(found.allocated.count, 0, 'its pieces are not counted');
        }
        assert.match(stderr, /not seen in process \d+: what stays of JavaScript's objects: SIGUSR1 .*Allocation sampling/s);
    });

test("areas of V8's heap from Node 22 on: their sizes, but those of collectors and what was refused", { skip }, async (t) => {
    const program = path.join(temporary(t), 'areas');
    execFileSync(process.env.CC || 'cc', ['-O1', '-g', '-o', program, path.join(PROGRAMS, 'areas.c')]);
    const { status, stdout, stderr } = await profileWork(t, ['-f', 'folded', '--event', 'alloc', '--alloc-interval', '1'], [program]);
    assert.equal(status, 0, stderr);
    assert.match(stdout, new RegExp(`;main;fill ${(300 * (1000 + 1299)) / 2}$`, 'm'));
});

const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
test("Java's heap: methods that allocate", { skip: skip || (!have('javac') && 'there is no Java') }, async (t) => {
    const folder = temporary(t);
    execFileSync('javac', ['-d', folder, path.join(PROGRAMS, 'Allocs.java')]);
    const { status, stdout, stderr, output: account } = await profileWork(t, ['--json', '--event', 'alloc'], ['java', '-cp', folder, '-XX:+UseParallelGC', '-Xmx400m', 'Allocs']);
    assert.ok(status === 0 || status === 4, stderr);
    const { places } = JSON.parse(stdout).profile.allocations, own = JSON.parse(/^\{.*\}$/m.exec(account)[0]);
    for (const [name, truth] of Object.entries(own)) {
        const found = places.find((p) => p.function === name);
        assert.ok(found, told(places));
        near(found.allocated.bytes, truth, 0.05, name);
    }
    assert.match(stderr, /not seen in process \d+: what stays of Java's objects: jcmd PID JFR\.start .*OldObjectSample/s);
});

// What the lines above recommend for what stays.
test("what helps with V8's heap: allocation sampling lists what stays, by function", () => {
    const { stdout } = spawnSync(process.execPath, ['-e', `
        const { Session } = require('node:inspector'), session = new Session(), kept = [];
        let last;
        function keepsObjects() { for (let i = 0; i < 200_000; i++) kept.push({ a: i, b: i, c: i }); }
        function dropsObjects() { for (let i = 0; i < 2_000_000; i++) last = { a: i, b: i, c: i }; }
        session.connect();
        session.post('HeapProfiler.startSampling', {}, () => {
            for (let i = 0; i < 5; i++) keepsObjects(), dropsObjects();
            session.post('HeapProfiler.getSamplingProfile', (error, { profile }) => {
                const sums = {}, visit = (node) => { sums[node.callFrame.functionName] = (sums[node.callFrame.functionName] ?? 0) + node.selfSize; node.children.forEach(visit); };
                visit(profile.head);
                console.log(JSON.stringify([sums.keepsObjects, sums.dropsObjects ?? 0, kept.length]));
            });
        });`], { encoding: 'utf8' });
    const [keeps, drops] = JSON.parse(stdout);
    assert.ok(keeps > 30e6 && drops < keeps / 20, stdout);
});

test("what helps with Java's heap: the flight recorder's old objects, by method", { skip: !(have('javac') && have('jcmd') && have('jfr')) && 'there is no JDK' }, async (t) => {
    const folder = temporary(t), recording = path.join(folder, 'old.jfr');
    fs.writeFileSync(path.join(folder, 'Stays.java'), `import java.util.*;
public class Stays {
    static List<byte[]> kept = new ArrayList<>();
    static Object last;
    static void keepsBytes() { for (int i = 0; i < 2000; i++) kept.add(new byte[10000]); }
    static void dropsBytes() { for (int i = 0; i < 20000; i++) last = new byte[10000]; }
    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        System.in.read();
        for (int i = 0; i < 5; i++) { keepsBytes(); dropsBytes(); }
        last = null; // the one that is not dropped would be among the old objects now and then
        System.gc();
        System.out.println("done");
        System.in.read();
    }
}`);
    execFileSync('javac', ['-d', folder, path.join(folder, 'Stays.java')]);
    const java = start(t, 'java', ['-cp', folder, '-Xmx1g', 'Stays'], { stdio: ['pipe', 'pipe', 'pipe'] });
    await java.until(/^ready$/m, { stream: 'stdout' });
    execFileSync('jcmd', [String(java.pid), 'JFR.start', 'settings=profile']);
    java.child.stdin.write('x');
    await java.until(/^done$/m, { stream: 'stdout' });
    execFileSync('jcmd', [String(java.pid), 'JFR.dump', `filename=${recording}`]);
    const { stdout } = spawnSync('jfr', ['print', '--events', 'OldObjectSample', recording], { encoding: 'utf8', maxBuffer: 1 << 26 });
    assert.match(stdout, /Stays\.keepsBytes/);
    assert.doesNotMatch(stdout, /Stays\.dropsBytes/);
});
