/* Who waited behind a slow command, or behind other long work of the main thread, without a traced caller.
 *
 * While a command executes, or the server forks, the loop reads nobody. Those whose requests are read later
 * in the same iteration, and all who are ready when the next one begins, had sent them while it ran (or just
 * before): they waited behind it. When a client sent is not visible to the server; it cannot have been before
 * the reply to its previous request, so that each one's wait is known as an upper bound: end of the command -
 * max(its start, end of the client's last reply). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_QUEUE_H
#define TARGETS_REDIS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"

struct redis_server;
struct redis_client;

enum redis_stretch {
    REDIS_STRETCH_COMMAND,
    REDIS_STRETCH_FORK,
    REDIS_STRETCH_FILE, /* the append-only file is written and forced to the disk */
    REDIS_STRETCH_EXPIRY,
    REDIS_STRETCH_EVICTION,
};

/* A slow command, or what else took long, and who waited behind it. */
struct redis_slow {
    enum redis_stretch what;
    const char *name; /* of commands */
    uint64_t client_id, start_ns, end_ns;
    uint64_t argument_bytes;
    int64_t arguments;
    uint64_t waiters, waited_ns, longest_ns; /* clients, and their waits, at most */
    const char *caller;
};

struct redis_queue {
    ARRAY(struct redis_slow) slow; /* the worst REDIS_SLOW_KEPT of them, unordered */
    struct redis_slow now;         /* whose waiters are being counted; end_ns 0: none */
    bool next_iteration;           /* the iteration it ran in has ended */
    struct map counted;            /* clients counted for it */
};

enum { REDIS_SLOW_KEPT = 256 };

/* Something took long. Of a command that did little but what was given before it (BGSAVE, which forks) only
 * that is kept. 0 or -ENOMEM. */
int redis_queue_slow(struct redis_server *server, const struct redis_slow *slow);
/* A client's request was read (its events end at now_ns). 0 or -ENOMEM. */
int redis_queue_read(struct redis_server *server, const struct redis_client *client, uint64_t start_ns);
/* An iteration over ready descriptors ended. 0 or -ENOMEM. */
int redis_queue_iteration(struct redis_server *server, uint64_t start_ns, uint64_t end_ns);
/* The same: how long the requests that were read in it waited for those before them. 0 or -ENOMEM. */
int redis_queue_turn(struct redis_server *server, uint64_t start_ns, uint64_t took_ns);
/* Nothing more comes. 0 or -ENOMEM. */
int redis_queue_finish(struct redis_server *server);
void redis_queue_done(struct redis_queue *queue);

#endif
