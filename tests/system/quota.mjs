// Control groups with a CPU quota, for tests and for the benchmark of verdicts.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';

export const PERIOD_US = 100_000;

// Makes a control group of version 2 or 1 that may use quotaUs of CPU time in each period: { folder, remove() }, or why there can be none.
// Its processes go before all other programs, so that they use up what they may have, however busy the machine is.
// remove(): false as long as processes are in it.
export function groupWithQuota(quotaUs, name = `sonde-test-${process.pid}`) {
    if (process.getuid() !== 0) return 'needs root, to make a control group';
    for (const base of ['/sys/fs/cgroup', '/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct']) {
        const folder = path.join(base, name);
        try {
            fs.mkdirSync(folder);
        } catch {
            continue;
        }
        const remove = () => {
            try {
                fs.rmdirSync(folder);
                return true;
            } catch (error) {
                return error.code === 'ENOENT';
            }
        };
        try {
            const set = (file, value) => fs.writeFileSync(path.join(folder, file), String(value), { flag: 'r+' });
            if (fs.existsSync(path.join(folder, 'cpu.max'))) {
                set('cpu.max', `${quotaUs} ${PERIOD_US}`);
                set('cpu.weight', 10_000);
            } else {
                set('cpu.cfs_period_us', PERIOD_US);
                set('cpu.cfs_quota_us', quotaUs);
                set('cpu.shares', 262_144);
            }
            return { folder, remove };
        } catch {
            remove(); // its hierarchy has no CPUs
        }
    }
    return 'needs a control group with a CPU quota';
}

// Nanoseconds that the kernel kept the group from running.
export function throttledNs({ folder }) {
    const [, unit, count] = /throttled_(usec|time) (\d+)/.exec(fs.readFileSync(path.join(folder, 'cpu.stat'), 'utf8'));
    return Number(count) * (unit === 'usec' ? 1000 : 1);
}
