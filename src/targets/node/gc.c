/* Garbage collection: the time spent in it and between two of it (TIGC and TBGC, Node Compass 4.3), the heap
 * that each collection leaves behind, what it cost requests, and the verdict on leaks.
 *
 * The paper suspects a leak when TIGC and TBGC balance each other. V8 marks and sweeps beside the program
 * since, so that a leak shows in the two only when the heap is nearly full; and a program that makes much
 * garbage balances them too. Hence the trend decides: what is alive after major collections must grow, in
 * most steps, by an amount that matters, and still do so in the later half of the observation. A cache that
 * fills up to its limit, or data that is loaded once, does not. The balance is told with it. Buffers lie
 * outside of the heap: what V8 counts of them is judged by the same rule, and the process' memory, which
 * also tells of native code, by a stricter one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "targets/node/state.h"
#include "base/clock.h"

enum { MAJORS_MAX = 256, MAJORS_NEEDED = 4, EXTERNAL_NEEDED = 3, OUTSIDE_NEEDED = 5, STEPS_TOLD = 50 };

/* What is alive must have grown for so long. */
static const uint64_t LEAK_SPAN_NS = 1500 * NS_PER_MS;
static const uint64_t GROWTH_MIN_BYTES = 12ull << 20;
/* V8 keeps pages that its heap once had: those of the young generation twice (what survives is copied). */
static const uint64_t PAGES_OF_HEAP = 2;
/* Of the time that the loop was active. A program that allocates much spends a tenth. */
static const double PRESSURE_SHARE = 0.25;
static const uint64_t PRESSURE_MIN_NS = 200 * NS_PER_MS;
/* What a request loses to a scavenge or two is not worth naming it. */
static const uint64_t HIT_MIN_NS = NS_PER_MS;

/* ---- collections ---- */

static void add_major(struct analysis *a, struct gc_watch *g, const struct gc_major *major)
{
    if (g->majors.count == MAJORS_MAX) { /* every second of them tells the same */
        for (size_t i = 0; i < MAJORS_MAX / 2; i++)
            g->majors.at[i] = g->majors.at[2 * i + 1];
        g->majors.count = MAJORS_MAX / 2;
    }
    struct gc_major *last = g->majors.count ? &g->majors.at[g->majors.count - 1] : NULL;
    if (last && last->memory_bytes == UINT64_MAX && g->memory_bytes)
        last->memory_bytes = g->memory_bytes; /* it has not changed since */
    LIST_ADD(a, &g->majors, *major);
}

void gc_collected(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t type,
                  uint64_t heap_before, uint64_t heap_after, uint64_t external)
{
    if (!node_thread(thread)->gc &&
        !(node_thread(thread)->gc = calloc(1, sizeof(*node_thread(thread)->gc)))) {
        a->failed = true;
        return;
    }
    struct gc_watch *g = node_thread(thread)->gc;
    thread->collects = 1;
    struct loop_bin *bin = loop_bin_at(a, thread, end_ns);
    uint64_t took_ns = end_ns - start_ns;
    g->recent[g->recent_count++ % GC_RECENT] = (struct gc_recent){start_ns, end_ns};
    g->time_ns += took_ns;
    if (bin)
        bin->gc_ns += took_ns, bin->gc_net_ns += activity_net_ns(thread, start_ns, end_ns);
    struct gc_major *last = g->majors.count ? &g->majors.at[g->majors.count - 1] : NULL;
    if (last && external)
        last->external_bytes = MIN(last->external_bytes, external);
    if (type != SONDE_gc_type_scavenge && type != SONDE_gc_type_minor_mark_sweep &&
        type != SONDE_gc_type_mark_sweep_compact)
        return; /* a step of one, not one */
    bool major = type == SONDE_gc_type_mark_sweep_compact;
    uint64_t between_ns = g->last_end_ns && start_ns > g->last_end_ns ? start_ns - g->last_end_ns : 0;
    g->count[major]++;
    g->collecting_ns[major] += took_ns;
    g->longest_ns = MAX(g->longest_ns, took_ns);
    g->between_ns += between_ns;
    g->freed_bytes += heap_before > heap_after ? heap_before - heap_after : 0;
    g->last_end_ns = end_ns;
    g->heap_bytes = heap_after;
    g->peak_bytes = MAX(g->peak_bytes, heap_before);
    if (bin) {
        bin->collections++;
        bin->majors += major;
        bin->between_ns += between_ns;
        bin->heap_bytes = heap_after;
    }
    if (major && last && external) /* not less than external_bytes: see above */
        g->external_came_bytes += external - last->external_bytes;
    if (major && heap_after)
        add_major(a, g,
                  &(struct gc_major){.end_ns = end_ns,
                                     .heap_bytes = heap_after,
                                     .time_ns = g->time_ns,
                                     .between_ns = g->between_ns,
                                     .memory_bytes = UINT64_MAX,
                                     .external_bytes = UINT64_MAX,
                                     .external_came_bytes = g->external_came_bytes,
                                     .before_bytes = heap_before,
                                     .peak_bytes = g->peak_bytes});
}

