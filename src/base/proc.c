/* See proc.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"

static proc_ask_fn *ask_broker; /* set once, in a worker */

void proc_ask_from_now_on(proc_ask_fn *ask)
{
    ask_broker = ask;
}

int proc_ask(const struct proc *proc, enum proc_question question, const char *name, uint64_t start,
             uint64_t end)
{
    return ask_broker ? ask_broker(proc ? proc->pid : 0, question, name, start, end) : -ENOSYS;
}

enum { STAT_MAX = 8 << 10, STATUS_MAX = 64 << 10 };

/* The directory first: if it is there still after the pidfd was opened, its process had the number all the
 * while, so that both are of one process. */
static int open_both(struct proc *proc)
{
    char path[32];
    if (ask_broker)
        return proc_ask(proc, PROC_EXISTS, NULL, 0, 0);
    snprintf(path, sizeof(path), "/proc/%d", proc->pid);
    proc->directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc->directory < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    proc->pidfd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    if (proc->pidfd < 0)
        return errno == ENOSYS || errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ESRCH;
    return proc_exists(proc) ? 0 : -ESRCH;
}

int proc_open(pid_t pid, struct proc **ret_proc)
{
    if (pid <= 0)
        return -ESRCH;
    struct proc *proc = malloc(sizeof(*proc));
    if (!proc)
        return -ENOMEM;
    *proc = (struct proc){.pid = pid, .directory = -1, .pidfd = -1, .references = 1};
    int r = open_both(proc);
    if (r < 0)
        proc_unref(proc);
    else
        *ret_proc = proc;
    return r;
}

struct proc *proc_ref(struct proc *proc)
{
    proc->references++;
    return proc;
}

void proc_unref(struct proc *proc)
{
    if (!proc || --proc->references)
        return;
    if (proc->directory >= 0)
        close(proc->directory);
    if (proc->pidfd >= 0)
        close(proc->pidfd);
    free(proc);
}

bool proc_exists(const struct proc *proc)
{
    if (ask_broker)
        return proc_ask(proc, PROC_EXISTS, NULL, 0, 0) == 0;
    return faccessat(proc->directory, "stat", F_OK, 0) == 0;
}

bool proc_has_thread(const struct proc *proc, pid_t tid)
{
    char name[32];
    snprintf(name, sizeof(name), "task/%d", tid);
    return faccessat(proc->directory, name, F_OK, 0) == 0;
}

bool proc_has_ended(const struct proc *proc)
{
    struct pollfd ended = {.fd = proc->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

int proc_file_open(const struct proc *proc, const char *name, int flags)
{
    if (ask_broker)
        return flags == O_RDONLY ? proc_ask(proc, PROC_TEXT, name, 0, 0) : -EPERM;
    int fd = openat(proc->directory, name, flags | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    int r = -errno;
    return r == -ENOENT && !proc_exists(proc) ? -ESRCH : r;
}

int proc_read(const struct proc *proc, const char *name, size_t limit, char **ret_data, size_t *ret_length)
{
    _cleanup_(file_closep) int fd = proc_file_open(proc, name, O_RDONLY);
    return fd < 0 ? fd : file_read_fd(fd, limit, ret_data, ret_length);
}

ssize_t proc_read_link(const struct proc *proc, const char *name, char *ret_target, size_t size)
{
    _cleanup_(file_closep) int asked = ask_broker ? proc_ask(proc, PROC_TEXT, name, 0, 0) : -1;
    if (ask_broker && asked < 0)
        return asked;
    ssize_t n = ask_broker ? read(asked, ret_target, size - 1)
                           : readlinkat(proc->directory, name, ret_target, size - 1);
    if (n < 0)
        return -errno;
    ret_target[n] = '\0';
    return n;
}

DIR *proc_list(const struct proc *proc, const char *name)
{
    int fd = openat(proc->directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    return list;
}

pid_t *proc_all(size_t *ret_count)
{
    ARRAY(pid_t) pids = {0};
    DIR *list = opendir("/proc");
    int r = list ? array_reserve(&pids, 1) : -errno;
    for (struct dirent *entry; r >= 0 && (entry = readdir(list));)
        if (atoi(entry->d_name) > 0)
            r = array_add(&pids, atoi(entry->d_name));
    if (list)
        closedir(list);
    if (r < 0)
        array_done(&pids);
    *ret_count = pids.count;
    return pids.at;
}

int proc_read_stat(const struct proc *proc, pid_t tid, struct proc_stat *ret_stat)
{
    char name[48];
    _cleanup_(freep) char *text = NULL;
    size_t length;
    snprintf(name, sizeof(name), tid ? "task/%d/stat" : "stat", tid);
    int r = proc_read(proc, name, STAT_MAX, &text, &length);
    return r < 0 ? r : proc_parse_stat(text, length, ret_stat) ? 0 : -EPROTO;
}

long proc_status_number(const struct proc *proc, const char *name)
{
    _cleanup_(freep) char *text = NULL;
    size_t length;
    long number;
    return proc_read(proc, "status", STATUS_MAX, &text, &length) == 0 &&
                   proc_parse_status_number(text, length, name, &number)
               ? number
               : -1;
}

uint64_t proc_own_memory(void)
{
    _cleanup_(freep) char *text = NULL;
    size_t length;
    return file_read("/proc/self/status", STATUS_MAX, &text, &length) == 0 ? proc_parse_memory(text, length)
                                                                           : 0;
}

void proc_read_name(const struct proc *proc, char ret_name[static PROC_NAME_BYTES])
{
    _cleanup_(freep) char *text = NULL;
    size_t length = 0;
    (void)proc_read(proc, "comm", 4096, &text, &length);
    proc_parse_name(text ? text : "", length, ret_name);
}

pid_t proc_innermost_pid(const struct proc *proc)
{
    _cleanup_(freep) char *text = NULL;
    size_t length;
    pid_t pid = 0;
    if (proc_read(proc, "status", STATUS_MAX, &text, &length) == 0)
        pid = proc_parse_innermost(text, length, NULL);
    return pid ? pid : proc->pid;
}
