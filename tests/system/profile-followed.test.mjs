// Places in programs (functions, malloc) in processes that the watched ones start later: watched, too, and what was not is said.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { pinned } from '../../bench/measure.mjs';
import { SONDE, buildProgram, noProfiles, profileWork, temporary } from './helper.mjs';

const skip = noProfiles();
const CHILDREN = 4;

const build = (t) => buildProgram(temporary(t), 'children', '-no-pie');

// Of a program that runs already: what is said, and of what each child says it did the least and the most.
async function profile(t, program, how, what, ...options) {
    const pins = pinned(0, program, how, what, CHILDREN), done = new RegExp(`(^child \\d+ \\d+\\n[^]*){${CHILDREN}}`, 'm'); // where they preempt each other anywhere
    const { status, stdout, stderr, output } = await profileWork(t, options, pins, { done });
    const said = [...output.matchAll(/^child (\d+) (\d+)$/gm)].map(([, least, most]) => [Number(least), Number(most)]);
    assert.equal(said.length, CHILDREN, 'each child was watched');
    return { status, stdout, stderr, least: said.reduce((sum, [n]) => sum + n, 0), most: said.reduce((sum, [, n]) => sum + n, 0) };
}

const FOLLOWED = new RegExp(`^sonde: started later: ${CHILDREN} processes, ${CHILDREN} watched from \\d+\\.\\d ms after their start on average \\(\\d+\\.\\d ms at most\\)$`, 'm');

for (const how of ['fork', 'exec']) {
    test(`a place, in children (${how})`, { skip }, async (t) => {
        const program = build(t), { status, stdout, stderr, least, most } = await profile(t, program, how, 'probe', '-f', 'folded', '--hit-limit', '1000000', '--event', `usdt:${program}:shop:child`);
        assert.ok([0, 4].includes(status), stderr); // 4: stacks were lost on a busy machine; hits and bytes are not
        assert.match(stderr, FOLLOWED);
        const hits = Number(/^sonde: (\d+) hits/m.exec(stderr)[1]);
        assert.ok(hits >= least && hits <= most, `${hits} hits of ${least} to ${most}`);
        assert.match(stdout, /^children \(\d+\);.*;first \d+$/m);
    });

    test(`allocations, in children (${how})`, { skip }, async (t) => {
        const { status, stdout, stderr, least } = await profile(t, build(t), how, 'free', '--json', '--event', 'alloc', '--alloc-interval', '1');
        assert.ok([0, 4].includes(status), stderr); // 4: stacks were lost on a busy machine; hits and bytes are not
        assert.match(stderr, FOLLOWED);
        const { allocations } = JSON.parse(stdout).profile;
        // A process that has just begun may not have been read yet: its bytes count, their place is not known.
        const bytes = (wanted) => allocations.places.filter((p) => wanted(p.function)).reduce((sum, p) => sum + p.not_freed.bytes, 0), known = bytes((f) => f === 'keep');
        assert.ok(known <= least && (known + bytes((f) => !f) >= least || status === 4), stdout);
    });
}

test('a program that a watched shell runs', { skip }, (t) => {
    const program = build(t), { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '--event', `usdt:${program}:shop:child`, '--hit-limit', '1000000', '--', 'sh', '-c', `${program} exec probe 1; true`], { input: '\n\n', encoding: 'utf8' });
    assert.ok([0, 4].includes(status), stderr); // 4: stacks were lost on a busy machine; hits and bytes are not
    assert.match(stderr, /^sonde: started later: 2 processes, 2 watched from/m);
    assert.ok(Number(/^sonde: (\d+) hits/m.exec(stderr)[1]) >= 5000, stdout);
});

test('what was not watched is counted', { skip }, (t) => {
    const program = build(t), { stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '--event', `usdt:${program}:shop:child`, '--', 'sh', '-c', 'i=0; while [ $i -lt 300 ]; do (:) & i=$((i+1)); done; wait'], { encoding: 'utf8' });
    const started = Number(/^sonde: started later: (\d+) processes/m.exec(stderr)[1]), followed = Number(/, (\d+) watched from/.exec(stderr)?.[1] ?? 0);
    const [, not, over, many, failed] = /, (\d+) not watched \((\d+) had ended, (\d+) were too many, (\d+) failed\)/.exec(stderr)?.map(Number) ?? [0, 0, 0, 0, 0];
    assert.equal(started, 300, stderr);
    assert.equal(followed + not, started, stderr);
    assert.equal(over + many, not, stderr);
    assert.equal(failed, 0, stderr);
});
