/* See states.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/states.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "states/kernel_states.h"
#include "base/array.h"
#include "base/map.h"
#include "event/event.h"
#include "trace/event_names.h"

/* The thread pool of a Node process: operations in it, and those done that the loop has not taken. */
struct pool {
    uint32_t base, queued, done; /* attributes */
    int64_t in, out;
};

/* An event loop. */
struct loop {
    uint32_t phase, ready; /* attributes */
    int64_t callbacks;     /* since the last poll ended */
};

struct states {
    struct emit *emit;
    struct state_places places;
    struct kernel_states *kernel;
    struct map clients; /* host, pid and client -> attribute */
    ARRAY(struct pool) pools;
    ARRAY(struct loop) loops;
    struct map pool_of; /* host and pid -> index into pools */
    struct map loop_of; /* host and tid -> index into loops */
    struct map queued;  /* hash of host, pid and request -> 1 in the pool, 2 done */
    struct event_names names;
};

/* ---- attributes ---- */

static int set_state(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns,
                     const char *state)
{
    struct state_thread *t;
    if (tid <= 0) /* each processor's idle thread is 0 */
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    return r < 0 ? r : emit_state(s->emit, time_ns, t->state, history_string(state));
}

static int set_call(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns, const char *call)
{
    struct state_thread *t;
    if (tid <= 0)
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    if (r >= 0)
        r = state_below(&s->places, t->base, &t->call, "System call");
    return r < 0 ? r : emit_state(s->emit, time_ns, t->call, call ? history_string(call) : history_null());
}

/* ---- sonde's own events: spans, whose time is their end ---- */

static uint64_t start_of(const struct event *e)
{
    uint64_t duration = e->values[0].absent ? 0 : e->values[0].u;
    return e->time_ns > duration ? e->time_ns - duration : 0;
}

/* While it is runnable: the number of the thread that woke it, "interrupt" or "unknown". */
static int set_waker(struct states *s, const struct event *e, int64_t tid, uint64_t woken_ns)
{
    struct state_thread *t;
    char number[24];
    const struct value *v = e->values;
    uint64_t by = v[FIELD_sched_switch_woken_by].u;
    const char *waker = by == SONDE_woken_by_thread ? number : event_label(SONDE_MEANING_woken_by, by);
    snprintf(number, sizeof(number), "%" PRIu64, v[FIELD_sched_switch_waker_tid].u);
    if (tid <= 0 || !waker || by == SONDE_woken_by_nobody)
        return 0;
    int r = state_thread_at(&s->places, e->trace, tid, &t);
    if (r >= 0)
        r = state_below(&s->places, t->base, &t->waker, "Waker");
    return r < 0 ? r : emit_interval(s->emit, woken_ns, e->time_ns, t->waker, history_string(waker));
}

static int on_off_processor(struct states *s, const struct event *e)
{
    const struct value *v = e->values;
    uint64_t runnable = v[FIELD_sched_switch_runnable_ns].u, start = start_of(e);
    const char *reason = event_label(SONDE_MEANING_off_reason, v[FIELD_sched_switch_reason].u);
    int64_t tid = (int64_t)v[FIELD_sched_switch_tid].u;
    int r = set_state(s, e, tid, start, reason ? reason : "blocked");
    if (r >= 0 && runnable && runnable < e->time_ns - start) {
        r = set_state(s, e, tid, e->time_ns - runnable, "runnable");
        if (r >= 0)
            r = set_waker(s, e, tid, e->time_ns - runnable);
    }
    if (r >= 0 && !v[FIELD_sched_switch_unfinished].u)
        r = set_state(s, e, tid, e->time_ns, "running");
    return r;
}

static int on_call(struct states *s, const struct event *e)
{
    const char *call = event_label(SONDE_MEANING_syscall, e->values[FIELD_sys_call_call].u);
    int64_t tid = (int64_t)e->values[FIELD_sys_call_tid].u;
    int r = set_call(s, e, tid, start_of(e), call ? call : "other");
    return r < 0 ? r : set_call(s, e, tid, e->time_ns, NULL);
}

