/* What each event loop did over time: bins of equal width, which double when the trace outgrows them, so that
 * memory is bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/loop.h"

#include <stddef.h>
#include <string.h>

#include "targets/node/state.h"
#include "base/clock.h"

static const uint64_t FIRST_WIDTH_NS = 100 * NS_PER_MS;

static void merge_bin(struct loop_bin *to, const struct loop_bin *from)
{
    to->active_ns += from->active_ns;
    to->gc_ns += from->gc_ns;
    to->gc_net_ns += from->gc_net_ns;
    to->run_ns += from->run_ns;
    to->wait_ns += from->wait_ns;
    to->between_ns += from->between_ns;
    to->encode_ns += from->encode_ns;
    to->turns += from->turns;
    to->ticks += from->ticks;
    to->pool_queued_ns += from->pool_queued_ns;
    to->pool_running_ns += from->pool_running_ns;
    to->pool_done_ns += from->pool_done_ns;
    to->ready = MAX(to->ready, from->ready);
    to->pool = MAX(to->pool, from->pool);
    to->collections += from->collections;
    to->majors += from->majors;
    to->longest_ns = MAX(to->longest_ns, from->longest_ns);
    to->late_ns = MAX(to->late_ns, from->late_ns);
    to->heap_bytes = from->heap_bytes ? from->heap_bytes : to->heap_bytes;
}

static void halve(struct loop_watch *w)
{
    for (size_t i = 0; i < LOOP_BINS / 2; i++) {
        struct loop_bin both = w->bins[2 * i];
        merge_bin(&both, &w->bins[2 * i + 1]);
        w->bins[i] = both;
    }
    memset(&w->bins[LOOP_BINS / 2], 0, sizeof(w->bins[0]) * (LOOP_BINS / 2));
    w->width_ns *= 2;
}

static struct loop_watch *watch_of(struct analysis *a, struct thread *thread, uint64_t now_ns)
{
    if (node_thread(thread)->loop)
        return node_thread(thread)->loop;
    node_thread(thread)->loop = calloc(1, sizeof(*node_thread(thread)->loop));
    if (!node_thread(thread)->loop) {
        a->failed = true;
        return NULL;
    }
    node_thread(thread)->loop->width_ns = FIRST_WIDTH_NS;
    node_thread(thread)->loop->from_ns = now_ns;
    thread->loops_since_ns = MAX(now_ns, 1u);
    return node_thread(thread)->loop;
}

struct loop_bin *loop_bin_at(struct analysis *a, struct thread *thread, uint64_t at_ns)
{
    struct loop_watch *w = watch_of(a, thread, at_ns);
    if (!w)
        return NULL;
    uint64_t since_ns = at_ns - MIN(w->from_ns, at_ns);
    while (since_ns / w->width_ns >= LOOP_BINS)
        halve(w);
    return &w->bins[since_ns / w->width_ns];
}

/* Adds the time from start_ns to end_ns, which may lie in several bins, to a sum of each; offset: of it.
 * end_ns lies in a bin. */
static void spread(struct loop_watch *w, uint64_t start_ns, uint64_t end_ns, size_t offset)
{
    for (uint64_t at_ns = MAX(start_ns, w->from_ns); at_ns < end_ns;) {
        uint64_t since_ns = at_ns - w->from_ns;
        uint64_t here_ns = MIN(end_ns - at_ns, w->width_ns - since_ns % w->width_ns);
        *(uint64_t *)(void *)((char *)&w->bins[since_ns / w->width_ns] + offset) += here_ns;
        at_ns += here_ns;
    }
}

void loop_turn(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint64_t net_ns)
{
    struct loop_bin *bin = loop_bin_at(a, thread, end_ns);
    if (!bin)
        return;
    struct loop_watch *w = node_thread(thread)->loop;
    start_ns = MIN(start_ns, end_ns); /* a damaged trace may say otherwise */
    w->before_ns += MIN(w->from_ns, end_ns) - MIN(start_ns, w->from_ns);
    bin->turns++;
    bin->longest_ns = MAX(bin->longest_ns, end_ns - start_ns);
    w->active_ns += end_ns - start_ns;
    w->net_ns += net_ns;
    w->turns++;
    w->last_ns = MAX(w->last_ns, end_ns);
    spread(w, start_ns, end_ns, offsetof(struct loop_bin, active_ns));
}

