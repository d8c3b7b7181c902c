/* What a server does beside executing commands: bytes in and out, clients that are blocked, commands that are
 * answered without being executed, children, files, keys that expire or are evicted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_WORK_H
#define TARGETS_REDIS_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct event;
struct redis_client;
struct redis_command;
struct redis_server;

/* How often something happened and how long it took. worst_at_ns: when the longest ended. */
struct redis_sum {
    uint64_t count, time_ns, worst_ns, worst_at_ns;
};

/* Bytes as clients see them, and as they passed the socket (the same without TLS). */
struct redis_volume {
    uint64_t in, out, wire_in, wire_out;
};

struct redis_work {
    struct redis_volume clients, replicas;
    uint64_t bus_in, bus_out;
    struct redis_sum bus_reads, bus_writes;
    uint64_t unknown_bytes; /* reads and writes whose bytes are not known */
    struct redis_sum forks;
    uint64_t fork_memory_bytes; /* the server's, at the longest */
    const char *fork_purpose;
    struct redis_sum syncs, background_syncs; /* of the main thread; of others */
    struct redis_sum aof_writes;
    uint64_t aof_bytes;
    struct redis_sum expiry;
    uint64_t expired, expired_on_access, expired_unseen; /* the last: how is not known */
    struct redis_sum evictions;
    uint64_t evicted, evictions_failed;
    uint64_t output_limit_clients;
    uint64_t handed_over;                            /* clients, to I/O threads and back */
    uint64_t messages, messages_from_bus, receivers; /* PUBLISH and SPUBLISH */
};

void redis_sum_add(struct redis_sum *sum, uint64_t took_ns, uint64_t at_ns);

/* What a client's read and reply say of bytes; -1 unknown. */
void redis_work_read(struct redis_server *server, struct redis_client *client, int64_t bytes, int64_t wire);
void redis_work_reply(struct redis_server *server, struct redis_client *client, const struct event *event);

/* The client sends another request, or is gone: its last reply is complete. */
void redis_work_replied(struct redis_server *server, struct redis_client *client);

/* Since 7.2 a command that blocked is executed a second time when its key is there: at once, before the loop
 * goes on. It is one call, for commandstats too. Older servers answer without executing it; what such a
 * client has sent behind it is executed in the next part of the loop.
 * Is this execution one of those? Asked once for each. */
bool redis_work_again(const struct redis_server *server, struct redis_client *client,
                      const struct redis_command *command);

/* Takes one of the events of work; 0, -ENOMEM, or -ENOENT when it is none of them. */
int redis_work_event(struct redis_server *server, const struct event *event);

#endif
