// The worker that parses the files of programs, taken over by one of them: it says what it likes, and asks for what it likes.
// Nothing is patched for it, and the program runs untraced.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, freePort, isRoot, root, start, temporary } from '../system/helper.mjs';
import { compile, isAlive, pipes } from './helper.mjs';

const skip = !isRoot && 'needs root, to deal with a worker that nobody else can trace';
const REDIS = '/usr/bin/redis-server';

// The processes that workers are forked from: of the sonde that was started with this mark in its environment, which they have too,
// whoever else runs the same build.
function spawnersOf(mark) {
    return fs.readdirSync('/proc').filter((pid) => {
        try {
            return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sonde:spawner\n' && fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`MARK=${mark}`);
        } catch {
            return false;
        }
    });
}

// The executable mappings of files are as the files are.
function assertCodeIsAsInItsFiles(pid) {
    const memory = fs.openSync(`/proc/${pid}/mem`, 'r');
    let mappings = 0;
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const map = /^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ [1-9]\d* +(\/.*)/.exec(line);
        if (!map) continue;
        const [from, to, offset] = map.slice(1, 4).map((number) => parseInt(number, 16)), size = to - from;
        const now = Buffer.alloc(size), then = Buffer.alloc(size), file = fs.openSync(map[4], 'r');
        fs.readSync(memory, now, 0, size, from);
        fs.readSync(file, then, 0, size, offset);
        fs.closeSync(file);
        assert.ok(now.equals(then), `${map[4]} at ${map[1]}`);
        mappings++;
    }
    fs.closeSync(memory);
    assert.ok(mappings > 3);
}

// A Redis under sonde whose worker tells a lie; what sonde says.
async function lieAboutRedis(t, lie) {
    const folder = temporary(t), port = await freePort();
    const liar = await compile(t, folder, 'lying_worker', `-I${path.join(root, 'src')}`, `-I${path.join(path.dirname(SONDE), 'src')}`); // and its generated headers
    const sonde = start(t, SONDE, ['record', '-o', path.join(folder, 'trace'), '--', '/bin/sh', '-c', `read go; exec ${REDIS} --port ${port} --save '' --dir ${folder}`], { ...pipes, env: { ...process.env, MARK: folder } });
    const spawners = await eventually('both spawners are there', () => {
        assert.ok(!sonde.over, sonde.describe());
        const found = spawnersOf(folder);
        return found.length === 2 && found;
    });
    const lying = start(t, liar, [lie, ...spawners], pipes);
    await lying.until(/ready\n/, { stream: 'stdout' });
    sonde.child.stdin.write('\n');
    await sonde.until(/Ready to accept connections/, { stream: 'stdout' });
    const children = fs.readFileSync(`/proc/${sonde.pid}/task/${sonde.pid}/children`, 'utf8').trim().split(' ');
    const pid = Number(children.find((child) => fs.readFileSync(`/proc/${child}/comm`, 'utf8') === 'redis-server\n'));
    return { sonde, lying, pid };
}

for (const [lie, answer] of [
    ['outside', /a function to be hooked is no code of its module/],
    ['data', /a function to be hooked is no code of its module/],
    ['elsewhere', /a function to be hooked is no code of its module/],
    ['overlap', /two functions to be hooked overlap/],
    ['owner', /what a probe notes is no data of the probe/],
    ['callee', /is no code of a file/],
    ['segments', /no module's segments lie so/],
    ['counts', /gave no plan/],
    ['bytes', /not as in the file/],
]) {
    test(`a worker that lies (${lie}): nothing is patched, and that is said`, { skip }, async (t) => {
        const { sonde, lying, pid } = await lieAboutRedis(t, lie);
        await sonde.until(/redis-server \(\d+\) runs untraced: /, { stream: 'stderr' });
        assert.match(sonde.stderr, answer);
        await lying.until(/lied/, { stream: 'stdout' });
        assertCodeIsAsInItsFiles(pid);
        assert.ok(isAlive(pid));
    });
}

test('a worker that asks for files of another process gets none', { skip }, async (t) => {
    const { sonde, lying, pid } = await lieAboutRedis(t, 'questions');
    await eventually('it has asked', () => /lied/.test(lying.stdout));
    assertCodeIsAsInItsFiles(pid);
    assert.ok(isAlive(pid) && !sonde.over);
});

test('a worker that reads the files of a slow disk: the program waits for it, and is traced', { skip }, async (t) => {
    const { sonde, lying, pid } = await lieAboutRedis(t, 'late');
    await lying.until(/lied/, { stream: 'stdout' });
    assert.doesNotMatch(sonde.stderr, /untraced/);
    assert.throws(() => assertCodeIsAsInItsFiles(pid), /redis-.* at/);
});

test('without a lie it is traced', { skip }, async (t) => {
    const { sonde, pid } = await lieAboutRedis(t, 'nothing');
    assert.doesNotMatch(sonde.stderr, /untraced/);
    assert.throws(() => assertCodeIsAsInItsFiles(pid), /redis-.* at/);
});
