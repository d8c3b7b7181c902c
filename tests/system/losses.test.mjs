// When events are lost they are counted by reason, the report says so, and the traced program never notices.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { SHOP, SONDE, finish, isRoot, kill, manifestOf, outline, reportOf, root, smallDisk, sonde, temporary } from './helper.mjs';

const HELLO = path.join(root, 'tests', 'system', 'programs', 'hello.js');

function get(port, target, agent) {
    return new Promise((resolve, reject) => {
        http.get({ host: '127.0.0.1', port, path: target, agent }, (res) => {
            res.resume();
            res.on('end', () => resolve(res.statusCode));
        }).on('error', reject);
    });
}

test('a ring that overflows because sonde stands still', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', folder, '--', process.execPath, HELLO);
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
    t.after(() => agent.destroy());
    kill(run.pid, 'SIGSTOP');
    t.after(() => kill(run.pid, 'SIGCONT'));
    for (let wave = 0; wave < 200; wave++) {
        const answers = await Promise.all(Array.from({ length: 50 }, () => get(port, '/', agent)));
        assert.ok(answers.every((status) => status === 200), 'the service answers all the same');
    }
    kill(run.pid, 'SIGCONT');
    await get(port, '/end', false);
    const { status, stderr } = await run.ended;
    assert.equal(status, 4);
    assert.match(stderr, /events were lost \(([\w-]+, )*ring-full\b/, 'also why');
    const full = manifestOf(folder).losses.filter((loss) => loss.reason === 'ring-full');
    assert.ok(full.length && full.every((loss) => loss.count > 0), JSON.stringify(full));
    const report = await reportOf(t, folder, [4]);
    assert.ok(report.losses.some((loss) => loss.reason === 'ring-full' && loss.count > 0), JSON.stringify(report.losses));
});

// Its slot goes to the next thread, its losses do not.
test('what a thread lost that has ended is its own', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', folder, '--', process.execPath, path.join(root, 'tests', 'system', 'programs', 'heirs.js'));
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const ask = async (target) => Number(await (await fetch(`http://127.0.0.1:${port}${target}`)).text());
    kill(run.pid, 'SIGSTOP');
    t.after(() => kill(run.pid, 'SIGCONT'));
    const loser = await ask('/lose');
    kill(run.pid, 'SIGCONT');
    const heirs = [];
    for (let i = 0; i < 12; i++) heirs.push(await ask('/next'));
    await fetch(`http://127.0.0.1:${port}/end`);
    const { status } = await run.ended;
    assert.equal(status, 4);
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'trace:loss', folder]);
    const full = stdout.trim().split('\n').map((line) => JSON.parse(line).fields).filter((fields) => fields['reason.label'] === 'ring-full');
    assert.ok(full.some((fields) => fields.tid === loser && fields.count > 0), JSON.stringify(full));
    assert.deepEqual(full.filter((fields) => heirs.includes(fields.tid)), [], `${loser} lost, ${heirs} did not`);
});

// Tens of thousands of synchronous calls in one callback, or of commands in one script: what is lost is some of them, never whose
// they are, how that ended, or what comes behind them.
test('a callback with more calls than a ring takes', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', folder, '--', process.execPath, path.join(root, 'tests', 'system', 'programs', 'many-calls.js'));
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const agent = new http.Agent({ keepAlive: true });
    t.after(() => agent.destroy());
    await get(port, '/few', agent);
    kill(run.pid, 'SIGSTOP');
    t.after(() => kill(run.pid, 'SIGCONT'));
    for (const target of ['/many', '/few', '/many', '/few']) assert.equal(await get(port, target, agent), 200);
    kill(run.pid, 'SIGCONT');
    await get(port, '/end', false);
    const { status } = await run.ended;
    assert.equal(status, 4);
    const { requests } = JSON.parse((await finish(t, SONDE, ['spans', '--json', '--slowest', '100', folder])).stdout);
    const many = requests.filter((request) => request.path === '/many');
    assert.deepEqual(many.map((request) => [request.status, request.state]), [[200, 'finished'], [200, 'finished']]);
    assert.ok(many.some(({ spans }) => spans.some((span) => span.kind === 'sync')), 'some of the calls are there');
    assert.equal(requests.filter((request) => request.path === '/few' && request.status === 200).length, 3, 'what came behind them is there');
    const report = await reportOf(t, folder, [4]);
    assert.ok(!report.findings.some((finding) => finding.kind === 'unexplained-wait'), outline(report));
});

test('a full disk', { skip: !isRoot && 'needs root, to mount a small tmpfs' }, async (t) => {
    const disk = await smallDisk(t, '1m');
    if (!disk) return t.skip('no tmpfs can be mounted here');
    const trace = path.join(disk.path, 'trace');
    const { status, stdout, stderr } = await finish(t, SONDE, ['run', '-o', trace, '--', process.execPath, SHOP, '--duration', '6', '--rate', '150']);
    assert.match(stdout, /^shop: \d+ requests, 0 unanswered, 0 failed/m, stderr);
    assert.equal(status, 4, stderr);
    assert.match(stderr, /No space left on device|disk is full/i);
    assert.ok(stderr.includes(trace), 'the folder is named');
    const report = await reportOf(t, trace, [4]);
    assert.ok(report.losses.some((loss) => loss.reason === 'disk-write-failed' && loss.count > 0), JSON.stringify(report.losses));
    // Most of the events are missing: that is the first thing to say, and not that there is nothing to find.
    assert.equal(report.findings[0]?.kind, 'events-lost', outline(report));
    const text = await finish(t, SONDE, ['report', trace]);
    assert.doesNotMatch(text.stdout, /No findings|Every request/, text.stdout);
});
