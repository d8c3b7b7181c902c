/* Where a function may be called in the main thread of a process: at the exit of a wait for events
 * (epoll_wait, poll, ...), or in compiled JavaScript, never inside the allocator or the loader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_SAFE_POINT_H
#define ATTACH_SAFE_POINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/proc.h"
#include "symbol/modules.h"

/* Code addresses [start, end). */
struct hold_range {
    uint64_t start, end;
};

/* For functions that take no lock and need nothing of libc every point is as good as a safe one, on the stack
 * that the main thread began on. */
struct hold_freely {
    uint64_t stack;          /* any address of that stack */
    struct hold_range avoid; /* but not in here: their own code */
};

/* Is the stopped main thread at one? freely may be NULL. */
bool safe_point_is_here(pid_t pid, const struct modules *modules, const struct hold_freely *freely);

/* Lets the stopped main thread run until it is at one, and stopped again. timeout_ns: without the time in
 * which it waits for a CPU that other programs have; with it not more than six times as long. -ETIMEDOUT,
 * -ESRCH when it has ended or executes another program, -EBUSY when it is stopped by a signal, -EINTR when
 * we are to leave. */
int safe_point_reach(const struct proc *proc, const struct modules *modules, const struct hold_freely *freely,
                     uint64_t timeout_ns);

#endif
