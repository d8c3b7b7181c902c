/* What /proc says of a thread's present state. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_THREAD_STATE_H
#define ATTACH_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/proc.h"

/* It runs, or waits for a CPU. */
bool thread_is_runnable(const struct proc *proc, pid_t tid);

/* In an uninterruptible wait inside the kernel. */
bool thread_is_unstoppable(const struct proc *proc, pid_t tid);

/* How long a thread has run, how long it has waited for a CPU before, and how often; zeros: the kernel does
 * not say. */
struct proc_runs thread_runs(const struct proc *proc, pid_t tid);

/* Is it asleep in a system call? *ret_call: which one (SYS_...), *ret_at: where it will go on. */
bool thread_is_asleep(const struct proc *proc, pid_t tid, long *ret_call, uint64_t *ret_at);

#endif
