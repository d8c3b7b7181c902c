// `sonde report` and `sonde spans` as commands: what they print, their exit statuses, and what they say when there
// is nothing to say.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, outline, reportOf, root, sonde, temporary } from './helper.mjs';

const get = (port, target) => new Promise((resolve, reject) => {
    http.get({ port, host: '127.0.0.1', path: target, agent: false }, (response) => response.resume().on('end', () => resolve(response.statusCode))).on('error', reject);
});
const OK = [0, 4]; // 4: events were lost on this machine

// A trace of the hello server: count requests, then its end.
async function record(t, count) {
    const folder = path.join(temporary(t), 'trace');
    const running = sonde(t, 'record', '-q', '-o', folder, '--', process.execPath, path.join(root, 'tests/system/programs/hello.js'));
    const port = Number((await running.until(/listening on (\d+)/, { stream: 'stdout' }))[1]);
    for (let i = 0; i < count; i++) await get(port, `/users/${i}?secret=1`);
    await get(port, '/end');
    const { status } = await running.ended;
    assert.ok(OK.includes(status), running.describe());
    return folder;
}

test('report and spans of a healthy server', async (t) => {
    const folder = await record(t, 30);
    const report = await reportOf(t, folder, OK);
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info'), [], outline(report));
    const users = report.endpoints.find((e) => e.route === '/users/:id');
    assert.equal(users.count, 30);
    assert.equal(users.service, 'hello');
    assert.ok(users.p50_ns > 0 && users.p50_ns <= users.worst_ns);
    assert.ok(!JSON.stringify(report).includes('secret'), 'query strings are not recorded');

    const text = await finish(t, SONDE, ['report', folder], { env: { COLUMNS: '100' } });
    assert.match(text.stdout, /GET\s+\/users\/:id\s+30/);
    assert.match(text.stdout, /The slowest request/);
    for (const line of text.stdout.split('\n')) assert.ok(line.length <= 110, line);

    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '5', '--path', '/users', folder]);
    const { requests } = JSON.parse(spans.stdout);
    assert.equal(requests.length, 5);
    assert.ok(requests.every((r) => r.path.startsWith('/users/') && r.status === 200 && r.spans.length > 1));
    assert.ok(requests.every((r, i) => i === 0 || requests[i - 1].latency_ns >= r.latency_ns));
    const one = await finish(t, SONDE, ['spans', '--request', requests[3].id, folder]);
    assert.ok(one.stdout.includes(requests[3].path));

    const gate = await finish(t, SONDE, ['report', '--gate', 'warning', folder]);
    assert.ok(OK.includes(gate.status));
    // A request of half a microsecond would be a stall: the gate is reached.
    const strict = await finish(t, SONDE, ['report', '--gate', 'event-loop-blocked', '--stall-ms', '0.0005', folder]);
    const found = await finish(t, SONDE, ['report', '--json', '--stall-ms', '0.0005', folder]);
    const loud = JSON.parse(found.stdout).findings.some((f) => f.kind === 'event-loop-blocked' && f.severity !== 'info');
    assert.equal(strict.status === 10, loud);
});

test('empty results say why', async (t) => {
    const folder = await record(t, 0);
    const nothing = await finish(t, SONDE, ['spans', '--path', '/no/such', folder]);
    assert.equal(nothing.stdout, '');
    assert.match(nothing.stderr, /has a path with|a path with '\/no\/such'/);
    const missing = await finish(t, SONDE, ['report', path.join(folder, 'elsewhere')]);
    assert.equal(missing.status, 1);
    assert.match(missing.stderr, /elsewhere/);
    fs.writeFileSync(path.join(folder, 'metadata'), 'this is no metadata');
    const damaged = await finish(t, SONDE, ['report', folder]);
    assert.equal(damaged.status, 1);
    assert.match(damaged.stderr, /metadata/);
});

test('wrong command lines are usage errors', async (t) => {
    for (const args of [['report'], ['report', '--gate', 'loud', '/tmp'], ['report', '--stall-ms', 'x', '/tmp'], ['report', '--what', '/tmp'],
        ['report', 'a', 'b'], ['spans'], ['spans', '--slowest', '0', '/tmp'], ['spans', '--request']]) {
        const { status, stderr, stdout } = await finish(t, SONDE, args);
        assert.equal(status, 2, args.join(' '));
        assert.match(stderr, /usage: sonde/);
        assert.equal(stdout, '');
    }
});

test('the kinds of findings are the manual page', async (t) => {
    const { stdout, status } = await finish(t, SONDE, ['report', '--kinds']);
    assert.equal(status, 0);
    assert.equal(stdout, fs.readFileSync(path.join(root, 'doc/findings.md'), 'utf8'));
});
