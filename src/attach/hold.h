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

#include "attach/safe_point.h"
#include "base/array.h"
#include "base/problem.h"
#include "base/proc.h"
#include "symbol/modules.h"

struct hold_thread {
    pid_t tid;
    uint64_t asleep_at; /* it sleeps in a system call and stops when it wakes up, before it executes anything;
                           the address where it will go on. 0: it is stopped */
};

struct hold {
    const struct proc *proc; /* not ours to release */
    pid_t pid;
    int memory;        /* its /proc/PID/mem, not ours to close; for calls */
    uint64_t restorer; /* where calls return to (call.h); 0: none can be made */
    uint64_t stub;     /* the same, and keeps their result: copied from call_stub; 0: there is none */
    uint64_t
        data; /* where the data of the last call is: the next call's, of as many bytes, will be there too */
    bool may_signal;   /* it has no system call filter that might forbid a stub to send itself a signal */
    struct call *room; /* for calls, made while nobody was held: memory that is new takes its time */
    ARRAY(struct hold_thread) threads; /* the main thread first */
    uint64_t since_ns;                 /* when the first was about to be stopped */
};

/* What is asked about the process once its main thread is ours, so that no other sonde can change it, and
 * before that is stopped. */
struct hold_first {
    void (*ask)(const struct proc *proc, void *context);
    void *context;
};

/* Stops the main thread at a safe point: at the exit of a wait for events (epoll_wait, poll, ...), or in
 * compiled JavaScript, never inside the allocator or the loader; freely (may be NULL) says where else. The
 * way to a safe point leads from system call to system call, or from look to look while it computes, which
 * takes a busy program some milliseconds.
 * first: what is asked before (may be NULL).
 * memory: the process's /proc/PID/mem, opened before modules were read. It stays with the program that they
 * are of: when the process executes another, nothing can be read from it, and nothing is called.
 * -ETIMEDOUT when it does not get there in time, -EPERM when the process may not be traced or is traced
 * already, -EBUSY when it is stopped by a signal and would have to run on, -ESRCH when it has ended or
 * executes another program, -ENOSYS when it cannot be called into. */
int hold_main(const struct proc *proc, const struct modules *modules, int memory,
              const struct hold_freely *freely, const struct hold_first *first, uint64_t timeout_ns,
              struct hold *ret_hold, struct problem *problem);

/* Stops the main thread, wherever it is. */
int hold_one(const struct proc *proc, struct hold *ret_hold, struct problem *problem);

/* Calls a function in the main thread with up to six integer arguments; signals wait meanwhile. data (may be
 * NULL) is put on its stack, and every argument that equals HOLD_DATA is replaced by its address. Without a
 * stub the result is not the function's, but that of the last system call it made.
 *
 * Nothing that happens to us amid a call does the thread any harm: it ends the call alone, and goes on where
 * it was.
 * -EFAULT when the function crashed, or asked for a system call that a filter forbids: it is left there and
 * then. -ETIMEDOUT when it takes more than 10 s, because it waits for a lock that another thread holds, and
 * -EINTR when we are to leave (aside.h): it is not broken off, since nobody can say what it has half done,
 * but let go, and is held no more. -ESRCH when the process ended, executes another program or is no longer
 * held. -ENOSYS with a shadow stack. */
#define HOLD_DATA 0x5d0f5d0f5d0f5d0full
int hold_call(struct hold *hold, uint64_t function, const uint64_t *arguments, int count, const void *data,
              size_t size, uint64_t *ret_result, struct problem *problem);

/* Room for calls; NULL: there is no memory. Released with free(). */
struct call *hold_call_room(void);

/* Stops all threads of the process, without waiting for a safe point; ret_hold as from hold_main(). -EAGAIN
 * when a thread does not stop within a few milliseconds (it waits for a disk, or for a child of vfork());
 * then nobody is held. */
int hold_all(const struct proc *proc, struct hold *ret_hold, struct problem *problem);

/* Is every held thread outside of the ranges? -EAGAIN when one is not: let it go and try again. It is not
 * stepped out, because a thread whose stepping tracer is killed dies of the next step. */
int hold_clear(struct hold *hold, const struct hold_range *ranges, size_t count);

/* Lets everybody go; returns for how long they were held, ns. Accepts a hold that holds nobody. */
uint64_t hold_release(struct hold *hold);

#endif
