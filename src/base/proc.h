/* A process, held. Its number may be given to another process as soon as it has ended and been waited for; a
 * handle never reaches another. Whoever deals with a process opens a handle where it is first seen, and asks
 * nothing by its number from then on. What the files of /proc say is parsed by base/proc_text.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "base/proc_text.h"

struct proc {
    pid_t pid;
    int directory; /* /proc/PID: what is opened below it is this process's, or is not there */
    int pidfd;     /* for poll(2) and pidfd_getfd(2) */
    unsigned references;
};

/* In a worker without rights (broker/worker.h), which can open nothing of another process itself: asks the
 * broker for a descriptor, or a negative errno. */
enum proc_question {
    PROC_EXISTS, /* 0 */
    PROC_TEXT,   /* a file of /proc/PID by its name */
    PROC_MAPPED, /* the regular file that is mapped at [start, end) */
    PROC_FILE,   /* a regular file by its path in the process's root */
    PROC_OURS,   /* a regular file by its path in our own root */
    PROC_PATH,   /* 0: there is a file or a directory of this path in the process's root */
    /* These of a lender (broker/lender.h) only: */
    PROC_MEMORY,  /* its memory, for reading */
    PROC_PROGRAM, /* the file that it executes, by its place only (O_PATH) */
    PROC_QUESTIONS
};
typedef int proc_ask_fn(pid_t pid, enum proc_question question, const char *name, uint64_t start,
                        uint64_t end);

/* From now on, handles of this process of ours ask instead of opening. */
void proc_ask_from_now_on(proc_ask_fn *ask);

/* PROC_MAPPED, PROC_FILE, PROC_OURS (proc NULL) for base/process_file.h; -ENOSYS where nobody is asked. */
int proc_ask(const struct proc *proc, enum proc_question question, const char *name, uint64_t start,
             uint64_t end);

/* Takes hold of the process that has the number now. -ESRCH when there is none (also for the number of a
 * thread that is not its process's main thread), -ENOSYS before Linux 5.3. */
int proc_open(pid_t pid, struct proc **ret_proc);

/* Shares a handle; each share is given back with proc_unref(). */
struct proc *proc_ref(struct proc *proc);
void proc_unref(struct proc *proc);
DEFINE_FREEP(struct proc, proc_unref)

/* Is the number still this process's? What was asked by the number (ptrace(2), process_vm_readv(2), BPF) and
 * answered before this returns true was answered by this process. True also of one that has ended and has
 * not been waited for. */
bool proc_exists(const struct proc *proc);

/* The same of one of its threads. */
bool proc_has_thread(const struct proc *proc, pid_t tid);

/* Has it ended, whether it has been waited for or not? */
bool proc_has_ended(const struct proc *proc);

/* Opens a file of /proc/PID by its name below it: a descriptor, or a negative errno (-ESRCH once the process
 * is gone). */
int proc_file_open(const struct proc *proc, const char *name, int flags);

/* Such a file whole, as file_read(). */
int proc_read(const struct proc *proc, const char *name, size_t limit, char **ret_data, size_t *ret_length);

/* Where a link of /proc/PID leads ("exe", "cwd"), NUL-terminated and cut to size - 1 bytes; its length, or a
 * negative errno. */
ssize_t proc_read_link(const struct proc *proc, const char *name, char *ret_target, size_t size);

/* The entries of a directory of /proc/PID ("task", "fd"), for closedir(3); NULL with errno. */
DIR *proc_list(const struct proc *proc, const char *name);

/* The numbers of the processes that are now, in the order in which the kernel lists them; a handle of each
 * may be refused, as some may have ended by then. The caller's, to be freed; NULL with *ret_count 0 when they
 * cannot be listed or memory is out. */
pid_t *proc_all(size_t *ret_count);

/* /proc/PID/stat, or that of one of its threads (tid 0: the process). */
int proc_read_stat(const struct proc *proc, pid_t tid, struct proc_stat *ret_stat);

/* A number of /proc/PID/status, such as "PPid"; -1 when it cannot be read or is not there. */
long proc_status_number(const struct proc *proc, const char *name);

/* Bytes of this process's own memory: what of its anonymous memory is resident. Files that are mapped to be
 * read do not count, as the kernel can drop them at any time; nor does memory that is shared, as rings and
 * maps are. 0 when it cannot be read. */
uint64_t proc_own_memory(void);

/* The name in /proc/PID/comm, printable. */
void proc_read_name(const struct proc *proc, char ret_name[static PROC_NAME_BYTES]);

/* What the process is called in the innermost PID namespace that it is in; its number in ours when that
 * cannot be read. */
pid_t proc_innermost_pid(const struct proc *proc);

#endif
