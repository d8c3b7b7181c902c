/* What one server did within a window of time: the difference between two looks at the model while it grows
 * (redis_options.windows). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_WINDOW_H
#define TARGETS_REDIS_WINDOW_H

#include <jansson.h>

#include "targets/redis/model.h"

struct redis_window_command {
    const char *name;
    uint64_t calls, refused, time_ns, p50_ns, p99_ns, worst_ns, argument_bytes;
};

struct redis_window {
    const struct redis_server *server;
    uint64_t from_ns, to_ns;
    ARRAY(struct redis_window_command) commands; /* those that were called or refused; most time first */
    struct redis_counts counts;                  /* within the window; connections: new ones */
    uint64_t connections, blocked;               /* that exist at its end */
    uint64_t longest_iteration_ns;
    double ready_p50, ready_p99, ready_most;        /* descriptors an iteration */
    double wait_p50_ns, wait_p99_ns, wait_worst_ns; /* of requests, from the poll to their reading */
    uint64_t requests;                              /* that were read */
};

/* Takes what was counted since the last window of this server; redis_window_done() when finished. 0 or
 * -ENOMEM. */
int redis_window_take(struct redis_server *server, uint64_t from_ns, uint64_t to_ns,
                      struct redis_window *ret_window);
void redis_window_done(struct redis_window *window);

/* An object, owned by the caller; NULL when memory is exhausted. */
json_t *redis_window_json(const struct redis_window *window);

#endif