/* The program's main heap is charged with the process' memory. */
void gc_memory(struct analysis *a, struct thread *none, const struct event *e)
{
    int64_t pid = (int64_t)U(e, process_memory_pid);
    struct process *process = process_get(a, pid);
    uint64_t *slot = process ? map_get(&process->threads, (uint64_t)pid) : NULL;
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    struct gc_watch *g = thread ? node_thread(thread)->gc : NULL;
    if (!g)
        return;
    g->memory_bytes = U(e, process_memory_anonymous_bytes);
    struct gc_major *last = g->majors.count ? &g->majors.at[g->majors.count - 1] : NULL;
    if (last)
        last->memory_bytes = MIN(last->memory_bytes, g->memory_bytes);
}

void gc_promises(struct analysis *a, struct thread *thread, const struct event *e)
{
    if (!node_thread(thread)->gc &&
        !(node_thread(thread)->gc = calloc(1, sizeof(*node_thread(thread)->gc)))) {
        a->failed = true;
        return;
    }
    thread->collects = 1;
    node_thread(thread)->gc->promises = U(e, js_promises_created);
    node_thread(thread)->gc->promises_sampled = U(e, js_promises_sampled);
    node_thread(thread)->gc->promises_collected = U(e, js_promises_collected);
}

bool gc_promises_alive(const struct gc_watch *g, uint64_t *ret_alive)
{
    enum { ENOUGH = 8 };
    if (g->promises_sampled < ENOUGH || g->promises_collected > g->promises_sampled)
        return false;
    *ret_alive = (g->promises_sampled - g->promises_collected) * PROMISE_SAMPLING;
    return true;
}

uint64_t gc_overlap_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    const struct gc_watch *g = node_thread(thread)->gc;
    uint64_t sum = 0;
    for (size_t i = g ? g->recent_count : 0, seen = 0; i > 0 && seen < GC_RECENT; i--, seen++) {
        const struct gc_recent *r = &g->recent[(i - 1) % GC_RECENT];
        if (r->end_ns <= start_ns)
            break;
        uint64_t from = MAX(r->start_ns, start_ns), to = MIN(r->end_ns, end_ns);
        sum += to > from ? to - from : 0;
    }
    return sum;
}

void gc_free(struct gc_watch *gc)
{
    if (gc)
        array_done(&gc->majors);
    free(gc);
}

/* ---- requests ---- */

void gc_request_done(struct analysis *a, struct process *process, const struct request *request)
{
    if (request->gc_ns < HIT_MIN_NS)
        return;
    struct fault *fault = fault_get(a, FINDING_gc_pressure, process, "gc");
    if (!fault)
        return;
    fault->from_ns = MIN(fault->from_ns, request->start_ns);
    fault->to_ns = MAX(fault->to_ns, request->end_ns);
    fault_add_request(a, fault, request, request->gc_ns, VICTIM_WAITED);
}

/* ---- verdicts ---- */

/* The heap after the last collection until then. */
static uint64_t heap_at(const struct thread *thread, uint64_t at_ns)
{
    const struct loop_watch *w = node_thread(thread)->loop;
    uint64_t heap = 0;
    for (size_t i = 0; i < LOOP_BINS && w->from_ns + i * w->width_ns < at_ns; i++)
        heap = w->bins[i].heap_bytes ? w->bins[i].heap_bytes : heap;
    return heap;
}

/* What is loaded before anybody asks is meant to stay. */
const struct gc_major *gc_majors_serving(const struct thread *thread, size_t *ret_count)
{
    const struct gc_watch *g = node_thread(thread)->gc;
    size_t first = 0;
    while (first < g->majors.count && g->majors.at[first].end_ns < thread->process->first_request_ns)
        first++;
    *ret_count = g->majors.count - first;
    return g->majors.at + first;
}

