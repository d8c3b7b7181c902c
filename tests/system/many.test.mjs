// Many processes: all that come at once are traced, and sonde keeps nothing of those that have ended but what it tells of them.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, descendants, eventually, finish, freePort, isRoot, manifestOf, root, start, temporary } from './helper.mjs';

async function runtime(t) {
    const program = path.join(temporary(t), 'runtime');
    const { status, stderr } = await finish(t, 'cc', ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-pthread', '-o', program, path.join(root, 'tests/system/programs/runtime.c')]);
    assert.equal(status, 0, stderr);
    return program;
}

// Descriptors of a process, and the pages of rings that it has open.
function held(pid) {
    const links = fs.readdirSync(`/proc/${pid}/fd`).map((fd) => {
        try {
            return fs.readlinkSync(`/proc/${pid}/fd/${fd}`);
        } catch {
            return ''; // it has just been closed
        }
    });
    return { descriptors: links.length, rings: links.filter((link) => link.startsWith('/memfd:sonde')).length };
}

test('60 children that start at once are all traced', async (t) => {
    const trace = path.join(temporary(t), 'trace'), count = 60;
    const script = 'for (let i = 0; i < 60; i++) require("child_process").spawn(process.execPath, ["-e", "setTimeout(() => {}, 10)"], { stdio: "inherit" });';
    const { status, stderr } = await finish(t, SONDE, ['run', '--no-kernel', '-q', '--budget', '100,10000', '-o', trace, '--', process.execPath, '-e', script]);
    assert.ok(status === 0 || status === 4, stderr);
    const { processes, untraced } = manifestOf(trace);
    assert.deepEqual(untraced, []);
    assert.equal(processes.length, 1 + count);
    assert.ok(processes.every((p) => p.end_ns >= p.start_ns && p.hooks.length), 'each is told of whole');
    const starts = processes.map((p) => p.start_ns);
    assert.deepEqual(starts, [...starts].sort((a, b) => a - b), 'in the order in which they began');
});

test('programs that have ended are told of, and nothing else of them is kept', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), program = await runtime(t);
    const go = path.join(folder, 'go'), count = 40;
    // Twice as many one after the other, with a look at sonde between.
    const script = `run() { i=0; while [ $i -lt ${count} ]; do "${program}" threads 8; i=$((i+1)); done; }
        run; echo first; until [ -e "${go}" ]; do sleep 0.05; done; run; echo second; until [ -e "${go}2" ]; do sleep 0.05; done`;
    const recording = start(t, SONDE, ['run', '--no-kernel', '-q', '--budget', '100,10000', '-o', trace, '--', 'sh', '-c', script]);
    await recording.until(/first/, { stream: 'stdout' });
    await eventually('all rings are given back', () => held(recording.pid).rings === 0);
    const first = held(recording.pid);
    fs.writeFileSync(go, '');
    await recording.until(/second/, { stream: 'stdout' });
    // The shell's sleeps are looked at too, each for a moment, and files of sonde's own are opened when they are needed first.
    await eventually('all rings are given back, and hardly a descriptor is left of forty programs', () => held(recording.pid).rings === 0 && held(recording.pid).descriptors < first.descriptors + count / 4);
    fs.writeFileSync(`${go}2`, '');
    const { status, stderr, stdout } = await recording.ended;
    assert.ok(status === 0 || status === 4, stderr);
    const { processes, untraced, losses } = manifestOf(trace);
    assert.equal(processes.length, 2 * count, `${JSON.stringify(untraced)} ${stderr}`);
    const calls = [...stdout.matchAll(/^(\d+) calls$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    const { stdout: events } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace]);
    assert.equal(events.split('\n').filter(Boolean).length + losses.reduce((sum, loss) => sum + loss.count, 0), calls);
});

// A prefork server's children knock with their first call, all at once, and sonde is late: it stands still meanwhile.
test('forked children that come all at once are all accounted for: traced, ended before their turn, or left alone', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), program = await runtime(t), count = 200;
    const recording = start(t, SONDE, ['run', '--no-kernel', '-q', '--budget', '100,10000', '-o', trace, '--', program, 'crowd', String(count)], { stdio: ['pipe', 'pipe', 'pipe'] });
    await recording.until(/ready/, { stream: 'stdout' });
    const socket = descendants(recording.pid).map((pid) => /SONDE_SOCKET=([^\0]+)/.exec(fs.readFileSync(`/proc/${pid}/environ`, 'latin1'))?.[1]).find(Boolean);
    process.kill(recording.pid, 'SIGSTOP');
    recording.child.stdin.write('\n');
    // Each has a socket at our end, and one listens.
    await eventually('all have knocked', () => fs.readFileSync('/proc/net/unix', 'utf8').split(socket).length - 1 > count);
    recording.child.stdin.write('\n');
    await recording.until(/killed/, { stream: 'stdout' });
    recording.child.stdin.write('\n');
    process.kill(recording.pid, 'SIGCONT');
    const { status, stderr } = await recording.ended;
    assert.ok(status === 0 || status === 4, stderr);
    const { processes, untraced, untraced_count: left, losses } = manifestOf(trace), traced = processes.length - 1;
    assert.equal(traced + left, count, JSON.stringify(untraced));
    const ended = untraced.filter((line) => line.endsWith('it ended before its turn came')).map((line) => Number(/^(\d+) more/.exec(line)?.[1] ?? 1));
    assert.ok(ended.reduce((a, b) => a + b, 0) >= count / 2, JSON.stringify(untraced));
    assert.ok(traced > 0 || untraced.some((line) => line.includes('it waited too long')), JSON.stringify(untraced));
    const { stdout: events } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace]);
    assert.equal(events.split('\n').filter(Boolean).length + losses.reduce((sum, loss) => sum + loss.count, 0), 10 + traced);
});

