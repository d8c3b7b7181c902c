// Programs of two users in one profile. What reads one user's program, taken over by it, can neither read the other's nor change
// what is said of it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, root, start, temporary } from '../system/helper.mjs';
import { compile } from './helper.mjs';

const skip = !isRoot && 'needs root, whose profile has programs of several users';

// A program of that user which does nothing but run this function.
const spin = (t, user, name) => start(t, process.execPath, ['-e', `process.setgid(${user}); process.setuid(${user}); function ${name}() { for (let i = 0; i < 1e5; i++) Math.sqrt(i); } setInterval(${name}, 1)`]);

const text = (file) => {
    try {
        return fs.readFileSync(file, 'utf8');
    } catch {
        return '';
    }
};
// The processes without rights that a sonde has for what it parses: those that are confined, with its command line.
function confinedOf(sonde) {
    const own = text(`/proc/${sonde.pid}/cmdline`);
    return fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && text(`/proc/${pid}/cmdline`) === own && /^Uid:\t15[6-9]\d{7}\t/m.test(text(`/proc/${pid}/status`))).map(Number);
}
// Whose memory a process holds.
function holds(pid) {
    try {
        return fs.readdirSync(`/proc/${pid}/fd`).map((fd) => {
            try {
                return Number(/^\/proc\/(\d+)\/mem$/.exec(fs.readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? 0);
            } catch {
                return 0;
            }
        });
    } catch {
        return [];
    }
}

async function profileTwo(t) {
    const folder = temporary(t), out = path.join(folder, 'out.folded');
    const a = spin(t, 65531, 'whatTheFirstDoes'), b = spin(t, 65532, 'whatTheSecondDoes');
    await eventually('both are of their users', () => [[a, 65531], [b, 65532]].every(([program, user]) => new RegExp(`^Uid:\t${user}\t${user}\t${user}`, 'm').test(text(`/proc/${program.pid}/status`))));
    const sonde = start(t, SONDE, ['profile', '-d', '1000', '-F', '499', '-o', out, a.pid, b.pid]);
    const readers = await eventually('both are read', () => {
        assert.ok(!sonde.over, sonde.describe());
        const confined = confinedOf(sonde), [ofA, ofB] = [a, b].map((program) => confined.filter((pid) => holds(pid).includes(program.pid)));
        return ofA.length && ofB.length && { confined, ofA, ofB };
    });
    const finished = async () => {
        sonde.child.kill('SIGINT');
        await sonde.ended;
        assert.ok([0, 4, 5].includes(sonde.status), sonde.describe());
        return fs.readFileSync(out, 'utf8').split('\n');
    };
    return { folder, a, b, sonde, ...readers, finished };
}

// Of the stacks of each program, those that have its own function; none has the other's.
function check(lines, a, b) {
    const counts = [[a, 'whatTheFirstDoes', 'whatTheSecondDoes'], [b, 'whatTheSecondDoes', 'whatTheFirstDoes']].map(([program, own, other]) => {
        const stacks = lines.filter((line) => line.startsWith(`node (${program.pid});`));
        assert.ok(!stacks.some((stack) => stack.includes(other)), 'no name of the other is among them');
        return stacks.filter((stack) => stack.includes(own)).length;
    });
    return { ofA: counts[0], ofB: counts[1] };
}

test('what reads the program of one user reads none of another\'s, and gets nothing of it when it asks', { skip }, async (t) => {
    const { folder, a, b, sonde, confined, ofA, finished } = await profileTwo(t);
    for (const pid of confined) assert.ok(!(holds(pid).includes(a.pid) && holds(pid).includes(b.pid)), `${pid} holds the memory of both`);
    assert.equal(text(`/proc/${ofA[0]}/comm`), 'sonde:names\n');
    assert.match(text(`/proc/${ofA[0]}/limits`), /^Max data size +\d+ +\d+ /m, 'it cannot use up the memory');
    assert.deepEqual(holds(sonde.pid).filter(Boolean), [], 'who samples holds nobody\'s');
    const asker = await compile(t, folder, 'asker', `-I${path.join(root, 'src')}`);
    const { stdout, status } = await finish(t, asker, [ofA[0], a.pid, b.pid]);
    assert.equal(status, 0, stdout);
    for (const what of ['maps', 'status', 'cmdline']) assert.ok(stdout.includes(`own: ${what}\n`), stdout); // it asks as it should
    assert.ok(!/own: (environ|mem|cwd)/.test(stdout), stdout);
    assert.doesNotMatch(stdout, /^other: /m, 'nothing of the other');
    assert.ok(Number(/asked (\d+)/.exec(stdout)[1]) > 30);
    await new Promise((resolve) => setTimeout(resolve, 1000)); // on a busy machine the second has hardly run yet
    const { ofB } = check(await finished(), a, b);
    assert.ok(ofB > 0);
});

test('what reads the program of one user ends or hangs: the other\'s stacks have their names', { skip }, async (t) => {
    const { a, b, ofA, finished } = await profileTwo(t);
    process.kill(ofA[0], 'SIGKILL');
    await eventually('it is gone', () => !/^State:\t[^ZX]/m.test(text(`/proc/${ofA[0]}/status`)));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const { ofB } = check(await finished(), a, b);
    assert.ok(ofB > 0, 'the second is named');
});
