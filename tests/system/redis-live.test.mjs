// `sonde redis` of a server that runs: recorded by its port or PID and reported, watched while it is recorded (--follow), and
// command by command (--each); a conflict between its threads is told there.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { eventually, finish, freePort, kill, sonde, SONDE, start, temporary } from './helper.mjs';
import { AFFECTED, VERSION, answers, cli, halfClose, lines, tlsOptions } from './redis.mjs';

const documents = (text) => text.trim().split('\n').map((line) => JSON.parse(line));

async function serverOf(t, folder, ...options) {
    const port = await freePort();
    const server = start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...options]);
    await answers(port);
    return { port, server };
}

const attached = (tracer) => tracer.until(/attached to process \d+/);

test('a server by its port: recorded until Ctrl-C, then reported', async (t) => {
    const folder = temporary(t), { port, server } = await serverOf(t, folder);
    const tracer = sonde(t, 'redis', '--json', '--output', path.join(folder, 'trace'), port);
    assert.equal(Number(/process (\d+)/.exec((await attached(tracer))[0])[1]), server.pid);
    cli(port, [], lines(500, (n) => `get key${n}`));
    kill(tracer.pid, 'SIGINT');
    const { status, stdout } = await tracer.ended;
    assert.equal(status, 0, tracer.describe());
    const { servers } = JSON.parse(stdout);
    assert.deepEqual(servers.map((s) => s.pid), [server.pid]);
    assert.equal(servers[0].commands.find((c) => c.name === 'get').calls_count, 500);
    assert.ok(cli(port, ['ping']).includes('PONG'), 'it goes on');
});

test('--follow shows what happens while it happens, and all of it once', async (t) => {
    const folder = temporary(t), { port, server } = await serverOf(t, folder);
    const tracer = sonde(t, 'redis', '--follow', '--json', '--interval', '0.3', '--output', path.join(folder, 'trace'), `pid:${server.pid}`);
    await attached(tracer);
    cli(port, [], lines(300, (n) => `set key${n} value`));
    await tracer.until(/"name":"set"/, { stream: 'stdout' });
    cli(port, [], lines(200, (n) => `set key${n} value`) + 'nosuchcommand\n');
    cli(port, ['eval', 'local i = 0; while i < 2e7 do i = i + 1 end', '0']); // no command within: those would be an event each
    await tracer.until(/"state":"new".*"redis-slow-command"/, { stream: 'stdout' });
    assert.ok(!server.over && !tracer.over, 'it is told while it runs');
    kill(tracer.pid, 'SIGINT');
    const { status, stdout } = await tracer.ended;
    assert.equal(status, 0, tracer.describe());
    const all = documents(stdout), end = all.at(-1), windows = all.filter((line) => line.servers);
    assert.equal(end.state, 'end');
    const summed = (pick) => windows.flatMap((w) => w.servers).reduce((sum, s) => sum + pick(s), 0);
    const calls = (s) => s.commands.filter((c) => c.name === 'set').reduce((sum, c) => sum + c.calls_count, 0);
    const [last] = end.report.servers;
    assert.equal(calls(last), 500);
    assert.equal(summed(calls), 500);
    assert.equal(summed((s) => s.commands_count), last.commands_count);
    assert.equal(summed((s) => s.refused_count), 1);
    assert.equal(summed((s) => s.loop.iterations_count), last.iterations_count);
    assert.equal(summed((s) => s.in_bytes), last.work.clients.in_bytes);
    assert.equal(summed((s) => s.lost_events_count), last.lost_events_count, 'nothing was written too late');
    for (const [n, w] of windows.entries()) {
        assert.ok(w.to_ns > w.from_ns);
        if (n) assert.equal(w.from_ns, windows[n - 1].to_ns);
    }
    const eval_ = windows.flatMap((w) => w.servers).flatMap((s) => s.commands).find((c) => c.name === 'eval');
    assert.ok(eval_.worst_ns >= 10e6 && eval_.p99_ns >= eval_.worst_ns * 0.98, JSON.stringify(eval_));
    // The same of the recording, which is complete: in words, a line for the whole.
    const { stdout: words, status: again } = await finish(t, SONDE, ['redis', '--follow', path.join(folder, 'trace')]);
    assert.equal(again, 0);
    assert.match(words, /^\d\d:\d\d:\d\d new +\w+ redis-slow-command: EVAL ran for/m);
    assert.match(words, /commands\/s, \d+ connections, loop busy \d+ %, waits p99 .*; EVAL /);
});

