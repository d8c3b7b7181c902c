// Attaching to processes in sandboxes: a container's namespaces with next to nothing in its file system, and the
// sandbox of Debian's redis-server unit. It works, or `sonde doctor` says beforehand why not.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { SONDE, descendants, eventually, finish, isRoot, kill, manifestOf, root, start, temporary } from './helper.mjs';

const needsRoot = { skip: !isRoot && 'needs root, to make namespaces' };

async function sandbox(folder, t) {
    const program = path.join(folder, 'sandbox');
    const built = await finish(t, 'cc', ['-O1', '-D_GNU_SOURCE', '-o', program, path.join(root, 'tests', 'system', 'programs', 'sandbox.c')]);
    assert.equal(built.status, 0, built.stderr);
    return program;
}

// redis-server with its libraries, and nothing else.
function furnish(folder, program = execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim()) {
    const put = (from, to) => {
        fs.mkdirSync(path.join(folder, path.dirname(to)), { recursive: true });
        fs.copyFileSync(fs.realpathSync(from), path.join(folder, to));
    };
    put(program, '/bin/redis-server');
    fs.chmodSync(path.join(folder, 'bin/redis-server'), 0o755);
    for (const [, library] of execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g)) put(library, library);
    fs.mkdirSync(path.join(folder, 'data'));
}

const talk = (socket, text) => new Promise((resolve, reject) => {
    const connection = net.connect(socket, () => connection.write(text));
    connection.on('data', (data) => {
        connection.destroy();
        resolve(data.toString());
    });
    connection.on('error', reject);
});

const listing = (folder) => fs.readdirSync(folder, { recursive: true }).filter((name) => !/^(dev|data)\b/.test(name)).sort();

// Attaches while commands come in; the process, as the manifest has it.
async function attachTo(t, pid, socket, trace) {
    const sonde = start(t, SONDE, ['attach', '-o', trace, pid]);
    await sonde.until(/attached to 1 process/);
    for (let i = 0; i < 50; i++) assert.equal(await talk(socket, `SET key${i} value\r\n`), '+OK\r\n');
    kill(sonde.pid, 'SIGINT');
    const { status, stderr } = await sonde.ended;
    assert.equal(status, 0, stderr);
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace]);
    assert.ok(stdout.split('\n').length > 40, 'the commands are recorded');
    assert.equal(await talk(socket, 'PING\r\n'), '+PONG\r\n', 'it lives on');
    return manifestOf(trace).processes[0];
}

const redisBelow = (pid) => eventually('redis-server runs', () => [pid, ...descendants(pid)].find((child) => {
    try {
        return fs.readlinkSync(`/proc/${child}/exe`).includes('redis-server');
    } catch {
        return false;
    }
}));

async function skippable(t, running) {
    try {
        await running.until(/Ready to accept connections|The server is now ready/, { stream: 'stdout' });
        return false;
    } catch (error) {
        if (running.status !== 77) throw error;
        t.skip(`no sandbox can be made here: ${running.stderr.trim()}`);
        return true;
    }
}

for (const proc of [false, true]) {
    test(`a container's namespaces, 64 KiB of /dev/shm, ${proc ? 'with' : 'without'} /proc, only redis-server in it`, needsRoot, async (t) => {
        const folder = temporary(t), box = path.join(folder, 'box'), socket = path.join(box, 'data', 'socket');
        fs.mkdirSync(box);
        furnish(box);
        if (proc) fs.mkdirSync(path.join(box, 'proc'));
        const before = listing(box);
        const running = start(t, await sandbox(folder, t), ['--namespaces', ...(proc ? ['--proc'] : []), '--root', box, '/bin/redis-server', '--port', '0', '--unixsocket', '/data/socket', '--save', '', '--io-threads', '2', '--dir', '/data']);
        if (await skippable(t, running)) return;
        const pid = await redisBelow(running.pid);
        assert.ok(!fs.readFileSync('/proc/self/mounts', 'utf8').includes(folder), 'nothing that it mounts is seen outside');
        assert.match(fs.readFileSync(`/proc/${pid}/status`, 'utf8'), new RegExp(`^NSpid:\t${pid}\t1$`, 'm'), 'it is process 1 of its own');
        const process_ = await attachTo(t, pid, socket, path.join(folder, 'trace'));
        assert.equal(process_.pid, pid);
        const tids = fs.readdirSync(`/proc/${pid}/task`).map(Number);
        assert.ok(process_.threads.length > 0);
        for (const { tid } of process_.threads) assert.ok(tids.includes(tid), `thread ${tid} is one of the host's`);
        assert.deepEqual(listing(box), before, 'nothing of ours is left in it');
    });
}

