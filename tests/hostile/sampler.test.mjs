// A profiler whose process somebody has taken over, by way of what it reads of the processes that it samples: nothing is left
// to do with it but to ask for what belongs to those processes.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, start, temporary } from '../system/helper.mjs';
import { compile } from './helper.mjs';

const skip = !isRoot && 'needs root, whose rights are at stake';

const isConfined = (running) => eventually('it is confined', () => {
    assert.ok(!running.over, running.describe());
    return /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${running.pid}/status`, 'utf8'));
});
// From then on Ctrl-C ends it in good order.
const samples = (running) => eventually('it samples', () => {
    assert.ok(!running.over, running.describe());
    return BigInt(`0x${/^SigCgt:\t(\w+)$/m.exec(fs.readFileSync(`/proc/${running.pid}/status`, 'utf8'))[1]}`) & 2n;
});

// A folder with a file, and the program that has others make calls.
async function prepare(t) {
    const folder = temporary(t), takeover = await compile(t, folder, 'takeover');
    fs.writeFileSync(path.join(folder, 'mine'), 'mine', { mode: 0o600 });
    fs.writeFileSync(path.join(folder, 'unimportant'), '');
    fs.writeFileSync(path.join(folder, 'public'), '', { mode: 0o644 });
    fs.chmodSync(folder, 0o755); // who is nobody gets so far
    const spin = start(t, process.execPath, ['-e', 'setInterval(() => { for (let i = 0; i < 1e5; i++); }, 1)']);
    const victim = start(t, 'sleep', ['1000']);
    return { folder, spin, victim, takeOver: (pid) => finish(t, takeover, [pid, victim.pid, folder]) };
}

const unchanged = (folder) => {
    const file = path.join(folder, 'mine');
    assert.equal(fs.readFileSync(file, 'utf8'), 'mine');
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(fs.readdirSync(folder).sort(), ['mine', 'public', 'takeover', 'unimportant']);
};

test('what is asked for here harms, where nothing stops it', { skip }, async (t) => {
    const { folder, takeOver } = await prepare(t), free = start(t, await compile(t, temporary(t), 'idle'));
    const { stdout } = await takeOver(free.pid);
    for (const what of ['opened a file for writing', 'made a file', 'opened another process\'s memory', 'removed a file', 'changed an open file\'s rights', 'traced another process',
        'wrote another process\'s memory', 'gave another process a limit', 'sent a signal', 'made a socket of the network', 'read a file of root\'s', 'read another process\'s memory as a file', 'made a BPF map', 'listed BPF programs', 'made a namespace'])
        assert.ok(stdout.includes(`${what}\n`), `${what}: ${stdout}`);
    assert.match(stdout, /^ended it \(call 59\)$/m, 'another program');
    assert.ok(fs.existsSync(path.join(folder, 'created')));
});

for (const [name, options, files] of [
    ['profile', (folder, pid) => ['profile', '-d', '1000', '-o', path.join(folder, 'out.html'), pid], ['out.html']],
    ['profile of a command', (folder) => ['profile', '-o', path.join(folder, 'out.folded'), '--', process.execPath, '-e', 'for (;;);'], ['out.folded']],
    ['profile into a store', (folder, pid) => ['profile', '-d', '1000', '--store', path.join(folder, 'store'), pid], ['store']],
    ['top', (folder, pid) => ['top', '-i', '1', pid], []],
]) {
    test(`sonde ${name} that was taken over reads, and does nothing else`, { skip }, async (t) => {
        const { folder, spin, victim, takeOver } = await prepare(t), outside = temporary(t);
        const sonde = start(t, SONDE, options(outside, spin.pid));
        await isConfined(sonde);
        const { stdout, status } = await takeOver(sonde.pid);
        assert.equal(status, 0, stdout);
        // A store is root's, and read by root without its capabilities.
        const allowed = name.includes('store') ? /^(read a file of root's\n)?asked \d\d\n$/ : /^asked \d\d\n$/;
        assert.match(stdout, allowed, 'nothing else was allowed');
        assert.ok(Number(/asked (\d+)/.exec(stdout)[1]) > 40);
        unchanged(folder);
        assert.ok(!victim.over && !spin.over);
        assert.equal(fs.readFileSync(`/proc/${sonde.pid}/comm`, 'utf8'), 'sonde:profile\n');
        for (const thread of fs.readdirSync(`/proc/${sonde.pid}/task`)) {
            const text = fs.readFileSync(`/proc/${sonde.pid}/task/${thread}/status`, 'utf8');
            assert.match(text, /^NoNewPrivs:\t1\nSeccomp:\t2$/m);
            // BPF; and KILL, for the command that it started
            const kill = name.includes('command') ? 1n << 5n : 0n;
            assert.equal(BigInt(`0x${/^CapPrm:\t(\w+)$/m.exec(text)[1]}`) & ~(1n << 39n | kill), 0n, text);
            if (!name.includes('store')) assert.match(text, /^Uid:\t1[56]\d{8}\t/m, 'a user that no other process has');
        }
        await samples(sonde);
        sonde.child.kill('SIGINT');
        await sonde.ended;
        assert.ok([0, 4, 5].includes(sonde.status), sonde.describe()); // it goes on, and writes what it should
        for (const file of files) assert.ok(fs.existsSync(path.join(outside, file)), sonde.describe());
        assert.deepEqual(fs.readdirSync(outside), files);
    });
}