static int client_at(struct states *s, const struct event *e, uint32_t *ret_quark)
{
    uint64_t id = e->values[FIELD_redis_command_client_id].u, words[3] = {e->trace, (uint64_t)e->pid, id};
    uint64_t key = map_hash(words, sizeof(words));
    bool is_new;
    uint64_t *place = map_put(&s->clients, key, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct state_host *h;
        uint32_t quark = EMIT_NONE;
        char pid[24], client[24];
        snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
        snprintf(client, sizeof(client), "%" PRIu64, id);
        int r = state_host_at(&s->places, e->trace, &h);
        if (r >= 0)
            r = state_below(&s->places, h->root, &h->redis, "Redis");
        if (r >= 0)
            r = emit_attribute(s->emit, h->redis, pid, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Connections", &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, client, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Command", &quark);
        if (r < 0) {
            map_remove(&s->clients, key);
            return r;
        }
        *place = quark;
    }
    *ret_quark = (uint32_t)*place;
    return 0;
}

static int on_redis_command(struct states *s, const struct event *e)
{
    uint32_t quark;
    int r = client_at(s, e, &quark);
    const char *name = event_names_get(&s->names, e->trace, e->pid, e->values[FIELD_redis_command_name].u);
    return r < 0 ? r
                 : emit_interval(s->emit, start_of(e), e->time_ns, quark,
                                 history_string(name ? name : "unknown"));
}

/* ---- event loops and thread pools ---- */

/* What lies below Node/PID, found by key: its index in its list; *ret_new: it is to be added there. */
static int node_place(const struct event *e, struct map *map, int64_t number, size_t count,
                      uint64_t *ret_index, bool *ret_new)
{
    uint64_t *place = map_put(map, state_key(e->trace, (uint64_t)number), ret_new);
    if (!place)
        return -ENOMEM;
    if (*ret_new)
        *place = count;
    *ret_index = *place;
    return 0;
}

static int node_base(struct states *s, const struct event *e, uint32_t *ret_quark)
{
    struct state_host *h;
    char pid[24];
    snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
    int r = state_host_at(&s->places, e->trace, &h);
    if (r >= 0)
        r = state_below(&s->places, h->root, &h->node, "Node");
    return r < 0 ? r : emit_attribute(s->emit, h->node, pid, ret_quark);
}

static int pool_at(struct states *s, const struct event *e, struct pool **ret_pool)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->pool_of, e->pid, s->pools.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct pool p = {EMIT_NONE, EMIT_NONE, EMIT_NONE, 0, 0};
        r = node_base(s, e, &p.base);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Thread pool", &p.base);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Operations", &p.queued);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Done", &p.done);
        if (r >= 0 && array_add(&s->pools, p) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->pool_of, state_key(e->trace, (uint64_t)e->pid));
    }
    if (r >= 0)
        *ret_pool = &s->pools.at[index];
    return r;
}

static int loop_at(struct states *s, const struct event *e, struct loop **ret_loop)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->loop_of, e->tid, s->loops.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct loop l = {EMIT_NONE, EMIT_NONE, 0};
        uint32_t quark = EMIT_NONE;
        char tid[24];
        snprintf(tid, sizeof(tid), "%" PRId64, e->tid);
        r = node_base(s, e, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Loops", &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, tid, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Phase", &l.phase);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Ready", &l.ready);
        if (r >= 0 && array_add(&s->loops, l) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->loop_of, state_key(e->trace, (uint64_t)e->tid));
    }
    if (r >= 0)
        *ret_loop = &s->loops.at[index];
    return r;
}

static int set_pool(struct states *s, const struct event *e, const struct pool *pool)
{
    int r = emit_state(s->emit, e->time_ns, pool->queued, history_int(pool->in));
    return r < 0 ? r : emit_state(s->emit, e->time_ns, pool->done, history_int(pool->out));
}

/* uv:submit, uv:run, uv:done of one request, in this order; what was not submitted (the synchronous
 * functions, what was under way when the trace began) does not count. */
