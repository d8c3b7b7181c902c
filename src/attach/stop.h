/* Stops of a thread that we trace (ptrace(2)), one after the other: waited for, and what each is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_STOP_H
#define ATTACH_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes the next stop of a thread that we trace: 1, and its wait status; 0: none yet; -ESRCH: it has ended.
 * The end of a child of our own is left to be waited for by whoever wants its exit status. */
int stop_take(pid_t tid, int *ret_status);

/* Waits for it until a time of CLOCK_MONOTONIC (STOP_AT_ONCE: not at all): 0 and its wait status, -ETIMEDOUT,
 * -ESRCH, or -EINTR when we are to leave (aside.h). */
#define STOP_AT_ONCE 0
int stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status);

/* While a single thread is held its stops follow each other within some ten microseconds, and to fall asleep
 * and be woken takes us as long again. From now on stop_wait() looks for the next one for a moment before it
 * sleeps, as long as that helps and there is another CPU for the thread. For the process that calls it. */
void stop_watch_closely(bool closely);

/* Waits until a seized thread stops by our PTRACE_INTERRUPT, or because its process was stopped; signals that
 * come before are passed on. *ret_status (may be NULL): the stop. -ESRCH also when it executes another
 * program. */
int stop_wait_interrupted(pid_t tid, uint64_t deadline_ns, int *ret_status);

/* What a wait status says: at a system call (PTRACE_O_TRACESYSGOOD); another program, so that nothing that is
 * known of the process is true any more; by a signal (SIGSTOP, Ctrl-Z), and to stay so. */
bool stop_is_syscall(int status);
bool stop_is_exec(int status);
bool stop_is_group(int status);

/* The signal to give back when the thread goes on: 0 for the stops that ptrace makes itself. */
int stop_signal(int status);

#endif
