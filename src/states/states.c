/* See states.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/states.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "states/kernel_states.h"
#include "states/source.h"

#define T(name) extern const struct state_source states_##name;
SONDE_TARGETS_WITH_STATES(T)
#undef T

static const struct state_source *const SOURCES[] = {
#define T(name) &states_##name,
    SONDE_TARGETS_WITH_STATES(T)
#undef T
        NULL};

enum { SOURCES_COUNT = ARRAY_SIZE(SOURCES) - 1 };

struct states {
    struct state_places places;
    struct kernel_states *kernel;
    void *own[SOURCES_COUNT];          /* each source's */
    uint8_t source[SONDE_EVENT_COUNT]; /* who reads an event: index into SOURCES, from 1; 0: nobody */
    uint16_t wanted[SONDE_EVENT_COUNT + 2];
};

/* ---- attributes ---- */

static int set_state(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns,
                     const char *state)
{
    struct state_thread *t;
    if (tid <= 0) /* each CPU's idle thread is 0 */
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    return r < 0 ? r : emit_state(s->places.emit, time_ns, t->state, history_string(state));
}

static int set_call(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns, const char *call)
{
    struct state_thread *t;
    if (tid <= 0)
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    if (r >= 0)
        r = state_below(&s->places, t->base, &t->call, "System call");
    return r < 0 ? r
                 : emit_state(s->places.emit, time_ns, t->call, call ? history_string(call) : history_null());
}

/* ---- sonde's own events: spans, whose time is their end ---- */

/* While it is runnable: the number of the thread that woke it, "interrupt" or "unknown". */
static int set_waker(struct states *s, const struct event *e, int64_t tid, uint64_t woken_ns)
{
    struct state_thread *t;
    char number[24];
    const struct value *v = e->values;
    uint64_t by = v[FIELD_sched_switch_woken_by].u;
    const char *waker = by == SONDE_woken_by_thread ? number : event_label(SONDE_MEANING_woken_by, by);
    snprintf(number, sizeof(number), "%" PRIu64, v[FIELD_sched_switch_waker_tid].u);
    bool unasked = by == SONDE_woken_by_unknown && !v[FIELD_sched_switch_waker_tid].u;
    if (tid <= 0 || !waker || by == SONDE_woken_by_nobody || unasked)
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    if (r >= 0)
        r = state_below(&s->places, t->base, &t->waker, "Waker");
    return r < 0 ? r : emit_interval(s->places.emit, woken_ns, e->time_ns, t->waker, history_string(waker));
}

static int on_off_processor(struct states *s, const struct event *e)
{
    const struct value *v = e->values;
    uint64_t runnable = v[FIELD_sched_switch_runnable_ns].u, start = state_start(e);
    const char *reason = event_label(SONDE_MEANING_off_reason, v[FIELD_sched_switch_reason].u);
    int64_t tid = (int64_t)v[FIELD_sched_switch_tid].u;
    /* A thread that was woken had a CPU at once by the scheduler's count: who woke it is shown all the same.
     */
    if (!runnable && v[FIELD_sched_switch_woken_by].u != SONDE_woken_by_nobody &&
        !v[FIELD_sched_switch_unfinished].u)
        runnable = 1;
    if (v[FIELD_sched_switch_reason].u == SONDE_off_reason_new) {
        reason = "runnable";
        runnable = 0;
    }
    int r = set_state(s, e, tid, start, reason ? reason : "blocked");
    if (r >= 0 && v[FIELD_sched_switch_reason].u == SONDE_off_reason_new)
        r = set_waker(s, e, tid, start);
    if (r >= 0 && runnable && runnable < e->time_ns - start) {
        r = set_state(s, e, tid, e->time_ns - runnable, "runnable");
        if (r >= 0)
            r = set_waker(s, e, tid, e->time_ns - runnable);
    }
    if (r >= 0 && !v[FIELD_sched_switch_unfinished].u)
        r = set_state(s, e, tid, e->time_ns, "running");
    return r;
}

/* Short times off a CPU of which there are only sums: what a thread did when is not known. */
static int on_brief(struct states *s, const struct event *e)
{
    const struct value *v = e->values;
    int64_t tid = (int64_t)v[FIELD_sched_brief_tid].u;
    uint64_t since = MIN(v[FIELD_sched_brief_since_ns].u, e->time_ns - state_start(e));
    int r = set_state(s, e, tid, state_start(e), "switching");
    return r < 0 ? r : set_state(s, e, tid, e->time_ns - since, "running");
}

static int on_call(struct states *s, const struct event *e)
{
    const char *call = event_label(SONDE_MEANING_syscall, e->values[FIELD_sys_call_call].u);
    int64_t tid = (int64_t)e->values[FIELD_sys_call_tid].u;
    int r = set_call(s, e, tid, state_start(e), call ? call : "other");
    return r < 0 ? r : set_call(s, e, tid, e->time_ns, NULL);
}

/* ---- the pass ---- */

static int on_event(void *self, const struct event *e)
{
    struct states *s = self;
    switch (e->id) {
    case EVENT_FOREIGN:
        return kernel_states_event(s->kernel, e);
    case SONDE_EVENT_probe_name:
        return event_names_learn(&s->places.names, e);
    case SONDE_EVENT_sched_switch:
        return on_off_processor(s, e);
    case SONDE_EVENT_sched_brief:
        return on_brief(s, e);
    case SONDE_EVENT_sys_call:
        return on_call(s, e);
    default: {
        unsigned source = s->source[e->id];
        return source ? SOURCES[source - 1]->event(s->own[source - 1], &s->places, e) : 0;
    }
    }
}

struct pass states_pass(struct states *states)
{
    return (struct pass){.name = "states", .wanted = states->wanted, .event = on_event, .self = states};
}

static int start_sources(struct states *s)
{
    static const uint16_t OWN[] = {EVENT_FOREIGN, SONDE_EVENT_probe_name, SONDE_EVENT_sched_switch,
                                   SONDE_EVENT_sched_brief, SONDE_EVENT_sys_call};
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(OWN); i++)
        s->wanted[count++] = OWN[i];
    for (unsigned i = 0; i < SOURCES_COUNT; i++) {
        int r = SOURCES[i]->start(&s->own[i]);
        if (r < 0)
            return r;
        for (const uint16_t *id = SOURCES[i]->wanted; *id; id++) {
            assert(!s->source[*id]);
            s->source[*id] = (uint8_t)(i + 1);
            s->wanted[count++] = *id;
        }
    }
    return 0;
}

int states_new(struct emit *emit, const struct trace *trace, struct states **ret_states)
{
    _cleanup_(states_freep) struct states *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->places.emit = emit;
    s->places.trace = trace;
    int r = kernel_states_new(&s->places, &s->kernel);
    if (r >= 0)
        r = start_sources(s);
    if (r < 0)
        return r;
    *ret_states = s;
    s = NULL;
    return 0;
}

void states_free(struct states *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < SOURCES_COUNT; i++)
        if (s->own[i])
            SOURCES[i]->stop(s->own[i]);
    kernel_states_free(s->kernel);
    state_places_done(&s->places);
    free(s);
}
