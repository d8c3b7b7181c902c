// What a process may do to itself while it is traced: threads that come and go, signals, fork, vfork, leaving its parents,
// dying; and code that somebody else has written into. Every call is recorded or counted as lost, once.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, kill, manifestOf, root, start, temporary } from './helper.mjs';

async function runtime(t, compiler = 'cc') {
    const program = path.join(temporary(t), 'runtime');
    const { status, stderr } = await finish(t, compiler, ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-pthread', '-o', program, path.join(root, 'tests/system/programs/runtime.c')]);
    assert.equal(status, 0, stderr);
    return program;
}

async function commands(t, trace) {
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace]);
    return stdout.split('\n').filter(Boolean).length;
}

const lost = (trace) => manifestOf(trace).losses.reduce((sum, loss) => sum + loss.count, 0);

async function run(t, program, ...mode) {
    const trace = path.join(temporary(t), 'trace');
    const ended = await finish(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', program, ...mode]);
    return { ...ended, trace, calls: Number((/^(\d+) calls$/m.exec(ended.stdout) || [])[1]) };
}

for (const [what, ...mode] of [
    ['threads that begin and end, more than there are rings', 'threads', '400'],
    ['a signal handler that interrupts everything', 'signals', '100'],
    ['forked children that call at the same time', 'fork', '10'],
    ['children of vfork, which run in their parent\'s memory', 'vfork', '50'],
])
    test(`${what}: every call is recorded or counted as lost, once`, async (t) => {
        const { status, stderr, trace, calls } = await run(t, await runtime(t), ...mode);
        assert.ok(status === 0 || status === 4, stderr);
        assert.ok(calls > 100, 'it ran to its end');
        assert.equal(await commands(t, trace) + lost(trace), calls, JSON.stringify(manifestOf(trace).losses));
    });

test('a daemon, which leaves its parents behind, and sonde with them, works on', async (t) => {
    const { status, stderr, trace, calls } = await run(t, await runtime(t), 'daemon');
    assert.ok(status === 0 || status === 4, stderr);
    assert.equal(calls, 500, 'it ran to its end');
    assert.ok(await commands(t, trace) <= calls);
});

test('a program that crashes inside a hooked function dies as it would, and what it did is there', async (t) => {
    const { status, stderr, trace } = await run(t, await runtime(t), 'crash');
    assert.equal(status, 128 + 11, stderr);
    assert.equal(await commands(t, trace), 50);
});

for (const [what, ...mode] of [['threads that come and go', 'threads', '100000'], ['signals', 'signals', '100000'], ['children of vfork', 'vfork', '100000']])
    test(`${what} while sonde attaches and detaches`, async (t) => {
        const folder = temporary(t), program = start(t, await runtime(t), mode);
        await program.until(/up/, { stream: 'stdout' });
        for (let i = 0; i < 3; i++) {
            const trace = path.join(folder, String(i));
            const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-o', trace, '--duration', '0.3', program.pid]);
            assert.ok(status === 0 || status === 4, stderr);
            assert.ok(await commands(t, trace) > 0);
        }
        assert.ok(!program.over, 'it lives on');
    });

test('a program that crashes while it is attached to: sonde ends in good order', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), program = start(t, await runtime(t), ['serve']);
    await program.until(/up/, { stream: 'stdout' });
    const sonde = start(t, SONDE, ['attach', '--no-kernel', '-o', trace, program.pid]);
    await sonde.until(/attached to 1 process/);
    await eventually('something is recorded', () => fs.existsSync(path.join(trace, 'ctf')));
    kill(program.pid, 'SIGSEGV');
    assert.equal((await program.ended).signal, 'SIGSEGV');
    const { status, stderr } = await sonde.ended;
    assert.ok(status === 0 || status === 4, stderr);
    assert.equal(manifestOf(trace).processes[0].pid, program.pid);
});

test('a function that another tool has written into is left alone, and that is said', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), program = start(t, await runtime(t), ['patched']);
    await program.until(/up/, { stream: 'stdout' });
    const said = JSON.parse((await finish(t, SONDE, ['doctor', '--json', program.pid])).stdout).processes[0].functions.find((f) => f.function === 'call');
    assert.deepEqual([said.found, /another tool/.test(said.why)], [false, true], 'doctor says it beforehand');
    const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-o', trace, '--duration', '0.3', program.pid]);
    assert.ok(status === 0 || status === 4, stderr);
    const [{ hooks, missing }] = manifestOf(trace).processes;
    assert.ok(!hooks.includes('call') && hooks.includes('aeProcessEvents'), String(hooks));
    assert.match(missing.find((m) => /commands that Redis executes/.test(m.what)).why, /call is not as in the file: another tool has patched it/);
    assert.equal(await commands(t, trace), 0);
    assert.ok(!program.over, 'it lives on');
});

test('a program with another libc, musl: what doctor says beforehand is so', { skip: !fs.existsSync('/usr/bin/musl-gcc') && 'musl-tools is not installed' }, async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), file = await runtime(t, 'musl-gcc');
    const program = start(t, file, ['serve']);
    await program.until(/up/, { stream: 'stdout' });
    assert.match(fs.readFileSync(`/proc/${program.pid}/maps`, 'utf8'), /ld-musl|musl.*libc/);
    const { checks, processes } = JSON.parse((await finish(t, SONDE, ['doctor', '--json', program.pid])).stdout);
    assert.equal(checks.find((c) => c.what === 'a way in for the probe').verdict, 'works');
    assert.ok(processes[0].functions.some((f) => f.function === 'call' && f.found));
    const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-o', trace, '--duration', '0.3', program.pid]);
    assert.ok(status === 0 || status === 4, stderr);
    assert.ok(await commands(t, trace) > 0);
    assert.ok(!program.over, 'it lives on');
    const whole = await run(t, file, 'threads', '64');
    assert.equal(await commands(t, whole.trace) + lost(whole.trace), whole.calls);
});