void loop_polled(struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    for (size_t i = thread->long_turn_count, seen = 0; i > 0 && seen < LONG_TURNS; i--, seen++) {
        struct long_turn *turn = &thread->long_turns[(i - 1) % LONG_TURNS];
        if (turn->polled_ns)
            break;
        if (turn->end_ns <= start_ns)
            turn->polled_ns = end_ns;
    }
}

/* ---- queues ---- */

void loop_callback(struct analysis *a, struct thread *thread, uint64_t at_ns)
{
    struct loop_bin *bin = loop_bin_at(a, thread, at_ns);
    if (!bin)
        return;
    struct loop_watch *w = node_thread(thread)->loop;
    w->callbacks++;
    w->ready++;
    w->most_ready = MAX(w->most_ready, w->ready);
    bin->ready = MAX(bin->ready, w->ready);
}

void loop_submitted(struct analysis *a, struct thread *thread, uint64_t at_ns)
{
    struct loop_bin *bin = loop_bin_at(a, thread, at_ns);
    if (!bin)
        return;
    struct loop_watch *w = node_thread(thread)->loop;
    w->pool++;
    w->most_pool = MAX(w->most_pool, w->pool);
    bin->pool = MAX(bin->pool, w->pool);
}

void loop_ran(struct thread *thread)
{
    if (node_thread(thread)->loop && node_thread(thread)->loop->pool)
        node_thread(thread)->loop->pool--;
}

void loop_completed(struct analysis *a, struct thread *thread, const struct pool_op *op, uint64_t done_ns)
{
    if (!op->submit_ns || !op->run_end_ns || !loop_bin_at(a, thread, done_ns))
        return;
    struct loop_watch *w = node_thread(thread)->loop;
    /* A damaged trace may hold any times. */
    uint64_t end_ns = MIN(op->run_end_ns, done_ns), start_ns = MIN(op->run_start_ns, end_ns);
    uint64_t submit_ns = MIN(op->submit_ns, start_ns);
    w->last_ns = MAX(w->last_ns, done_ns);
    w->pool_queued_ns += start_ns - submit_ns;
    w->pool_running_ns += end_ns - start_ns;
    w->pool_done_ns += done_ns - end_ns;
    spread(w, submit_ns, start_ns, offsetof(struct loop_bin, pool_queued_ns));
    spread(w, start_ns, end_ns, offsetof(struct loop_bin, pool_running_ns));
    spread(w, end_ns, done_ns, offsetof(struct loop_bin, pool_done_ns));
}

void loop_tick(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns,
               int32_t timeout_ms)
{
    struct loop_bin *bin = loop_bin_at(a, thread, end_ns);
    if (!bin)
        return;
    struct loop_watch *w = node_thread(thread)->loop;
    bin->ticks++;
    w->ticks++;
    w->ready = 0;
    /* What is read from sockets runs inside the poll phase, timers between two of them: the longer of the two
     * is the least that others had to wait. What was before the first is start-up. */
    if (w->last_poll_ns) {
        uint64_t between_ns = start_ns - MIN(w->last_poll_ns, start_ns);
        w->longest_tick_ns = MAX(w->longest_tick_ns, MAX(between_ns, w->active_ns - w->ticked_ns));
    }
    w->ticked_ns = w->active_ns;
    w->last_poll_ns = end_ns;
    /* The poll was to end when the next timer was due: what it took longer, that timer was late. */
    uint64_t due_ns = timeout_ms > 0 ? (uint64_t)timeout_ms * NS_PER_MS : UINT64_MAX;
    if (end_ns - start_ns > due_ns) {
        uint64_t late_ns = end_ns - start_ns - due_ns;
        bin->late_ns = MAX(bin->late_ns, late_ns);
        w->late_timers += late_ns > NS_PER_MS;
        w->worst_late_ns = MAX(w->worst_late_ns, late_ns);
    }
}

void loop_scheduled(struct analysis *a, struct thread *thread, uint64_t now_ns, uint64_t run_ns,
                    uint64_t wait_ns)
{
    struct loop_bin *bin =
        node_thread(thread)->loop && thread->sched_count ? loop_bin_at(a, thread, now_ns) : NULL;
    if (!bin)
        return;
    const struct sched_sample *before = &thread->sched[(thread->sched_count - 1) % SCHED_KEPT];
    bin->run_ns += run_ns - MIN(before->run_ns, run_ns);
    bin->wait_ns += wait_ns - MIN(before->wait_ns, wait_ns);
}

