/* Work on another process that must not be broken off. A call inside a process that is being traced lasts a
 * millisecond; were its tracer killed meanwhile, the process would go on in the middle of it and crash. So
 * that part is done by a child of ours, in a session of its own: it ends what it has begun, also when we are
 * killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_ASIDE_H
#define ATTACH_ASIDE_H

#include <stddef.h>

/* Runs work(context) in a child and returns its result. context: size bytes without pointers to what work
 * changes; they are as work left them when this returns. -ECHILD when the child was killed, -ENOMEM, -EAGAIN
 * when there can be none. */
int aside_run(int (*work)(void *context), void *context, size_t size);

#endif
