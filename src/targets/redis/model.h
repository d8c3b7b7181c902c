/* What Redis servers do, from their events alone: commands, clients, event loop, queueing, threads and bus,
 * one struct redis_server for each traced server process. The model needs no traced caller; where callers are
 * traced it names them.
 *
 *     struct redis_model *model;
 *     redis_model_new(&REDIS_DEFAULTS, &model);
 *     redis_model_event(model, event);      every event of a recording, in order of time
 *     redis_model_finish(model);
 *     redis_model_report(model, report);    findings
 *     redis_model_free(model);
 *
 * Memory is bounded by the clients that exist at one time and by CLIENTS_KEPT of those that are gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_MODEL_H
#define TARGETS_REDIS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "event/catalogue.h"
#include "targets/redis/events_bus.h"
#include "finding/report.h"
#include "targets/redis/conflict.h"
#include "targets/redis/queue.h"
#include "targets/redis/work.h"
#include "span/sketch.h"
#include "trace/pass.h"

enum {
    REDIS_THREADS = 64 /* threads told apart; more are counted with the last */
};

struct redis_options {
    uint64_t slow_command_ns; /* a command that takes longer is examined for those that queue behind it */
    bool windows;             /* window.h is used */
};
#define REDIS_DEFAULTS ((struct redis_options){.slow_command_ns = 10000000})

/* All calls of one command name. */
struct redis_command {
    const char *name;     /* as Redis spells it: "get", "config|set" */
    bool replicates;      /* whoever sends it is a replica: PSYNC */
    bool publishes;       /* PUBLISH */
    uint64_t calls;       /* sent by clients */
    uint64_t inner_calls; /* from scripts and transactions: their time is in the outer command */
    uint64_t time_ns, worst_ns;
    uint64_t argument_bytes;              /* sum of the argument lengths, where known */
    struct sketch latency;                /* execution time of calls sent by clients */
    uint64_t refused, queued, redirected; /* answered without being executed */
    struct redis_sum blocked;             /* clients that waited in it (BLPOP, WAIT) */
    uint64_t replies, reply_bytes;        /* of requests of one command */
    uint64_t largest_reply_bytes, largest_reply_client, largest_reply_at_ns;
    struct sketch recent; /* as latency, since the newest window began; only with windows */
    uint64_t recent_worst_ns;
    struct {
        uint64_t calls, time_ns, argument_bytes, refused;
    } before; /* what the older windows had */
};

struct redis_client {
    uint64_t id;
    int32_t fd;
    char peer[64];      /* "127.0.0.1:41234", "" unknown (attached after it connected, or a UNIX socket) */
    const char *caller; /* the traced process at the other end, NULL unknown */
    uint64_t commands, time_ns, argument_bytes, reads, replies;
    uint64_t last_reply_ns; /* end of the newest reply written; 0 none yet */
    uint64_t executed_ns;   /* end of its newest command; 0 none yet */
    uint64_t first_ns, freed_ns;
    uint64_t in_bytes, out_bytes;
    bool replica;
    uint64_t since_read; /* commands since its newest read */
    struct redis_command *last_command;
    uint64_t reply_bytes; /* written since its newest read */
    /* Whose reply it had perhaps not taken whole when it sent more, NULL unknown; how much of it */
    struct redis_command *partly;
    uint64_t partly_bytes;
    uint64_t reply_waited_ns;         /* since when some of that waits for the client to take it; 0 no */
    uint64_t taking_ns, taking_bytes; /* how long it took to take replies, in all; the largest */
    uint64_t blocked_ns;              /* since when; 0 it is not */
    struct redis_command *blocked_by;
    struct redis_command *woken_in; /* it was blocked in, when somebody's command woke it ... */
    uint64_t woken_phase;           /* ... in that part of the loop, and nothing was read from it since */
    struct redis_io io;
};

/* Commands of all clients of one caller: a traced service, else the peer's address without its port. */
struct redis_caller {
    const char *name;
    bool traced;
    uint64_t clients, commands, time_ns, argument_bytes;
};

struct redis_traffic {
    uint64_t sent, sent_bytes, received, received_bytes;
};

/* What one thread did for clients. */
struct redis_thread {
    int64_t tid;
    uint64_t reads, read_ns, replies, reply_ns, commands, command_ns;
};

/* A connection that a process told of before it was known to be a server. */
struct redis_early {
    uint64_t client_id, time_ns;
    int32_t fd;
    char peer[64];
};

/* Requests that were ready when the poll returned, and are read one after the other: each waits for those
 * before it. */
struct redis_turn {
    ARRAY(uint64_t) reads;       /* when those of the iteration that goes on began */
    uint64_t longest_command_ns; /* of that iteration */
    uint64_t phase, commands;    /* which part of the loop goes on, and the commands executed in it */
    struct redis_sum waits;      /* of requests, from the poll to their reading */
    struct redis_sum crowded;    /* those of iterations in which no command took a tenth of the time */
    struct sketch recent;        /* as waits; only with windows */
};

/* What was counted before the newest window, in those units. */
struct redis_counts {
    uint64_t commands, command_ns, iterations, busy_ns, connections, refused, in_bytes, out_bytes, bus_sent,
        bus_sent_bytes, bus_received, bus_received_bytes, lost;
};

