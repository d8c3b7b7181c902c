/* The thread pool of libuv: each operation from its submission over the worker's queue (S4 of the paper) and
 * its run (S5) to its completion callback (S7), and who held the pool while others waited. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "targets/node/state.h"

enum { OCCUPANTS_MAX = 32, KIND_READ = 3, KIND_WORK = 64, KIND_GETADDRINFO = 65, KIND_GETNAMEINFO = 66 };

void pool_op_free(struct pool_op *op)
{
    if (!op)
        return;
    pool_op_free(op->before);
    free(op->calls);
    free(op);
}

static struct pool_op *pool_get(const struct process *process, uint64_t request)
{
    uint64_t *known = map_get(&node_process(process)->pool, request);
    return known ? (struct pool_op *)(uintptr_t)*known : NULL;
}

/* The resource whose creation is the nearest before the submission, on the same thread and in the same turn
 * (BCTA, Node Compass 3.6). */
static const char *nearest_type(const struct thread *thread, uint8_t kind)
{
    if (!node_thread(thread)->last_type || node_thread(thread)->last_type_ns < thread->last_turn_end_ns)
        return NULL;
    bool file = strncmp(node_thread(thread)->last_type, "FSREQ", 5) == 0;
    bool file_kind = kind > 0 && kind < KIND_WORK;
    return file == file_kind || strcmp(node_thread(thread)->last_type, "FILEHANDLE") == 0
               ? node_thread(thread)->last_type
               : NULL;
}

static struct pool_op *pool_add(struct analysis *a, struct process *process, uint64_t request, uint8_t kind)
{
    uint64_t *place = map_put(&node_process(process)->pool, request, NULL);
    struct pool_op *op = calloc(1, sizeof(*op));
    if (!place || !op) {
        a->failed = true;
        free(op);
        return NULL;
    }
    struct pool_op *before = (struct pool_op *)(uintptr_t)*place;
    if (before && before->run_end_ns) { /* its completion is going on, as those of compression do */
        pool_op_free(before->before);
        before->before = NULL;
        op->before = before;
    } else {
        pool_op_free(before); /* its completion was not seen */
    }
    *place = (uint64_t)(uintptr_t)op;
    op->request = request;
    op->kind = kind;
    op->span = VSPAN_NONE;
    return op;
}

static void submitted(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct pool_op *op = pool_add(a, thread->process, U(e, uv_submit_request), (uint8_t)U(e, uv_submit_kind));
    if (!op)
        return;
    op->submit_ns = e->time_ns;
    op->submit_tid = thread->tid;
    loop_submitted(a, thread, e->time_ns);
    op->type = nearest_type(thread, op->kind);
    if (!op->type && op->before) /* the next piece of the same work */
        op->type = op->before->type;
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->id = op->request;
        item->context = (uint32_t)U(e, uv_submit_context);
    }
}

/* ---- who held the pool ---- */

struct occupant {
    struct pool_run like; /* its kind, type and, where known, route; start and end of its longest run */
    uint64_t held_ns;
};

static void add_occupant(struct occupant *all, size_t *count, const struct pool_run *run, uint64_t held_ns)
{
    size_t i = 0;
    while (i < *count && (all[i].like.kind != run->kind || all[i].like.type != run->type))
        i++;
    if (i == OCCUPANTS_MAX)
        return;
    if (i == *count) {
        all[i] = (struct occupant){.like = *run};
        (*count)++;
    } else if (run->end_ns - run->start_ns > all[i].like.end_ns - all[i].like.start_ns) {
        all[i].like.start_ns = run->start_ns;
        all[i].like.end_ns = run->end_ns;
    }
    all[i].held_ns += held_ns;
    if (!all[i].like.route) /* not every one's request is known */
        all[i].like.route = run->route;
}

static uint64_t overlap(uint64_t s1, uint64_t e1, uint64_t s2, uint64_t e2)
{
    uint64_t start = MAX(s1, s2), end = MIN(e1, e2);
    return end > start ? end - start : 0;
}

/* Runs that had not ended when this one began: of those submitted before it, as many as there are threads
 * left. What operations of its own request held is added to own_ns. */
