// Programs that use what they share with sonde, and what sonde reads of them, against it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, manifestOf, root, start, temporary } from '../system/helper.mjs';
import { compile, isAlive } from './helper.mjs';

const NOBODY = 65534;

test('a process that names a descriptor of its choice has nothing written into it', { skip: !isRoot && 'needs root, to attach to another user' }, async (t) => {
    const folder = temporary(t), secret = path.join(folder, 'secret');
    fs.chmodSync(folder, 0o711);
    fs.writeFileSync(secret, 'what root wrote\n', { mode: 0o600 });
    const program = start(t, await compile(t, folder, 'descriptor'), [secret], { uid: NOBODY, gid: NOBODY });
    await program.until(/ready/, { stream: 'stdout' });
    const { status, signal, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '--duration', '1', '-o', path.join(folder, 'trace'), program.pid].map(String));
    assert.equal(signal, null, stderr);
    assert.notEqual(status, 0, stderr);
    assert.equal(fs.readFileSync(secret, 'utf8'), 'what root wrote\n');
    assert.ok(isAlive(program.pid), 'the program lives on');
});

for (const mode of ['geometry', 'slots', 'noise', 'holes'])
    test(`a process that scribbles over the shared memory (${mode}) hurts itself alone`, async (t) => {
        const folder = temporary(t), trace = path.join(folder, 'trace');
        const program = start(t, await compile(t, folder, 'scribble', '-I', path.join(root, 'src')), [mode]);
        await program.until(/ready/, { stream: 'stdout' });
        const sonde = start(t, SONDE, ['attach', '--no-kernel', '-o', trace, '--duration', '2', program.pid]);
        await program.until(/scribbling/, { stream: 'stdout' });
        const { status, signal, stderr } = await sonde.ended;
        assert.equal(signal, null, `sonde died: ${stderr}`);
        assert.ok([0, 4].includes(status), stderr);
        assert.ok(manifestOf(trace).complete, 'the recording is whole');
        assert.equal((await finish(t, SONDE, ['report', '--json', trace])).signal, null);
        assert.ok(isAlive(program.pid), 'the program lives on');
    });

test('code on a command line, however long, is neither read over nor recorded', async (t) => {
    const secret = 'this-is-in-the-code', code = `/* ${secret} ${'x'.repeat(60_000)} */ console.log('up'); setInterval(() => {}, 100)`;
    for (const how of ['run', 'attach']) {
        const trace = path.join(temporary(t), 'trace'), words = [process.execPath, '-e', code, 'also-secret'];
        if (how === 'run') {
            const sonde = start(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', ...words]);
            await sonde.until(/up/, { stream: 'stdout' });
            await eventually('it is recorded', () => manifestOf(trace).processes.length);
            sonde.child.kill('SIGINT');
            const { signal, stderr } = await sonde.ended;
            assert.equal(signal, null, stderr);
        } else {
            const program = start(t, words[0], words.slice(1));
            await program.until(/up/, { stream: 'stdout' });
            const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-o', trace, '--duration', '1', String(program.pid)]);
            assert.equal(status, 0, stderr);
            assert.ok(isAlive(program.pid));
        }
        const [process_] = manifestOf(trace).processes;
        assert.equal(process_.command, fs.realpathSync(process.execPath));
        assert.equal(process_.name, path.basename(process_.command));
        const found = await finish(t, 'grep', ['-rlE', `${secret}|also-secret`, trace]);
        assert.equal(found.stdout, '', 'nothing of the code is in the recording');
    }
});

test('the script keeps its name, whatever options stand before it', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace');
    fs.mkdirSync(path.join(folder, 'orders'));
    fs.writeFileSync(path.join(folder, 'orders', 'server.js'), 'setTimeout(() => {}, 100)');
    const { status, stderr } = await finish(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', process.execPath, '--title', 'password', '--stack-trace-limit=20', 'orders/server', '--token', 'hush'], { cwd: folder });
    assert.equal(status, 0, stderr);
    const [process_] = manifestOf(trace).processes;
    assert.equal(process_.name, 'orders');
    assert.equal(process_.command, `${fs.realpathSync(process.execPath)} orders/server`);
});

test('what sonde writes is private, and belongs to who called it, also through sudo', async (t) => {
    const folder = temporary(t), mine = path.join(folder, 'mine'), trace = path.join(mine, 'deep', 'trace');
    const caller = isRoot ? NOBODY : process.getuid();
    fs.mkdirSync(mine);
    if (isRoot) fs.chownSync(mine, caller, caller);
    fs.chmodSync(folder, 0o755);
    const env = isRoot ? { SUDO_UID: String(caller), SUDO_GID: String(caller) } : {};
    const all = () => [trace, ...fs.readdirSync(trace, { recursive: true }).map((name) => path.join(trace, name))];
    const check = (owner) => {
        assert.ok(all().length > 4);
        for (const name of [path.dirname(trace), ...all()]) {
            const st = fs.statSync(name);
            assert.equal(st.mode & 0o777, st.isDirectory() ? 0o700 : 0o600, name);
            assert.equal(st.uid, owner, name);
        }
    };
    const record = () => finish(t, SONDE, ['run', '--no-kernel', '-o', trace, '--user', String(process.getuid()), '--', process.execPath, '-e', '0'], { env });
    const { status, stderr } = await record();
    assert.equal(status, 0, stderr);
    check(caller);
    const profile = path.join(mine, 'profile.folded');
    const profiled = await finish(t, SONDE, ['profile', '-o', profile, '--duration', '0.3', String(process.pid)], { env });
    if (profiled.status === 0) {
        assert.equal(fs.statSync(profile).mode & 0o777, 0o600);
        assert.equal(fs.statSync(profile).uid, caller);
    }
    if (!isRoot) return;
    // Where the caller may not write, it is root's: all of it.
    fs.rmSync(path.join(mine, 'deep'), { recursive: true });
    fs.chownSync(mine, 0, 0);
    assert.equal((await record()).status, 0);
    check(0);
});
