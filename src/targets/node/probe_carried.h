/* The number of the request that is served, carried by V8 itself: see probe_carried.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_CARRIED_H
#define TARGETS_NODE_PROBE_CARRIED_H

#include "probe/probe.h"

/* The number of code that is no request's. */
enum { NO_REQUEST = 1 };

/* Resources of a request that will call back, and parsers: the newest of each, by async id modulo. And pieces
 * of code that took ids, the newest. */
enum { CARRIED_RESOURCES = 4096, CARRIED_TAKERS = 4096 };

/* After how many scopes what is lost counts: what waited when the number began to be carried is lost, and the
 * environment's ids are not believed yet. */
enum { CARRIED_SETTLING = 64 };

/* The ids that an environment points to are believed once the one of what runs was what Node said, or what a
 * callback scope began with, for so many different ones. */
enum { CARRIED_AGREEMENTS = 16 };

/* Where Node's AsyncHooks has its ids, all doubles, from where an environment points to (since Node 8). */
enum { EXECUTION_ID_AT = 0, NEWEST_ID_AT = 2 };

/* Of one thread with a Node environment. */
struct carried {
    uint32_t on;
    uint32_t
        fading; /* the script's storage takes over what comes now: callbacks until this ends; 0 not at all */
    uint32_t foreign;      /* the value is somebody else's: it is not to be touched */
    uint64_t value_nobody; /* undefined, as V8 has it */
    uint64_t value;        /* what was set last: what V8 has, but in microtasks */
    uint32_t looks;        /* how often that was believed */
    /* Node's environment, where the id of what runs stands (probe_float.c); NULL: ask Node. And of how many
     * ids in turn that was what Node said, and the last of them. */
    const void *environment;
    const uint64_t *const *ids; /* where it points to Node's ids; NULL: not believed */
    uint64_t agreed_id;
    uint32_t agreed;
    void *isolate;
    void *owner;        /* what V8's two functions take: a handle of the main context, or the isolate */
    uint32_t ticks_are; /* whose code has run since ticks were last run: 0 nobody's yet, 1 no request's or
                           several */
    uint32_t draining;  /* the outermost callback has returned: ticks, then microtasks, run */
    uint32_t in_microtasks, microtasks_outer; /* they run; callbacks that were open then */
    uint32_t found, lost; /* operations whose request was known, and was not (probe_context.c) */
    uint32_t settling;    /* scopes until those that are lost count */
    /* The newest id that Node had given out when value was set; 0: not known, or other code runs now, too.
     * Ids are doubles here, compared by their bits, which have the same order. */
    uint64_t taken_before;
    uint32_t taker_count; /* ever */
    struct {
        uint64_t async_id;
        uint32_t number;
    } resources[CARRIED_RESOURCES];
    struct {
        uint64_t before, last; /* ids behind before, up to last, */
        uint32_t number;       /* were taken by that request's code */
    } takers[CARRIED_TAKERS];
};

/* Whether V8 can carry numbers in this process; *ret_later: not yet, but perhaps when microtasks have run. */
bool carried_possible(bool *ret_later);

/* False: this V8, or this program, is none for it. Called in a callback scope; undefined is V8's value of
 * that name, context a global handle of the main context. */
bool carried_start(struct carried *v, void *isolate, void *context, uint64_t undefined);

/* Numbers are not carried any more: V8's value is as it was. */
void carried_stop(struct carried *v);

/* Sonde has come back: what happened meanwhile was not seen. */
void carried_again(struct carried *v);

/* The callback scope that was opened last serves request number (0: what is known of async_id). keep: so do
 * later callbacks of that async id. */
HOT void carried_scope(struct carried *v, struct probe_thread *self, uint64_t async_id, uint32_t number,
                       bool keep);

/* Around the end of a callback scope of which callback knows. */
HOT void carried_closing(struct carried *v, struct probe_thread *self, const struct probe_callback *callback);
HOT void carried_closed(struct carried *v, const struct probe_callback *callback, bool outermost);

/* The request whose code runs; 1 when it is no request's, 0 when that is lost. *ret_entered: but Node runs
 * this reaction of a promise under an id of its own, which hooks make it do, or an AsyncResource has been
 * entered: it is for the caller to find out. */
HOT uint32_t carried_current(struct carried *v, const struct probe_thread *self, bool *ret_entered);

/* What is awaited from here on, in the code that runs, is nobody's. */
void carried_drop(struct carried *v);

/* What a resource's callbacks serve: the newest with such an id. number: as of carried_current(). */
void carried_keep(struct carried *v, uint64_t async_id, uint32_t number);

/* The thread's node::Environment. */
static inline void carried_environment(struct carried *v, const void *environment)
{
    if (LIKELY(v->environment == environment) || !sonde_config.node.execution_field)
        return;
    v->environment = environment;
    v->ids = NULL;
    v->agreed = 0;
}

/* The id of the asynchronous resource whose code runs, as Node has it (probe_float.c). */
uint64_t execution_async_id(struct carried *v);

/* That is the id of what runs now: does the environment say so? */
void execution_is(struct carried *v, uint64_t async_id);
/* The same, on a thread that carries none: Node is asked each time. 0: none, or not known. */
uint64_t running_async_id(void);

/* This thread's; NULL when it carries none. */
struct carried *carried_own(void);

#endif
