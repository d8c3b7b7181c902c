/* Node's event loops and thread pools as states over time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "event/event.h"

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

struct node_states {
    ARRAY(struct pool) pools;
    ARRAY(struct loop) loops;
    struct map pool_of; /* host and pid -> index into pools */
    struct map loop_of; /* host and tid -> index into loops */
    struct map queued;  /* hash of host, pid and request -> 1 in the pool, 2 done */
};

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

static int node_base(struct state_places *places, const struct event *e, uint32_t *ret_quark)
{
    struct state_host *h;
    char pid[24];
    snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
    int r = state_host_at(places, e->trace, &h);
    if (r >= 0)
        r = emit_attribute(places->emit, h->root, "Node", ret_quark);
    return r < 0 ? r : emit_attribute(places->emit, *ret_quark, pid, ret_quark);
}

static int pool_at(struct node_states *s, struct state_places *places, const struct event *e,
                   struct pool **ret_pool)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->pool_of, e->pid, s->pools.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct pool p = {EMIT_NONE, EMIT_NONE, EMIT_NONE, 0, 0};
        r = node_base(places, e, &p.base);
        if (r >= 0)
            r = emit_attribute(places->emit, p.base, "Thread pool", &p.base);
        if (r >= 0)
            r = emit_attribute(places->emit, p.base, "Operations", &p.queued);
        if (r >= 0)
            r = emit_attribute(places->emit, p.base, "Done", &p.done);
        if (r >= 0 && array_add(&s->pools, p) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->pool_of, state_key(e->trace, (uint64_t)e->pid));
    }
    if (r >= 0)
        *ret_pool = &s->pools.at[index];
    return r;
}

static int loop_at(struct node_states *s, struct state_places *places, const struct event *e,
                   struct loop **ret_loop)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->loop_of, e->tid, s->loops.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct loop l = {EMIT_NONE, EMIT_NONE, 0};
        uint32_t quark = EMIT_NONE;
        char tid[24];
        snprintf(tid, sizeof(tid), "%" PRId64, e->tid);
        r = node_base(places, e, &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, "Loops", &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, tid, &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, "Phase", &l.phase);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, "Ready", &l.ready);
        if (r >= 0 && array_add(&s->loops, l) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->loop_of, state_key(e->trace, (uint64_t)e->tid));
    }
    if (r >= 0)
        *ret_loop = &s->loops.at[index];
    return r;
}

static int set_pool(struct state_places *places, const struct event *e, const struct pool *pool)
{
    int r = emit_state(places->emit, e->time_ns, pool->queued, history_int(pool->in));
    return r < 0 ? r : emit_state(places->emit, e->time_ns, pool->done, history_int(pool->out));
}

/* uv:submit, uv:run, uv:done of one request, in this order; what was not submitted (the synchronous
 * functions, what was under way when the trace began) does not count. */
static int on_operation(struct node_states *s, struct state_places *places, const struct event *e,
                        uint64_t request)
{
    struct pool *pool;
    uint64_t words[3] = {e->trace, (uint64_t)e->pid, request}, key = map_hash(words, sizeof(words));
    int r = pool_at(s, places, e, &pool);
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
    return set_pool(places, e, pool);
}

static int on_phase(struct node_states *s, struct state_places *places, const struct event *e)
{
    struct loop *loop;
    int r = loop_at(s, places, e, &loop);
    uint64_t phase = e->values[FIELD_uv_phase_phase].u;
    const char *name = event_label(SONDE_MEANING_uv_phase, phase);
    if (r >= 0)
        r = emit_interval(places->emit, state_start(e), e->time_ns, loop->phase,
                          history_string(name ? name : "other"));
    if (r >= 0 && phase == SONDE_uv_phase_poll) {
        r = emit_interval(places->emit, state_start(e), e->time_ns, loop->ready,
                          history_int(loop->callbacks));
        loop->callbacks = 0;
    }
    return r;
}

static int on_callback(struct node_states *s, struct state_places *places, const struct event *e)
{
    struct loop *loop;
    int r = loop_at(s, places, e, &loop);
    if (r >= 0)
        loop->callbacks++;
    return r;
}

static int on_event(void *self, struct state_places *places, const struct event *e)
{
    switch (e->id) {
    case SONDE_EVENT_uv_submit:
        return on_operation(self, places, e, e->values[FIELD_uv_submit_request].u);
    case SONDE_EVENT_uv_run:
        return on_operation(self, places, e, e->values[FIELD_uv_run_request].u);
    case SONDE_EVENT_uv_done: {
        int r = on_callback(self, places, e);
        return r < 0 ? r : on_operation(self, places, e, e->values[FIELD_uv_done_request].u);
    }
    case SONDE_EVENT_uv_phase:
        return on_phase(self, places, e);
    default:
        return on_callback(self, places, e);
    }
}

static int start(void **ret_self)
{
    *ret_self = calloc(1, sizeof(struct node_states));
    return *ret_self ? 0 : -ENOMEM;
}

static void stop(void *self)
{
    struct node_states *s = self;
    array_done(&s->pools);
    array_done(&s->loops);
    map_done(&s->pool_of);
    map_done(&s->loop_of);
    map_done(&s->queued);
    free(s);
}

static const uint16_t WANTED[] = {SONDE_EVENT_uv_submit,
                                  SONDE_EVENT_uv_run,
                                  SONDE_EVENT_uv_done,
                                  SONDE_EVENT_stream_io,
                                  SONDE_EVENT_port_turn,
                                  SONDE_EVENT_uv_phase,
                                  0};

const struct state_source states_node = {WANTED, start, on_event, stop};