// The numbers of @system-service without @privileged and @resources, as the unit asks for.
function systemService(folder) {
    const sets = (name) => {
        const names = new Set();
        const listed = spawnSync('systemd-analyze', ['syscall-filter', name], { encoding: 'utf8' });
        if (listed.status !== 0) return null;
        for (const line of listed.stdout.split('\n').slice(1).map((l) => l.trim()).filter((l) => l && !l.startsWith('#')))
            if (line.startsWith('@')) for (const inner of sets(line)) names.add(inner);
            else names.add(line);
        return names;
    };
    const allowed = sets('@system-service');
    if (!allowed) return null;
    for (const forbidden of ['@privileged', '@resources']) for (const name of sets(forbidden)) allowed.delete(name);
    const source = path.join(folder, 'numbers.c'), program = path.join(folder, 'numbers');
    fs.writeFileSync(source, `#include <stdio.h>\n#include <sys/syscall.h>\nint main(void) {\n${[...allowed].map((name) => `#ifdef __NR_${name}\nprintf("%d\\n", __NR_${name});\n#endif`).join('\n')}\nreturn 0; }\n`);
    execFileSync('cc', ['-o', program, source]);
    const list = path.join(folder, 'allowed');
    fs.writeFileSync(list, execFileSync(program));
    return list;
}

test("the sandbox of Debian's redis-server unit", needsRoot, async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-unit-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const filter = systemService(folder);
    if (!filter) return t.skip('systemd-analyze is not here, which knows the set @system-service');
    const program = execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim();
    fs.chmodSync(folder, 0o777);
    const socket = path.join(folder, 'socket');
    const running = start(t, await sandbox(folder, t), ['--noexec', '/usr/bin', '--noexec', '/usr/lib', '--user', '65534', '--strict', '--filter', filter,
        program, '--port', '0', '--unixsocket', socket, '--save', '', '--io-threads', '2', '--dir', folder]);
    if (await skippable(t, running)) return;
    const pid = running.pid;
    assert.match(fs.readFileSync(`/proc/${pid}/status`, 'utf8'), /^Seccomp:\t2$/m);
    const doctor = JSON.parse((await finish(t, SONDE, ['doctor', '--json', pid])).stdout);
    const verdict = doctor.checks.find((check) => check.what === 'its system call filter');
    if (/may not be read/.test(verdict.why)) return t.skip(verdict.why);
    assert.equal(verdict.verdict, 'works', verdict.why);
    await attachTo(t, pid, socket, path.join(folder, 'trace'));
});

test('a filter that would kill the process for a call of the probe: refused, and doctor says so beforehand', needsRoot, async (t) => {
    const folder = temporary(t), socket = path.join(folder, 'socket'), RECVMSG = 47;
    const program = execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim();
    const running = start(t, await sandbox(folder, t), ['--without', RECVMSG, program, '--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder]);
    if (await skippable(t, running)) return;
    const doctor = await finish(t, SONDE, ['doctor', '--json', running.pid]);
    assert.equal(doctor.status, 1);
    assert.match(JSON.parse(doctor.stdout).checks.find((check) => check.what === 'its system call filter').why, /would kill it for recvmsg|may not be read/);
    const { status, stderr } = await finish(t, SONDE, ['attach', '-o', path.join(folder, 'trace'), '--duration', '1', running.pid]);
    assert.equal(status, 3, stderr);
    assert.match(stderr, /would kill it for recvmsg|may not be read/);
    assert.equal(await talk(socket, 'PING\r\n'), '+PONG\r\n', 'it lives on');
});

test('a statically linked runtime is refused in words, by doctor too', async (t) => {
    const folder = temporary(t), source = path.join(folder, 'fixed.c'), program = path.join(folder, 'fixed');
    fs.writeFileSync(source, `#include <poll.h>\n#include <stdio.h>\nvoid readQueryFromClient(void *c) { (void)c; }\nint aeProcessEvents(void *l, int f) { (void)l; return f; }\nint main(void) { puts("up"); fflush(stdout); poll(0, 0, 60000); return aeProcessEvents(0, 0); }\n`);
    const built = await finish(t, 'cc', ['-static', '-rdynamic', '-o', program, source]);
    assert.equal(built.status, 0, built.stderr);
    const running = start(t, program);
    await running.until(/up/, { stream: 'stdout' });
    const doctor = await finish(t, SONDE, ['doctor', '--json', running.pid]);
    assert.equal(doctor.status, 1);
    assert.match(JSON.parse(doctor.stdout).checks.find((check) => check.what === 'a way in for the probe').why, /no dynamic loader/);
    const { status, stderr } = await finish(t, SONDE, ['attach', '-o', path.join(folder, 'trace'), '--duration', '1', running.pid]);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /no dynamic loader.*\n.*Statically linked programs cannot be traced/);
    assert.ok(!running.over, 'it lives on');
});
