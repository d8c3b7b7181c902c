// Recordings, profiles and spans that somebody made to harm who reads them: root.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, root, start, temporary } from '../system/helper.mjs';

const NOBODY = 65534;
const skip = !isRoot && 'needs root, whose rights are at stake';

// Every command that reads what others have made; DIR is what it reads, OUT what it writes.
const READERS = [
    'report DIR', 'report --json DIR', 'report --html OUT DIR', 'spans DIR', 'redis DIR', 'trace info DIR', 'trace events DIR', 'trace states DIR',
    'trace states -o OUT DIR', 'convert --to ctf -o OUT DIR', 'convert --to json -o OUT DIR', 'convert --to perfetto -o OUT DIR', 'diagnose DIR',
    'diff --json DIR DIR',
].map((line) => line.split(' '));

// A recording in a directory of its own; owner: whose it becomes.
function recording(folder, owner = 0) {
    const dir = path.join(folder, 'recording');
    fs.rmSync(dir, { recursive: true, force: true });
    fs.mkdirSync(dir, { mode: 0o700 });
    execFileSync('tar', ['--zstd', '--no-same-owner', '-xf', path.join(root, 'tests', 'corpus', 'node-20.tar.zst'), '-C', dir]);
    execFileSync('chown', ['-R', `${owner}:${owner}`, dir]);
    return dir;
}

const files = (dir) => fs.readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));

// What stands in all files that a command has written, and on the terminal.
function written(result, out) {
    const paths = !fs.existsSync(out) ? [] : fs.statSync(out).isDirectory() ? files(out) : [out];
    return [result.stdout, result.stderr, ...paths.map((file) => fs.readFileSync(file, 'latin1'))].join('\n');
}

const run = (t, words, dir, out) => finish(t, SONDE, words.map((word) => ({ DIR: dir, OUT: out })[word] ?? word));

test('root reads as the owner, without rights, and writes what it was asked for as root', { skip }, async (t) => {
    const folder = temporary(t), dir = recording(folder, NOBODY), private_ = path.join(folder, 'private');
    fs.chmodSync(folder, 0o711);
    fs.mkdirSync(private_, { mode: 0o700 });
    for (const [i, words] of READERS.entries()) {
        const out = path.join(private_, String(i)), toFile = words.includes('OUT') && !words.includes('ctf');
        if (words.includes('ctf')) continue; // a directory of root's, below one where the owner gets not
        const result = await run(t, words, dir, out);
        assert.ok([0, 4].includes(result.status), `${words.join(' ')}: ${result.describe()}`);
        if (toFile) assert.ok(fs.statSync(out).size > 1000 && fs.statSync(out).uid === 0, words.join(' '));
    }
    const copy = path.join(folder, 'copy');
    fs.chmodSync(folder, 0o711);
    assert.equal((await run(t, ['convert', '--to', 'ctf', '-o', 'OUT', 'DIR'], dir, copy)).status, 0);
    assert.ok(files(copy).length >= 3);
    assert.deepEqual(files(dir).filter((file) => fs.statSync(file).uid !== NOBODY), [], 'nothing of root\'s is left in the recording');
});

test('a command that fails leaves no output behind, and what was there as it was', { skip }, async (t) => {
    const folder = temporary(t), dir = recording(folder, NOBODY), out = path.join(folder, 'out');
    fs.chmodSync(folder, 0o711);
    fs.writeFileSync(path.join(dir, 'manifest.json'), '{');
    fs.writeFileSync(path.join(dir, 'ctf', 'metadata'), 'no metadata');
    for (const words of READERS.filter((line) => line.includes('OUT'))) {
        const first = await run(t, words, dir, out);
        assert.ok(first.status > 0, `${words.join(' ')}: ${first.describe()}`);
        assert.deepEqual(fs.readdirSync(folder), ['recording'], words.join(' '));
        fs.writeFileSync(out, 'before');
        await run(t, words, dir, out);
        assert.equal(fs.readFileSync(out, 'utf8'), 'before', words.join(' '));
        fs.rmSync(out);
    }
    const nowhere = await run(t, ['report', '--html', 'OUT', 'DIR'], recording(folder, NOBODY), path.join(folder, 'no', 'such', 'out'));
    assert.equal(nowhere.status, 1);
    assert.match(nowhere.stderr, /no\/such\/out: No such file or directory/);
});

