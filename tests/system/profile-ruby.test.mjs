// Ruby's functions, by system calls whose callers and number are known.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { noProfiles, profileWork, root, temporary } from './helper.mjs';

const version = spawnSync('ruby', ['-e', 'print RUBY_VERSION, " ", RbConfig::CONFIG["ENABLE_SHARED"]'], { encoding: 'utf8' }).stdout ?? '';
const skip = noProfiles() || (/^3\.1\..* yes$/.test(version) ? false : `needs Ruby 3.1 as a library, not ${version || 'none'}`);
const CALLS = path.join(root, 'tests/system/programs/calls.rb');
const EVENT = ['--event', 'syscalls:sys_enter_getppid', '--no-kernel'];

// Without what C does: { '<main>;work;few;block in few': 30 }.
function rubyStacks(folded, names) {
    const sums = {};
    for (const [, stack, n] of folded.matchAll(/^(.*) (\d+)$/gm)) {
        const own = stack.split(';').filter((f) => names.test(f)).join(';');
        sums[own] = (sums[own] ?? 0) + Number(n);
    }
    return sums;
}
const NAMES = /^(<main>|block .*|few|order|ask|open|defined|<class:Shop>|recurse|in_thread|in_fiber|fails|rescue in fails|in_text|work)$/;

test('methods, blocks, threads, fibers: each call with its stack', { skip }, async (t) => {
    const { status, stdout, stderr } = await profileWork(t, ['-f', 'folded', ...EVENT], ['ruby', CALLS]);
    if (/the kernel has no tracepoint/.test(stderr)) return t.skip('this kernel does not trace system calls');
    assert.equal(status, 0, stderr);
    assert.deepEqual(rubyStacks(stdout, NAMES), {
        '<main>;work;few;block in few': 30,
        '<main>;work;order;block in order;ask': 40,
        '<main>;work;open;block in open': 20,
        '<main>;work;block in <class:Shop>;block (2 levels) in <class:Shop>': 5,
        [`<main>;work;${'recurse;'.repeat(11).slice(0, -1)}`]: 1,
        'block in in_thread;block (2 levels) in in_thread': 11,
        'block in in_fiber;block (2 levels) in in_fiber': 13,
        '<main>;work;fails;rescue in fails;block in fails': 3,
        '<main>;work;in_text;in_text;block in in_text': 7,
    }, stdout);
    assert.doesNotMatch(stdout, /unreadable|\(gone\)|truncated/);
    assert.doesNotMatch(stderr, /Ruby's functions are not read/);
    assert.match(stderr, /Ruby 100\.00 % of 130/);
});

test('functions with their files and lines, and what is the application', { skip }, async (t) => {
    const { status, stdout, stderr } = await profileWork(t, ['--json', '--runtimes', ...EVENT], ['ruby', CALLS]);
    if (/the kernel has no tracepoint/.test(stderr)) return t.skip('this kernel does not trace system calls');
    assert.equal(status, 0, stderr);
    const { findings, profile: { functions } } = JSON.parse(stdout), lines = fs.readFileSync(CALLS, 'utf8').split('\n');
    for (const [name, text] of [['few', 'def few'], ['ask', '  def ask(i)'], ['block in few', '  30.times']]) {
        const found = functions.find((f) => f.function === name);
        assert.deepEqual([found?.file, found?.language], [CALLS, 'ruby'], `${name}: ${stdout}`);
        assert.ok(lines.some((line) => line.startsWith(text)), text);
    }
    assert.equal(findings.find((f) => f.kind === 'hot-function')?.where.source.function, 'ask', stdout);
    assert.equal(findings.find((f) => f.kind === 'hot-function').where.source.line, lines.indexOf('  def ask(i)') + 1);
    assert.match(stderr, /^process \d+: Ruby 3\.1/m);
    assert.match(stderr, /Ruby's control frames/);
});

test('methods that are defined, called and removed: under their own name, or gone', { skip }, async (t) => {
    const file = path.join(temporary(t), 'fresh.rb');
    // What lies at their place by the time that it is read may be another.
    fs.writeFileSync(file, `$stdout.sync = true
puts 'ready'
$stdin.gets
300.times { |i| Object.class_eval("def made_#{i}; Process.ppid; end"); send("made_#{i}"); Object.send(:remove_method, "made_#{i}"); GC.start if i % 20 == 0 }
puts 'done'
$stdin.read
`);
    const { status, stdout, stderr } = await profileWork(t, ['-f', 'folded', ...EVENT], ['ruby', file]);
    if (/the kernel has no tracepoint/.test(stderr)) return t.skip('this kernel does not trace system calls');
    assert.equal(status, 0, stderr);
    const seen = [...stdout.matchAll(/;made_(\d+)\b[^\n]* (\d+)$/gm)].map(([, i, n]) => [Number(i), Number(n)]), gone = [...stdout.matchAll(/\(gone\)[^\n]* (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    assert.ok(seen.every(([, n]) => n === 1), 'no call under the name of another');
    assert.equal(seen.length + gone, 300, stdout);
    assert.ok(seen.length > 0, stdout);
});
