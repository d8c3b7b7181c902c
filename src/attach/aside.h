/* Work on another process that must not be broken off by what happens to us: a process that is held must be
 * let go in time. So that is done by a child of ours, in a process group of its own: it goes on also when we
 * are stopped (Ctrl-Z, SIGSTOP) or killed.
 *
 * The child is also what can be ended when a process cannot be let go: one that a freezer cgroup holds
 * reaches no stop, and its tracer no end, until it is thawed. With its tracer's end the kernel lets it go,
 * and a call inside it comes to its end alone (attach/call.h). So once we are asked to end (SIGINT, SIGTERM
 * or SIGHUP is blocked and pending, or aside_end() was called), the child has a moment; then it is told to
 * leave, and then it is killed. Children that are made later (to take hooks out) have until ASIDE_END_NS
 * after we were asked, all together, and those that are made after that one more moment, all together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_ASIDE_H
#define ATTACH_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* Runs work(context) in a child and returns its result. -ECHILD when the child was killed, -EINTR when it
 * left or was killed because we are to end, -ENOMEM, -EAGAIN when there can be none.
 *
 * The child has a copy of our memory, so that no end of ours is one of its own, not even for want of memory:
 * for calls inside the process, which may take a while. context: size bytes without pointers to what work
 * changes; they are as work left them when this returns. while_waiting (may be NULL) is called every few
 * milliseconds until then. */
int aside_run(int (*work)(void *context), void *context, size_t size, void (*while_waiting)(void *),
              void *waiting_context);

/* The same in our own memory, which costs a fiftieth of a millisecond instead of several: for looks and
 * changes that leave the process whole wherever they end. They are short: where we have precedence ourselves,
 * the child goes before everything that has no real-time priority, because it may hold a thread, and nice
 * values count among the programs of one session only (autogroup).
 *
 * While while_waiting is called (NULL: nothing is), this thread's errno and memory are in use by both: then
 * work allocates nothing and makes its system calls by aside_call() alone. */
int aside_share(int (*work)(void *context), void *context, void (*while_waiting)(void *),
                void *waiting_context);

/* A system call without errno: its result, or a negative errno. */
long aside_call(long number, long a, long b, long c, long d, long e, long f);

/* In work: are we there, with an end soon that lets go of everybody who is traced? Is it to leave what it
 * does, because we are to end? */
bool aside_is_within(void);
bool aside_leaves(void);

/* Outside: are we asked to end? */
bool aside_is_ending(void);

/* We end, also when the signal has been taken, or there was none: what is still to be done aside has little
 * time. */
void aside_end(void);

/* We end without having been asked to, and have more time: it is as if aside_end() was called when that is
 * over. */
void aside_end_within(uint64_t patience_ns);

/* Until when one may try again and again what needs somebody else's cooperation, CLOCK_MONOTONIC: patience_ns
 * from now, and after aside_end() not longer than ASIDE_END_NS after we were first asked. */
#define ASIDE_END_NS   (600 * NS_PER_MS)
#define ASIDE_SHORT_NS (10 * NS_PER_MS) /* what any of them has at least */
uint64_t aside_deadline_ns(uint64_t patience_ns);

/* After aside_end(): until when a child has time that is begun now, CLOCK_MONOTONIC. After the deadline they
 * share one moment. */
uint64_t aside_moment_end_ns(void);

#endif
