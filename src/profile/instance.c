/* See instance.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/instance.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/proc.h"
#include "base/proc_text.h"

enum { CMDLINE_MAX = 64 << 10, JOB_BYTES = 1024, TITLE_WORDS = 3 };

static bool is_title(const char *cmdline, size_t length)
{
    size_t first = strnlen(cmdline, length);
    return memmem(cmdline, first, ": ", 2) != NULL;
}

uint64_t instance_job(const char *cmdline, size_t length, const char *cpus, const char *quota)
{
    char text[JOB_BYTES + 256];
    size_t n = 0, words = 0;
    bool title = is_title(cmdline, length);
    while (length && !cmdline[length - 1]) /* a title is shorter than the arguments that it replaced */
        length--;
    if (!length)
        return 0;
    for (size_t i = 0; i < length && n < JOB_BYTES; i++) {
        char c = cmdline[i];
        words += title && c == ' ';
        if (words == TITLE_WORDS)
            break;
        if (!isdigit((unsigned char)c))
            text[n++] = c;
    }
    n += (size_t)snprintf(text + n, sizeof(text) - n, "\n%.100s\n%.100s", cpus, quota);
    return map_hash(text, n);
}

/* What its control group may use of the CPUs (version 2); "" where that cannot be read. */
static void read_quota(pid_t pid, char *to, size_t size)
{
    char path[512];
    struct proc_cgroup group;
    size_t length;
    _cleanup_(freep) char *groups = NULL;
    _cleanup_(freep) char *quota = NULL;
    *to = '\0';
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (file_read(path, 1 << 16, &groups, &length) < 0)
        return;
    for (const char *at = groups; proc_next_cgroup(&at, groups + length, &group);) {
        if (!group.unified || group.path_length > 400 || memmem(group.path, group.path_length, "..", 2))
            continue;
        snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/cpu.max", (int)group.path_length, group.path);
        if (file_read(path, 256, &quota, NULL) == 0)
            snprintf(to, size, "%.*s", (int)strcspn(quota, "\n"), quota);
        return;
    }
}

/* Clock ticks from the machine's start, which count while it is suspended, as CLOCK_MONOTONIC. */
static uint64_t monotonic_of(uint64_t ticks)
{
    struct timespec boot;
    if (!ticks || clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
        return 0;
    uint64_t boot_ns = (uint64_t)boot.tv_sec * NS_PER_S + (uint64_t)boot.tv_nsec;
    uint64_t at_ns = ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t now_ns = clock_monotonic_ns(), age_ns = boot_ns > at_ns ? boot_ns - at_ns : 0;
    return now_ns > age_ns ? now_ns - age_ns : 1;
}

void instance_read(pid_t pid, pid_t tid, struct profile_instance *ret_instance)
{
    char path[64], cpus[128], quota[128];
    struct proc_stat stat = {0};
    struct profile_instance x = {.known = true};
    if (tid) {
        _cleanup_(freep) char *text = NULL;
        size_t length;
        snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
        if (file_read(path, 1 << 13, &text, &length) == 0 && proc_parse_stat(text, length, &stat))
            x.from_ns = monotonic_of(stat.started_ticks);
        *ret_instance = x;
        return;
    }
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    _cleanup_(freep) char *cmdline = NULL;
    _cleanup_(freep) char *status = NULL;
    size_t length = 0;
    if (proc_open(pid, &proc) == 0) {
        if (proc_read_stat(proc, 0, &stat) == 0) {
            x.from_ns = monotonic_of(stat.started_ticks);
            x.parent = stat.parent;
        }
        *cpus = '\0';
        if (proc_read(proc, "status", CMDLINE_MAX, &status, &length) == 0)
            (void)proc_parse_status_text(status, length, "Cpus_allowed_list", cpus, sizeof(cpus));
        read_quota(pid, quota, sizeof(quota));
        if (proc_read(proc, "cmdline", CMDLINE_MAX, &cmdline, &length) == 0)
            x.job = instance_job(cmdline, length, cpus, quota);
    }
    *ret_instance = x;
}
