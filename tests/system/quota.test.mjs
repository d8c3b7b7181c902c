// A service under a CPU quota that it uses up: that is told, rather than a slow function or a busy machine.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { eventually, kill, outline, root, sonde, temporary } from './helper.mjs';
import { groupWithQuota, PERIOD_US, throttledNs } from './quota.mjs';

const QUOTA_US = 20_000;

test('a service that uses up its CPU quota', async (t) => {
    const group = groupWithQuota(QUOTA_US);
    if (!group.folder) return t.skip(group);
    t.after(() => eventually('the control group is empty', group.remove));
    const program = path.join(root, 'tests', 'system', 'programs', 'quota.js');
    // sonde itself stays outside.
    const run = sonde(t, 'run', '--json', '-o', path.join(temporary(t), 'trace'), '--', 'sh', '-c', `echo $$ >${group.folder}/cgroup.procs && exec ${process.execPath} ${program}`);
    const [, port, pid] = await run.until(/listening (\d+) (\d+)/, { stream: 'stdout' });
    // Each takes three quarters of what a period allows: every second one at least is kept waiting for the next.
    for (let i = 0; i < 12; i++) assert.equal((await fetch(`http://127.0.0.1:${port}/15`)).status, 200);
    kill(Number(pid), 'SIGTERM');
    const { stdout } = await run.ended, truth = throttledNs(group);
    const report = JSON.parse(stdout.slice(stdout.indexOf('\n{') + 1));
    const throttled = report.findings.find((f) => f.kind === 'cpu-throttled');
    assert.ok(throttled, outline(report));
    assert.equal(throttled.severity, 'warning');
    assert.equal(throttled.evidence.quota_cpus, QUOTA_US / PERIOD_US);
    assert.ok(throttled.evidence.throttled_periods_count >= 3, JSON.stringify(throttled.evidence));
    assert.ok(throttled.evidence.throttled_ns <= truth, `${throttled.evidence.throttled_ns} ns, truly ${truth}`);
    const machine = report.findings.find((f) => f.kind === 'run-queue-wait');
    assert.ok(!machine || machine.evidence.waited_ns < throttled.evidence.throttled_ns, outline(report));
    assert.ok(throttled.affected.some((a) => a.route === '/:id'), JSON.stringify(throttled.affected));
    for (const kind of ['event-loop-blocked', 'lock-wait', 'gc-pressure']) assert.ok(!report.findings.some((f) => f.kind === kind && f.severity !== 'info'), outline(report));
});
