/* The busiest processes, from /proc/PID/stat. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/busiest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/proc.h"
#include "base/proc_text.h"

struct busy {
    pid_t pid;
    uint64_t ticks; /* of CPU time */
};

static int by_ticks(const void *a, const void *b)
{
    const struct busy *x = a, *y = b;
    return x->ticks > y->ticks ? -1 : x->ticks < y->ticks;
}

static bool processor_time(pid_t pid, uint64_t *ret_ticks)
{
    char path[64];
    struct proc_stat stat;
    size_t length;
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (file_read(path, 4096, &text, &length) < 0 || !proc_parse_stat(text, length, &stat))
        return false;
    *ret_ticks = stat.user_ticks + stat.system_ticks;
    return true;
}

pid_t *busiest_processes(size_t most, size_t *ret_count)
{
    ARRAY(struct busy) list = {0};
    size_t all_count;
    _cleanup_(freep) pid_t *all = proc_all(&all_count);
    for (size_t i = 0; i < all_count; i++) {
        struct busy busy = {.pid = all[i]};
        if (busy.pid != getpid() && processor_time(busy.pid, &busy.ticks) && busy.ticks)
            (void)array_add(&list, busy);
    }
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_ticks);
    size_t count = MIN(list.count, most);
    pid_t *pids = calloc(count + 1, sizeof(*pids));
    for (size_t i = 0; pids && i < count; i++)
        pids[i] = list.at[i].pid;
    array_done(&list);
    if (pids)
        *ret_count = count;
    return pids;
}
