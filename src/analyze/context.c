/* The request's number that the probe read from the request context, for every operation that started while a
 * script of ours was asked (probe/context.c), and when it is not believed.
 *
 * Node carries the number wherever the program's own code waits: promises, callbacks, timers, events. It does
 * not follow a function that one request leaves in a queue of the program's own and another request's code
 * takes out and calls (p-queue, a client that writes all queued commands at once): that function's operations
 * then carry the wrong number, and nothing tells so when they start. It shows when they end: the request that
 * really waited is answered in a turn that brings no answer of its own. One such turn, and no number of that
 * process is a proof any more: what rests on them is ambiguous, also what was given to a request before. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/model.h"

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

void context_counted(struct analysis *a, struct process *process)
{
    process->told_count++;
    a->counts.told++;
}

/* ---- what contradicts the numbers ---- */

static bool owns_one(const struct call *calls, size_t count, const struct request *request)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].owner == request->serial)
            return true;
    return false;
}

/* Whether a number, and nothing else, says whose all of these are. */
static bool all_told(const struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!calls[i].told || !calls[i].owner)
            return false;
    return count != 0;
}

void context_check(struct analysis *a, const struct connection *c, const struct call *answers, size_t count,
                   const struct request *answered, uint64_t turn_start_ns)
{
    if (!answered->context || answered->start_ns >= turn_start_ns || !all_told(answers, count) ||
        owns_one(answers, count, answered))
        return;
    /* A reply may take several reads: what it waited for may have been counted as answered in the one before.
     */
    if (answered->last_done_ns && answered->last_done_ns >= c->io_start_ns)
        return;
    c->process->handovers++;
    a->counts.handovers++;
}

/* ---- the end ---- */

void contexts_judge(struct analysis *a)
{
    array_foreach (&a->all_processes, place) {
        struct process *process = *place;
        if (!process->handovers)
            continue;
        uint64_t doubted = MIN(process->told_count, a->counts.proved);
        a->counts.proved -= doubted;
        a->counts.ambiguous += doubted;
        a->counts.told -= MIN(doubted, a->counts.told);
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
