// Programs that cannot or need not be traced run as if sonde were not there, and sonde says what it saw.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, start, temporary } from './helper.mjs';

test('a statically linked program runs untraced, and sonde says so', async (t) => {
    const folder = temporary(t), source = path.join(folder, 'fixed.c'), program = path.join(folder, 'fixed');
    fs.writeFileSync(source, '#include <stdio.h>\nint main(void) { puts("forty-two"); return 42; }\n');
    const built = await finish(t, 'cc', ['-static', '-o', program, source]);
    assert.equal(built.status, 0, built.stderr);
    const { status, stdout, stderr } = await finish(t, SONDE, ['run', '-o', path.join(folder, 'trace'), '--', program]);
    assert.equal(status, 42, stderr);
    assert.match(stdout, /^forty-two$/m);
    assert.match(stderr + stdout, /statically linked/);
});

test('a program without a runtime that sonde knows runs untraced, and sonde says so', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const { status, stdout, stderr } = await finish(t, SONDE, ['run', '-o', folder, '--', '/bin/sh', '-c', 'echo out; echo err >&2; exit 5']);
    assert.equal(status, 5, stderr);
    assert.match(stdout, /^out$/m);
    assert.match(stderr, /^err$/m);
    assert.match(stderr + stdout, /no .*(Node|Redis)/i);
});

test("a signal that ends the program is sonde's exit status", async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const { status } = await finish(t, SONDE, ['run', '-o', folder, '--', '/bin/sh', '-c', 'kill -TERM $$']);
    assert.equal(status, 128 + 15);
});

test('standard input reaches the program', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const run = start(t, SONDE, ['run', '-o', folder, '--', process.execPath, '-e', 'process.stdin.pipe(process.stdout)'], { stdio: ['pipe', 'pipe', 'pipe'] });
    run.child.stdin.end('through and through\n');
    const { status, stdout, stderr } = await run.ended;
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^through and through$/m);
});

for (const [what, make] of [
    ['below a file', (folder) => path.join(fs.writeFileSync(path.join(folder, 'file'), '') ?? path.join(folder, 'file'), 'trace')],
    ['in a file system that takes none', () => '/proc/sonde-trace'],
]) {
    test(`a folder that cannot be made, ${what}: sonde says so before it starts anything`, async (t) => {
        const folder = temporary(t), marker = path.join(folder, 'started'), trace = make(folder);
        const { status, stdout, stderr } = await finish(t, SONDE, ['run', '-o', trace, '--', 'touch', marker]);
        assert.equal(status, 1, stderr);
        assert.equal(stdout, '');
        assert.ok(stderr.includes(trace), stderr);
        assert.ok(!fs.existsSync(marker), 'the program was not started');
    });
}

// The kernel answers too long a file with a signal that ends a program: also when it is memory for our rings.
test('a limit on the size of files: the program is traced all the same, since the rings are sonde\'s', async (t) => {
    const limited = (script) => ['/bin/sh', '-c', 'ulimit -f 1; exec "$0" -e "$1"', process.execPath, script];
    const { status, stdout, stderr } = await finish(t, SONDE, ['run', '-o', path.join(temporary(t), 'trace'), '--', ...limited('console.log(6 * 7)')]);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^42$/m);
    assert.doesNotMatch(stderr, /untraced/);

    const [shell, ...words] = limited('setInterval(() => console.log("alive"), 20)');
    const program = start(t, shell, words);
    await program.until(/alive/, { stream: 'stdout' });
    const attached = await finish(t, SONDE, ['attach', '--duration', '1', '-o', path.join(temporary(t), 'trace'), String(program.pid)]);
    assert.equal(attached.status, 0, attached.stderr);
    const { length } = program.stdout;
    await program.until({ exec: (text) => /alive/.exec(text.slice(length)) }, { stream: 'stdout' });
    assert.deepEqual(fs.readdirSync(`/proc/${program.pid}/fd`).filter((fd) => /memfd:sonde/.test(fs.readlinkSync(`/proc/${program.pid}/fd/${fd}`))), []);
});

test('a limit on the size of sonde\'s own files: nothing is traced, and sonde says why', async (t) => {
    const { status, stdout, stderr } = await finish(t, '/bin/sh', ['-c', 'ulimit -f 1000; exec "$0" "$@"', SONDE, 'run', '-o', path.join(temporary(t), 'trace'), '--', process.execPath, '-e', 'console.log(6 * 7)']);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^42$/m);
    assert.match(stderr, /no memory for its rings can be made: File too large/);
});
