// Stacks at tracepoints, functions and USDT probes: how often each was passed, from where.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { SONDE, buildProgram, noProfiles, profileWork, start, temporary } from './helper.mjs';

const skip = noProfiles();

const build = (t) => buildProgram(temporary(t), 'hits');

// What is said of a program that runs already and does so many rounds: { status, stderr, hits: { 'main;few;place': 30 }, dear }.
async function profile(t, program, rounds, ...options) {
    const { status, stdout, stderr, output } = await profileWork(t, ['-f', 'folded', ...options], [program, rounds], { done: /^dear/m });
    return { status, stderr, dear: Number(output.match(/^dear (\d+)/m)[1]), hits: Object.fromEntries([...stdout.matchAll(/;(main\S*) (\d+)$/gm)].map(([, stack, n]) => [stack, Number(n)])) };
}
const sum = (hits) => Object.values(hits).reduce((a, b) => a + b, 0);

test('a function: each hit with its stack', { skip }, async (t) => {
    const { status, stderr, hits } = await profile(t, build(t), 3, '--event', 'uprobe:hits:place');
    assert.equal(status, 0, stderr);
    assert.deepEqual(hits, { 'main;few;place': 90, 'main;many;place': 210 });
    assert.match(stderr, /each hit of uprobe:hits:place takes about \d+\.\d us .*measured here.*; with more than 5000 hits a second it stops/);
    assert.ok(Number(stderr.match(/takes about ([\d.]+) us/)[1]) > 0, stderr);
    assert.match(stderr, /^sonde: 300 hits$/m);
});