/* ---- for programs ---- */

static json_t *series(const struct loop_watch *w, size_t count, size_t offset, bool wide)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)&w->bins[i] + offset;
        json_int_t value = wide ? (json_int_t) * (const uint64_t *)at : (json_int_t) * (const uint32_t *)at;
        json_array_append_new(array, json_integer(value));
    }
    return array;
}

static json_t *bins_json(const struct loop_watch *w)
{
    static const struct {
        const char *name;
        size_t offset;
        bool wide;
    } SERIES[] = {
        {"active_ns", offsetof(struct loop_bin, active_ns), true},
        {"longest_ns", offsetof(struct loop_bin, longest_ns), true},
        {"timer_late_ns", offsetof(struct loop_bin, late_ns), true},
        {"turns_count", offsetof(struct loop_bin, turns), false},
        {"ticks_count", offsetof(struct loop_bin, ticks), false},
        {"gc_ns", offsetof(struct loop_bin, gc_ns), true},
        {"between_ns", offsetof(struct loop_bin, between_ns), true},
        {"collections_count", offsetof(struct loop_bin, collections), false},
        {"major_count", offsetof(struct loop_bin, majors), false},
        {"heap_bytes", offsetof(struct loop_bin, heap_bytes), true},
        {"encode_ns", offsetof(struct loop_bin, encode_ns), true},
        {"ready_most_count", offsetof(struct loop_bin, ready), false},
        {"pool_most_count", offsetof(struct loop_bin, pool), false},
        {"pool_queued_ns", offsetof(struct loop_bin, pool_queued_ns), true},
        {"pool_running_ns", offsetof(struct loop_bin, pool_running_ns), true},
        {"pool_done_ns", offsetof(struct loop_bin, pool_done_ns), true},
    };
    size_t count = LOOP_BINS;
    while (count && !w->bins[count - 1].turns && !w->bins[count - 1].active_ns && !w->bins[count - 1].ticks)
        count--;
    json_t *object =
        json_pack("{s:I, s:I}", "from_ns", (json_int_t)w->from_ns, "width_ns", (json_int_t)w->width_ns);
    for (size_t i = 0; i < ARRAY_SIZE(SERIES); i++)
        json_object_set_new(object, SERIES[i].name, series(w, count, SERIES[i].offset, SERIES[i].wide));
    return object;
}

static json_t *loop_json(const struct process *process, const struct thread *thread)
{
    const struct loop_watch *w = node_thread(thread)->loop;
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "service", process->service, "process",
        (json_int_t)process->pid, "thread", (json_int_t)thread->tid, "active_ns", (json_int_t)w->active_ns,
        "turns_count", (json_int_t)w->turns, "ticks_count", (json_int_t)w->ticks, "longest_tick_ns",
        (json_int_t)w->longest_tick_ns, "late_timers_count", (json_int_t)w->late_timers,
        "worst_timer_late_ns", (json_int_t)w->worst_late_ns);
    json_t *queues = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "observed_ns",
        (json_int_t)(w->before_ns + (w->last_ns > w->from_ns ? w->last_ns - w->from_ns : 0)),
        "callbacks_count", (json_int_t)w->callbacks, "ready_most_count", (json_int_t)w->most_ready,
        "pool_most_count", (json_int_t)w->most_pool, "pool_queued_ns", (json_int_t)w->pool_queued_ns,
        "pool_running_ns", (json_int_t)w->pool_running_ns, "pool_done_ns", (json_int_t)w->pool_done_ns);
    json_object_set_new(object, "queues", queues);
    json_object_set_new(object, "bins", bins_json(w));
    if (node_thread(thread)->gc)
        json_object_set_new(object, "gc", gc_json(thread));
    return object;
}

json_t *analysis_loops_json(const struct analysis *a)
{
    json_t *array = json_array();
    array_foreach (&a->all_processes, process)
        map_foreach (&(*process)->threads, slot) {
            const struct thread *thread = (const struct thread *)(uintptr_t)slot->value;
            if (node_thread(thread)->loop)
                json_array_append_new(array, loop_json(*process, thread));
        }
    return array;
}
