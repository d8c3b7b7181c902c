// A request that hangs in a regular expression which V8 has long since compiled: it is named while it hangs,
// on Ctrl-C, after the service was killed, and after sonde itself was killed.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { childNamed, finish, kill, outline, reportOf, root, sonde, SONDE, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'stuck.js');
const INPUTS = { letters: 'a'.repeat(40) + '!', address: 'a'.repeat(60) + '!', trim: ' '.repeat(4000) + 'z' };

// Starts the server under sonde, lets one request into the pattern, and more behind it.
async function hang(t, name) {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', folder, '--', process.execPath, PROGRAM);
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const ask = (target) => http.get({ host: '127.0.0.1', port, path: target, agent: false }).on('error', () => {});
    const asked = [ask(`/${name}?text=${encodeURIComponent(INPUTS[name])}`)];
    t.after(() => asked.forEach((request) => request.destroy()));
    const note = await run.until(/^sonde: .*blocked.*$/m);
    asked.push(ask('/waiting'), ask('/waiting'));
    return { folder, run, note: note[0], service: childNamed(run.pid, 'stuck.js') };
}

function assertBlocked(report, { over } = {}) {
    const finding = report.findings.find((f) => f.kind === 'blocking-regexp');
    assert.ok(finding, outline(report));
    assert.notEqual(finding.severity, 'info');
    assert.match(finding.where.source.file, /stuck\.js$/);
    assert.ok(finding.where.source.line > 0);
    assert.match(JSON.stringify(finding), /\(a\+\)\+\$/, 'the pattern is named');
    if (over === false) assert.equal(finding.to_ns, null, 'it had not ended');
    const culprit = finding.affected.find((a) => a.path === '/letters');
    assert.ok(culprit, `the request is named: ${JSON.stringify(finding.affected)}`);
}

for (const [name, pattern, line] of [['letters', '/^(a+)+$/', 8], ['address', '/^([a-zA-Z0-9])((', 11], ['trim', '/(\\s|x)*(\\s|y)*', 14]]) {
    test(`while it hangs, stderr names the pattern and its place: ${name}`, async (t) => {
        const { note } = await hang(t, name);
        assert.match(note, /stuck/, 'the service');
        assert.ok(note.includes(pattern), note);
        assert.match(note, new RegExp(`stuck\\.js:${line}\\b`), note);
    });
}

test('who came on new connections meanwhile is named, once it is over', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', folder, '--', process.execPath, PROGRAM);
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const ask = (target) => new Promise((resolve) => http.get({ host: '127.0.0.1', port, path: target, agent: false }, (answer) => answer.resume().on('end', resolve)));
    await ask('/before');
    const hanging = ask(`/letters?text=${'a'.repeat(29)}!`);
    await run.until(/^sonde: .*blocked.*$/m);
    await Promise.all([hanging, ...Array.from({ length: 8 }, () => ask('/waiting'))]);
    kill(run.pid, 'SIGINT');
    await run.ended;
    const finding = (await reportOf(t, folder)).findings.find((f) => f.kind === 'blocking-regexp');
    assert.deepEqual([...new Set(finding.affected.map((a) => `${a.path} ${a.role}`))], ['/letters ran it', '/waiting waited']);
});

test('Ctrl-C ends the hanging program with a report', async (t) => {
    const { folder, run } = await hang(t, 'letters');
    kill(run.pid, 'SIGINT');
    const { stdout } = await run.ended;
    assert.match(stdout, /\(a\+\)\+\$/, stdout);
    assertBlocked(await reportOf(t, folder), { over: false });
});

test('kill -9 of the service leaves a report', async (t) => {
    const { folder, run, service } = await hang(t, 'letters');
    assert.ok(service);
    kill(service, 'SIGKILL');
    const { status, stdout } = await run.ended;
    assert.equal(status, 128 + 9);
    assert.match(stdout, /\(a\+\)\+\$/, stdout);
    assertBlocked(await reportOf(t, folder), { over: false });
});

test('kill -9 of sonde leaves a trace that is reported, and the service goes on', async (t) => {
    const { folder, run, service } = await hang(t, 'letters');
    try {
        kill(run.pid, 'SIGKILL');
    await new Promise((resolve) => run.child.on('exit', resolve));
    assert.doesNotThrow(() => process.kill(service, 0), 'the service lives');
    assertBlocked(await reportOf(t, folder, [0, 4]));
    // What babeltrace2 makes of it: readable too.
    const { status, stderr } = await finish(t, 'babeltrace2', [folder]);
    assert.equal(status, 0, stderr);
    } finally {
        kill(service, 'SIGKILL'); // it holds the pipes that the end of the test waits for
    }
});