/* V8 runs a major collection each time the heap has grown by a factor, so a leak shows in few of them, far
 * apart; many show a slow one. Most steps must rise, by more than chance, and the last quarter of them too:
 * not only one of them, and not what has found its size. */
static bool majors_grow(const struct thread *thread)
{
    size_t n, rises = 0;
    const struct gc_major *m = gc_majors_serving(thread, &n);
    if (n < 2 || m[n - 1].heap_bytes <= m[0].heap_bytes)
        return false;
    uint64_t grown = m[n - 1].heap_bytes - m[0].heap_bytes, most = 0;
    uint64_t step = grown / MAX((size_t)STEPS_TOLD, 4 * (n - 1)),
             before = m[n - 1 - MAX(n / 4, 1u)].heap_bytes;
    for (size_t i = 0; i < n; i++) {
        rises += i && m[i].heap_bytes > m[i - 1].heap_bytes + step;
        most = MAX(most, m[i].heap_bytes);
    }
    if (m[n - 1].heap_bytes < most - most / 20 || m[n - 1].heap_bytes < before + grown / 16)
        return false;
    if (n < MAJORS_NEEDED) /* of few, the last one must have found little that was garbage */
        return rises == n - 1 && m[n - 1].heap_bytes * 4 >= m[n - 1].before_bytes * 3 &&
               grown >= MAX(2 * GROWTH_MIN_BYTES, m[0].heap_bytes);
    return rises * 4 >= (n - 1) * 3 && grown >= MAX(GROWTH_MIN_BYTES, m[0].heap_bytes / 2);
}

/* The middle of the time in which growth is looked for. What was loaded just before the end would look like a
 * leak, so without requests the end is the trace's. */
static uint64_t middle_ns(const struct thread *thread, const struct gc_major *m, size_t n, uint64_t end_ns)
{
    const struct gc_watch *g = node_thread(thread)->gc;
    if (thread->process->last_request_ns > m[n - 1].end_ns ||
        thread->process->last_request_ns > g->last_end_ns)
        end_ns = g->last_end_ns;
    return m[0].end_ns + (end_ns - MIN(end_ns, m[0].end_ns)) / 2;
}

/* Still in the later half: not a cache that has filled up, not data that was loaded at the beginning. */
static bool still_grows(const struct thread *thread, uint64_t end_ns)
{
    const struct gc_watch *g = node_thread(thread)->gc;
    size_t n;
    const struct gc_major *m = gc_majors_serving(thread, &n);
    uint64_t half_ns = middle_ns(thread, m, n, end_ns);
    uint64_t first = m[0].heap_bytes, middle = first, last = m[n - 1].heap_bytes;
    for (size_t i = 0; i < n && m[i].end_ns <= half_ns; i++)
        middle = m[i].heap_bytes;
    if (n < MAJORS_NEEDED) {
        middle = heap_at(thread, half_ns);
        last = g->heap_bytes;
    }
    return last > middle && (last - middle) * 5 >= last - first;
}

/* A few collections in a row, as a program makes at its start or for one large answer, say nothing of what
 * stays. */
static bool is_long_enough(const struct thread *thread)
{
    size_t n;
    const struct gc_major *m = gc_majors_serving(thread, &n);
    return n &&
           node_thread(thread)->gc->last_end_ns - MIN(m[0].end_ns, node_thread(thread)->gc->last_end_ns) >=
               LEAK_SPAN_NS;
}

static bool grows(const struct thread *thread, uint64_t end_ns)
{
    return majors_grow(thread) && still_grows(thread, end_ns);
}

/* How a number grew over major collections; quarter: it before the last quarter of them. */
struct trend {
    uint64_t first, middle, quarter, last, most;
    size_t rises;
};

/* at: the number's offset in struct gc_major; half_ns: the middle in time. */
static struct trend trend_of(const struct gc_major *m, size_t n, size_t at, uint64_t half_ns)
{
#define NUMBER(i) (*(const uint64_t *)((const char *)&m[i] + at))
    struct trend t = {.first = NUMBER(0),
                      .middle = NUMBER(0),
                      .quarter = NUMBER(n - 1 - MAX((n - 1) / 4, (size_t)1)),
                      .last = NUMBER(n - 1)};
    for (size_t i = 0; i < n; i++) {
        t.rises += i && NUMBER(i) > NUMBER(i - 1);
        t.most = MAX(t.most, NUMBER(i));
        t.middle = m[i].end_ns <= half_ns ? NUMBER(i) : t.middle;
    }
    return t;
#undef NUMBER
}

