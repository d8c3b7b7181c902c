/* The request's number that the probe read from the request context, for every operation that started while a
 * script of ours was asked (probe/context.c), and when it is not believed.
 *
 * Node carries the number wherever the program's own code waits: promises, callbacks, timers, events. It does
 * not follow a function that one request leaves in a queue of the program's own and another request's code
 * takes out and calls (p-queue, a client that writes all queued commands at once): that function's operations
 * then carry the wrong number, and nothing tells so when they start. It shows when they end: the request that
 * really waited goes on in a turn that brings no answer of its own. One such turn, and no number of that
 * process is a proof any more: what rests on them is ambiguous, also what was given to a request before. Only
 * a request that goes on by using the connection which another has just done with is no contradiction: that
 * is what pools are for, as long as a connection serves one request at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

void context_begins(struct analysis *a, struct thread *thread, struct request *request, uint32_t number)
{
    if (number <= CONTEXT_NONE)
        return;
    uint64_t *place = map_put(&thread->contexts, number, NULL);
    if (!place) {
        a->failed = true;
        return;
    }
    *place = request->serial;
    request->context = number;
}

void context_ends(struct thread *thread, const struct request *request)
{
    uint64_t *serial = request->context ? map_get(&thread->contexts, request->context) : NULL;
    if (serial && *serial == request->serial)
        map_remove(&thread->contexts, request->context);
}

struct request *context_owner(const struct analysis *a, const struct thread *thread, uint32_t number)
{
    uint64_t *serial = number > CONTEXT_NONE ? map_get(&thread->contexts, number) : NULL;
    return serial ? request_open(a, *serial) : NULL;
}

static void trace_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct request *request = context_owner(a, thread, (uint32_t)U(e, http_trace_context));
    if (!request)
        return;
    request->trace_high = U(e, http_trace_trace_high);
    request->trace_low = U(e, http_trace_trace_low);
    request->trace_parent = U(e, http_trace_parent);
}

const struct event_reading CONTEXT_EVENTS[] = {{SONDE_EVENT_http_trace, trace_event}, {0}};

void context_counted(struct analysis *a, struct process *process)
{
    process->told_count++;
    a->counts.told++;
}

/* ---- what contradicts the numbers ---- */

/* Every answer's owner is known, of at least one by a context's number. */
static bool rest_on_numbers(const struct call *answers, size_t count)
{
    bool told = false;
    for (size_t i = 0; i < count; i++) {
        if (!answers[i].told && !answers[i].owner)
            return false;
        told |= answers[i].told;
    }
    return told;
}

static bool owns_one(const struct call *answers, size_t count, const struct request *request)
{
    for (size_t i = 0; i < count; i++)
        if (answers[i].owner == request->serial)
            return true;
    return false;
}

void context_check(struct analysis *a, struct process *process, const struct call *answers, size_t count,
                   const struct request *went_on, uint64_t turn_start_ns)
{
    if (!went_on->context || went_on->start_ns >= turn_start_ns || !rest_on_numbers(answers, count) ||
        owns_one(answers, count, went_on))
        return;
    /* Something of its own has ended since it did anything that is seen: it may go on from that. */
    if (went_on->last_done_ns > went_on->last_active_ns)
        return;
    process->handovers++;
    a->counts.handovers++;
}

/* ---- the end ---- */

void contexts_doubt(struct analysis *a)
{
    array_foreach (&a->all_processes, place) {
        const struct process *process = *place;
        uint64_t doubted = process->handovers ? MIN(process->told_count, a->counts.proved) : 0;
        a->counts.proved -= doubted;
        a->counts.ambiguous += doubted;
        a->counts.told -= MIN(doubted, a->counts.told);
    }
}

void contexts_judge(struct analysis *a)
{
    contexts_doubt(a);
    array_foreach (&a->all_processes, place) {
        struct process *process = *place;
        if (!process->handovers)
            continue;
        map_foreach (&a->requests, slot) {
            struct request *request = (struct request *)(uintptr_t)slot->value;
            if (request->pid != process->pid)
                continue;
            array_foreach (&request->spans, span)
                if (span->told)
                    span->known = KNOWN_AMBIGUOUS;
        }
    }
}