test('--each prints commands one by one, those that are wanted', async (t) => {
    const folder = temporary(t), { port } = await serverOf(t, folder);
    const tracer = sonde(t, 'redis', '--follow', '--json', '--each=config set', '--output', path.join(folder, 'all'), port);
    await attached(tracer);
    cli(port, [], 'set a 1\nconfig set maxmemory 0\nget a\nconfig set maxmemory 0\n');
    await tracer.until(/"command".*\n.*"command"/, { stream: 'stdout' });
    kill(tracer.pid, 'SIGINT');
    await tracer.ended;
    const commands = documents(tracer.stdout).filter((line) => line.command).map((line) => line.command);
    assert.deepEqual(commands.map((c) => [c.name, c.arguments_count]), [['CONFIG SET', 4], ['CONFIG SET', 4]]);
    assert.ok(commands[0].client_id > 0 && commands[0].executed_ns > 0);
    const client = `${commands[0].client_id}`, words = async (...options) => (await finish(t, SONDE, ['redis', '--follow', '--each', ...options, path.join(folder, 'all')])).stdout.match(/(?<= client \d+ \([^)]*\) )[A-Z ]+ .*B$/gm) || [];
    assert.deepEqual((await words('--client', client)).map((line) => line.split(' ')[0]).filter((name) => name !== 'COMMAND'), ['SET', 'CONFIG', 'GET', 'CONFIG']); // redis-cli asks for COMMAND DOCS
    assert.match((await words('--client', client)).join('\n'), /^SET .*, \d+ B$/m);
    assert.equal((await words('--client', `${Number(client) + 99}`)).length, 0);
    assert.equal((await words('--least-ms', '10000')).length, 0);
});

test('a conflict between two threads is told by --follow', { skip: !AFFECTED && `redis-server ${VERSION} does not have the fault` }, async (t) => {
    const folder = temporary(t), tlsPort = await freePort();
    const { port, server } = await serverOf(t, folder, ...tlsOptions(folder, tlsPort), '--io-threads', '4', '--io-threads-do-reads', 'yes');
    const tracer = sonde(t, 'redis', '--follow', '--json', '--output', path.join(folder, 'trace'), port);
    await attached(tracer);
    start(t, 'redis-benchmark', ['-p', port, '-c', '64', '-n', '100000000', '-t', 'set', '-d', '100', '-q']);
    await eventually('the server is gone', async () => { // sooner or later: both threads must come to it at one time
        await halfClose(t, tlsPort).catch(() => {});
        return server.over;
    }, 300_000);
    await tracer.ended;
    const told = documents(tracer.stdout).filter((line) => line.state === 'new' && line.finding.kind === 'redis-connection-conflict');
    assert.equal(told.length, 1, tracer.describe());
    assert.ok(told[0].finding.evidence.second_added_ns > told[0].finding.evidence.first_added_ns);
    t.diagnostic(`told ${((told[0].read_to_ns - told[0].finding.evidence.second_added_ns) / 1e6).toFixed(0)} ms of recording after the second addition`);
});

test('what is no server is said, with what to do', async (t) => {
    const port = await freePort(), run = (...args) => finish(t, SONDE, ['redis', ...args]);
    const nobody = await run(`:${port}`), both = await run('--duration', '1', temporary(t)), each = await run('--each', '1'), none = await run(), number = await run(':999999');
    assert.equal(nobody.status, 1);
    assert.match(nobody.stderr, new RegExp(`listens on port ${port}`));
    assert.match(nobody.stderr, /root, or give the server's PID/);
    for (const { status } of [both, each, none, number]) assert.equal(status, 2);
    assert.match(none.stderr, /Give a port, a PID or a directory/);
    assert.match(number.stderr, /neither a port nor a process/);
});
