/* The turns of an event loop. A span's record is written when it ends, so the events of a thread arrive
 * inside out; here they are put together to a tree, and when an outermost span (a stream's events, a
 * completion, a phase) ends, the turn is read as a whole: whose callback it was is known only then.
 *
 * items is in order of arrival, so that the subtree of an item is the contiguous range [low, item]; roots are
 * the items that no later span has taken in yet. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "targets/node/state.h"
#include "model/activity.h"
#include "model/reading.h"

/* The sampler fits its clock on its own. */
static const uint64_t CLOCK_SLACK_NS = 200000;

enum { ITEMS_MAX = 400000 };

/* Between the last turn and the one that begins now the loop had something to do, such as what its poll was
 * over for, and no CPU to do it: a stretch of its own, in which nothing ran. */
static void kept_between_turns(struct analysis *a, struct thread *thread, uint64_t begins_ns)
{
    uint64_t since_ns = MAX(thread->last_turn_end_ns, node_thread(thread)->kept_ns);
    if (begins_ns < since_ns + a->options.stall_ns)
        return;
    size_t first, count = activity_waits(thread, begins_ns - a->options.stall_ns, begins_ns, &first);
    for (size_t i = first; i < first + count; i++) {
        const struct activity_wait *w = activity_wait_at(thread, i);
        uint64_t ready_ns = w->end_ns - w->runnable_ns;
        if (w->brief || w->runnable_ns < a->options.stall_ns || ready_ns < since_ns || w->end_ns > begins_ns)
            continue;
        node_thread(thread)->kept_ns = w->end_ns;
        struct stretch *s = stretch_turn(a, thread, ready_ns, w->end_ns, 0);
        if (s)
            s->phase = PHASE_UNKNOWN;
    }
}

static void read_root(struct analysis *a, struct thread *thread, uint32_t root, uint8_t phase)
{
    kept_between_turns(a, thread, thread->items.at[root].start_ns);
    node_read_turn(a, thread, root, phase);
}

static void read_roots(struct analysis *a, struct thread *thread, uint8_t phase)
{
    for (size_t i = 0; i < thread->roots.count; i++) {
        uint32_t root = thread->roots.at[i];
        if (thread->items.at[root].event == SONDE_EVENT_uv_phase) {
            uint8_t its_phase = thread->items.at[root].small;
            for (uint32_t child = thread->items.at[root].first_child; child != NONE_ITEM;
                 child = thread->items.at[child].next)
                read_root(a, thread, child, its_phase);
        } else {
            read_root(a, thread, root, phase);
        }
        thread->last_turn_end_ns = thread->items.at[root].end_ns;
    }
    for (size_t i = 0; i < thread->items.count; i++)
        if (thread->items.at[i].event == SONDE_EVENT_uv_done)
            pool_op_free(thread->items.at[i].pointer);
    array_clear(&thread->items);
    array_clear(&thread->roots);
    requests_settle(a, thread);
}

void turn_flush(struct analysis *a, struct thread *thread)
{
    read_roots(a, thread, PHASE_UNKNOWN);
}

/* What was submitted since the completion began is another operation of the same key. */
static void take_done(struct thread *thread, struct item *item, uint64_t request)
{
    uint64_t *known = map_get(&node_process(thread->process)->pool, request);
    struct pool_op *op = known ? (struct pool_op *)(uintptr_t)*known : NULL;
    if (!op)
        return;
    if (op->submit_ns >= item->start_ns && op->submit_ns) {
        item->pointer = op->before;
        op->before = NULL;
        return;
    }
    item->pointer = op;
    map_remove(&node_process(thread->process)->pool, request);
}

static void remember_type(struct analysis *a, struct thread *thread, uint64_t async_id, const char *type)
{
    if (!node_thread(thread)->types)
        node_thread(thread)->types = calloc(TYPES_KEPT, sizeof(*node_thread(thread)->types));
    if (node_thread(thread)->types)
        node_thread(thread)->types[async_id % TYPES_KEPT] = (struct async_type){async_id, type};
    else
        a->failed = true;
}

