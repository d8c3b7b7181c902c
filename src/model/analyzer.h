/* A module of the analysis of requests: what a target (a runtime or a store, src/targets/NAME) or the search
 * for faults adds to the core. The core keeps processes, threads, connections, requests and their contexts
 * and paths, and knows no other module: it calls every analyzer of its table (analysis.analyzers), in that
 * order.
 *
 * Callbacks may be NULL. Those about a process or a thread are called for every one, whatever its runtime: an
 * analyzer that keeps nothing there does nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_ANALYZER_H
#define MODEL_ANALYZER_H

#include "model/protocol.h"

struct process;
struct call;
struct frame_reading;
struct report;
struct verdict;

struct pass;
struct analyze_options;

/* What a target finds out in a pass of its own: of its servers, from their events alone, in the same read of
 * a recording. */
struct target_pass {
    int (*start)(const struct analyze_options *options, void **ret_state); /* 0 or -ENOMEM */
    struct pass (*pass)(void *state);                                      /* borrows the state */
    int (*report)(const void *state, struct report *report);               /* adds findings: 0 or -ENOMEM */
    void (*free)(void *state);                                             /* accepts NULL */
};

struct analyzer {
    const char *name;
    const char *called; /* what people call such a program: "Node.js"; NULL: an example, or no target */
    uint8_t runtime;    /* of the processes that are its own: enum sonde_runtime; 0: none are */
    const struct event_reading *events;
    const struct target_pass *pass; /* NULL: none */
    /* Services are written for it: their connections are made for requests, and their threads beside the main
     * one are workers, unless they serve requests, too. */
    bool hosts_services;
    /* Why a report says nothing when a process of it was traced and nothing was asked of it; NULL: others say
     * that. */
    const char *unasked;
    const struct frame_reading *frames; /* of samples of its threads (model/stack.h); NULL: there are none */
    /* What it keeps of each process and thread, in their own[runtime]: zeroed when they are first seen, freed
     * after process_free() and thread_free(). 0: nothing. */
    size_t process_bytes, thread_bytes;

    /* The addresses of a connection of such a process are known. true: its protocol is this target's own
     * business, and the process's own program makes no connections that way. */
    bool (*connection_opened)(struct analysis *a, struct connection *c);
    /* The memory of a connection, a thread, a process is freed. */
    void (*connection_forget)(struct connection *c);
    void (*thread_free)(struct thread *thread);
    void (*process_free)(struct process *process);

    /* A process has received its first request, on that thread. */
    void (*process_serves)(struct thread *thread);
    /* The kernel's account of a thread, before it is kept: sums since the thread began. */
    void (*scheduled)(struct analysis *a, struct thread *thread, uint64_t now_ns, uint64_t run_ns,
                      uint64_t wait_ns);
    /* Of [start_ns, end_ns), how long the runtime kept the thread from the program's own work. */
    uint64_t (*paused_ns)(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
    /* A thread's event loop did nothing else for as long as the stretch: who waited for its answers? */
    void (*stalled)(struct analysis *a, const struct thread *thread, struct stretch *stretch);

    /* The work for one of several requests, it is not known which, that was done for at least half of
     * [start_ns, end_ns): what people call it; NULL: none was. */
    const char *(*ambiguous_work)(const struct process *process, uint64_t start_ns, uint64_t end_ns);

    /* What a request asked of others has ended. */
    void (*call_ended)(struct analysis *a, struct connection *c, const struct call *call, uint64_t end_ns);
    /* A request has ended. What was called for it may not have been read to its end. */
    void (*request_done)(struct analysis *a, struct process *process, struct request *request);
    /* All of it is known, its critical path too. */
    void (*request_complete)(struct analysis *a, const struct process *process, struct request *request);
    /* A callback that the thread was in when the newest events were written and that has lasted for long:
     * since when, what was measured in it, and the request that it serves (NULL: not known). false: there is
     * none. */
    bool (*is_in)(struct analysis *a, const struct thread *thread, struct stretch *stretch,
                  const struct request **ret_owner);
    /* The trace or the process has ended: what the thread was still doing ends at now_ns. */
    void (*thread_finish)(struct analysis *a, struct thread *thread, uint64_t now_ns);

    /* How faults of its own kinds become findings (faults/faults.h); ends with one without say(). */
    const struct verdict *verdicts;
    /* Findings that need the whole trace; faults that they cover are marked as absorbed. 0 or -ENOMEM. */
    int (*findings)(struct analysis *a, struct report *report);
    /* What could not be seen. 0 or -ENOMEM. */
    int (*limits)(struct analysis *a, struct report *report);
};

/* Whose process it is; NULL: nobody's. */
const struct analyzer *analyzer_of(const struct analysis *a, const struct process *process);

/* Asks those that have the callback, in the order of the table. */
#define ANALYZERS_CALL(a, callback, ...)                                                        \
    do {                                                                                        \
        for (const struct analyzer *const *analyzer_ = (a)->analyzers; *analyzer_; analyzer_++) \
            if ((*analyzer_)->callback)                                                         \
                (*analyzer_)->callback(__VA_ARGS__);                                            \
    } while (0)

#endif