/* A traced process of any runtime. Its first events may come before the one that says what it is. */
struct redis_process {
    int64_t pid;
    const char *name;            /* the service; NULL before it is known */
    struct map names;            /* number of a probe:name to const char * */
    struct redis_server *server; /* NULL: none, or not known yet */
    ARRAY(struct redis_early) early;
};

struct redis_server {
    struct redis_model *model;
    int64_t pid;
    const char *name;
    uint64_t started_ns, ended_ns;
    uint64_t first_ns, last_ns; /* its own first and newest event: attaching and detaching take a while */
    int status;                 /* wait status, -1 unknown or still running */

    struct redis_process *process;
    struct map clients; /* client id to struct redis_client *, those that were not freed */
    struct map by_fd;   /* descriptor to the id of the client that has it */
    struct map by_name; /* const char * to struct redis_command * */
    ARRAY(struct redis_command *) commands;
    ARRAY(struct redis_client *) gone;
    struct map caller_of;               /* const char * to index in callers */
    ARRAY(struct redis_caller) callers; /* filled by redis_model_finish() */
    struct redis_thread threads[REDIS_THREADS];
    unsigned thread_count;

    uint64_t iterations, busy_ns, longest_ns; /* of the event loop: with at least one ready descriptor */
    struct sketch ready;                      /* ready descriptors an iteration */
    struct redis_traffic bus[REDIS_BUS_TYPES];
    uint64_t publish_bytes; /* arguments of PUBLISH from clients */
    uint64_t commands_count, command_ns, clients_count;
    uint64_t lost; /* events of this process that were not recorded */

    ARRAY(struct redis_conflict) conflicts;
    struct redis_queue queue;
    struct redis_work work;
    struct redis_turn turn;
    struct redis_counts before; /* the newest window */
    struct sketch recent_ready; /* as ready, since the newest window began; only with windows */
    uint64_t recent_longest_ns; /* iteration */
    int64_t loop_tid;           /* the thread of the event loop; 0 unknown */
    /* What the newest event was about: the next one is of the same as a rule. NULL: look it up. */
    struct redis_client *recent_client;
    struct redis_command *recent_command;
    struct redis_thread *recent_thread;
    uint64_t recent_name;
    uint64_t iteration_ns; /* when the newest iteration that has ended began */
};

struct redis_model {
    struct redis_options options;
    struct arena arena;
    struct map processes; /* pid to struct redis_process * */
    struct map sockets;   /* hash of a local address and port to struct redis_process *: who has it */
    struct map strings;
    ARRAY(struct redis_process *) all;
    ARRAY(struct redis_server *) list; /* in order of appearance */
    uint64_t first_ns, last_ns;
    bool failed;
    bool of_servers[SONDE_EVENT_COUNT]; /* by event: only a Redis server records it */
    struct redis_process *recent;       /* whose event came last */
};

/* 0 or -ENOMEM. */
int redis_model_new(const struct redis_options *options, struct redis_model **ret_model);

/* Takes one event; events must come in order of time. 0 or -ENOMEM. */
int redis_model_event(struct redis_model *model, const struct event *event);

/* Sums up: callers, open stalls. Call once, after the last event. 0 or -ENOMEM. */
int redis_model_finish(struct redis_model *model);

/* A pass that does both; the model is borrowed. */
struct pass redis_model_pass(struct redis_model *model);

/* Adds the findings (kinds redis-connection-conflict, server-killed, and those of the next) to the report. 0
 * or -ENOMEM. */
int redis_model_report(const struct redis_model *model, struct report *report);

/* Events that ended before the newest one came late and may have been left out: two additions to a list then
 * prove no conflict. */
void redis_model_missed(struct redis_model *model, uint64_t events);

/* Adds what the server did beside commands, and how its clients use it: forks, fsync, evictions, expiry,
 * large replies, slow clients, a hot connection. 0 or -ENOMEM. */
int redis_model_report_work(const struct redis_model *model, struct report *report);

/* Adds how the server is loaded: requests that wait for each other, the cluster bus. 0 or -ENOMEM. */
int redis_model_report_load(const struct redis_model *model, struct report *report);

/* A finding about the server, of its process and the thread of its event loop; NULL when memory is exhausted.
 */
struct finding *redis_finding(struct report *report, const struct redis_server *server,
                              enum finding_kind kind, enum finding_severity severity);

/* How long the server was recorded: from its first event to its last. */
uint64_t redis_recorded_ns(const struct redis_server *server);

/* Findings of `sonde redis` alone: slow commands with the clients that queued behind them, callers or not. 0
 * or -ENOMEM. */
int redis_model_report_slow(const struct redis_model *model, struct report *report);

void redis_model_free(struct redis_model *model);
static inline void redis_model_freep(struct redis_model **model)
{
    redis_model_free(*model);
}

/* A copy of the string that lives as long as the model, the same pointer for equal strings; "" when memory is
 * exhausted (then the model's next call fails). */
const char *redis_intern(struct redis_model *model, const char *string, size_t length);

/* The client of that id, created when it is new (attached in mid-traffic); NULL when id is 0 or memory is
 * exhausted. */
struct redis_client *redis_client_get(struct redis_server *server, uint64_t id, int32_t fd, uint64_t now_ns);

/* The command of that name's number, made when it is new; NULL when memory is exhausted. */
struct redis_command *redis_command_get(struct redis_server *server, uint64_t name_id);

#endif
