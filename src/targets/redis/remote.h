/* What a Redis server says of itself to a client that may ask nothing but INFO, SLOWLOG, LATENCY and CLUSTER.
 * All of it is the server's word: bounded, and made UTF-8, before it is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_REMOTE_H
#define TARGETS_REDIS_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/macro.h"
#include "finding/report.h"
#include "targets/redis/resp.h"

enum redis_question {
    REDIS_ASK_INFO,
    REDIS_ASK_SLOWLOG,
    REDIS_ASK_LATENCY,
    REDIS_ASK_NODES,
    REDIS_QUESTIONS
};

/* How each is asked, ends with NULL, and what of an ACL allows it. */
extern const char *const REDIS_QUESTION_WORDS[REDIS_QUESTIONS][4];
extern const char *const REDIS_QUESTION_RIGHTS[REDIS_QUESTIONS];

/* A line of INFO, "used_memory:1234". */
struct redis_info {
    const char *name, *value;
};

/* Of one command, since the server was started or CONFIG RESETSTAT. */
struct redis_remote_command {
    const char *name; /* "config|set" */
    uint64_t calls, time_us, refused, failed;
};

/* An entry of the slow log; its arguments are not kept. */
struct redis_remote_slow {
    uint64_t id, took_us;
    int64_t at_s; /* of the server's clock, since 1970 */
    const char *command, *client;
};

/* Of LATENCY LATEST. */
struct redis_remote_latency {
    const char *event;
    int64_t at_s;
    uint64_t latest_ms, worst_ms;
};

struct redis_remote_node {
    const char *id, *address, *flags, *link;
    uint64_t slots;
};

struct redis_remote {
    struct arena arena;
    ARRAY(struct redis_info) info;
    ARRAY(struct redis_remote_command) commands;
    ARRAY(struct redis_remote_slow) slow;
    ARRAY(struct redis_remote_latency) latency;
    ARRAY(struct redis_remote_node) nodes;
    bool answered[REDIS_QUESTIONS];
    const char *refused[REDIS_QUESTIONS]; /* the server's words; NULL: it was not refused */
    uint64_t at_ns;                       /* when INFO was answered, CLOCK_MONOTONIC */
};

/* Zero-initialise to use. */
void redis_remote_done(struct redis_remote *remote);

/* Takes the answer to a question. What has another shape than that question's answer is passed over. 0 or
 * -ENOMEM. */
int redis_remote_take(struct redis_remote *remote, enum redis_question question, const redisReply *reply);

/* The value of a line of INFO, "" when there is none; and as a number, 0 when it is none. */
const char *redis_remote_text(const struct redis_remote *remote, const char *name);
uint64_t redis_remote_number(const struct redis_remote *remote, const char *name);

/* A server that watches others, and stores nothing. */
bool redis_remote_is_sentinel(const struct redis_remote *remote);

/* What was counted between two readings, by command, into now: the numbers of before are subtracted. Where
 * the server was started anew in between, nothing is. True when they could be. */
bool redis_remote_subtract(struct redis_remote *now, const struct redis_remote *before);

/* Adds what is found, from now and the reading before it, and what could not be asked. name: how the server
 * is called. 0 or -ENOMEM. */
int redis_remote_report(const struct redis_remote *now, const struct redis_remote *before, const char *name,
                        struct report *report);

/* A new reference, NULL when memory is exhausted. */
json_t *redis_remote_json(const struct redis_remote *now, const struct redis_remote *before,
                          const char *name);

#endif
