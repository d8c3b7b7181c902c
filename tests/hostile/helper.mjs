// What the tests beside hostile and unlucky programs share: their C programs, built on the spot.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { eventually, finish, freePort, kill, root, start, temporary } from '../system/helper.mjs';

export const programs = path.join(root, 'tests', 'hostile', 'programs');

// Compiles programs/NAME.c into folder; its path. By default it exports its functions, so that sonde takes one that defines
// node::Start for Node. A compiler that is missing is an error: sonde cannot be built without one either.
export async function compile(t, folder, name, ...options) {
    const program = path.join(folder, name);
    const { status, stderr } = await finish(t, process.env.CC || 'cc', ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-pthread', '-o', program, path.join(programs, `${name}.c`), ...options]);
    if (status !== 0) throw new Error(`${name}.c: ${stderr}`);
    return program;
}

// Is the process there, and no zombie?
export function isAlive(pid) {
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
    } catch {
        return false;
    }
}

// The executable pages that belong to a file, as they are in memory now.
export function codeOf(pid) {
    const hash = crypto.createHash('sha256'), memory = fs.openSync(`/proc/${pid}/mem`, 'r');
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const map = /^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +\/(?!memfd:)/.exec(line);
        if (!map) continue;
        const from = parseInt(map[1], 16), bytes = Buffer.alloc(parseInt(map[2], 16) - from);
        fs.readSync(memory, bytes, 0, bytes.length, from);
        hash.update(bytes);
    }
    fs.closeSync(memory);
    return hash.digest('hex');
}

// ---- programs that are called into ----

const FUTEX = '202';

// The process that traces a thread, 0 when none does.
export const tracerOf = (pid) => Number(/TracerPid:\t(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

export const pipes = { stdio: ['pipe', 'pipe', 'pipe'] };

// What the program answers to a line of input.
export async function ask(program, pattern) {
    program.stdout = '';
    program.child.stdin.write('\n');
    return program.until(pattern, { stream: 'stdout' });
}

// A program one of whose threads holds the loader's lock, until release() is called.
export async function withLoaderLocked(t) {
    const folder = temporary(t), fifo = path.join(folder, 'fifo'), library = path.join(folder, 'slow.so');
    execFileSync('mkfifo', [fifo]);
    fs.renameSync(await compile(t, folder, 'loader', '-DLIBRARY', '-shared', '-fPIC'), library);
    const program = start(t, await compile(t, folder, 'loader'), [library], { ...pipes, env: { FIFO: fifo } });
    await program.until(/locked/, { stream: 'stdout' });
    return { folder, program, release: () => fs.writeFileSync(fifo, 'x') };
}

// Until the main thread waits inside the call for the lock.
export const isStuck = (pid) => eventually('the call waits for the lock', () =>
    isAlive(pid) && tracerOf(pid) && fs.readFileSync(`/proc/${pid}/syscall`, 'utf8').startsWith(`${FUTEX} `));

export async function goesOn(program) {
    assert.ok(isAlive(program.pid), `the program lives: ${program.signal} ${program.describe()}`);
    const [, before] = await ask(program, /turns (\d+)\n/);
    await eventually('its main thread goes on', async () => Number((await ask(program, /turns (\d+)\n/))[1]) > Number(before) + 2);
}

// ---- Redis ----

// One command and its answer.
export const redisAnswers = (port) => new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.on('data', (part) => { socket.destroy(); resolve(String(part) === '+PONG\r\n'); }).on('error', () => resolve(false));
});

export async function startRedis(t, ...options) {
    const folder = temporary(t), port = await freePort();
    const redis = start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...options]);
    await redis.until(/Ready to accept connections/, { stream: 'stdout' });
    return { redis, port };
}

// ---- freezers ----

// Every kind of freezer that can be had here: { name, freeze(pid), thaw() } of a cgroup of the test's own.
export function freezers(t) {
    const made = (parent, name, file, words) => {
        const folder = path.join(parent, `sonde-test-${process.pid}`);
        try {
            fs.mkdirSync(folder);
            fs.accessSync(path.join(folder, file), fs.constants.W_OK);
        } catch {
            fs.rmSync(folder, { recursive: true, force: true });
            return null;
        }
        const say = (word) => fs.writeFileSync(path.join(folder, file), word);
        const isFrozen = () => /frozen 1|FROZEN/.test(fs.readFileSync(path.join(folder, file === 'freezer.state' ? file : 'cgroup.events'), 'utf8'));
        t.after(async () => { // before what has started these programs ends them, which a frozen one would not let it
            say(words.thaw);
            for (const pid of fs.readFileSync(path.join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)) kill(Number(pid), 'SIGKILL');
            await eventually('the cgroup is empty', () => {
                try {
                    fs.rmdirSync(folder);
                } catch (error) {
                    if (error.code === 'EBUSY') return false;
                }
                return true;
            });
        });
        return {
            name,
            freeze: async (pid) => {
                fs.writeFileSync(path.join(folder, 'cgroup.procs'), String(pid));
                say(words.freeze);
                await eventually('it is frozen', isFrozen);
            },
            thaw: () => say(words.thaw),
        };
    };
    return [
        made('/sys/fs/cgroup/freezer', 'version 1', 'freezer.state', { freeze: 'FROZEN', thaw: 'THAWED' }),
        made('/sys/fs/cgroup', 'version 2', 'cgroup.freeze', { freeze: '1', thaw: '0' }) ||
            made('/sys/fs/cgroup/unified', 'version 2', 'cgroup.freeze', { freeze: '1', thaw: '0' }),
    ].filter(Boolean);
}