static void fill_item(struct analysis *a, struct thread *thread, struct item *item, const struct event *e)
{
    switch (e->id) {
    case SONDE_EVENT_node_async_init:
        item->id = U(e, node_async_init_async_id);
        item->trigger = U(e, node_async_init_trigger_id);
        item->name = process_name_of(thread->process, U(e, node_async_init_type));
        node_thread(thread)->last_type = item->name;
        node_thread(thread)->last_type_ns = e->time_ns;
        remember_type(a, thread, item->id, item->name);
        if (item->name && strcmp(item->name, "TCPCONNECTWRAP") == 0)
            thread->process->connecting++;
        break;
    case SONDE_EVENT_node_callback:
        item->id = U(e, node_callback_async_id);
        item->name = process_name_of(thread->process, U(e, node_callback_function));
        break;
    case SONDE_EVENT_uv_done:
        item->small = (uint8_t)U(e, uv_done_kind);
        take_done(thread, item, U(e, uv_done_request));
        break;
    case SONDE_EVENT_uv_phase:
        item->small = (uint8_t)U(e, uv_phase_phase);
        break;
    case SONDE_EVENT_stream_io:
        item->fd = (int32_t)I(e, stream_io_fd);
        item->generation = (uint32_t)U(e, stream_io_generation);
        item->count = (uint32_t)U(e, stream_io_events);
        item->id = U(e, stream_io_bytes);
        break;
    case SONDE_EVENT_v8_gc:
        item->small = (uint8_t)U(e, v8_gc_type);
        gc_collected(a, thread, item->start_ns, e->time_ns, item->small, U(e, v8_gc_heap_before),
                     U(e, v8_gc_heap_after), U(e, v8_gc_external));
        break;
    case SONDE_EVENT_js_measure:
        item->id = e->time_ns - MIN(e->time_ns, U(e, js_measure_ago_ns));
        item->trigger = item->id - MIN(item->id, U(e, js_measure_took_ns));
        item->context = (uint32_t)U(e, js_measure_context);
        item->name = process_name_of(thread->process, U(e, js_measure_name));
        break;
    case SONDE_EVENT_js_function:
        item->context = (uint32_t)U(e, js_function_context);
        item->name = process_name_of(thread->process, U(e, js_function_name));
        item->count = (uint32_t)U(e, js_function_call);
        item->small = U(e, js_function_threw) != 0;
        break;
    case SONDE_EVENT_js_settled:
        item->count = (uint32_t)U(e, js_settled_call);
        item->small = (uint8_t)U(e, js_settled_outcome);
        break;
    case SONDE_EVENT_v8_encode:
        item->small = (uint8_t)U(e, v8_encode_what);
        item->id = U(e, v8_encode_bytes);
        encode_done(a, thread, item->start_ns, e->time_ns, item->small, item->id);
        break;
    }
}

/* A phase that is not behind the last one begins another iteration. */
static void phase_ended(struct thread *thread, uint8_t phase, uint64_t end_ns)
{
    uint64_t *ends = thread->phases_end_ns;
    if (phase <= thread->last_phase && ends[0]) {
        ends[2] = ends[1];
        ends[1] = ends[0];
    }
    ends[0] = end_ns;
    thread->last_phase = phase;
}

void turn_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    uint64_t start_ns = e->time_ns - event_duration(e);
    struct item *item = turn_item(a, thread, e->id, start_ns, e->time_ns);
    if (!item)
        return;
    node_thread(thread)->runs_loop = 1;
    fill_item(a, thread, item, e);
    if (e->id == SONDE_EVENT_stream_io || e->id == SONDE_EVENT_uv_done || e->id == SONDE_EVENT_port_turn)
        loop_callback(a, thread, e->time_ns);
    if (e->id == SONDE_EVENT_stream_io || e->id == SONDE_EVENT_uv_done || e->id == SONDE_EVENT_port_turn)
        read_roots(a, thread, SONDE_uv_phase_poll);
    else if (e->id == SONDE_EVENT_uv_phase || thread->items.count > ITEMS_MAX)
        read_roots(a, thread, PHASE_UNKNOWN);
    node_thread(thread)->had_phase |= e->id == SONDE_EVENT_uv_phase;
    if (e->id == SONDE_EVENT_uv_phase)
        phase_ended(thread, (uint8_t)U(e, uv_phase_phase), e->time_ns);
    if (e->id != SONDE_EVENT_uv_phase || U(e, uv_phase_phase) != SONDE_uv_phase_poll)
        return;
    loop_tick(a, thread, start_ns, e->time_ns, (int32_t)I(e, uv_phase_timeout_ms));
    loop_polled(thread, start_ns, e->time_ns);
    thread->polls_since_stretch++;
}

