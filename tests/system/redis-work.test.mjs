// What a Redis server does beside executing commands, as its events have it, against its own counters (INFO): bytes,
// refused and queued commands, blocked clients, expiry, evictions, forks, writes to the disk, messages.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { eventually, finish, freePort, sonde, SONDE, start, temporary } from './helper.mjs';

const cli = (port, args, input) => execFileSync('redis-cli', ['-p', port, ...args], { encoding: 'utf8', input, timeout: 60_000 });
const info = (port) => Object.fromEntries([...cli(port, ['info', 'all']).matchAll(/^([^:\r\n]+):(.*?)\r?$/gm)].map(([, key, value]) => [key, value]));
const lines = (count, line) => Array.from({ length: count }, (_, n) => line(n)).join('\n') + '\n';

test('work beside commands, by the server\'s own counters', async (t) => {
    const folder = temporary(t), port = await freePort(), trace = path.join(folder, 'trace');
    const run = sonde(t, 'run', '--quiet', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--enable-debug-command', 'local');
    const number = (key) => Number(info(port)[key]);
    await eventually('the server answers', () => { try { return cli(port, ['ping']).includes('PONG'); } catch { return false; } });
    // refused, queued, executed
    cli(port, [], 'multi\nset a 1\nget a\nexec\nmulti\nset a 2\ndiscard\nnosuch\nget\nset x\n');
    // blocked, until somebody pushes; blocked, until it is over
    const waiting = start(t, 'redis-cli', ['-p', port, 'blpop', 'queue', '30']);
    await eventually('a client is blocked', () => number('blocked_clients') === 1);
    cli(port, ['rpush', 'queue', 'value']);
    await waiting.ended;
    cli(port, ['blpop', 'nothing', '0.05']);
    // keys that expire while nobody asks, and when somebody does
    assert.match(cli(port, ['debug', 'set-active-expire', '0']), /OK/);
    cli(port, [], lines(300, (n) => `set asked${n} v px 1`));
    cli(port, [], lines(300, (n) => `get asked${n}`));
    cli(port, ['debug', 'set-active-expire', '1']);
    cli(port, [], lines(2000, (n) => `set left${n} v px 1`));
    await eventually('they have expired', () => number('expired_keys') === 2300);
    // the append-only file, forks
    cli(port, ['config', 'set', 'appendfsync', 'always']);
    cli(port, ['config', 'set', 'appendonly', 'yes']);
    await eventually('the file is written', () => info(port).aof_rewrite_in_progress === '0');
    for (let n = 0; n < 10; n++) cli(port, ['set', `file${n}`, 'value']);
    cli(port, ['config', 'set', 'appendonly', 'no']);
    cli(port, ['bgsave']);
    await eventually('it is saved', () => info(port).rdb_bgsave_in_progress === '0');
    // evictions
    cli(port, ['config', 'set', 'maxmemory-policy', 'allkeys-random']);
    cli(port, ['config', 'set', 'maxmemory', String(number('used_memory') + 1_000_000)]);
    cli(port, [], lines(4000, (n) => `set big${n} ${'x'.repeat(1000)}`));
    cli(port, ['config', 'set', 'maxmemory', '0']);
    // messages
    start(t, 'redis-cli', ['-p', port, 'subscribe', 'channel']);
    await eventually('somebody subscribes', () => cli(port, ['publish', 'channel', 'message']).startsWith('1'));
    cli(port, ['publish', 'nobody', 'message']);
    const after = info(port);
    start(t, 'redis-cli', ['-p', port, 'shutdown', 'nosave']);
    await run.ended;
    const { status, stdout, stderr } = await finish(t, SONDE, ['redis', '--json', trace]);
    assert.equal(status, 0, `nothing is lost: ${stderr}${stdout.slice(-500)}`);
    const { servers } = JSON.parse(stdout);
    assert.equal(servers.length, 1, 'its children are no servers');
    const [{ work, commands }] = servers, of = (name) => commands.find((c) => c.name === name);
    assert.deepEqual([of('set').queued_count, of('get').queued_count, of('set').refused_count, of('get').refused_count, of('unknown command').refused_count], [2, 1, 1, 1, 1]);
    for (const [key, value] of Object.entries(after)) {
        const [, calls, refused] = /^calls=(\d+),.*rejected_calls=(\d+)/.exec(value) || [], name = key.replace('cmdstat_', '');
        if (!key.startsWith('cmdstat_') || name === 'info') continue; // the last INFO was not counted yet
        assert.equal(of(name).calls_count + of(name).inner_calls_count, Number(calls), name);
        assert.equal(of(name).refused_count, Number(refused), name);
    }
    assert.equal(of('blpop').blocked.count, 2);
    assert.ok(of('blpop').blocked.took_ns >= 45e6, JSON.stringify(of('blpop').blocked));
    assert.deepEqual([work.expired_on_access_count, work.expired_count], [300, 2000]);
    assert.equal(work.evicted_count, Number(after.evicted_keys));
    assert.ok(work.evicted_count > 1000);
    assert.equal(work.forks.count, Number(after.total_forks));
    assert.ok(work.forks.worst_ns >= Number(after.latest_fork_usec) * 1000, 'the span is around the server\'s own');
    assert.ok(work.syncs.count >= 10, JSON.stringify(work.syncs));
    assert.ok(work.aof_bytes >= 10 * 30);
    assert.equal(work.receivers_count, 1);
    assert.equal(work.unknown_transfers_count, 0);
    const near = (mine, its) => Math.abs(mine - its) <= its * 0.005 + 200;
    assert.ok(near(work.clients.in_bytes, Number(after.total_net_input_bytes)), `${work.clients.in_bytes} against ${after.total_net_input_bytes}`);
    assert.ok(near(work.clients.out_bytes, Number(after.total_net_output_bytes) + Object.entries(after).reduce((sum, [key, value]) => sum + key.length + value.length + 3, 0)), `${work.clients.out_bytes} against ${after.total_net_output_bytes}`);
    const text = await finish(t, SONDE, ['redis', trace]);
    assert.match(text.stdout, /fdatasync on the main thread/);
    assert.match(text.stdout, /Clients: +in [\d.]+ .B, out/);
});
