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

test('a daemon, which leaves its parents behind, is traced to its end', async (t) => {
    const { status, stderr, trace, calls } = await run(t, await runtime(t), 'daemon');
    assert.ok(status === 0 || status === 4, stderr);
    assert.equal(calls, 500, 'it ran to its end');
    assert.equal(await commands(t, trace) + lost(trace), calls, stderr + JSON.stringify(manifestOf(trace)));
});

test('two Redis in the background are traced until sonde is interrupted, and live on as they were', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), names = ['a', 'b'];
    const cli = async (name, ...words) => (await finish(t, 'redis-cli', ['-s', path.join(folder, name), ...words])).stdout.trim();
    const pids = {};
    t.after(() => Object.values(pids).forEach((pid) => kill(pid, 'SIGKILL')));
    const script = names.map((name) => `redis-server --daemonize yes --port 0 --unixsocket ${path.join(folder, name)} --save "" --dir ${folder} --pidfile ${folder}/${name}.pid`).join('; ');
    const recording = start(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', 'sh', '-c', script]);
    await recording.until(/the command has ended; .* in the background, is traced until it ends/);
    for (const name of names) {
        await eventually(`${name} answers`, async () => (await cli(name, 'ping')) === 'PONG');
        pids[name] = Number(/process_id:(\d+)/.exec(await cli(name, 'info', 'server'))[1]);
        for (let i = 0; i < 20; i++) await cli(name, 'incr', 'counter');
    }
    kill(recording.pid, 'SIGINT');
    const { status, stderr } = await recording.ended;
    assert.equal(status, 0, stderr);
    assert.ok(await commands(t, trace) >= 40, 'what both did in the background');
    for (const name of names) {
        assert.match(stderr, new RegExp(`\\(${pids[name]}\\) runs on, untraced; .sonde attach ${pids[name]}. traces it again`));
        assert.equal(await cli(name, 'incr', 'counter'), '21');
        const again = path.join(folder, `again-${name}`);
        const attached = start(t, SONDE, ['attach', '--no-kernel', '-o', again, pids[name]]);
        await attached.until(/attached to 1 process/);
        assert.equal(await cli(name, 'incr', 'counter'), '22');
        kill(attached.pid, 'SIGINT');
        await attached.ended;
        assert.ok(await commands(t, again) >= 1, 'its code was as before: the same functions are hooked again');
    }
});

test('what a command leaves behind in its own session keeps nobody waiting', async (t) => {
    const folder = temporary(t), socket = path.join(folder, 'socket');
    const { status, stderr } = await finish(t, SONDE, ['run', '--no-kernel', '-o', path.join(folder, 'trace'), '--', 'sh', '-c',
        `redis-server --port 0 --unixsocket ${socket} --save "" --dir ${folder} >/dev/null 2>&1 & until redis-cli -s ${socket} ping 2>/dev/null; do sleep 0.1; done`]);
    const pid = Number(/\((\d+)\) runs on, untraced/.exec(stderr)?.[1]);
    t.after(() => kill(pid, 'SIGKILL'));
    assert.ok(pid, stderr);
    assert.equal(status, 0, stderr);
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