test('while it reads it has no capability, another user, and can start nothing', { skip }, async (t) => {
    const folder = temporary(t), dir = recording(folder, NOBODY);
    fs.chmodSync(folder, 0o711);
    for (const name of ['manifest.json', 'ctf/metadata']) { // which nobody writes into: it waits there
        fs.rmSync(path.join(dir, name));
        execFileSync('mkfifo', ['-m', '600', path.join(dir, name)]);
        fs.chownSync(path.join(dir, name), NOBODY, NOBODY);
    }
    for (const words of READERS) {
        const reading = start(t, SONDE, words.map((word) => ({ DIR: dir, OUT: path.join(folder, 'out') })[word] ?? word));
        const status = await eventually(`${words.join(' ')} is confined`, () => {
            assert.ok(!reading.over, `${words.join(' ')}: ${reading.describe()}`);
            const text = fs.readFileSync(`/proc/${reading.pid}/status`, 'utf8');
            return /^Seccomp:\t2$/m.test(text) && text;
        });
        assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m, words.join(' '));
        assert.match(status, /^CapEff:\t0+$/m);
        assert.match(status, /^CapPrm:\t0+$/m);
        assert.match(status, /^NoNewPrivs:\t1$/m);
        process.kill(reading.pid, 'SIGKILL');
        await reading.ended;
        fs.rmSync(path.join(folder, 'out'), { recursive: true, force: true });
    }
});

