/* See thread_state.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

bool thread_is_runnable(const struct proc *proc, pid_t tid)
{
    struct proc_stat stat;
    return proc_read_stat(proc, tid, &stat) == 0 && stat.state == 'R';
}

bool thread_is_unstoppable(const struct proc *proc, pid_t tid)
{
    struct proc_stat stat;
    return proc_read_stat(proc, tid, &stat) == 0 && stat.state == 'D';
}

struct proc_runs thread_runs(const struct proc *proc, pid_t tid)
{
    char text[128];
    struct proc_runs runs = {0};
    snprintf(text, sizeof(text), "task/%d/schedstat", tid);
    _cleanup_(file_closep) int fd = proc_file_open(proc, text, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    (void)proc_parse_runs(text, (size_t)MAX(n, 0), &runs);
    return runs;
}

bool thread_is_asleep(const struct proc *proc, pid_t tid, long *ret_call, uint64_t *ret_at)
{
    char name[48];
    _cleanup_(freep) char *text = NULL;
    snprintf(name, sizeof(name), "task/%d/syscall", tid);
    if (thread_is_unstoppable(proc, tid) || proc_read(proc, name, 512, &text, NULL) < 0 ||
        strncmp(text, "running", 7) == 0)
        return false;
    const char *last = strrchr(text, ' '); /* number, arguments, stack pointer, program counter */
    *ret_call = strtol(text, NULL, 10);
    *ret_at = last ? strtoull(last, NULL, 16) : 0;
    return *ret_at != 0;
}