static void add_running(const struct process *process, const struct pool_op *op, struct occupant *all,
                        size_t *count, uint64_t *own_ns)
{
    uint32_t left = node_process(process)->pool_threads ? node_process(process)->pool_threads - 1 : 0;
    uint64_t after = 0;
    for (; left; left--) {
        const struct pool_op *first = NULL;
        map_foreach (&node_process(process)->pool, slot) {
            const struct pool_op *other = (const struct pool_op *)(uintptr_t)slot->value;
            if (other != op && other->submit_ns && !other->run_end_ns && other->submit_ns < op->submit_ns &&
                other->submit_ns > after && (!first || other->submit_ns < first->submit_ns))
                first = other;
        }
        if (!first)
            return;
        after = first->submit_ns;
        struct pool_run run = {.start_ns = first->submit_ns,
                               .end_ns = op->run_start_ns,
                               .type = first->type,
                               .route = first->route,
                               .kind = first->kind};
        uint64_t held_ns = overlap(run.start_ns, run.end_ns, op->submit_ns, op->run_start_ns);
        add_occupant(all, count, &run, held_ns);
        *own_ns += first->owner && first->owner == op->owner ? held_ns : 0;
    }
}

/* It waited behind other work. A wait that is not long is added up for its request, if others held the
 * threads for most of it: what a request waits for its own operations is its own doing. */
static void waited(struct analysis *a, struct thread *thread, const struct pool_op *op)
{
    struct process *process = thread->process;
    struct occupant all[OCCUPANTS_MAX];
    size_t count = 0;
    size_t kept = MIN(node_process(process)->run_count, (size_t)POOL_RUNS_KEPT);
    uint64_t waited_ns = op->run_start_ns - op->submit_ns, busy_ns = 0, own_ns = 0;
    bool is_long = waited_ns >= a->options.pool_wait_ns;
    if (!is_long && !pieces_count(a, thread, waited_ns))
        return;
    struct request *owner = request_open(a, op->owner);
    if (!is_long && !owner)
        return;
    for (size_t i = 0; i < kept; i++) {
        const struct pool_run *run = &node_process(process)->runs[i];
        uint64_t held = overlap(run->start_ns, run->end_ns, op->submit_ns, op->run_start_ns);
        if (held)
            add_occupant(all, &count, run, held);
        busy_ns += run->tid == thread->tid ? held : 0;
        own_ns += run->owner && run->owner == op->owner ? held : 0;
    }
    /* The thread that took it must have been at work meanwhile; one that slept on was not woken in time. */
    if (busy_ns * 2 < waited_ns)
        return;
    add_running(process, op, all, &count, &own_ns);
    const struct occupant *most = NULL;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += all[i].held_ns;
        if (!most || all[i].held_ns > most->held_ns)
            most = &all[i];
    }
    /* Starved means that the others held the threads, not that a thread was slow to wake on a busy machine.
     */
    uint64_t capacity_ns = waited_ns * MAX(node_process(process)->pool_threads, 1u);
    bool others = own_ns * 2 < total;
    if (!most || total < capacity_ns / 8 || !(is_long || others))
        return;
    struct stretch *s = stretch_new(a, thread, STRETCH_POOL, op->submit_ns, op->run_start_ns);
    if (!s)
        return;
    const char *kind = event_label(SONDE_MEANING_uv_kind, op->kind);
    s->waiting_kind = kind ? kind : "operation";
    s->run_ns = op->run_end_ns - op->run_start_ns;
    s->occupant_kind = most->like.kind;
    s->occupant_type = most->like.type;
    s->occupant_route = most->like.route;
    s->occupant_run_ns = most->like.end_ns - most->like.start_ns;
    s->occupant_share = (double)most->held_ns / (double)total;
    s->pool_threads = node_process(process)->pool_threads;
    if (owner)
        pieces_add(a, s, owner, others);
    if (!is_long)
        return;
    if (owner)
        owner->pool_wait_ns += waited_ns;
    stretch_victim_chain(a, s, owner, waited_ns, VICTIM_WAITED);
}

/* ---- at work ---- */

