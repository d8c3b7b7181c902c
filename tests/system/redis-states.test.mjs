// The resource model of a Redis server as states over time (`sonde trace states`), against what its clients did.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { eventually, finish, freePort, sonde, SONDE, start, temporary } from './helper.mjs';
import { answers, cli, lines } from './redis.mjs';


test('connections, requests, threads, event loop and memory over time', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder);
    await answers(port);
    cli(port, [], lines(50, (n) => `set key${n} value`) + lines(20, () => 'lpush list value') + 'zadd scores 1 one\nconfig get port\n');
    const waiting = start(t, 'redis-cli', ['-p', port, 'blpop', 'queue', '30']);
    await eventually('a client is blocked', () => /^blocked_clients:1/m.test(cli(port, ['info', 'clients'])));
    cli(port, ['rpush', 'queue', 'value']);
    await waiting.ended;
    start(t, 'redis-cli', ['-p', port, 'shutdown', 'nosave']);
    await run.ended;
    const kept = path.join(folder, 'states');
    assert.equal((await finish(t, SONDE, ['trace', 'states', '-o', kept, trace])).status, 0);
    const of = async (pattern) => {
        const { status, stdout, stderr } = await finish(t, SONDE, ['trace', 'states', '--json', '-a', `Redis/*/${pattern}`, kept]);
        assert.equal(status, 0, stderr);
        return stdout.trim().split('\n').map((line) => JSON.parse(line)).filter((state) => state.value !== null);
    };
    const count = (states, value) => states.filter((s) => s.value === value).length;
    const commands = await of('Requests/Command'), structures = await of('Requests/Data structure'), types = await of('Requests/Type');
    assert.deepEqual(['set', 'lpush', 'zadd', 'blpop', 'rpush'].map((name) => count(commands, name)), [50, 20, 1, 1, 1]);
    assert.deepEqual(['string', 'list', 'sorted set'].map((name) => count(structures, name)), [50, 22, 1]);
    assert.ok(count(types, 'write') >= 73, 'SET and its kin write');
    assert.equal((await of('Requests/Argument bytes')).length, commands.length);
    // Whatever executes, executes for a connection, on the main thread, at that time.
    const executes = await of('Threads/*/Executes'), connections = await of('Requests/Connection');
    assert.deepEqual([...new Set(executes.map((s) => s.attribute))].length, 1);
    assert.deepEqual(executes.map((s) => [s.from_ns, s.to_ns, s.value]), connections.map((s) => [s.from_ns, s.to_ns, s.value]));
    const byConnection = await of('Connections/*/Command');
    assert.equal(byConnection.length, commands.length);
    const client = byConnection.find((s) => s.value === 'zadd').attribute.split('/')[3];
    // What it sent, and has been sent: 50 + 20 + 2 replies.
    const last = async (name) => (await of(`Connections/${client}/${name}`)).at(-1).value;
    assert.ok(await last('Bytes in') >= 50 * 30 && await last('Bytes out') >= 50 * 5 + 20 * 4);
    assert.equal(await last('Type'), 'client');
    assert.ok((await of(`Connections/${client}/Read by`)).every((s) => s.value === Number(executes[0].attribute.split('/')[3])));
    const [blocked, ...others] = (await of('Connections/*/Blocked in')).filter((s) => s.value !== 'shutdown'); // which waits, too
    assert.equal(others.length, 0, JSON.stringify(others));
    assert.equal(blocked.value, 'blpop');
    assert.ok(blocked.to_ns > blocked.from_ns);
    assert.ok((await of('Event loop/Ready')).every((s) => s.value >= 1));
    assert.ok((await of('Event loop/Phase')).some((s) => s.value === 'process-events'));
    assert.ok((await of('Memory')).every((s) => s.value > 500_000));
    // At one moment: within the first ZADD its connection has it, and nobody else has anything.
    const at = byConnection.find((s) => s.value === 'zadd').from_ns;
    const { stdout: then } = await finish(t, SONDE, ['trace', 'states', '--json', '--at', `${at}`, '-a', 'Redis/*/Connections/*/Command', kept]);
    assert.deepEqual(then.trim().split('\n').map((line) => JSON.parse(line)).filter((s) => s.value !== null).map((s) => s.value), ['zadd']);
});
