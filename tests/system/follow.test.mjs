// `--follow`: findings while the recording goes on, and the full report at its end.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { SONDE, childNamed, eventually, finish, isRoot, kill, root, sonde, temporary } from './helper.mjs';

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

// The process that follows the recording in that directory; undefined: there is none.
const read = (file) => {
    try {
        return fs.readFileSync(file, 'utf8');
    } catch {
        return ''; // it has ended meanwhile
    }
};
const followerOf = (folder) => fs.readdirSync('/proc').find((pid) => /^\d+$/.test(pid) && read(`/proc/${pid}/comm`) === 'sonde:follow\n' &&
    read(`/proc/${pid}/cmdline`).includes(folder));

test('the follower has nothing of its recorder, and ends with it', async (t) => {
    const { folder, run } = await hang(t, '--json');
    const stuck = childNamed(run.pid, 'stuck.js');
    try {
        await eventually('a finding', () => documents(run.stdout).find((d) => d.finding?.kind === 'blocking-regexp'));
        const follower = followerOf(folder);
        assert.ok(follower, 'a process of its own');
        const open = fs.readdirSync(`/proc/${follower}/fd`).map((fd) => fs.readlinkSync(`/proc/${follower}/fd/${fd}`));
        assert.deepEqual(open.filter((what) => /bpf|memfd|pidfd|\/proc/.test(what)), [], 'descriptors of the recorder');
        const status = read(`/proc/${follower}/status`);
        if (isRoot) for (const [name, value] of [['CapEff', '0000000000000000'], ['NoNewPrivs', '1'], ['Seccomp', '2']])
            assert.match(status, new RegExp(`^${name}:\\s*${value}$`, 'm'));
        kill(run.pid, 'SIGKILL');
        await eventually('the follower to end', () => !followerOf(folder));
    } finally {
        kill(stuck, 'SIGKILL'); // it has sonde's output open, and lives on when its recorder is killed
    }
});

// The report at the end is made by the analysis that followed, not by reading the recording again.
test('a recording that is complete is followed to the report that sonde report makes', async (t) => {
    const measured = ({ analysis_ns, peak_memory_bytes, ...rest }) => rest;
    for (const name of ['shop-faults', 'workers', 'redis', 'joins', 'websocket', 'losses']) {
        const folder = temporary(t);
        execFileSync(path.join(root, 'tools/corpus'), ['unpack', name, folder]);
        const followed = await finish(t, SONDE, ['report', '--follow', '--json', folder]);
        const { report } = documents(followed.stdout).at(-1);
        const read = await finish(t, SONDE, ['report', '--json', folder]), expected = JSON.parse(read.stdout);
        assert.equal(followed.status, read.status, followed.describe());
        assert.deepEqual({ ...report, overhead: measured(report.overhead) }, { ...expected, overhead: measured(expected.overhead) }, name);
    }
});
