// Places in programs (functions, malloc) in processes that the watched ones start later: watched, too, and what was not is said.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, root, start, temporary } from './helper.mjs';

const probe = spawnSync(SONDE, ['profile', '-q', '-f', 'folded', '--', 'true'], { encoding: 'utf8' });
const skip = probe.status === 3 ? 'needs the right to load BPF programs (root, or CAP_BPF and CAP_PERFMON)' : false;
const CHILDREN = 4;

function build(t) {
    const program = path.join(temporary(t), 'children');
    execFileSync(process.env.CC || 'cc', ['-O1', '-g', '-no-pie', '-o', program, path.join(root, 'tests/system/programs/children.c')]);
    return program;
}

// Of a program that runs already: what is said, and of what each child says it did the least and the most.
async function profile(t, program, how, what, ...options) {
    const watched = start(t, program, [how, what, String(CHILDREN)], { stdio: ['pipe', 'pipe', 'pipe'] });
    await watched.until(/^ready$/m, { stream: 'stdout' });
    const sonde = start(t, SONDE, ['profile', ...options, String(watched.pid)]);
    const catches = () => BigInt('0x' + fs.readFileSync(`/proc/${sonde.pid}/status`, 'utf8').match(/SigCgt:\s*(\w+)/)[1]) & 2n; // SIGINT
    await eventually('sonde samples', () => sonde.over || catches());
    watched.child.stdin.write('\n');
    await watched.until(new RegExp(`(^child \\d+ \\d+\\n[^]*){${CHILDREN}}`, 'm'), { stream: 'stdout' });
    sonde.child.kill('SIGINT');
    const { status, stdout, stderr } = await sonde.ended;
    watched.child.stdin.write('\n');
    const said = [...(await watched.ended).stdout.matchAll(/^child (\d+) (\d+)$/gm)].map(([, least, most]) => [Number(least), Number(most)]);
    assert.equal(said.length, CHILDREN, 'each child was watched');
    return { status, stdout, stderr, least: said.reduce((sum, [n]) => sum + n, 0), most: said.reduce((sum, [, n]) => sum + n, 0) };
}

const FOLLOWED = new RegExp(`^sonde: started meanwhile: ${CHILDREN} processes, ${CHILDREN} watched from \\d+\\.\\d ms after the beginning on \\(\\d+\\.\\d ms at most\\)$`, 'm');

for (const how of ['fork', 'exec']) {
    test(`a function, in children (${how})`, { skip }, async (t) => {
        const program = build(t), { status, stdout, stderr, least, most } = await profile(t, program, how, 'place', '-f', 'folded', '--event', `uprobe:${program}:place`);
        assert.equal(status, 0, stderr);
        assert.match(stderr, FOLLOWED);
        const hits = Number(/^sonde: (\d+) hits/m.exec(stderr)[1]);
        assert.ok(hits >= least && hits <= most, `${hits} hits of ${least} to ${most}`);
        const processes = new Set([...stdout.matchAll(/^children \((\d+)\);.*place \d+$/gm)].map(([, pid]) => pid));
        assert.equal(processes.size, CHILDREN, stdout);
    });

    test(`allocations, in children (${how})`, { skip }, async (t) => {
        const { status, stdout, stderr, least } = await profile(t, build(t), how, 'free', '--json', '--event', 'alloc', '--alloc-interval', '1');
        assert.equal(status, 0, stderr);
        assert.match(stderr, FOLLOWED);
        const { allocations } = JSON.parse(stdout).profile;
        assert.equal(allocations.places.find((p) => p.function === 'keep')?.not_freed.bytes, least, stdout);
    });
}

test('a program that a watched shell runs', { skip }, (t) => {
    const program = build(t), { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '--event', `uprobe:${program}:place`, '--', 'sh', '-c', `${program} exec place 2; true`], { input: '\n\n', encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.match(stderr, /^sonde: started meanwhile: 3 processes, 3 watched from/m);
    assert.ok(Number(/^sonde: (\d+) hits/m.exec(stderr)[1]) >= 200, stdout);
});

test('what was not watched is counted', { skip }, (t) => {
    const program = build(t), { stderr } = spawnSync(SONDE, ['profile', '-f', 'folded', '--event', `uprobe:${program}:place`, '--', 'sh', '-c', 'i=0; while [ $i -lt 300 ]; do (:) & i=$((i+1)); done; wait'], { encoding: 'utf8' });
    const started = Number(/^sonde: started meanwhile: (\d+) processes/m.exec(stderr)[1]), followed = Number(/, (\d+) watched from/.exec(stderr)?.[1] ?? 0);
    const [, not, over, many, failed] = /, (\d+) not watched \((\d+) were over before, (\d+) were too many, (\d+) failed\)/.exec(stderr)?.map(Number) ?? [0, 0, 0, 0, 0];
    assert.equal(started, 300, stderr);
    assert.equal(followed + not, started, stderr);
    assert.equal(over + many, not, stderr);
    assert.equal(failed, 0, stderr);
});
