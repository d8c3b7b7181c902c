// What a killed sonde has left in a process is taken out by another, also by one of another build.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish, kill, manifestOf, start, temporary } from '../system/helper.mjs';
import { codeOf, redisAnswers, startRedis } from './helper.mjs';

const attach = (t, env, ...args) => start(t, SONDE, ['attach', '--no-kernel', ...args], { env });
const probesIn = (pid) => new Set(fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')
    .filter((line) => /libsonde-probe/.test(line)).map((line) => line.trim().split(/ +/)[4])).size;

// Attaches, is killed, and leaves its hooks behind.
async function leaveHooks(t, env, pid, trace) {
    const sonde = attach(t, env, '-o', trace, pid);
    await sonde.until(/attached to 1/);
    kill(sonde.pid, 'SIGKILL');
    await sonde.ended;
}

// Ends one that traces. Where a busy machine gives it no time for that, it leaves its hooks in place, and says so.
async function end(t, env, sonde, pid) {
    kill(sonde.pid, 'SIGINT');
    const { status, stderr } = await sonde.ended;
    assert.equal(status, 0, stderr);
    if (!/its hooks stay in place/.test(stderr)) return;
    const detached = await finish(t, SONDE, ['detach', pid], { env });
    assert.equal(detached.status, 0, detached.stderr);
}

// The probes of another build: the same code under another build id.
function anotherBuild(folder) {
    for (const name of ['libsonde-probe.so', 'libsonde-probe-dynamic.so']) {
        const file = path.join(folder, name);
        fs.copyFileSync(path.join(path.dirname(SONDE), name), file);
        const id = /Build ID: ([0-9a-f]+)/.exec(execFileSync('readelf', ['-n', file], { encoding: 'utf8' }))[1];
        const bytes = fs.readFileSync(file), at = bytes.indexOf(Buffer.from(id, 'hex'));
        bytes[at] ^= 0xff;
        fs.writeFileSync(file, bytes);
    }
    return { SONDE_PROBE: path.join(folder, 'libsonde-probe.so') };
}

test('sonde detach takes out what a killed one has left, and leaves alone what a living one traces', async (t) => {
    const folder = temporary(t), { redis, port } = await startRedis(t), before = codeOf(redis.pid);
    await leaveHooks(t, {}, redis.pid, path.join(folder, 'killed'));
    assert.notEqual(codeOf(redis.pid), before, 'hooks are left');
    const detached = await finish(t, SONDE, ['detach', redis.pid]);
    assert.equal(detached.status, 0, detached.stderr);
    assert.match(detached.stdout, /[1-9]\d* hooks removed/);
    assert.equal(codeOf(redis.pid), before, 'every byte is back');
    assert.ok(await redisAnswers(port));
    assert.match((await finish(t, SONDE, ['detach', redis.pid])).stdout, /no hook/);

    const living = attach(t, {}, '-o', path.join(folder, 'living'), redis.pid);
    await living.until(/attached to 1/);
    const refused = await finish(t, SONDE, ['detach', redis.pid]);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /traced already, by sonde \d+/);
    await end(t, {}, living, redis.pid);
    assert.equal(codeOf(redis.pid), before);
});

test('a process that a sonde of another build has touched is traced, without a restart', async (t) => {
    const folder = temporary(t), { redis, port } = await startRedis(t), before = codeOf(redis.pid), other = anotherBuild(folder);
    await leaveHooks(t, other, redis.pid, path.join(folder, 'other'));
    for (let round = 0; round < 3; round++) {
        const env = round === 1 ? other : {}, trace = path.join(folder, `trace-${round}`);
        const sonde = attach(t, env, '-o', trace, redis.pid);
        await sonde.until(/attached to 1/);
        const refused = await finish(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, `refused-${round}`), redis.pid], { env: round === 1 ? {} : other });
        assert.match(refused.stderr, /traced already, by sonde \d+/, 'also one of another build is told');
        await eventually('Redis answers', () => redisAnswers(port));
        await end(t, env, sonde, redis.pid);
        assert.ok(manifestOf(trace).processes[0].events_written > 0);
        assert.equal(probesIn(redis.pid), 2, 'each has its probe, once');
        assert.equal(codeOf(redis.pid), before, 'every byte is back');
    }
});
