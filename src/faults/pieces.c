/* Waits of a request for threads of a pool, none of which need be long: an operation that stands in the queue
 * for a few milliseconds is no fault, a request that does so again and again is slow by it. Each wait is
 * judged with its thread's own accounts (fault.c); what is left of it is added up for the request, and when
 * the request has ended and nothing of it is to be judged any more, the sum is judged as one long wait is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"

enum {
    PIECE_PART = 20, /* a wait that is shorter than this part of a long one is not added up */
    PENDING_MAX = 128,
    REQUESTS_MAX = 4096,
    OCCUPANTS = 4,
    CHAIN_MAX = 16,
    FELT_PART = 3, /* a request feels what takes at least this part of its latency */
};

/* The waits of one request. */
struct pieces {
    const struct process *process;
    uint64_t until_ns;                          /* the end of the last one */
    uint64_t pending;                           /* stretches that are not judged yet */
    uint64_t count, total_ns, net_ns, worst_ns; /* of those that are no fault by themselves */
    uint64_t told_ns;                           /* of net_ns at most, in a wait that is one, too */
    uint64_t run_ns, from_ns, to_ns;
    bool inexact;                        /* the kernel did not report what each thread did */
    struct stretch occupants[OCCUPANTS]; /* what held the pool; alone_ns: of the waits */
    double held_ns[OCCUPANTS];           /* by each, of the pool's time then */
    struct {
        const char *kind;
        uint64_t count;
    } waiting[8];
    /* Of the request, once it has ended: */
    bool ended;
    uint64_t latency_ns;
    ARRAY(struct victim) victims; /* it and those that waited for it */
};

static struct pieces *pieces_get(const struct analysis *a, uint64_t serial)
{
    const uint64_t *slot = map_get(&a->pieces, serial);
    return slot ? (struct pieces *)(uintptr_t)*slot : NULL;
}

static void pieces_done(struct pieces *p)
{
    array_foreach (&p->victims, victim)
        free(victim->path);
    array_done(&p->victims);
    free(p);
}

void pieces_free(struct analysis *a)
{
    map_foreach (&a->pieces, slot) {
        pieces_done((struct pieces *)(uintptr_t)slot->value);
    }
    map_done(&a->pieces);
}

/* ---- what waited ---- */

bool pieces_count(const struct analysis *a, const struct thread *thread, uint64_t waited_ns)
{
    return waited_ns >= a->options.pool_wait_ns / PIECE_PART && thread->stretches.count < PENDING_MAX;
}

static struct pieces *pieces_of(struct analysis *a, const struct request *request)
{
    struct pieces *known = pieces_get(a, request->serial);
    if (known || a->pieces.count >= REQUESTS_MAX)
        return known;
    struct pieces *p = calloc(1, sizeof(*p));
    uint64_t *slot = p ? map_put(&a->pieces, request->serial, NULL) : NULL;
    if (!slot) {
        a->failed = true;
        free(p);
        return NULL;
    }
    *slot = (uintptr_t)p;
    p->process = request->process;
    p->from_ns = UINT64_MAX;
    return p;
}

void pieces_add(struct analysis *a, struct stretch *s, const struct request *request, bool others)
{
    struct pieces *p = pieces_of(a, request);
    if (!p)
        return;
    s->waiter = request->serial;
    s->again_ns = MAX(s->start_ns, MIN(p->until_ns, s->end_ns)) - s->start_ns;
    s->alone_ns = others ? s->end_ns - s->start_ns - s->again_ns : 0;
    p->until_ns = MAX(p->until_ns, s->end_ns);
    p->pending++;
}

static void add_occupant(struct pieces *p, const struct stretch *s)
{
    size_t i = 0;
    while (i < OCCUPANTS && p->occupants[i].alone_ns &&
           (p->occupants[i].occupant_kind != s->occupant_kind ||
            p->occupants[i].occupant_type != s->occupant_type))
        i++;
    if (i == OCCUPANTS)
        return;
    struct stretch *o = &p->occupants[i];
    o->occupant_kind = s->occupant_kind;
    o->occupant_type = s->occupant_type;
    o->occupant_route = s->occupant_route ? s->occupant_route : o->occupant_route;
    o->occupant_run_ns = MAX(o->occupant_run_ns, s->occupant_run_ns);
    o->pool_threads = s->pool_threads;
    o->alone_ns += s->alone_ns;
    p->held_ns[i] += s->occupant_share * (double)s->alone_ns;
}

static void add_kind(struct pieces *p, const char *kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(p->waiting); i++)
        if (!p->waiting[i].kind || p->waiting[i].kind == kind) {
            p->waiting[i].kind = kind;
            p->waiting[i].count++;
            return;
        }
}

/* ---- the fault ---- */

