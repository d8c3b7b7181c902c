// A process that a freezer holds (docker pause) keeps nobody from ending, and nobody else waiting.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { SONDE, eventually, finish, kill, manifestOf, start, temporary } from '../system/helper.mjs';
import { freezers, goesOn, isStuck, redisAnswers, startRedis, withLoaderLocked } from './helper.mjs';

const attach = (t, trace, ...pids) => start(t, SONDE, ['attach', '--no-kernel', '-o', trace, ...pids]);

test('frozen before, while it is traced, and amid a call', { timeout: 120_000 }, async (t) => {
    const kinds = freezers(t);
    if (!kinds.length) return t.skip('no freezer can be had (it needs root and a cgroup file system)');
    for (const { name, freeze, thaw } of kinds) {
        const folder = temporary(t), { redis, port } = await startRedis(t);
        await freeze(redis.pid);
        const refused = await finish(t, SONDE, ['attach', '--no-kernel', '-o', path.join(folder, 'refused'), redis.pid]);
        assert.notEqual(refused.status, 0, name);
        assert.match(refused.stderr, /is frozen/, name);
        thaw();
        await eventually('Redis answers', () => redisAnswers(port));

        const tracing = attach(t, path.join(folder, 'tracing'), redis.pid);
        await tracing.until(/attached to 1/);
        await freeze(redis.pid);
        kill(tracing.pid, 'SIGINT');
        const { stderr } = await tracing.ended; // while it is frozen
        assert.match(stderr, /its hooks stay in place and pass through/, name);
        thaw();
        await eventually('Redis answers', () => redisAnswers(port));
        const again = await finish(t, SONDE, ['attach', '--no-kernel', '-q', '-o', path.join(folder, 'again'), '--duration', '0.2', redis.pid]);
        assert.equal(again.status, 0, again.stderr);
        assert.ok(await redisAnswers(port));

        const { program, release } = await withLoaderLocked(t), calling = attach(t, path.join(folder, 'calling'), program.pid);
        await isStuck(program.pid);
        await freeze(program.pid);
        kill(calling.pid, 'SIGTERM');
        await calling.ended; // while it is frozen
        thaw();
        release();
        await goesOn(program);
    }
});

test('while one program keeps sonde waiting, what the others record is not lost', { timeout: 120_000 }, async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), { redis, port } = await startRedis(t);
    const { program, release } = await withLoaderLocked(t);
    const sonde = attach(t, trace, redis.pid, program.pid);
    await isStuck(program.pid);
    execFileSync('redis-benchmark', ['-p', port, '-n', '30000', '-c', '5', '-t', 'set', '-q'].map(String));
    release();
    await sonde.until(/attached to 1/);
    kill(sonde.pid, 'SIGINT');
    const { stderr } = await sonde.ended;
    assert.deepEqual(manifestOf(trace).losses, [], stderr);
    assert.ok(manifestOf(trace).processes[0].events_written > 30000);
    await goesOn(program);
});