static bool trend_rises(const struct trend *t, size_t n)
{
    return t->last > t->first && t->last >= t->most - t->most / 20 && t->rises * 4 >= (n - 1) * 3;
}

/* At least half of what came between the first and the last is still there. Of Buffers that live as long as
 * their requests, of which more and more are served at a time, most of what came is not. */
static bool most_stayed(const struct gc_major *first, const struct gc_major *last)
{
    return (last->external_bytes - first->external_bytes) * 2 >=
           last->external_came_bytes - first->external_came_bytes;
}

/* V8 counts what objects hold outside of the heap, and collects whenever that has grown by 64 MB. It frees it
 * on threads of its own after a collection, so what is alive is the least that was counted until the next
 * one. The count is exact, like the heap's, so few collections tell, if little of what came was garbage. */
static bool external_grows(const struct thread *thread, uint64_t end_ns)
{
    size_t n;
    const struct gc_major *m = gc_majors_serving(thread, &n);
    n -= n && m[n - 1].external_bytes == UINT64_MAX;
    if (n < EXTERNAL_NEEDED)
        return false;
    struct trend t =
        trend_of(m, n, offsetof(struct gc_major, external_bytes), middle_ns(thread, m, n, end_ns));
    if (!trend_rises(&t, n) || !most_stayed(&m[0], &m[n - 1]))
        return false;
    uint64_t grown = t.last - t.first;
    return grown >= MAX(4 * GROWTH_MIN_BYTES, n < MAJORS_NEEDED ? t.first : t.first / 2) &&
           t.last > t.quarter + grown / 16 && t.last > t.middle && (t.last - t.middle) * 5 >= grown;
}

/* A major collection also frees the Buffers that nobody holds, so what the process has at least between two
 * of them is held by somebody. It rises with the heap, which is told otherwise, and while the heap finds its
 * size, so it must rise on and by more. Pages of a heap that was larger once stay with the process, although
 * nothing is alive in them: what the heap's greatest size grew by is no growth outside of it.
 *
 * The process' memory is a worse witness than the heap's size, which V8 gives exactly: it also has compiled
 * code, stacks, what malloc() keeps, pages that the collector returns when it has time for it. All of these
 * grow in a program's first collections, by more than 100 MB (Node 24), and then no more. Hence
 * OUTSIDE_NEEDED collections, and growth still in the last quarter of them: what levels off has found its
 * size. */
static bool outside_grows(const struct thread *thread)
{
    size_t n;
    const struct gc_major *m = gc_majors_serving(thread, &n);
    n -= n && m[n - 1].memory_bytes == UINT64_MAX;
    if (n < OUTSIDE_NEEDED)
        return false;
    struct trend t = trend_of(m, n, offsetof(struct gc_major, memory_bytes),
                              m[0].end_ns + (m[n - 1].end_ns - m[0].end_ns) / 2);
    if (!trend_rises(&t, n))
        return false;
    uint64_t grown = t.last - t.first, heap_first = m[0].heap_bytes, heap_last = m[n - 1].heap_bytes;
    uint64_t pages = PAGES_OF_HEAP * (m[n - 1].peak_bytes - m[0].peak_bytes);
    grown -= MIN(grown, pages);
    return grown >= MAX(4 * GROWTH_MIN_BYTES, t.first / 2) && t.last > t.quarter + grown / 16 &&
           t.last > t.middle + MAX(GROWTH_MIN_BYTES, grown / 4) &&
           (heap_last <= heap_first || (heap_last - heap_first) * 2 < grown);
}

static bool is_serving(const struct thread *thread, size_t bin)
{
    const struct loop_watch *w = node_thread(thread)->loop;
    return w->from_ns + (bin + 1) * w->width_ns >= thread->process->first_request_ns;
}

/* Of what a loop was at work, the part that the machine had CPUs for: what it waited for one is not
 * counted, and of what it neither ran nor waited (for the collector's threads, mostly) what they ran. */
