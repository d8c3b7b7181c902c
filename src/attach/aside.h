/* Work on another process that must not be broken off: a process that is held must be let go in time, and a
 * call inside it must be ended. So that is done by a child of ours, in a session of its own: it goes on also
 * when we are stopped (Ctrl-Z, SIGSTOP) or killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_ASIDE_H
#define ATTACH_ASIDE_H

#include <stddef.h>

/* Runs work(context) in a child and returns its result. -ECHILD when the child was killed, -ENOMEM, -EAGAIN
 * when there can be none.
 *
 * The child has a copy of our memory, so that no end of ours is one of its own, not even for want of memory:
 * for calls inside the process, which crashes when its tracer ends amid one. context: size bytes without
 * pointers to what work changes; they are as work left them when this returns. */
int aside_run(int (*work)(void *context), void *context, size_t size);

/* The same in our own memory, which costs a fiftieth of a millisecond instead of several: for looks and
 * changes that leave the process whole wherever they end. */
int aside_share(int (*work)(void *context), void *context);

#endif
