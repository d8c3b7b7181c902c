/* The CPU quotas that a process runs under: how long its control groups were kept from running because they
 * had used up theirs (cpu.max of version 2, cpu.cfs_quota_us of version 1). In containers that is the
 * commonest lack of a CPU, and nothing that a thread counts itself tells it from a busy machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_QUOTA_H
#define COLLECT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/proc.h"

enum { QUOTA_GROUPS_MAX = 4, QUOTA_PATH_BYTES = 768 };

/* Zeroes are a process that has not been looked at. */
struct quota {
    int stat_fds[QUOTA_GROUPS_MAX]; /* cpu.stat of the group and those above it that have a quota */
    unsigned count;
    uint64_t quota_us, period_us; /* of the strictest */
    uint64_t find_next_ns, read_next_ns;
    uint64_t told_ns;
    bool told;
};

/* What the kernel counts, of all these groups together. */
struct quota_counts {
    uint64_t throttled_ns; /* of all CPUs together */
    uint64_t periods, throttled_periods;
};

/* Reads the counts when they are due and have changed, or were never told; false: there is nothing to tell.
 */
bool quota_read(struct quota *quota, const struct proc *proc, uint64_t now_ns,
                struct quota_counts *ret_counts);

/* The same when the process has ended, whose last time without a CPU the kernel counted then. */
bool quota_read_last(struct quota *quota, const struct proc *proc, struct quota_counts *ret_counts);

void quota_done(struct quota *quota);

/* For tests: what a cpu.stat says is added to *counts; false when it does not tell of throttling. */
bool quota_parse_stat(const char *text, struct quota_counts *counts);
/* The group in the text of /proc/PID/cgroup, end behind it, that has the process's CPU quota, and which
 * version's hierarchy it is of; false: none. What is left of its path leads nowhere else. */
bool quota_parse_group(const char *text, const char *end, char ret_path[static QUOTA_PATH_BYTES],
                       bool *ret_version_1);

#endif