static int on_operation(struct states *s, const struct event *e, uint64_t request)
{
    struct pool *pool;
    uint64_t words[3] = {e->trace, (uint64_t)e->pid, request}, key = map_hash(words, sizeof(words));
    int r = pool_at(s, e, &pool);
    if (r < 0)
        return r;
    uint64_t *step = map_get(&s->queued, key);
    uint64_t was = step ? *step : 0;
    if (e->id == SONDE_EVENT_uv_submit) {
        if (!step && !(step = map_put(&s->queued, key, NULL)))
            return -ENOMEM;
        *step = 1;
        pool->in += was != 1;
        pool->out -= was == 2;
    } else if (e->id == SONDE_EVENT_uv_run && was == 1) {
        *step = 2;
        pool->in--;
        pool->out++;
    } else if (e->id == SONDE_EVENT_uv_done && was) {
        map_remove(&s->queued, key);
        pool->in -= was == 1; /* it was cancelled */
        pool->out -= was == 2;
    }
    return set_pool(s, e, pool);
}

static int on_phase(struct states *s, const struct event *e)
{
    struct loop *loop;
    int r = loop_at(s, e, &loop);
    uint64_t phase = e->values[FIELD_uv_phase_phase].u;
    const char *name = event_label(SONDE_MEANING_uv_phase, phase);
    if (r >= 0)
        r = emit_interval(s->emit, start_of(e), e->time_ns, loop->phase,
                          history_string(name ? name : "other"));
    if (r >= 0 && phase == SONDE_uv_phase_poll) {
        r = emit_interval(s->emit, start_of(e), e->time_ns, loop->ready, history_int(loop->callbacks));
        loop->callbacks = 0;
    }
    return r;
}

static int on_callback(struct states *s, const struct event *e)
{
    struct loop *loop;
    int r = loop_at(s, e, &loop);
    if (r >= 0)
        loop->callbacks++;
    return r;
}

/* ---- the pass ---- */

static int on_event(void *self, const struct event *e)
{
    struct states *s = self;
    switch (e->id) {
    case EVENT_FOREIGN:
        return kernel_states_event(s->kernel, e);
    case SONDE_EVENT_probe_name:
        return event_names_learn(&s->names, e);
    case SONDE_EVENT_redis_command:
        return on_redis_command(s, e);
    case SONDE_EVENT_uv_submit:
        return on_operation(s, e, e->values[FIELD_uv_submit_request].u);
    case SONDE_EVENT_uv_run:
        return on_operation(s, e, e->values[FIELD_uv_run_request].u);
    case SONDE_EVENT_uv_done: {
        int r = on_callback(s, e);
        return r < 0 ? r : on_operation(s, e, e->values[FIELD_uv_done_request].u);
    }
    case SONDE_EVENT_uv_io:
    case SONDE_EVENT_port_turn:
        return on_callback(s, e);
    case SONDE_EVENT_uv_phase:
        return on_phase(s, e);
    case SONDE_EVENT_sched_switch:
        return on_off_processor(s, e);
    case SONDE_EVENT_sys_call:
        return on_call(s, e);
    default:
        return 0;
    }
}

struct pass states_pass(struct states *states)
{
    static const uint16_t WANTED[] = {
        EVENT_FOREIGN,        SONDE_EVENT_probe_name,   SONDE_EVENT_redis_command, SONDE_EVENT_uv_submit,
        SONDE_EVENT_uv_run,   SONDE_EVENT_uv_done,      SONDE_EVENT_uv_io,         SONDE_EVENT_port_turn,
        SONDE_EVENT_uv_phase, SONDE_EVENT_sched_switch, SONDE_EVENT_sys_call,      0};
    return (struct pass){.name = "states", .wanted = WANTED, .event = on_event, .self = states};
}

int states_new(struct emit *emit, const struct trace *trace, struct states **ret_states)
{
    struct states *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->emit = emit;
    s->places.emit = emit;
    s->places.trace = trace;
    int r = kernel_states_new(&s->places, &s->kernel);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_states = s;
    return 0;
}

void states_free(struct states *s)
{
    if (!s)
        return;
    kernel_states_free(s->kernel);
    state_places_done(&s->places);
    map_done(&s->clients);
    array_done(&s->pools);
    array_done(&s->loops);
    map_done(&s->pool_of);
    map_done(&s->loop_of);
    map_done(&s->queued);
    event_names_done(&s->names);
    free(s);
}
