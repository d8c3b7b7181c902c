/* The lowest layer of the vertical span (Node Compass, 3.1: S6, at the operating system): the system calls of
 * the thread that a callback or a pool operation ran on, found by thread and time bounds, and what that
 * thread did: running, waiting for a CPU, blocked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum {
    CALLS_SHOWN = 32,                  /* below one span: the longest */
    SPANS_MAX = REQUEST_SPANS_MAX / 2, /* a request's other spans have the rest */
    SLACK_NS = 1000,                   /* between the clocks of the probe and the kernel, at most */
};

/* What a pool thread did during one operation, until the operation's span is there. */
struct kept_calls {
    struct activity_times times;
    bool timed;
    uint32_t left_out;
    uint32_t count;
    struct activity_call calls[];
};

/* The longest of n calls from first on, in order of time; how many. */
static uint32_t choose(const struct thread *thread, size_t first, size_t n,
                       const struct activity_call *ret_chosen[static CALLS_SHOWN])
{
    uint32_t count = 0;
    for (size_t i = first; i < first + n; i++) {
        const struct activity_call *call = activity_call_at(thread, i);
        if (count == CALLS_SHOWN) { /* the shortest goes */
            uint32_t shortest = 0;
            for (uint32_t k = 1; k < count; k++)
                if (ret_chosen[k]->end_ns - ret_chosen[k]->start_ns <
                    ret_chosen[shortest]->end_ns - ret_chosen[shortest]->start_ns)
                    shortest = k;
            if (call->end_ns - call->start_ns <=
                ret_chosen[shortest]->end_ns - ret_chosen[shortest]->start_ns)
                continue;
            memmove(&ret_chosen[shortest], &ret_chosen[shortest + 1],
                    (--count - shortest) * sizeof(*ret_chosen));
        }
        ret_chosen[count++] = call;
    }
    return count;
}

/* Whether most of a call lies in [start_ns, end_ns): it began or ended there but for the clocks' slack. */
static bool belongs(const struct activity_call *call, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t middle_ns = call->start_ns + (call->end_ns - call->start_ns) / 2;
    return middle_ns >= start_ns && middle_ns <= end_ns;
}

struct kept_calls *below_keep(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    struct activity_times times;
    const struct activity_call *chosen[CALLS_SHOWN];
    size_t first, n = activity_calls(thread, start_ns - MIN(start_ns, SLACK_NS), end_ns + SLACK_NS, &first);
    for (; n && !belongs(activity_call_at(thread, first), start_ns, end_ns); n--)
        first++;
    while (n && !belongs(activity_call_at(thread, first + n - 1), start_ns, end_ns))
        n--;
    bool timed = activity_times(thread, start_ns, end_ns, &times);
    if (!n && !timed)
        return NULL;
    uint32_t count = choose(thread, first, n, chosen);
    struct kept_calls *kept = malloc(sizeof(*kept) + count * sizeof(kept->calls[0]));
    if (!kept)
        return NULL;
    *kept = (struct kept_calls){.timed = timed, .count = count, .left_out = (uint32_t)(n - count)};
    if (timed)
        kept->times = times;
    for (uint32_t i = 0; i < count; i++)
        kept->calls[i] = *chosen[i];
    return kept;
}

static void add_call(struct analysis *a, const struct thread *thread, struct request *owner, uint32_t parent,
                     int64_t tid, const struct activity_call *call)
{
    if (owner->spans.count >= SPANS_MAX) {
        owner->spans.at[parent].calls_left_out++;
        return;
    }
    struct vspan span = {.start_ns = call->start_ns,
                         .end_ns = call->end_ns,
                         .parent = parent,
                         .cause = VSPAN_NONE,
                         .layer = LAYER_kernel,
                         .kind = VSPAN_syscall,
                         .known = owner->spans.at[parent].known,
                         .name = activity_call_name(call->call),
                         .result = call->result,
                         .fd = call->fd,
                         .peer_tid = tid};
    if (thread)
        below_times(thread, &span);
    request_add_span(a, owner, &span);
}

void below_times(const struct thread *thread, struct vspan *span)
{
    span->timed = activity_times(thread, span->start_ns, span->end_ns, &span->spent);
}

void below_pool(struct analysis *a, struct pool_op *op, struct request *owner)
{
    struct kept_calls *kept = op->calls;
    if (!kept || op->span == VSPAN_NONE || op->span >= owner->spans.count)
        return;
    struct vspan *span = &owner->spans.at[op->span];
    span->timed = kept->timed;
    span->spent = kept->times;
    span->calls_left_out = kept->left_out;
    const uint64_t *worker = map_get(&owner->process->threads, (uint64_t)op->run_tid);
    for (uint32_t i = 0; i < kept->count; i++)
        add_call(a, worker ? (const struct thread *)(uintptr_t)*worker : NULL, owner, op->span, op->run_tid,
                 &kept->calls[i]);
    free(kept);
    op->calls = NULL;
}

/* The synchronous operation below a callback that a call was made in; the callback itself when in none. */
static uint32_t parent_of(const struct request *owner, uint32_t callback, size_t end,
                          const struct activity_call *call)
{
    for (size_t i = callback + 1; i < end; i++) {
        const struct vspan *span = &owner->spans.at[i];
        if (span->kind == VSPAN_sync && span->parent == callback &&
            span->start_ns <= call->start_ns + SLACK_NS && call->end_ns <= span->end_ns + SLACK_NS)
            return (uint32_t)i;
    }
    return callback;
}

void below_callback(struct analysis *a, const struct thread *thread, struct request *owner, uint32_t span,
                    uint64_t start_ns, uint64_t end_ns)
{
    size_t first, n = activity_calls(thread, start_ns, end_ns, &first), others = owner->spans.count;
    const struct activity_call *chosen[CALLS_SHOWN];
    uint32_t count = choose(thread, first, n, chosen);
    owner->spans.at[span].calls_left_out += (uint32_t)(n - count);
    for (uint32_t i = 0; i < count; i++)
        add_call(a, thread, owner, parent_of(owner, span, others, chosen[i]), thread->tid, chosen[i]);
    below_times(thread, &owner->spans.at[span]);
    for (size_t i = span + 1; i < others; i++)
        if (owner->spans.at[i].kind == VSPAN_sync && owner->spans.at[i].parent == span)
            below_times(thread, &owner->spans.at[i]);
}