static void ran(struct analysis *a, struct thread *thread, struct pool_op *op, const struct event *e)
{
    struct process *process = thread->process;
    op->run_end_ns = e->time_ns;
    op->run_start_ns = MAX(e->time_ns - event_duration(e), op->submit_ns);
    op->run_tid = thread->tid;
    op->result = MIN(I(e, uv_run_result), 0);
    uint64_t *submitter = op->submit_ns ? map_get(&process->threads, (uint64_t)op->submit_tid) : NULL;
    if (submitter)
        loop_ran((struct thread *)(uintptr_t)*submitter);
    free(op->calls);
    op->calls = below_keep(thread, e->time_ns - event_duration(e), e->time_ns);
    if (!node_thread(thread)->runs_pool) {
        node_thread(thread)->runs_pool = 1;
        node_process(process)->pool_threads++;
    }
    uint64_t waited_ns = op->submit_ns ? op->run_start_ns - op->submit_ns : 0;
    uint64_t idle_ns = op->run_start_ns > node_thread(thread)->pool_busy_until_ns
                           ? op->run_start_ns - node_thread(thread)->pool_busy_until_ns
                           : 0;
    /* A thread that was idle before did not make it wait: the machine did, waking it up late. */
    op->waited_behind = node_thread(thread)->pool_busy_until_ns > op->submit_ns && idle_ns * 4 <= waited_ns;
    node_thread(thread)->pool_busy_until_ns = e->time_ns;
    stretch_active(thread, op->run_start_ns, op->run_end_ns);
    struct request *owner = request_open(a, op->owner);
    if (owner) {
        if (op->span != VSPAN_NONE) {
            struct vspan *span = &owner->spans.at[op->span];
            span->work_start_ns = op->run_start_ns;
            span->work_end_ns = op->run_end_ns;
            span->peer_tid = op->run_tid;
            span->result = op->result;
            below_pool(a, op, owner);
        }
    }
    if (op->waited_behind)
        waited(a, thread, op);
    node_process(process)->runs[node_process(process)->run_count++ % POOL_RUNS_KEPT] =
        (struct pool_run){op->run_start_ns, op->run_end_ns, op->run_tid, op->type,
                          op->route,        op->owner,      op->kind,    op->known == KNOWN_AMBIGUOUS};
}

const char *pool_ambiguous_work(const struct process *process, uint64_t start_ns, uint64_t end_ns)
{
    const struct node_process *node = node_process(process);
    size_t kept = MIN(node->run_count, (size_t)POOL_RUNS_KEPT), count = 0, most = 0;
    struct occupant all[OCCUPANTS_MAX];
    for (size_t i = 0; i < kept; i++) {
        uint64_t worked_ns = overlap(node->runs[i].start_ns, node->runs[i].end_ns, start_ns, end_ns);
        if (worked_ns && node->runs[i].ambiguous)
            add_occupant(all, &count, &node->runs[i], worked_ns);
    }
    for (size_t i = 1; i < count; i++)
        most = all[i].held_ns > all[most].held_ns ? i : most;
    if (!count || all[most].held_ns * 2 < end_ns - start_ns)
        return NULL;
    const struct pool_run *run = &all[most].like;
    return run->kind == KIND_WORK && run->type ? run->type : event_label(SONDE_MEANING_uv_kind, run->kind);
}

void pool_done(struct analysis *a, struct thread *thread, struct pool_op *op, uint64_t done_ns)
{
    const char *kind = event_label(SONDE_MEANING_uv_kind, op->kind);
    struct vspan own = {.start_ns = op->submit_ns ? op->submit_ns : op->run_start_ns,
                        .kind = VSPAN_pool,
                        .name = op->kind == KIND_WORK && op->type ? op->type
                                : kind                            ? kind
                                                                  : "operation",
                        .work_start_ns = op->run_start_ns,
                        .work_end_ns = op->run_end_ns};
    own.end_ns = MAX(done_ns, own.start_ns);
    own.gc_ns = gc_overlap_ns(thread, own.start_ns, own.end_ns);
    own.unusual = attl_add(a, thread->process->service, &own);
    loop_completed(a, thread, op, done_ns);
    struct request *owner = request_open(a, op->owner);
    if (!owner)
        return;
    if (owner->open_calls)
        owner->open_calls--;
    if (op->span == VSPAN_NONE)
        return;
    owner->last_done_ns = done_ns;
    struct vspan *span = &owner->spans.at[op->span];
    span->end_ns = MAX(done_ns, span->start_ns);
    span->gc_ns = own.gc_ns;
    span->unusual = own.unusual;
}

static void count_read(struct process *process, const struct event *e)
{
    bool read = U(e, uv_run_kind) == KIND_READ;
    node_process(process)->file_reads += read;
    node_process(process)->file_read_ns += read ? event_duration(e) : 0;
}

void pool_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    if (e->id == SONDE_EVENT_uv_submit) {
        submitted(a, thread, e);
        return;
    }
    count_read(thread->process, e);
    struct pool_op *op = pool_get(thread->process, U(e, uv_run_request));
    bool loop = thread->tid == thread->process->pid || node_thread(thread)->runs_loop;
    if (!op && !loop) /* how it was submitted was not seen */
        op = pool_add(a, thread->process, U(e, uv_run_request), (uint8_t)U(e, uv_run_kind));
    if (op && op->submit_tid != thread->tid) {
        ran(a, thread, op, e);
    } else if (loop) { /* the synchronous API, on the loop's own thread */
        struct item *item = turn_item(a, thread, e->id, e->time_ns - event_duration(e), e->time_ns);
        if (item)
            item->small = (uint8_t)U(e, uv_run_kind);
    }
}
