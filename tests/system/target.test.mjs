// The example of a target, src/targets/jobs: recognised, hooked, with events, states and a finding of its own, and named nowhere
// but in its directory and in the list of targets.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, manifestOf, reportOf, root, start, temporary } from './helper.mjs';

const PIPES = { stdio: ['pipe', 'pipe', 'pipe'] };

async function build(t, folder) {
    const program = path.join(folder, 'jobs');
    const { status, stderr } = await finish(t, process.env.CC || 'cc', ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-o', program, path.join(root, 'examples', 'jobs', 'jobs.c')]);
    assert.equal(status, 0, stderr);
    return program;
}

test('the example target is traced, shown and judged', async (t) => {
    const folder = temporary(t), program = await build(t, folder), trace = path.join(folder, 'trace');
    const recording = start(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', program], PIPES);
    recording.child.stdin.end(['quick 1', 'slow 120', 'quick 1', 'quick 1', 'refused -1', 'slow 60', ''].join('\n'));
    const { status, stdout, stderr } = await recording.ended;
    assert.equal(status, 0, stderr);
    assert.match(stdout, /quick done\nslow done\n/);
    const [process_] = manifestOf(trace).processes;
    assert.equal(process_.runtime, 'jobs');
    assert.deepEqual(process_.hooks, ['jobs_execute']);
    assert.deepEqual(process_.missing, []);

    const report = await reportOf(t, trace);
    const [finding, ...others] = report.findings.filter((f) => f.kind === 'jobs-blocked');
    assert.equal(others.length, 0);
    assert.equal(finding.severity, 'warning');
    assert.match(finding.title, /job slow of jobs kept up to 4 others waiting/);
    const evidence = finding.evidence;
    assert.equal(evidence.job, 'slow');
    assert.equal(evidence.waiting_count, 4);
    assert.ok(evidence.worst_ns >= 120e6 && evidence.took_ns >= evidence.worst_ns);

    const states = await finish(t, SONDE, ['trace', 'states', '--json', '-a', 'Jobs/*/Job', trace]);
    assert.equal(states.status, 0, states.stderr);
    assert.match(states.stdout, /"slow"/);

    const doctor = start(t, program, [], PIPES);
    const { stdout: answer } = await finish(t, SONDE, ['doctor', String(doctor.pid)]);
    assert.match(answer, /job server 1 \(sonde's example of a target\)/);
});

test('what is shorter, or has nothing behind it, is no finding', async (t) => {
    const folder = temporary(t), program = await build(t, folder), trace = path.join(folder, 'trace');
    const recording = start(t, SONDE, ['run', '--no-kernel', '-o', trace, '--', program], PIPES);
    recording.child.stdin.end('quick 1\nquick 1\nlast 200\n');
    assert.equal((await recording.ended).status, 0);
    assert.deepEqual((await reportOf(t, trace)).findings.filter((f) => f.kind === 'jobs-blocked'), []);
});

// Its directory, its name, what it defines; "jobs" is a word of others, too.
const NAMES_IT = /["/]jobs["/]|\bjobs_|(event|family|runtime|target|config|kind|short|thread)_jobs/i;

test('a target is its directory and one line', () => {
    const own = path.join('src', 'targets', 'jobs');
    const naming = fs.readdirSync(path.join(root, 'src'), { recursive: true }).filter((name) => /\.(c|h|in)$/.test(name) || /meson\.build$/.test(name))
        .map((name) => path.join('src', name)).filter((name) => !name.startsWith(own))
        .flatMap((name) => fs.readFileSync(path.join(root, name), 'utf8').replace(/\/\*[^]*?\*\//g, '').split('\n').filter((line) => NAMES_IT.test(line)).map((line) => `${name}: ${line.trim()}`));
    assert.deepEqual(naming.map((line) => line.replace(/\s*\\$/, '')), ['src/event/targets.h: L(e, jobs, 3, "jobs")']);
});