test('threads that call for the first time together are all traced, up to 128, and what is beyond is said', async (t) => {
    const folder = temporary(t), program = await runtime(t);
    for (const count of [128, 200]) {
        const trace = path.join(folder, `trace-${count}`);
        const { status, stderr } = await finish(t, SONDE, ['run', '--no-kernel', '-q', '-o', trace, '--', program, 'together', String(count)]);
        assert.ok(status === 0 || status === 4, stderr);
        const { processes: [{ threads, missing, events_written: written }], losses } = manifestOf(trace);
        assert.equal(written, 128);
        assert.equal(threads.length, 128);
        assert.ok(threads.every((thread) => thread.ring_kb <= 512 && thread.fullest_percent <= 100));
        assert.deepEqual(losses.map(({ reason, count: n }) => [reason, n]), count > 128 ? [['no-thread-slot', count - 128]] : []);
        assert.equal(missing.some(({ why }) => why.includes(`${count - 128} of its threads found no room`)), count > 128, JSON.stringify(missing));
    }
});

// Three threads that are born amid many others write at full speed: 2,000 records each are more than a small ring holds, and
// fit into it with a large one. So nothing may be lost, however late sonde is.
test('threads that record much from their first moment on lose nothing', async (t) => {
    const trace = path.join(temporary(t), 'trace'), program = await runtime(t);
    const { status, stderr } = await finish(t, SONDE, ['run', '--no-kernel', '-q', '-o', trace, '--', program, 'burst', '20']);
    assert.equal(status, 0, stderr);
    const { processes: [{ threads, events_written: written }], losses } = manifestOf(trace);
    assert.deepEqual(losses, []);
    assert.equal(written, 20 + 3 * 2000);
    assert.equal(threads.filter(({ events_written: n, ring_kb: kb }) => n === 2000 && kb === 512).length, 3, JSON.stringify(threads));
    assert.equal(threads.filter(({ events_written: n, ring_kb: kb }) => n === 1 && kb === 8).length, 20);
});

// Hundreds of threads get their files at once, which takes many turns of a millisecond; after that nothing happens that would
// call for another one.
test('what hundreds of threads recorded is written soon, though nothing more happens, and outlives sonde', async (t) => {
    const trace = path.join(temporary(t), 'trace'), program = await runtime(t), programs = 8, threads = 100;
    const recording = start(t, SONDE, ['run', '-q', '--budget', '100,10000', '-o', trace, '--', 'sh', '-c', `exec 3<&0; for i in $(seq ${programs}); do "${program}" rest ${threads} <&3 & done; exec 3<&-; wait`], { stdio: ['pipe', 'pipe', 'pipe'] });
    const commands = async () => (await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace])).stdout.split('\n').filter(Boolean).length;
    await eventually('each thread has a file', () => fs.existsSync(path.join(trace, 'ctf')) && fs.readdirSync(path.join(trace, 'ctf')).length >= programs * threads);
    await eventually('the command of each is in it', async () => (await commands()) === programs * threads);
    recording.child.kill('SIGKILL');
    await recording.ended;
    recording.child.stdin.end();
    assert.equal(await commands(), programs * threads);
});

// As in containers: what a server is called follows from the port on which it listens in its own network namespace, whatever its
// arguments say. Each is held as seldom as can be.
test('servers in network namespaces of their own are attached to together, and left', { skip: isRoot ? false : 'needs root, to make network namespaces' }, async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), ports = [7101, 7102, 7103, 7104, 7105, await freePort()];
    const servers = ports.map((port, i) => {
        const config = path.join(folder, `${port}.conf`), ours = i === 5;
        fs.writeFileSync(config, `port ${port}\nbind ${ours ? '127.0.0.1' : '0.0.0.0'}\nsave ""\ndir ${folder}\n`); // elsewhere even the loopback device is down
        return start(t, ...(ours ? ['redis-server', [config]] : ['unshare', ['--net', 'redis-server', config]]));
    });
    await Promise.all(servers.map((server) => server.until(/Ready to accept connections/, { stream: 'stdout' })));
    const attached = start(t, SONDE, ['attach', '--no-kernel', '-o', trace, ...servers.map(({ pid }) => pid)]);
    await attached.until(/attached to 6 processes/);
    process.kill(attached.pid, 'SIGINT');
    const { status, stderr } = await attached.ended;
    assert.ok(status === 0 || status === 4, stderr);
    const { processes, losses } = manifestOf(trace);
    assert.deepEqual(processes.map(({ name }) => name).sort(), ports.map((port) => `redis:${port}`).sort());
    assert.deepEqual(losses, []);
    // To load the probe, to hand memory over, to write jumps, and to take them out; more only where a thread did not stop in time.
    assert.ok(Math.min(...processes.map(({ stops }) => stops.count)) === 4, JSON.stringify(processes.map(({ stops }) => stops)));
    for (const server of servers) assert.ok(fs.existsSync(`/proc/${server.pid}`), 'it runs on');
});