test('a function of a command, by its path, at each tenth hit', { skip }, async (t) => {
    const program = build(t), { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '--event', `uprobe:${program}:place`, '--every', '10', '--hit-limit', '1000000', '--', program, '50'], { input: '\n\n', encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const [, hits, stacks] = stderr.match(/^sonde: (\d+) hits, of which (\d+) had their stacks taken/m).map(Number);
    assert.equal(hits, 5000, stderr);
    assert.ok(stacks > 400 && stacks <= 500, stderr);
    assert.match(stdout, /;main;few;place \d+$/m, `${stdout}${stderr}`);
    const few = Number(stdout.match(/;main;few;place (\d+)$/m)[1]), many = Number(stdout.match(/;main;many;place (\d+)$/m)[1]);
    assert.ok(few + many <= 5000 && few + many > 5000 - 10 * 64, `${few} and ${many}: all but the last few of each CPU`);
    assert.ok(few === 10 * Math.round(few / 10) && few > 0.2 * (few + many) && few < 0.4 * (few + many), stdout);
});

test("a probe of the program's author", { skip }, async (t) => {
    const { status, stderr, hits, dear } = await profile(t, build(t), 3, '--event', 'usdt:hits:shop:order');
    assert.equal(status, 0, stderr);
    assert.deepEqual(hits, { 'main;order': 60 });
    assert.equal(dear, 0, 'nobody watches the other one');
});

test('a probe that the program passes only while it is watched', { skip }, async (t) => {
    const program = build(t), { status, stderr, hits, dear } = await profile(t, program, 3, '--event', `usdt:${program}:shop:dear`);
    assert.equal(status, 0, stderr);
    assert.equal(dear, 15);
    assert.deepEqual(hits, { 'main;order': 15 });
});

test('a tracepoint of the kernel', { skip }, async (t) => {
    const { status, stderr, hits } = await profile(t, build(t), 3, '--no-kernel', '--event', 'syscalls:sys_enter_getppid');
    if (/the kernel has no tracepoint/.test(stderr)) return t.skip('this kernel does not trace system calls');
    assert.equal(status, 0, stderr);
    assert.deepEqual(hits, { 'main;ask;syscall': 120 });
});

test('forks of a shell: with the kernel', { skip }, () => {
    const { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-q', '-f', 'folded', '--event', 'sched:sched_process_fork', '--', 'sh', '-c', 'for i in 1 2 3 4 5; do /bin/true; done'], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.equal([...stdout.matchAll(/kernel_clone_\[k\].* (\d+)$/gm)].reduce((a, [, n]) => a + Number(n), 0), 5, stdout);
});

test('too many hits: it leaves the program alone, and says so', { skip }, async (t) => {
    const program = build(t), { stderr, hits } = await profile(t, program, 3000, '--event', 'uprobe:hits:place', '--hit-limit', '1');
    assert.match(stderr, /^sonde: stopped after .*: more than 1 hits a second of uprobe:hits:place; --every N/m);
    const counted = Number(stderr.match(/^sonde: (\d+) hits/m)[1]);
    assert.ok(counted > 0 && counted < 300_000, `${counted} of 300,000`);
    assert.ok(sum(hits) <= counted, `${sum(hits)} of ${counted}`);
});

test('what cannot be watched has a reason', { skip }, (t) => {
    const program = build(t);
    for (const [event, pattern] of [
        [`uprobe:${program}:nothing`, /has no function nothing\n.*nm/],
        [`uprobe:${program}:sink`, /sink in .* is not a function/],
        [`usdt:${program}:shop:nothing`, /has no probe shop:nothing\n.*readelf -n/],
        ['uprobe:/nowhere/program:main', /\/nowhere\/program cannot be opened/],
        ['sched:nothing', /the kernel has no tracepoint sched:nothing/],
        ['../../etc:passwd', /the kernel has no tracepoint/],
        ['usdt:only:two', /is not an event/],
    ]) {
        const { status, stderr } = spawnSync(SONDE, ['profile', '--event', event, '--', program, '1'], { input: '\n\n', encoding: 'utf8' });
        assert.ok(status > 0, event);
        assert.match(stderr, pattern, event);
    }
    for (const options of [['--event', 'cpu', '--every', '2'], ['--event', 'sched:sched_process_fork', '--store', '/tmp/nowhere']])
        assert.equal(spawnSync(SONDE, ['profile', ...options, '--', 'true']).status, 2, options.join(' '));
});

test('where another tool has changed the code: no breakpoint, which could kill the process', { skip }, async (t) => {
    const program = buildProgram(temporary(t), 'patched');
    const watched = start(t, program, [], { stdio: ['pipe', 'pipe', 'pipe'] });
    await watched.until(/^ready$/m, { stream: 'stdout' });
    const profile = (event, ...what) => spawnSync(SONDE, ['profile', '-f', 'folded', '-d', '0.2', '--event', event, ...what], { encoding: 'utf8' });
    for (const what of [[String(watched.pid)], ['--all']]) {
        const { status, stderr } = profile(`uprobe:${program}:place`, ...what);
        assert.equal(status, 1, stderr);
        assert.match(stderr, new RegExp(`process ${watched.pid}: another tool has changed the code of place in .*patched, so that a breakpoint there could kill the process\n.*sonde detach ${watched.pid}`));
    }
    assert.equal(profile(`uprobe:${program}:other`, String(watched.pid)).status, 5, 'it was not called');
    watched.child.stdin.write('\n');
    await watched.until(/^place says 2, other 2$/m, { stream: 'stdout' });
});

test('no hit: why, of a tracepoint and of a function', { skip }, (t) => {
    const nothing = (event, ...command) => {
        const { status, stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '-o', '/dev/null', '--event', event, '--', ...command], { encoding: 'utf8' });
        assert.equal(status, 5, stderr);
        return stderr.match(/^sonde: no samples: (.*)$/m)[1];
    };
    assert.equal(nothing('sched:sched_process_fork', 'true'), 'what is watched did not get there in this time.');
    assert.match(nothing(`uprobe:${build(t)}:place`, 'true'), /did not get there in this time\. Processes that it starts are watched a few milliseconds after/);
});