/* ---- what has not ended ---- */

/* When what samples see began that no turn has ended since; 0: there are none. Brief ones only know when they
 * were taken. */
static uint64_t sampled_since_ns(const struct thread *thread)
{
    uint64_t since_ns = 0;
    array_foreach (&thread->looks, look)
        if (look->since_ns + CLOCK_SLACK_NS >= thread->last_turn_end_ns &&
            (!since_ns || look->since_ns < since_ns))
            since_ns = look->since_ns;
    return since_ns;
}

bool turn_is_in(struct analysis *a, const struct thread *thread, struct stretch *s,
                const struct request **ret_owner)
{
    uint64_t worst_ns = 0, since_ns = sampled_since_ns(thread);
    if (!since_ns)
        return false;
    s->start_ns = since_ns;
    s->phase = SONDE_uv_phase_poll;
    s->starting = !node_thread(thread)->had_phase;
    s->callback = s->starting ? "main script" : NULL;
    array_foreach (&thread->items, item) {
        if (item->start_ns + CLOCK_SLACK_NS < since_ns)
            continue;
        uint64_t took_ns = activity_net_ns(thread, item->start_ns, item->end_ns);
        if (item->event == SONDE_EVENT_v8_gc) {
            s->gc_ns += took_ns;
        } else if (item->event == SONDE_EVENT_v8_encode) {
            s->encode_ns += encode_took_ns(thread, item->start_ns, item->end_ns);
            s->encode_what = item->small;
        } else if (item->event == SONDE_EVENT_uv_run) {
            s->sync_ns += took_ns;
            s->sync_kind = took_ns >= worst_ns ? item->small : s->sync_kind;
            worst_ns = MAX(worst_ns, took_ns);
        }
    }
    /* The newest request that began in it is what runs. */
    *ret_owner = NULL;
    array_foreach (&thread->open, request)
        if ((*request)->start_ns + CLOCK_SLACK_NS >= since_ns && (*request)->start_ns <= s->end_ns &&
            (!*ret_owner || (*request)->start_ns > (*ret_owner)->start_ns))
            *ret_owner = *request;
    s->route = *ret_owner ? node_endpoint_name(a, *ret_owner) : NULL;
    return true;
}

/* ---- the end of a thread ---- */

static int deepest_first(const void *x, const void *y)
{
    const struct open_span *a = x, *b = y;
    return (a->depth < b->depth) - (a->depth > b->depth);
}

/* Spans that never ended, as if they ended now: the innermost first. */
void turn_finish(struct analysis *a, struct thread *thread, uint64_t now_ns)
{
    ARRAY(struct open_span) open = {0};
    array_foreach (&a->open_spans, span)
        if (span->pid == thread->process->pid && span->tid == thread->tid &&
            span->since_ns >= thread->process->started_ns)
            LIST_ADD(a, &open, *span);
    if (open.count)
        qsort(open.at, open.count, sizeof(*open.at), deepest_first);
    bool turn = false;
    array_foreach (&open, span) {
        if (span->event != SONDE_EVENT_node_callback && span->event != SONDE_EVENT_stream_io &&
            span->event != SONDE_EVENT_uv_done)
            continue;
        struct item *item =
            turn_item(a, thread, (uint16_t)span->event, span->since_ns, MAX(now_ns, span->since_ns));
        if (!item)
            break;
        turn = true;
        if (span->event == SONDE_EVENT_uv_done)
            take_done(thread, item, span->argument);
        else if (span->event == SONDE_EVENT_stream_io)
            item->fd = (int32_t)span->argument, item->generation = UINT32_MAX;
        else
            item->id = span->argument;
    }
    array_done(&open);
    /* The recorder died too: samples of a stall are what is left. */
    uint64_t since_ns = sampled_since_ns(thread);
    if (!turn && since_ns)
        turn = turn_item(a, thread, SONDE_EVENT_node_callback, since_ns, MAX(now_ns, since_ns)) != NULL;
    thread->unfinished = turn;
    thread->finish_ns = now_ns;
    read_roots(a, thread, SONDE_uv_phase_poll);
}
