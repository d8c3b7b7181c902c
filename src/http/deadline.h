/* Ends connections that take too long over a request. A time limit without any byte is not enough: whoever
 * sends one now and then, or reads one, would hold a connection for ever. A thread looks at all of them every
 * now and then. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEADLINE_H
#define HTTP_DEADLINE_H

#include <stdint.h>

struct deadlines;
struct deadline;

/* step_ns: how often the thread looks, and so how late a connection may be ended. 0 or a negative errno. */
int deadlines_new(uint64_t step_ns, struct deadlines **ret_deadlines);

/* All of them must have been removed. NULL is accepted. */
void deadlines_free(struct deadlines *deadlines);

/* Begins to watch a connection: fd is shut down after limit_ns, not closed. NULL: out of memory. */
struct deadline *deadline_add(struct deadlines *deadlines, int fd, uint64_t limit_ns);

/* Gives it limit_ns from now on. NULL is accepted. */
void deadline_set(struct deadline *deadline, uint64_t limit_ns);

/* Before fd is closed. NULL is accepted. */
void deadline_remove(struct deadlines *deadlines, struct deadline *deadline);

/* How many were shut down. */
uint64_t deadlines_count(const struct deadlines *deadlines);

#endif
