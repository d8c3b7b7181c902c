/* Shuts down connections that take too long over a request. An idle limit is not enough: a client that sends
 * or reads one byte now and then would keep its connection for ever. One thread checks all of them at regular
 * intervals. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEADLINE_H
#define HTTP_DEADLINE_H

#include <stdint.h>

struct deadlines;
struct deadline;

/* interval_ns: how often connections are checked, so how late one may be shut down. 0 or a negative errno. */
int deadlines_new(uint64_t interval_ns, struct deadlines **ret_deadlines);

/* All of them must have been removed. NULL is accepted. */
void deadlines_free(struct deadlines *deadlines);

/* Watches a connection: fd is shut down after limit_ns, but not closed. NULL: out of memory. */
struct deadline *deadline_add(struct deadlines *deadlines, int fd, uint64_t limit_ns);

/* Restarts the limit: limit_ns from now. NULL is accepted. */
void deadline_set(struct deadline *deadline, uint64_t limit_ns);

/* Before fd is closed. NULL is accepted. */
void deadline_remove(struct deadlines *deadlines, struct deadline *deadline);

/* How many were shut down. */
uint64_t deadlines_count(const struct deadlines *deadlines);

#endif