static double ran_share(const struct thread *thread, const struct loop_bin *bin, uint64_t busy_ns)
{
    uint64_t wait_ns = MIN(bin->wait_ns, busy_ns), run_ns = MIN(bin->run_ns, busy_ns - wait_ns);
    double blocked_ns = (double)(busy_ns - wait_ns - run_ns) * process_ran_share(thread->process);
    return bin->run_ns ? ((double)run_ns + blocked_ns) / (double)busy_ns : 1;
}

/* Whether much time was spent in collection, by the bins in which it weighed, since there are requests.
 * ret_ran: the share of it for which the machine had CPUs. */
static bool presses(const struct thread *thread, double *ret_ran)
{
    const struct loop_watch *w = node_thread(thread)->loop;
    double gc_ns = 0, ran_ns = 0;
    for (size_t i = 0; i < LOOP_BINS; i++) {
        const struct loop_bin *bin = &w->bins[i];
        uint64_t busy_ns = MAX(bin->active_ns, bin->gc_ns);
        if (!is_serving(thread, i) || busy_ns * 10 < w->width_ns ||
            (double)bin->gc_ns < PRESSURE_SHARE * (double)busy_ns)
            continue;
        gc_ns += (double)bin->gc_ns;
        ran_ns += thread->process->has_waits ? (double)bin->gc_net_ns
                                             : (double)bin->gc_ns * ran_share(thread, bin, busy_ns);
    }
    *ret_ran = gc_ns > 0 ? ran_ns / gc_ns : 1;
    return ran_ns >= (double)PRESSURE_MIN_NS;
}

void gc_serving(const struct thread *thread, uint64_t *ret_gc_ns, uint64_t *ret_active_ns)
{
    uint64_t gc_ns = 0, active_ns = 0;
    for (size_t i = 0; i < LOOP_BINS; i++) {
        gc_ns += is_serving(thread, i) ? node_thread(thread)->loop->bins[i].gc_ns : 0;
        active_ns += is_serving(thread, i) ? node_thread(thread)->loop->bins[i].active_ns : 0;
    }
    *ret_gc_ns = gc_ns;
    *ret_active_ns = MAX(active_ns, gc_ns);
}

enum gc_verdict gc_judge(const struct thread *thread, uint64_t end_ns, double *ret_ran)
{
    if (!node_thread(thread)->gc || !node_thread(thread)->loop)
        return GC_HEALTHY;
    bool pressure = presses(thread, ret_ran);
    bool told = is_long_enough(thread);
    if (told && grows(thread, end_ns))
        return GC_LEAK;
    if (told && external_grows(thread, end_ns))
        return GC_LEAK_EXTERNAL;
    if (told && outside_grows(thread))
        return GC_LEAK_OUTSIDE;
    return pressure ? GC_PRESSURE : GC_HEALTHY;
}

/* The mean time in and between collections of the later half of the majors: the paper's balance. */
void gc_balance(const struct gc_watch *g, uint64_t *ret_in_ns, uint64_t *ret_between_ns)
{
    uint64_t all = g->count[0] + g->count[1];
    *ret_in_ns = all ? g->time_ns / all : 0;
    *ret_between_ns = all > 1 ? g->between_ns / (all - 1) : 0;
}

json_t *gc_json(const struct thread *thread)
{
    const struct gc_watch *g = node_thread(thread)->gc;
    uint64_t in_ns, between_ns;
    gc_balance(g, &in_ns, &between_ns);
    json_t *majors = json_array();
    array_foreach (&g->majors, m)
        json_array_append_new(majors, json_pack("{s:I, s:I}", "end_ns", (json_int_t)m->end_ns, "heap_bytes",
                                                (json_int_t)m->heap_bytes));
    json_t *promises = json_null();
    uint64_t alive;
    if (g->promises) {
        promises = json_pack("{s:I}", "created_count", (json_int_t)g->promises);
        json_object_set_new(promises, "alive_count",
                            gc_promises_alive(g, &alive) ? json_integer((json_int_t)alive) : json_null());
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "minor_count",
                     (json_int_t)g->count[0], "major_count", (json_int_t)g->count[1], "minor_ns",
                     (json_int_t)g->collecting_ns[0], "major_ns", (json_int_t)g->collecting_ns[1],
                     "longest_ns", (json_int_t)g->longest_ns, "tigc_ns", (json_int_t)in_ns, "tbgc_ns",
                     (json_int_t)between_ns, "heap_bytes", (json_int_t)g->heap_bytes, "majors", majors,
                     "promises", promises);
}
