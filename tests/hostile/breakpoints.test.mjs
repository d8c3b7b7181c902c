// Other tools' breakpoints (uprobes) on functions that sonde hooks, set before it comes, while it is there, or gone before
// it leaves: the kernel runs the file's first instruction in their place and goes on behind it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, catchesInterrupt, eventually, kill, manifestOf, noProfiles, start, temporary } from '../system/helper.mjs';
import { startRedis } from './helper.mjs';
import { cli } from '../system/redis.mjs';

const skip = noProfiles();

const SERVER = fs.realpathSync('/usr/bin/redis-server'), FUNCTIONS = ['call', 'readQueryFromClient', 'writeToClient', 'processCommand'];

function commands(port) {
    assert.equal(cli(port, ['set', 'key', 'value']).trim(), 'OK');
    for (let i = 0; i < 5; i++) assert.equal(cli(port, ['get', 'key']).trim(), 'value');
}

// A breakpoint in each of the functions; end() says how often each was passed.
async function breakpoints(t, pid) {
    const tools = FUNCTIONS.map((name) => start(t, SONDE, ['profile', '-f', 'folded', '-o', '/dev/null', '--event', `uprobe:${SERVER}:${name}`, String(pid)]));
    const set = (tool) => tool.over || catchesInterrupt(tool.pid);
    await eventually('all are set', () => tools.every(set));
    return {
        async end() {
            for (const tool of tools) kill(tool.pid, 'SIGINT');
            const ended = await Promise.all(tools.map((tool) => tool.ended));
            return ended.map(({ stderr }) => Number((/^sonde: (\d+) hits/m.exec(stderr) ?? [0, 0])[1]));
        },
    };
}

async function attach(t, redis) {
    const trace = path.join(temporary(t), 'trace');
    const tracer = start(t, SONDE, ['attach', '--no-kernel', '-o', trace, redis.pid]);
    await tracer.until(/attached to 1 process/);
    return {
        async end() {
            kill(tracer.pid, 'SIGINT');
            const { status, stderr } = await tracer.ended;
            assert.ok([0, 4].includes(status), stderr);
            return manifestOf(trace).processes[0];
        },
    };
}

const whole = (hits) => assert.ok(hits.every((n) => n >= 6), `each breakpoint was passed: ${hits}`);

test('breakpoints set while a program is traced', { skip }, async (t) => {
    const { redis, port } = await startRedis(t), tracer = await attach(t, redis);
    const tool = await breakpoints(t, redis.pid);
    commands(port);
    whole(await tool.end());
    commands(port);
    const { hooks, events_written } = await tracer.end();
    for (const name of FUNCTIONS) assert.ok(hooks.includes(name), `${name} is hooked`);
    assert.ok(events_written > 24, 'what was done with the breakpoints is recorded');
    commands(port);
    assert.ok(!redis.over, redis.describe());
});

test('breakpoints set while a program is traced, which it is no longer when they go', { skip }, async (t) => {
    const { redis, port } = await startRedis(t), tracer = await attach(t, redis);
    const tool = await breakpoints(t, redis.pid);
    await tracer.end();
    commands(port);
    whole(await tool.end());
    commands(port);
    assert.ok(!redis.over, redis.describe());
});

test('a program with breakpoints is traced: those functions are left alone', { skip }, async (t) => {
    const { redis, port } = await startRedis(t), tool = await breakpoints(t, redis.pid);
    const tracer = await attach(t, redis);
    commands(port);
    whole(await tool.end());
    commands(port);
    const { hooks, missing } = await tracer.end();
    assert.ok(hooks.length > 10);
    for (const name of FUNCTIONS) {
        assert.equal(hooks.includes(name), false, `${name} is not hooked`);
        assert.ok(missing.some(({ why }) => why.includes(`${name} is not as in the file`)), JSON.stringify(missing));
    }
    commands(port);
    assert.ok(!redis.over, redis.describe());
});
