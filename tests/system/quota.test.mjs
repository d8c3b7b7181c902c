// A service under a CPU quota that it uses up: that is told, rather than a slow function or a busy machine.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, isRoot, kill, outline, root, sonde, temporary } from './helper.mjs';

const PERIOD_US = 100_000, QUOTA_US = 20_000;

// A control group of version 2 or 1 with that quota, or why there can be none. It goes before all other programs, so that its
// processes use up what they may have, however busy the machine is.
function groupWithQuota(t) {
    if (!isRoot) return 'needs root, to make a control group';
    for (const base of ['/sys/fs/cgroup', '/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct']) {
        const folder = path.join(base, `sonde-test-${process.pid}`);
        try {
            fs.mkdirSync(folder);
        } catch {
            continue;
        }
        t.after(() => eventually('the control group is empty', () => {
            try {
                fs.rmdirSync(folder);
                return true;
            } catch (error) {
                return error.code === 'ENOENT';
            }
        }));
        try {
            const set = (file, value) => fs.writeFileSync(path.join(folder, file), String(value), { flag: 'r+' });
            if (fs.existsSync(path.join(folder, 'cpu.max'))) {
                set('cpu.max', `${QUOTA_US} ${PERIOD_US}`);
                set('cpu.weight', 10_000);
            } else {
                set('cpu.cfs_period_us', PERIOD_US);
                set('cpu.cfs_quota_us', QUOTA_US);
                set('cpu.shares', 262_144);
            }
            return { folder };
        } catch {
            continue; // its hierarchy has no CPUs
        }
    }
    return 'needs a control group with a CPU quota';
}

// Nanoseconds that the kernel kept the group from running.
function throttledNs({ folder }) {
    const [, unit, count] = /throttled_(usec|time) (\d+)/.exec(fs.readFileSync(path.join(folder, 'cpu.stat'), 'utf8'));
    return Number(count) * (unit === 'usec' ? 1000 : 1);
}

test('a service that uses up its CPU quota', async (t) => {
    const group = groupWithQuota(t);
    if (!group.folder) return t.skip(group);
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
