// File systems of traced processes that lead elsewhere.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, descendants, eventually, finish, isRoot, root, start, temporary } from '../system/helper.mjs';
import { isAlive } from './helper.mjs';

test('absolute links of a container lead nowhere on the host: nothing is made or removed there', { skip: !isRoot && 'needs root, to make namespaces' }, async (t) => {
    const folder = temporary(t), box = path.join(folder, 'box'), victim = path.join(folder, 'victim');
    const sandbox = path.join(folder, 'sandbox'), program = execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim();
    const built = await finish(t, 'cc', ['-O1', '-D_GNU_SOURCE', '-o', sandbox, path.join(root, 'tests', 'system', 'programs', 'sandbox.c')]);
    assert.equal(built.status, 0, built.stderr);
    fs.mkdirSync(path.join(box, 'var'), { recursive: true });
    fs.mkdirSync(path.join(box, 'data'));
    fs.mkdirSync(victim);
    const put = (from, to) => {
        fs.mkdirSync(path.join(box, path.dirname(to)), { recursive: true });
        fs.copyFileSync(fs.realpathSync(from), path.join(box, to));
    };
    put(program, '/bin/redis-server');
    fs.chmodSync(path.join(box, 'bin/redis-server'), 0o755);
    for (const [, library] of execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g)) put(library, library);
    for (const name of ['run', 'tmp', 'var/tmp', 'var/run']) fs.symlinkSync(victim, path.join(box, name));

    const seen = [];
    const watcher = fs.watch(victim, (kind, name) => seen.push(`${kind} ${name}`));
    t.after(() => watcher.close());
    const running = start(t, sandbox, ['--namespaces', '--root', box, '/bin/redis-server', '--port', '0', '--unixsocket', '/data/socket', '--save', '', '--dir', '/data']);
    try {
        await running.until(/Ready to accept connections|The server is now ready/, { stream: 'stdout' });
    } catch (error) {
        if (running.status !== 77) throw error;
        t.skip(`no sandbox can be made here: ${running.stderr.trim()}`);
        return;
    }
    const pid = await eventually('redis-server runs', () => [running.pid, ...descendants(running.pid)].find((child) => {
        try {
            return fs.readlinkSync(`/proc/${child}/exe`).includes('redis-server');
        } catch {
            return false;
        }
    }));
    const attached = await finish(t, SONDE, ['attach', '--no-kernel', '--duration', '1', '-o', path.join(folder, 'trace'), String(pid)]);
    assert.equal(attached.signal, null, attached.stderr);
    fs.writeFileSync(path.join(victim, 'marker'), ''); // the watcher works, and has told all that came before
    await eventually('the marker is seen', () => seen.some((line) => line.includes('marker')));
    assert.deepEqual(seen.filter((line) => !line.includes('marker')), []);
    assert.ok(isAlive(pid), 'it lives on');
});

test('root reads the recording of another user as that user', { skip: !isRoot && 'needs root' }, async (t) => {
    const NOBODY = 65534, folder = temporary(t), trace = path.join(folder, 'trace');
    fs.chownSync(folder, NOBODY, NOBODY);
    const env = { SUDO_UID: String(NOBODY), SUDO_GID: String(NOBODY) };
    const recorded = await finish(t, SONDE, ['run', '--no-kernel', '--quiet', '-o', trace, '--user', '0', '--', process.execPath, '-e', '0'], { env });
    assert.equal(recorded.status, 0, recorded.stderr);
    assert.equal(fs.statSync(trace).uid, NOBODY);
    for (const command of ['report', 'spans']) assert.equal((await finish(t, SONDE, [command, trace])).status, 0);
    // Held in the midst of reading: the manifest is a pipe that nobody writes.
    fs.rmSync(path.join(trace, 'manifest.json'));
    execFileSync('mkfifo', ['-m', '600', path.join(trace, 'manifest.json')]);
    fs.chownSync(path.join(trace, 'manifest.json'), NOBODY, NOBODY);
    const reading = start(t, SONDE, ['report', trace]);
    const status = await eventually('it has become another user, who can do nothing but read', () => {
        const text = fs.readFileSync(`/proc/${reading.pid}/status`, 'utf8');
        return /^Uid:\t65534\t65534\t65534\t65534$/m.test(text) && /^Seccomp:\t2$/m.test(text) && text;
    });
    assert.match(status, /^Gid:\t65534\t65534\t65534\t65534$/m);
    assert.match(status, /^CapEff:\t0+$/m);
    assert.match(status, /^NoNewPrivs:\t1$/m);
    assert.match(status, /^Groups:\t ?$/m);
});
