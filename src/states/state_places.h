/* The attributes of hosts, threads and CPUs in a history of states, made when they are first needed.
 * Used by states.c (sonde's own events) and kernel_states.c (those of kernel tracers). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_STATE_PLACES_H
#define STATES_STATE_PLACES_H

#include "states/emit.h"
#include "base/array.h"
#include "base/map.h"
#include "trace/event_names.h"
#include "trace/trace.h"

/* Attributes are EMIT_NONE until they are made. */
struct state_thread {
    uint32_t base, state, call, name, priority, parent, process, waker;
    int64_t priority_now, parent_now, process_now; /* -1: not said yet */
    uint32_t in_call;                              /* kernel_states.c: which system call it is in; 0: none */
    bool seen;                                     /* an event said what state it is in */
    bool exiting;                                  /* it runs its last steps */
    bool forked;                                   /* its beginning is in the trace */
    bool ended;
};

struct state_host {
    uint32_t root, threads, processors, irqs, softirqs, disks;
};

struct state_places {
    struct emit *emit;         /* borrowed, as is the trace */
    const struct trace *trace; /* NULL: one host */
    ARRAY(struct state_host) hosts;
    ARRAY(struct state_thread) threads;
    struct map thread_of;     /* host and tid -> index into threads */
    struct event_names names; /* of sonde's own traces */
};

/* Key of a map over all hosts. */
static inline uint64_t state_key(uint32_t host, uint64_t number)
{
    return (uint64_t)host << 48 ^ number;
}

/* All: 0 or a negative errno. What is returned is valid until the next one is made. */
int state_host_at(struct state_places *places, uint32_t host, struct state_host **ret_host);
int state_thread_at(struct state_places *places, uint32_t host, int64_t tid,
                    struct state_thread **ret_thread);

/* The attribute NAME below parent, unless *quark has it already. */
int state_below(struct state_places *places, uint32_t parent, uint32_t *quark, const char *name);

void state_places_done(struct state_places *places);

#endif