test('links in a recording lead to nothing that only root may read', { skip }, async (t) => {
    const folder = temporary(t), marker = 'nobody-may-read-this', hidden = fs.mkdtempSync('/root/.sonde-test-');
    t.after(() => fs.rmSync(hidden, { recursive: true }));
    const walls = (await finish(t, SONDE, ['doctor'])).stdout;
    const owners = /Landlock/.test(walls) ? [0, NOBODY] : [NOBODY]; // also one that root unpacked
    for (const owner of owners) {
        const dir = recording(folder, owner);
        fs.chmodSync(folder, 0o711);
        for (const [name, put] of [['manifest.json', (text) => text.replace(/"(name|command)": "[^"]*"/g, `"$1": "${marker}"`)],
            ['ctf/metadata', (text) => text.replace('domain = "ust"', `domain = "ust";\n\thostname = "${marker}"`)]]) {
            const file = path.join(dir, name), secret = path.join(hidden, path.basename(name));
            fs.writeFileSync(secret, put(fs.readFileSync(file, 'utf8')), { mode: 0o600 });
            fs.renameSync(file, path.join(folder, 'was'));
            fs.symlinkSync(secret, file);
            for (const words of READERS) {
                const out = path.join(folder, 'out'), before = fs.statSync(secret).mtimeMs;
                const result = await run(t, words, dir, out);
                assert.equal(result.signal, null, `${words.join(' ')}: ${result.describe()}`);
                assert.ok(!written(result, out).includes(marker), `${words.join(' ')} tells what it must not of ${name}: ${result.describe()}`);
                assert.equal(fs.statSync(secret).mtimeMs, before);
                fs.rmSync(out, { recursive: true, force: true });
            }
            fs.renameSync(path.join(folder, 'was'), file);
        }
    }
});

test('names with .. and numbers without end are refused or read, and nothing is written elsewhere', { skip }, async (t) => {
    const folder = temporary(t), out = path.join(folder, 'a', 'b', 'out');
    const spoils = [
        (dir) => edit(path.join(dir, 'manifest.json'), (text) => text.replace(/: \d+/g, ': 9223372036854775807')),
        (dir) => edit(path.join(dir, 'manifest.json'), (text) => text.replace(/: \d+/g, ': -1')),
        (dir) => edit(path.join(dir, 'manifest.json'), (text) => text.replace(/: "[^"]*"/g, ': "../../../../victim"')),
        (dir) => edit(path.join(dir, 'ctf', 'metadata'), (text) => text.replace(/domain = "ust"/, 'domain = "ust";\n\thostname = "../../victim"')),
        (dir) => edit(path.join(dir, 'ctf', 'metadata'), (text) => text.replace(/uuid\[16\]/, 'uuid[4294967295]')),
        (dir) => edit(path.join(dir, 'ctf', 'metadata'), (text) => text.replace(/size = 64/g, 'size = 4294967288')),
    ];
    const edit = (file, change) => fs.writeFileSync(file, change(fs.readFileSync(file, 'utf8')));
    for (const spoil of spoils) {
        const dir = recording(folder);
        spoil(dir);
        for (const words of READERS) {
            fs.mkdirSync(path.dirname(out), { recursive: true });
            const result = await run(t, words, dir, out);
            assert.equal(result.signal, null, `${words.join(' ')}: ${result.describe()}`);
            fs.rmSync(out, { recursive: true, force: true });
            assert.deepEqual(fs.readdirSync(path.dirname(out)), [], `${words.join(' ')} has written elsewhere`);
            assert.deepEqual(fs.readdirSync(folder).sort(), ['a', 'recording']);
        }
    }
});

test('servers have the right to listen, to read what they show and to keep what they receive, and no other', { skip }, async (t) => {
    const folder = temporary(t), dir = recording(folder, NOBODY), data = path.join(folder, 'data');
    fs.chmodSync(folder, 0o711);
    const statusOf = (running) => fs.readFileSync(`/proc/${running.pid}/status`, 'utf8');
    const PORT = /on port (\d+)/;
    // As the owner of what it shows: with a view kept beside the recording.
    const serving = start(t, SONDE, ['serve', '--listen', '127.0.0.1:0', '--data', data, dir]);
    const [, port] = await serving.until(PORT);
    assert.match(statusOf(serving), /^Uid:\t65534\t[^]*^CapEff:\t0+$[^]*^NoNewPrivs:\t1$[^]*^Seccomp:\t2$/m);
    const page = await fetch(`http://127.0.0.1:${port}/`);
    assert.equal(page.status, 200);
    await eventually('what was read is kept beside it', () => fs.existsSync(path.join(dir, 'view', 'key')));
    const spans = { resourceSpans: [] };
    assert.equal((await fetch(`http://127.0.0.1:${port}/v1/traces`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(spans) })).status, 200);
    serving.child.kill('SIGTERM');
    assert.equal((await serving.ended).status, 0, serving.describe());
    assert.deepEqual([...files(dir), ...files(data)].filter((file) => fs.statSync(file).uid !== NOBODY), []);
    // As root: ports below 1024, and nothing else.
    for (const words of [['serve'], ['serve', '--action', 'true', '--audit', path.join(folder, 'audit')], ['watch', 'shop']]) {
        const running = start(t, SONDE, [...words, '--listen', '127.0.0.1:0']);
        await running.until(PORT);
        assert.match(statusOf(running), /^CapEff:\t0+400$[^]*^NoNewPrivs:\t1$[^]*^Seccomp:\t2$/m, words.join(' '));
        running.child.kill('SIGTERM');
        await running.ended;
    }
});

test('every option that the table of confined commands names is an option of that command', async (t) => {
    const source = fs.readFileSync(path.join(root, 'src', 'cli', 'confine.c'), 'utf8'), table = /COMMANDS\[\] = \{\n([^]*?)\n\};/.exec(source)[1];
    let checked = 0;
    for (const [, name, rest] of table.matchAll(/\{"([^"]+)"([^{}]*)\}/g)) {
        const help = (await finish(t, SONDE, ['help', name.split(' ')[0]])).stdout;
        assert.ok(help, name);
        for (const [, words] of rest.matchAll(/"([^"]+)"/g)) {
            for (const option of words.split(' ').filter((word) => word !== '*').map((word) => word.split('=')[0])) {
                assert.match(help, new RegExp(`--${option}\\b`), `sonde ${name} --${option}`);
                checked++;
            }
        }
    }
    assert.ok(checked >= 15, `only ${checked} options were found in the table`);
});
