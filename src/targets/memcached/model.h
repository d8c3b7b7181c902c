/* What Memcached servers do, from their events alone: commands by kind, hits and misses, bytes, connections,
 * threads and how long connections waited for theirs. One struct memcached_server for each traced process.
 *
 *     struct memcached_model *model;
 *     memcached_model_new(&model);
 *     struct pass pass = memcached_model_pass(model);     for trace_run()
 *     memcached_model_free(model);
 *
 * Memory is bounded by the kinds of commands and by the threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_MODEL_H
#define TARGETS_MEMCACHED_MODEL_H

#include <stdint.h>

#include "base/array.h"
#include "base/macro.h"
#include "base/map.h"
#include "finding/report.h"
#include "span/sketch.h"
#include "targets/memcached/misses.h"
#include "trace/event_names.h"
#include "trace/pass.h"

/* Commands of one name. */
struct memcached_command {
    const char *name; /* "get" */
    uint64_t commands, keys, hits, refused, errors;
    uint64_t bytes, reply_bytes;
    uint64_t time_ns; /* executing: of commands that were executed together, each its equal share */
    uint64_t worst_ns;
    struct sketch latency; /* of one command, as far as it shared its execution with others their mean */
};

struct memcached_thread {
    int64_t tid;
    uint64_t commands, command_ns;
    uint64_t waits, wait_ns; /* for something to do */
    uint64_t first_ns, last_ns;
    uint64_t woken_ns; /* when its newest wait ended; 0: not known */
};

struct memcached_server {
    int64_t pid;
    const char *name; /* "memcached:11211", "" unknown; the model's */
    ARRAY(struct memcached_command) commands;
    ARRAY(struct memcached_thread) threads;
    uint64_t connections, closed; /* that were seen, and that ended */
    uint64_t unread_bytes;        /* that clients sent and that were not understood */
    uint64_t datagrams;           /* answers sent by UDP, whose commands are not seen */
    struct memcached_misses misses;
    uint64_t lost; /* events of this process that were not recorded */
    /* From when its thread woke up to when a connection's commands were read: other connections came first.
     */
    struct sketch queued;
    uint64_t first_ns, last_ns; /* its own first and newest event */
};

struct memcached_model {
    struct event_names names;
    struct map by_pid; /* pid -> index in servers */
    ARRAY(struct memcached_server) servers;
};

/* 0 or -ENOMEM. */
int memcached_model_new(struct memcached_model **ret_model);
/* The model is borrowed. */
struct pass memcached_model_pass(struct memcached_model *model);
void memcached_model_free(struct memcached_model *model);
static inline void memcached_model_freep(struct memcached_model **model)
{
    memcached_model_free(*model);
}

/* Adds what was found: misses, a thread with most of the work. 0 or -ENOMEM. */
int memcached_model_report(const struct memcached_model *model, struct report *report);

/* Keys that were asked for and were not there. */
static inline uint64_t memcached_misses(const struct memcached_command *command)
{
    uint64_t found = command->hits + command->errors;
    return command->keys - (found < command->keys ? found : command->keys);
}

/* The execution time that this part of the commands (0 to 1) did not exceed. */
static inline uint64_t memcached_quantile(const struct memcached_command *command, double part)
{
    return MIN((uint64_t)sketch_quantile(&command->latency, part), command->worst_ns);
}

/* Sums over all commands. */
struct memcached_command memcached_sum(const struct memcached_server *server);

#endif
