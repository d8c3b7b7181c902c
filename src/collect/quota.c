/* See quota.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/quota.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/proc_text.h"

static const uint64_t FIND_GAP_NS = NS_PER_S, READ_GAP_NS = NS_PER_MS;

static bool number_after(const char *text, const char *key, uint64_t *ret_number)
{
    size_t length = strlen(key);
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, key, length) == 0 && at[length] == ' ') {
            *ret_number = strtoull(at + length + 1, NULL, 10);
            return true;
        }
    return false;
}

bool quota_parse_stat(const char *text, struct quota_counts *counts)
{
    uint64_t periods = 0, throttled = 0, us = 0, ns = 0;
    if (!number_after(text, "nr_periods", &periods) || !number_after(text, "nr_throttled", &throttled))
        return false;
    if (number_after(text, "throttled_usec", &us))
        ns = us * NS_PER_US;
    else if (!number_after(text, "throttled_time", &ns)) /* version 1 */
        return false;
    counts->periods += periods;
    counts->throttled_periods += throttled;
    counts->throttled_ns += ns;
    return true;
}

/* Version 1's group comes first where both have CPUs. */
bool quota_parse_group(const char *text, const char *end, char ret_path[static QUOTA_PATH_BYTES],
                       bool *ret_version_1)
{
    struct proc_cgroup group, found = {0};
    bool version_1 = false;
    while (!version_1 && proc_next_cgroup(&text, end, &group)) {
        version_1 = proc_cgroup_controls(&group, "cpu");
        if (version_1 || (group.unified && !found.path))
            found = group;
    }
    if (!found.path_length || found.path_length >= QUOTA_PATH_BYTES || found.path[0] != '/' ||
        memmem(found.path, found.path_length, "/..", 3) || memchr(found.path, '\0', found.path_length))
        return false;
    memcpy(ret_path, found.path, found.path_length);
    ret_path[found.path_length] = '\0';
    *ret_version_1 = version_1;
    return true;
}

/* The quota of a group, with the longest time per period in microseconds; false: it has none. */
static bool quota_of(const char *folder, bool version_1, uint64_t *ret_quota_us, uint64_t *ret_period_us)
{
    char path[1024];
    _cleanup_(freep) char *text = NULL, *period = NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, version_1 ? "cpu.cfs_quota_us" : "cpu.max");
    if (file_read(path, 128, &text, NULL) < 0)
        return false;
    char *end;
    long long quota = strtoll(text, &end, 10); /* "max", -1: none */
    if (quota <= 0)
        return false;
    *ret_quota_us = (uint64_t)quota;
    *ret_period_us = version_1 ? 0 : strtoull(end, NULL, 10);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    if (version_1 && file_read(path, 128, &period, NULL) == 0)
        *ret_period_us = strtoull(period, NULL, 10);
    return *ret_period_us > 0;
}

static bool is_stricter(const struct quota *quota, uint64_t quota_us, uint64_t period_us)
{
    return !quota->count ||
           (double)quota_us / (double)period_us < (double)quota->quota_us / (double)quota->period_us;
}

/* A group and all above it, but for the root, which has none. */
static void find(struct quota *quota, const struct proc *proc)
{
    static const char *const ROOTS[2][2] = {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
                                            {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}};
    _cleanup_(freep) char *text = NULL;
    char group[QUOTA_PATH_BYTES];
    size_t length = 0;
    bool version_1 = false, known = proc_read(proc, "cgroup", 1 << 14, &text, &length) == 0 &&
                                    quota_parse_group(text, text + length, group, &version_1);
    quota_done(quota);
    for (size_t i = 0; known && i < ARRAY_SIZE(ROOTS[0]); i++) {
        char folder[896], stat[1024];
        size_t root = strlen(ROOTS[version_1][i]);
        if ((size_t)snprintf(folder, sizeof(folder), "%s%s", ROOTS[version_1][i], group) >= sizeof(folder))
            continue;
        for (char *slash; (slash = strrchr(folder, '/')) >= folder + root && slash[1]; *slash = '\0') {
            uint64_t quota_us, period_us;
            if (quota->count == QUOTA_GROUPS_MAX || !quota_of(folder, version_1, &quota_us, &period_us))
                continue;
            snprintf(stat, sizeof(stat), "%s/cpu.stat", folder);
            int fd = open(stat, O_RDONLY | O_CLOEXEC);
            if (fd < 0)
                continue;
            if (is_stricter(quota, quota_us, period_us)) {
                quota->quota_us = quota_us;
                quota->period_us = period_us;
            }
            quota->stat_fds[quota->count++] = fd;
        }
    }
}

bool quota_read(struct quota *quota, const struct proc *proc, uint64_t now_ns,
                struct quota_counts *ret_counts)
{
    if (now_ns >= quota->find_next_ns) {
        quota->find_next_ns = now_ns + FIND_GAP_NS;
        find(quota, proc);
    }
    if (!quota->count || now_ns < quota->read_next_ns)
        return false;
    quota->read_next_ns = now_ns + READ_GAP_NS;
    struct quota_counts counts = {0};
    for (unsigned i = 0; i < quota->count; i++) {
        char text[1024];
        ssize_t n = pread(quota->stat_fds[i], text, sizeof(text) - 1, 0);
        if (n <= 0)
            return false; /* the group is gone */
        text[n] = '\0';
        (void)quota_parse_stat(text, &counts);
    }
    if (quota->told && counts.throttled_ns == quota->told_ns)
        return false;
    quota->told = true;
    quota->told_ns = counts.throttled_ns;
    *ret_counts = counts;
    return true;
}

bool quota_read_last(struct quota *quota, const struct proc *proc, struct quota_counts *ret_counts)
{
    quota->find_next_ns = UINT64_MAX;
    quota->read_next_ns = 0;
    return quota_read(quota, proc, UINT64_MAX - 1, ret_counts);
}

void quota_done(struct quota *quota)
{
    for (unsigned i = 0; i < quota->count; i++)
        close(quota->stat_fds[i]);
    quota->count = 0;
}
