// Who ended which wait, at which stack, and who had woken that thread: programs whose wakers are known.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, buildProgram, noProfiles, profileWork, temporary } from './helper.mjs';

const skip = noProfiles();
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const told = (x) => JSON.stringify(x, null, 1);
const sum = (list, of) => list.reduce((all, x) => all + of(x), 0);

const build = (t) => buildProgram(temporary(t), 'wakers', '-pthread');

// What sonde says of a program's waits.
async function profile(t, options, command) {
    const { status, stdout, stderr } = await profileWork(t, ['--event', 'off-cpu', ...options], command);
    assert.ok(status === 0 || status === 4, stderr); // 4: a loaded machine lost some
    return stdout;
}
const STACKS = '--wakers=stacks';

// The waits in one of the program's functions, of the document.
async function waitsIn(t, place, ...command) {
    const { waits } = JSON.parse(await profile(t, [STACKS, '--json'], command)).profile, list = waits.filter((w) => w.function === place);
    assert.ok(list.length, told(waits));
    return { list, waited: sum(list, (w) => w.waited_ns), waits };
}
const by = (link) => `${link.name}${link.function ? ` in ${link.function}` : ''}`;

test('who ended waits for a condition variable, and who had woken that thread', { skip }, async (t) => {
    const { list, waited, waits } = await waitsIn(t, 'awaits_turn', build(t));
    // Twenty waits of 20 ms and more, from before the clerk's pause to after it; the first began before it was sampled.
    const whole = list.filter((w) => w.woken_by.map(by).join(' < ') === 'keeper in hands_over < wakers in gives_order < a timer');
    assert.ok(waited > 3e8 && sum(whole, (w) => w.waited_ns) > 0.8 * waited, told(waits));
    const [{ process, stack, woken_by: [keeper, clerk, timer] }] = whole;
    assert.ok(stack.indexOf('awaits_turn') > stack.findIndex((f) => /cond_wait/.test(f)) && stack.at(-2) === 'start_thread', told(stack));
    assert.ok(keeper.stack.indexOf('hands_over') > keeper.stack.findIndex((f) => /cond_signal/.test(f)), told(keeper));
    assert.ok(keeper.stack.indexOf('keeps') > keeper.stack.indexOf('hands_over'), told(keeper));
    assert.ok(clerk.stack.indexOf('main') > clerk.stack.indexOf('gives_order') && !clerk.stack.includes('keeps'), told(clerk));
    assert.deepEqual([keeper.process, clerk.process, timer.process, timer.stack], [process, process, undefined, []]);
});

test('folded text has the waker behind a separator; lists count its functions for nobody', { skip }, async (t) => {
    const program = build(t), file = path.join(temporary(t), 'waits.folded');
    await profile(t, [STACKS, '-o', file], [program]);
    const stacks = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => [line.slice(0, line.lastIndexOf(' ')).replaceAll('_[k]', '').split(';'), Number(line.slice(line.lastIndexOf(' ') + 1))]);
    const waits = stacks.filter(([f]) => f.indexOf('awaits_turn') >= 0 && f.some((x) => x.startsWith('[woken by keeper (')));
    assert.ok(sum(waits, ([, w]) => w) > 3e8, told(stacks));
    for (const [f] of waits) {
        const at = f.findIndex((x) => x.startsWith('[woken by '));
        assert.ok(f.indexOf('awaits_turn') < at && f.lastIndexOf('hands_over') > at && f.lastIndexOf('keeps') > f.lastIndexOf('hands_over'), f.join(';'));
    }
    const plain = await profile(t, ['--wakers', '-f', 'folded'], [program]);
    assert.ok(/awaits_turn\S*;\[woken by keeper \(\d+\)\]_\[k\] \d+$/m.test(plain) && !/\[woken by [^;\n]*;/.test(plain), plain);
    const list = await profile(t, [STACKS, '-q'], [program]);
    assert.match(list, /of waits, by who ended them/);
    assert.match(list, / awaits_turn {2}\S*wakers\.c:\d+ {2}\[wakers \(\d+\)\]\n +woken by keeper \(\d+\) in hands_over {2}\S*wakers\.c:\d+\n +itself woken during that wait by wakers \(\d+\) in gives_order/);
    const { functions } = JSON.parse(await profile(t, [STACKS, '--json'], [program])).profile;
    const ended = functions.find((f) => f.function.startsWith('[woken by keeper ('));
    assert.ok(ended?.self > 3e8 && functions.some((f) => f.function === 'awaits_turn' && f.total >= ended.self), told(functions));
});

test("Node's waker is in its script", { skip }, async (t) => {
    const file = path.join(temporary(t), 'turns.js');
    fs.writeFileSync(file, `
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
    const turns = new Int32Array(new SharedArrayBuffer(4));
    let left = 40;
    new Worker(__filename, { workerData: turns }).on('message', console.log);
    function handsOver() { Atomics.add(turns, 0, 1); Atomics.notify(turns, 0); }
    function decides() { handsOver(); if (--left) setTimeout(decides, 20); }
    process.stdin.once('data', decides).on('end', process.exit);
} else {
    function awaitsTurn(have) { Atomics.wait(workerData, 0, have); }
    parentPort.postMessage('ready');
    for (let have = 0; (have = Atomics.load(workerData, 0)) < 40;) awaitsTurn(have);
    parentPort.on('message', () => { }).postMessage('done');
}`);
    const { list, waited, waits } = await waitsIn(t, 'awaitsTurn', process.execPath, file);
    const known = list.filter((w) => w.woken_by[0].function === 'handsOver');
    assert.ok(sum(known, (w) => w.waited_ns) > 0.5 * waited, told(waits));
    assert.ok(known[0].woken_by[0].stack.indexOf('decides') > known[0].woken_by[0].stack.indexOf('handsOver'), told(known));
});

test("Python's waker is in its script", { skip: skip || (!have('python3') && 'needs Python') }, async (t) => {
    const file = path.join(temporary(t), 'turns.py');
    fs.writeFileSync(file, `
import sys, threading, time
condition, turns = threading.Condition(), 0
def awaits_turn(have):
    with condition:
        condition.wait_for(lambda: turns > have)
def hands_over():
    global turns
    with condition:
        turns += 1
        condition.notify()
def reads():
    for have in range(40): awaits_turn(have)
def decides():
    for _ in range(40):
        hands_over()
        time.sleep(0.02)
reader = threading.Thread(target=reads)
reader.start()
print('ready', flush=True)
sys.stdin.readline()
decides()
reader.join()
print('done', flush=True)
sys.stdin.read()
`);
    const { list, waited, waits } = await waitsIn(t, 'awaits_turn', 'python3', file);
    const known = list.filter((w) => w.woken_by[0].function === 'hands_over');
    assert.ok(sum(known, (w) => w.waited_ns) > 0.5 * waited, told(waits));
    assert.ok(known[0].woken_by[0].stack.indexOf('decides') > known[0].woken_by[0].stack.indexOf('hands_over'), told(known));
});

test('what does not go together is refused', () => {
    const at = (...args) => spawnSync(SONDE, ['profile', ...args, '1'], { encoding: 'utf8' });
    for (const options of [['--wakers=stacks'], ['--event', 'lock', '--wakers=stacks'], ['--event', 'off-cpu', '--wakers=names']])
        assert.equal(at(...options).status, 2, options.join(' '));
    assert.match(at('--event', 'off-cpu', '--wakers=names').stderr, /invalid value 'names' \(stacks, or none\)/);
});
