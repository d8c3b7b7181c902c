/* Threads of another process held still with ptrace, and functions called in one of them.
 *
 * Order: hold_main(), then any number of hold_call(), or hold_all(); then hold_release(). While only the main
 * thread is held the others run, so that it can take locks they hold (malloc, the loader). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_HOLD_H
#define ATTACH_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/problem.h"
#include "symbol/modules.h"

/* A thread that sleeps in a system call and stops when it wakes up, before it executes anything. */
struct hold_asleep {
    pid_t tid;
    uint64_t at; /* the address where it will go on */
};

struct hold {
    pid_t pid;
    ARRAY(pid_t) threads; /* all stopped, or asleep; the main thread first */
    ARRAY(struct hold_asleep) asleep;
    uint64_t since_ns; /* when the first was about to be stopped */
};

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

/* Stops the main thread at a safe point: at the exit of a wait for events (epoll_wait, poll, ...), or in
 * compiled JavaScript, never inside the allocator or the loader; freely (may be NULL) says where else. The
 * way to a safe point leads from system call to system call, or from look to look while it computes, which
 * takes a busy program some milliseconds.
 * -ETIMEDOUT when it does not get there in time, -EPERM when the process may not be traced or is traced
 * already. */
int hold_main(pid_t pid, const struct modules *modules, const struct hold_freely *freely, uint64_t timeout_ns,
              struct hold *ret_hold, struct problem *problem);

/* Stops the main thread, wherever it is. */
int hold_one(pid_t pid, struct hold *ret_hold, struct problem *problem);

/* Calls a function in the main thread with up to six integer arguments; signals wait meanwhile. data (may be
 * NULL) is put on its stack, and every argument that equals HOLD_DATA is replaced by its address. -EFAULT
 * when the function crashed, -ESRCH when the process ended. */
#define HOLD_DATA 0x5d0f5d0f5d0f5d0full
int hold_call(struct hold *hold, uint64_t function, const uint64_t *arguments, int count, const void *data,
              size_t size, uint64_t *ret_result, struct problem *problem);

/* Takes the next stop of a thread that we trace: 1, and its wait status; 0: none yet; -ESRCH: it has ended.
 * The end of a child of our own is left to be waited for by whoever wants its exit status. */
int hold_take_stop(pid_t tid, int *ret_status);

/* Stops all threads of the process, without waiting for a safe point; ret_hold as from hold_main(). -EAGAIN
 * when a thread does not stop within a few milliseconds (it waits for a disk, or for a child of vfork());
 * then nobody is held. */
int hold_all(pid_t pid, struct hold *ret_hold, struct problem *problem);

/* Is every held thread outside of the ranges? -EAGAIN when one is not: let it go and try again. It is not
 * stepped out, because a thread whose stepping tracer is killed dies of the next step. */
int hold_clear(struct hold *hold, const struct hold_range *ranges, size_t count);

/* Lets everybody go; returns for how long they were held, ns. Accepts a hold that holds nobody. */
uint64_t hold_release(struct hold *hold);

#endif
