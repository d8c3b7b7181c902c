// The overhead budget: what tracing costs is told; too much of it leaves the dearest events out, and in the end stops
// tracing, and the program goes on untouched.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, eventually, finish,  manifestOf, reportOf, root, sonde, start, temporary } from './helper.mjs';

const BUSY = path.join(root, 'tests', 'system', 'programs', 'busy.js');

const names = (folder, name) => spawnSync(SONDE, ['trace', 'events', '--json', '--name', name, folder], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout
    .split('\n').filter(Boolean).map((line) => JSON.parse(line));

test('what tracing costs is in every report', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const { status, stderr } = await finish(t, SONDE, ['record', '-o', folder, '--', process.execPath, BUSY, '300']);
    assert.ok([0, 4].includes(status), stderr);
    const { overhead, missing } = await reportOf(t, folder, [0, 4]);
    for (const name of ['probe_cpu_share', 'kernel_cpu_share', 'collector_cpu_share', 'tracing_cpu_share', 'tracing_memory_bytes', 'setup_cpu_ns'])
        assert.ok(Number.isFinite(overhead[name]), `${name}: ${JSON.stringify(overhead)}`);
    assert.ok(overhead.probe_cpu_share > 0 && overhead.tracing_cpu_share > 0 && overhead.tracing_memory_bytes > 1 << 20);
    assert.equal(overhead.budget_cpu_share, 0.05);
    assert.equal(overhead.budget_memory_bytes, 128 * 1024 * 1024);
    assert.ok(!missing.some((m) => /budget/.test(m.why)), JSON.stringify(missing));
    const { stdout } = await finish(t, SONDE, ['report', folder]);
    assert.match(stdout, /Tracing took [\d.]+ % of all CPUs \(budget 5 %\)/);
});

test('a budget that is too small: the dearest events go first, then tracing stops, and the program goes on', async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), stop = path.join(base, 'stop');
    const run = sonde(t, 'run', '--json', '-o', folder, '--budget', '0.0001,128', '--', process.execPath, BUSY, stop);
    await run.until(/its budget is/, { timeoutMs: 60_000 });
    await run.until(/tracing has stopped/, { timeoutMs: 120_000 });
    const { pid } = manifestOf(folder).processes[0];
    const before = fs.readFileSync(path.join(base, 'stop.count'), 'utf8');
    await eventually('the program answers on', () => Number(fs.readFileSync(path.join(base, 'stop.count'), 'utf8')) > Number(before) + 100);
    assert.ok(fs.existsSync(`/proc/${pid}`));
    fs.writeFileSync(stop, '');
    const { status, stdout } = await run.ended;
    assert.ok([0, 4].includes(status), run.describe()); // a busy machine may lose events
    assert.match(run.stdout, /answers were right/, 'the program noticed nothing');
    const report = JSON.parse(stdout.slice(stdout.indexOf('{\n')));
    const left = report.missing.filter((m) => /its budget is/.test(m.why));
    assert.ok(left.length >= 2 && left.at(-1).what.startsWith('everything'), JSON.stringify(left));
    assert.ok(left.every((m) => /--budget/.test(m.remedy)));
    // The trace says the same.
    const told = names(folder, 'trace:budget');
    assert.deepEqual(told.map((e) => e.fields.what), left.map((m) => m.what));
    assert.equal(told.at(-1).fields['step.label'], 'stopped');
    assert.ok(told.slice(0, -1).every((e) => e.fields['step.label'] === 'family-left-out'));
    // Nothing is recorded behind the end but what sonde itself has to say.
    const end = told.at(-1).time_ns;
    for (const name of ['node:callback', 'http:request', 'uv:phase', 'sys:call'])
        assert.ok(names(folder, name).every((e) => e.time_ns <= end + 2e9), name);
});

test('a recording that takes more than it may on disk ends, and the program goes on', async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), stop = path.join(base, 'stop');
    const run = sonde(t, 'run', '--json', '-o', folder, '--budget', '100,100000,0.5', '--', process.execPath, BUSY, stop);
    await run.until(/MB on disk, its budget is 0.5 MB/, { timeoutMs: 120_000 });
    const size = () => fs.readdirSync(folder).reduce((sum, name) => sum + fs.statSync(path.join(folder, name)).size, 0), { pid } = manifestOf(folder).processes[0];
    const before = Number(fs.readFileSync(path.join(base, 'stop.count'), 'utf8'));
    await eventually('the program answers on', () => Number(fs.readFileSync(path.join(base, 'stop.count'), 'utf8')) > before + 100);
    const then = size();
    await eventually('the program answers on', () => Number(fs.readFileSync(path.join(base, 'stop.count'), 'utf8')) > before + 500);
    assert.ok(size() < then + 65536, `${then} bytes, and then ${size()}`);
    assert.ok(fs.existsSync(`/proc/${pid}`));
    fs.writeFileSync(stop, '');
    const { status, stdout } = await run.ended;
    assert.ok([0, 4].includes(status), run.describe());
    assert.match(run.stdout, /answers were right/, 'the program noticed nothing');
    const report = JSON.parse(stdout.slice(stdout.indexOf('{\n')));
    assert.deepEqual(report.missing.filter((m) => /on disk/.test(m.why)).map((m) => m.what), ['everything: tracing has stopped']);
});

test('attached, tracing that is too dear restores the program\'s code', async (t) => {
    const base = temporary(t), folder = path.join(base, 'trace'), stop = path.join(base, 'stop');
    const program = start(t, process.execPath, [BUSY, stop]);
    await eventually('it answers', () => fs.existsSync(`${stop}.count`));
    const code = () => {
        const [line] = fs.readFileSync(`/proc/${program.pid}/maps`, 'utf8').split('\n').filter((l) => / r-xp .*\/node$/.test(l));
        const [from, to] = line.split(' ')[0].split('-').map((x) => parseInt(x, 16));
        const fd = fs.openSync(`/proc/${program.pid}/mem`, 'r'), bytes = Buffer.alloc(to - from);
        for (let at = 0; at < bytes.length;) at += fs.readSync(fd, bytes, at, Math.min(1 << 24, bytes.length - at), from + at);
        fs.closeSync(fd);
        return bytes;
    };
    const before = code();
    const run = sonde(t, 'attach', '-o', folder, '--budget', '50,1', program.pid); // no memory at all
    const { status } = await run.ended;
    assert.ok([0, 4].includes(status), run.describe());
    assert.ok(manifestOf(folder).missing.some((m) => /of memory, its budget is 1 MB/.test(m.why)), JSON.stringify(manifestOf(folder).missing));
    assert.ok(before.equals(code()), 'its code is as before');
    const count = () => Number(fs.readFileSync(`${stop}.count`, 'utf8')), then = count();
    await eventually('it answers on', () => count() > then + 100);
    fs.writeFileSync(stop, '');
    assert.equal((await program.ended).status, 0, program.describe());
});