struct fault *pieces_fault(struct analysis *a, const struct process *process, const struct stretch *s)
{
    char key[512];
    snprintf(key, sizeof(key), "%u|%s", s->occupant_kind, s->occupant_type ? s->occupant_type : "");
    struct fault *fault = fault_get(a, FINDING_thread_pool_starved, process, key);
    if (!fault)
        return NULL;
    fault->process = process;
    fault->occupant_kind = s->occupant_kind;
    fault->occupant_type = s->occupant_type;
    if (s->occupant_route)
        fault->occupant_route = s->occupant_route;
    fault->occupant_run_ns = MAX(fault->occupant_run_ns, s->occupant_run_ns);
    fault->run_ns += s->run_ns;
    fault->pool_threads = s->pool_threads;
    return fault;
}

void pieces_waited(struct fault *fault, const char *kind, uint64_t count)
{
    for (size_t i = 0; i < ARRAY_SIZE(fault->waiting); i++)
        if (!fault->waiting[i].kind || fault->waiting[i].kind == kind) {
            fault->waiting[i].kind = kind;
            fault->waiting[i].count += count;
            return;
        }
}

static void charge(struct analysis *a, const struct pieces *p, uint64_t net_ns)
{
    size_t most = 0;
    for (size_t i = 1; i < OCCUPANTS; i++)
        if (p->occupants[i].alone_ns > p->occupants[most].alone_ns)
            most = i;
    struct stretch held = p->occupants[most];
    held.run_ns = p->run_ns;
    struct fault *fault = pieces_fault(a, p->process, &held);
    if (!fault)
        return;
    fault->count += p->count;
    fault->total_ns += p->total_ns;
    fault->net_ns += net_ns;
    fault->run_queue_ns += p->total_ns - p->net_ns;
    fault->from_ns = MIN(fault->from_ns, p->from_ns);
    fault->to_ns = MAX(fault->to_ns, p->to_ns);
    fault->worst_ns = MAX(fault->worst_ns, p->worst_ns);
    fault->occupant_share_sum += p->held_ns[most];
    for (size_t i = 0; i < ARRAY_SIZE(p->waiting) && p->waiting[i].kind; i++)
        pieces_waited(fault, p->waiting[i].kind, p->waiting[i].count);
    array_foreach (&p->victims, victim) {
        victim->delay_ns = net_ns;
        fault_add_victim(a, fault, victim, 1);
    }
}

/* Where the accounts are counters that are read now and then, the rest of what was a wait for a CPU for the
 * most part is not known so exactly. */
static void judge(struct analysis *a, const struct pieces *p)
{
    uint64_t net_ns = p->net_ns - MIN(p->told_ns, p->net_ns);
    if (net_ns < a->options.pool_wait_ns || p->total_ns * FELT_PART < p->latency_ns ||
        (p->inexact && net_ns * 3 < p->total_ns))
        return;
    charge(a, p, net_ns);
}

static void judge_last(struct analysis *a, uint64_t serial, struct pieces *p)
{
    if (!p->ended || p->pending)
        return;
    judge(a, p);
    map_remove(&a->pieces, serial);
    pieces_done(p);
}

void pieces_judged(struct analysis *a, const struct thread *thread, const struct stretch *s, uint64_t net_ns,
                   bool charged)
{
    struct pieces *p = a->so_far ? NULL : pieces_get(a, s->waiter);
    uint64_t took_ns = s->end_ns - s->start_ns;
    struct activity_times times;
    if (!p)
        return;
    p->pending--;
    if (charged) {
        p->told_ns += s->again_ns;
    } else if (s->alone_ns) {
        p->count++;
        p->total_ns += s->alone_ns;
        p->net_ns += (uint64_t)((double)net_ns * (double)s->alone_ns / (double)took_ns);
        p->worst_ns = MAX(p->worst_ns, took_ns);
        p->run_ns += s->run_ns;
        p->from_ns = MIN(p->from_ns, s->start_ns);
        p->to_ns = MAX(p->to_ns, s->end_ns);
        p->inexact |= !activity_times(thread, s->start_ns, s->end_ns, &times);
        add_occupant(p, s);
        add_kind(p, s->waiting_kind);
    }
    judge_last(a, s->waiter, p);
}

void pieces_request_done(struct analysis *a, const struct process *process, const struct request *request)
{
    struct pieces *p = a->so_far ? NULL : pieces_get(a, request->serial);
    if (!p)
        return;
    p->ended = true;
    p->latency_ns = request_latency_ns(request);
    enum victim_role role = VICTIM_WAITED;
    const struct request *waits = request;
    for (int i = 0; waits && i < CHAIN_MAX; i++, waits = waits->caller, role = VICTIM_UPSTREAM) {
        struct victim victim = request_victim(waits, 0, role);
        if (!victim.path || array_add(&p->victims, victim) < 0) {
            free(victim.path);
            a->failed = true;
            break;
        }
    }
    judge_last(a, request->serial, p);
}
