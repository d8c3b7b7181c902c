/* Will a process's own system call filter (seccomp) let the calls through that loading the probe, and the
 * probe, make in its name? Many filters kill the process for a call they do not list. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_SYSCALL_FILTER_H
#define ATTACH_SYSCALL_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"
#include "base/proc.h"

/* 0 when they pass, or the process has no filter. -EPERM when one would fail or kill the process, or when
 * that cannot be found out; problem names the call. The process is stopped for a moment to read its filter,
 * which needs CAP_SYS_ADMIN and no filter of our own; without, a process in the same sandbox as ours (as many
 * filters, the same PID namespace) is judged by what we may do. */
int syscall_filter_check(const struct proc *proc, struct problem *problem);

/* Runs one filter over one call: its verdict (SECCOMP_RET_...), or SECCOMP_RET_KILL_PROCESS when it is no
 * valid program. */
uint32_t syscall_filter_run(const struct sock_filter *program, size_t count, const struct seccomp_data *call);

/* How many filters the main thread of a process has; before Linux 5.9 whether it has any. -1 when the process
 * is gone. */
long syscall_filter_count(const struct proc *proc);

#endif
