// A call that sonde makes inside a process ends neither the process nor its work, whatever becomes of the call and of sonde.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, kill, start, temporary } from '../system/helper.mjs';
import { compile, isAlive } from './helper.mjs';

const FUTEX = '202';

// The process that traces a thread, 0 when none does.
const tracerOf = (pid) => Number(/TracerPid:\t(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

const pipes = { stdio: ['pipe', 'pipe', 'pipe'] };

// What the program answers to a line of input.
async function ask(program, pattern) {
    program.stdout = '';
    program.child.stdin.write('\n');
    return program.until(pattern, { stream: 'stdout' });
}

// A program one of whose threads holds the loader's lock, until release() is called.
async function withLoaderLocked(t) {
    const folder = temporary(t), fifo = path.join(folder, 'fifo'), library = path.join(folder, 'slow.so');
    execFileSync('mkfifo', [fifo]);
    fs.renameSync(await compile(t, folder, 'loader', '-DLIBRARY', '-shared', '-fPIC'), library);
    const program = start(t, await compile(t, folder, 'loader'), [library], { ...pipes, env: { FIFO: fifo } });
    await program.until(/locked/, { stream: 'stdout' });
    return { folder, program, release: () => fs.writeFileSync(fifo, 'x') };
}

// Until the main thread waits inside the call for the lock.
const isStuck = (pid) => eventually('the call waits for the lock', () =>
    isAlive(pid) && tracerOf(pid) && fs.readFileSync(`/proc/${pid}/syscall`, 'utf8').startsWith(`${FUTEX} `));

async function goesOn(program) {
    assert.ok(isAlive(program.pid), `the program lives: ${program.signal} ${program.describe()}`);
    const [, before] = await ask(program, /turns (\d+)\n/);
    await eventually('its main thread goes on', async () => Number((await ask(program, /turns (\d+)\n/))[1]) > Number(before) + 2);
}

test('a call that takes too long is left alone: the process ends it by itself and goes on', async (t) => {
    const { folder, program, release } = await withLoaderLocked(t);
    const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, 'trace'), '--duration', '1', program.pid]);
    assert.notEqual(status, 0, 'sonde has given up');
    assert.ok(isAlive(program.pid), `the program lives: ${program.signal} ${stderr}`);
    assert.equal(tracerOf(program.pid), 0, 'nobody holds it');
    release();
    await goesOn(program);
    assert.match(stderr, /takes more than 10 s/);
    const again = await finish(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, 'again'), '--duration', '0.2', program.pid]);
    assert.doesNotMatch(again.stderr, /takes more than/);
    await goesOn(program);
});

test('sonde and what it has started are killed amid a call: the process goes on', async (t) => {
    const { folder, program, release } = await withLoaderLocked(t);
    const sonde = start(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, 'trace'), program.pid]);
    await isStuck(program.pid);
    kill(tracerOf(program.pid), 'SIGKILL');
    kill(sonde.pid, 'SIGKILL');
    await sonde.ended;
    await eventually('nobody holds it', () => !isAlive(program.pid) || tracerOf(program.pid) === 0);
    release();
    await goesOn(program);
});

test('a program that computes with the direction flag set is called into and goes on so', async (t) => {
    const folder = temporary(t);
    const program = start(t, await compile(t, folder, 'backwards'), [], pipes);
    const { stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, 'trace'), '--duration', '0.2', program.pid]);
    assert.doesNotMatch(stderr, /a call inside it failed/);
    await eventually('it has computed since', async () => {
        assert.ok(isAlive(program.pid), `the program lives: ${program.signal}`);
        const [, turns, wrong] = await ask(program, /turns (\d+) wrong (\d+)\n/);
        assert.equal(Number(wrong), 0, 'flags and registers are as it left them');
        return Number(turns) > 1;
    });
});
