// A function whose share of its service's CPU has grown: days of a store, made of windows of a real program before and after a change.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-regressed-'));
after(() => fs.rmSync(folder, { recursive: true }));

const skip = noProfiles() || (spawnSync('sh', ['-c', 'command -v cc']).status !== 0 && 'needs a C compiler');
const run = (...args) => spawnSync(sonde, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
const HOUR = 3600;

// A window of half a second of the program `shop`: eight functions of equal work, one of which does `times` of it.
function record(version, times) {
    const source = path.join(folder, version, 'shop.c'), program = path.join(folder, version, 'shop'), window = path.join(folder, `${version}.pb.gz`);
    fs.mkdirSync(path.join(folder, version)); // each is built in a folder of its own
    const names = Array.from({ length: 8 }, (_, i) => `work_${i}`);
    fs.writeFileSync(source, `
#include <time.h>
static volatile unsigned long sink;
${names.map((name) => `__attribute__((noinline)) void ${name}(long n) { for (long i = 0; i < n; i++) sink += (unsigned long)i; __asm__ volatile(""); }`).join('\n')}
int main(void)
{
    struct timespec t;
    do {
        for (int i = 0; i < 100; i++) { ${names.map((name, i) => `${name}(${Math.round(1000 * (i === 5 ? times : 1))});`).join(' ')} }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_nsec < 500000000);
}`);
    execFileSync('cc', ['-O1', '-g', '-o', program, source]);
    execFileSync(sonde, ['profile', '-q', '--by-service', '-F', '4999', '-o', window, '--', program]);
    return window;
}

test('a function that takes more since a deployment is a finding, wherever it was built', { skip }, () => {
    const store = path.join(folder, 'store'), windows = path.join(store, 'windows');
    const before = ['v1', 'v2', 'v3'].map((version) => record(version, 1)), later = record('v4', 8);
    const now = Math.floor(Date.now() / 1000 / HOUR) * HOUR;
    fs.mkdirSync(windows, { recursive: true });
    for (let hour = 1; hour <= 9 * 24; hour++) // hours differ as three recordings do
        fs.copyFileSync(hour <= 8 ? later : before[hour % 3], path.join(windows, `${now - hour * HOUR}-${HOUR}.pb.gz`));
    const since = new Date((now - 6 * HOUR) * 1000), said = `${since.getFullYear()}-${String(since.getMonth() + 1).padStart(2, '0')}-${String(since.getDate()).padStart(2, '0')}T${String(since.getHours()).padStart(2, '0')}:${String(since.getMinutes()).padStart(2, '0')}`;

    const diff = run('diff', '--json', '--since', said, store);
    assert.equal(diff.status, 0, diff.stderr);
    const [finding] = JSON.parse(diff.stdout).findings;
    assert.ok(finding, JSON.parse(diff.stdout).nothing);
    assert.equal(finding.kind, 'cpu-regression');
    assert.equal(finding.where.service, 'shop');
    assert.equal(finding.where.source.function, 'work_5');
    const evidence = finding.evidence; // it took an eighth, and half of all now
    assert.ok(evidence.growth_share_low <= evidence.growth_share && evidence.growth_share <= evidence.growth_share_high);
    assert.ok(evidence.growth_share > 0.3 && evidence.growth_share < 0.6, JSON.stringify(evidence));
    assert.ok(evidence.base_stretches_count >= 6);

    const words = run('diff', '--since', said, store);
    assert.match(words.stdout, /1\. warning cpu-regression: work_5 takes \d+\.\d\d % of the CPU time of shop instead of \d+\.\d\d %/);
    assert.match(words.stdout, /points \[\d+\.\d+, \d+\.\d+\] more/);

    const report = run('report', store);
    assert.equal(report.status, 0, report.stderr);
    assert.match(report.stdout, /warning cpu-regression: work_5 takes/);
    assert.equal(run('report', '--gate', 'cpu-regression', store).status, 10);
    assert.ok(JSON.parse(run('report', '--json', store).stdout).findings.some((f) => f.where.source?.function === 'work_5'));

    // Before that nothing had changed.
    for (let hour = 1; hour <= 8; hour++) fs.rmSync(path.join(windows, `${now - hour * HOUR}-${HOUR}.pb.gz`));
    const quiet = run('report', '--gate', 'cpu-regression', store);
    assert.equal(quiet.status, 0, quiet.stdout);
    assert.match(quiet.stdout, /No findings\. No function of 1 service takes 0\.25 points more/);
    assert.match(run('report', '--follow', store).stderr, /is a store of profiles: --follow and --html are for recordings/);
});

test('a store that is too young says what is missing', { skip }, () => {
    const store = path.join(folder, 'young'), now = Math.floor(Date.now() / 1000 / HOUR) * HOUR;
    fs.mkdirSync(path.join(store, 'windows'), { recursive: true });
    fs.copyFileSync(record('v5', 1), path.join(store, 'windows', `${now - HOUR}-${HOUR}.pb.gz`));
    const report = run('report', store);
    assert.equal(report.status, 0, report.stderr);
    assert.match(report.stdout, /No findings\. No share was judged: fewer than 6 stretches of 6 h are kept from before\./);
    assert.match(JSON.parse(run('diff', '--json', '--since', '2h', store).stdout).nothing, /fewer than 6 stretches of 2 h/);
});
