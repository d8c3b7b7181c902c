// A call that sonde makes inside a process ends neither the process nor its work, whatever becomes of the call and of sonde.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { SONDE, eventually, finish, kill, start, temporary } from '../system/helper.mjs';
import { ask, compile, goesOn, isAlive, isStuck, pipes, tracerOf, withLoaderLocked } from './helper.mjs';

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
