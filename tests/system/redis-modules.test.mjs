// Commands that a module brings, and those that nobody knows: counted like the server counts them, the slow one found, and those
// that a command of a module calls told apart from those of clients.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { finish, freePort, root, sonde, SONDE, start, temporary } from './helper.mjs';
import { answers, cli, lines } from './redis.mjs';

test('commands of a module, and unknown ones', async (t) => {
    const folder = temporary(t), module = path.join(folder, 'answers.so'), trace = path.join(folder, 'trace'), port = await freePort();
    execFileSync('cc', ['-O1', '-fPIC', '-shared', '-fvisibility=hidden', '-o', module, path.join(root, 'tests/system/programs/answers.c')]);
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', 'redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--loadmodule', module);
    await answers(port);
    const said = cli(port, [], lines(300, (n) => ['answers.quick', 'answers.set', 'nosuch command', 'get of-a-module'][n % 4]));
    assert.equal(said.split('\n').filter((line) => line === '42').length, 75, said.slice(0, 500));
    assert.match(cli(port, ['answers.slow']), /43/);
    const calls = Object.fromEntries([...cli(port, ['info', 'commandstats']).matchAll(/cmdstat_(\S+):calls=(\d+)/g)].map(([, name, count]) => [name, Number(count)]));
    start(t, 'redis-cli', ['-p', port, 'shutdown', 'nosave']);
    await run.ended;
    const { status, stdout, stderr } = await finish(t, SONDE, ['redis', '--json', '--slow-command-ms', '50', trace]);
    assert.equal(status, 0, `nothing is lost: ${stderr}`);
    const { servers: [{ commands }], findings } = JSON.parse(stdout), of = (name) => commands.find((c) => c.name === name);
    for (const name of ['answers.quick', 'answers.set', 'answers.slow', 'get']) assert.equal(of(name)?.calls_count, calls[name], `${name}: ${JSON.stringify(of(name))}`);
    assert.equal(of('unknown command').refused_count, 75);
    assert.deepEqual([of('set').calls_count, of('set').inner_calls_count], [0, calls.set], JSON.stringify(of('set')));
    const slow = findings.filter((f) => f.kind === 'redis-slow-command');
    assert.ok(slow.some((f) => f.evidence.command === 'ANSWERS.SLOW' && f.evidence.worst_ns >= 60e6), JSON.stringify(findings.map((f) => f.title)));
    assert.deepEqual(findings.filter((f) => f.kind !== 'redis-slow-command').map((f) => f.title), []);
});
