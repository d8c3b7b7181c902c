// `--follow`: findings while the recording goes on, and the full report at its end.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { SONDE, childNamed, eventually, finish, kill, root, sonde, temporary } from './helper.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'stuck.js');
const OK = [0, 4]; // 4: events were lost on this machine
const documents = (text) => text.split('\n').filter((line) => line.startsWith('{')).flatMap((line) => {
    try {
        return [JSON.parse(line)];
    } catch {
        return []; // not written to its end yet
    }
});

async function hang(t, ...options) {
    const folder = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-q', '--follow', ...options, '-o', folder, '--', process.execPath, PROGRAM);
    const [, port] = await run.until(/listening on (\d+)/, { stream: 'stdout' });
    const request = http.get({ host: '127.0.0.1', port, path: `/letters?text=${'a'.repeat(40)}!`, agent: false }).on('error', () => {});
    t.after(() => request.destroy());
    return { folder, run };
}

test('run --follow --json tells a finding while it hangs, and ends with the report', async (t) => {
    const { folder, run } = await hang(t, '--json');
    const first = await eventually('a finding', () => documents(run.stdout).find((d) => d.finding?.kind === 'blocking-regexp'));
    assert.equal(first.state, 'new');
    assert.equal(first.finding.to_ns, null, 'it has not ended');
    assert.match(JSON.stringify(first.finding), /\(a\+\)\+\$/);
    assert.ok(!run.over);
    kill(childNamed(run.pid, 'stuck.js'), 'SIGKILL');
    await run.ended;
    const last = documents(run.stdout).at(-1);
    assert.equal(last.state, 'end');
    assert.ok(last.report.findings.some((f) => f.kind === 'blocking-regexp'));

    // A trace that is complete is followed to its end at once, with the same findings.
    const again = await finish(t, SONDE, ['report', '--follow', '--json', folder]);
    assert.ok(OK.includes(again.status), again.describe());
    const told = documents(again.stdout);
    assert.equal(told.at(-1).state, 'end');
    assert.ok(told.some((d) => d.state === 'new' && d.finding.kind === 'blocking-regexp'));
    assert.deepEqual(told.at(-1).report.findings.map((f) => f.title), last.report.findings.map((f) => f.title));
});

test('run --follow ends with the report at Ctrl-C', async (t) => {
    const { run } = await hang(t);
    await run.until(/ new +\w+ blocking-regexp: .*regular expression/, { stream: 'stdout' });
    kill(run.pid, 'SIGINT');
    const { stdout } = await run.ended;
    assert.match(stdout, /suffered/, `the full report follows: ${stdout}`);
    assert.match(stdout, /\(a\+\)\+\$/);
});
