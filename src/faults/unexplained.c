/* What is left over: requests that waited long for nothing that was seen, neither a timer of their own nor a
 * busy event loop, nor a pool (lanes.c). That is said, with what was busy meanwhile, rather than nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

static const uint64_t WAIT_MIN_NS = 50 * NS_PER_MS;
/* Where the loop's account is counters that are read now and then, what is left of a wait that was the loop's
 * for the most part is not known so exactly. */
enum { SMALL_PART = 3 };

/* The callback that went on after the wait was a timer's: the program waited by its own wish. */
static bool is_timer(const struct request *request, const struct path_step *next)
{
    if (next->class != PATH_RUN || next->span == VSPAN_NONE)
        return false;
    const struct vspan *span = &request->spans.at[next->span];
    return span->kind == VSPAN_callback && span->name && strcmp(span->name, "timer") == 0;
}

/* A broker that the program exchanges messages with, "mqtt at ADDRESS"; NULL: none is known. No message is an
 * answer to another as far as can be seen, although a request may wait for one. */
static const char *broker_of(struct analysis *a, const struct process *process)
{
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        char text[160];
        if (c->closed_ns || !c->protocol || c->protocol->wire < SONDE_wire_amqp)
            continue;
        snprintf(text, sizeof(text), "%s%s%.100s", c->protocol->name, c->peer_name ? " at " : "",
                 c->peer_name ? c->peer_name : "");
        return intern_string(a, text);
    }
    return NULL;
}

/* What may have been done for it meanwhile; NULL: nothing is known that was. */
static const char *ambiguous_work(const struct analysis *a, const struct process *process,
                                  const struct path_step *step)
{
    const struct analyzer *target = analyzer_of(a, process);
    return target && target->ambiguous_work ? target->ambiguous_work(process, step->start_ns, step->end_ns)
                                            : NULL;
}

static void add(struct analysis *a, const struct process *process, struct request *request,
                const struct path_step *step, uint64_t took_ns, bool by_timer)
{
    char key[320];
    snprintf(key, sizeof(key), "%s %.256s", request->method, request->route);
    struct fault *fault = fault_get(a, FINDING_unexplained_wait, process, key);
    if (!fault)
        return;
    fault->process = process;
    fault->route = intern_string(a, key);
    fault->count++;
    fault->total_ns += took_ns;
    if (took_ns > fault->worst_ns) {
        fault->worst_ns = took_ns;
        fault->command = lanes_busy_peer(process, step->start_ns, step->end_ns, &fault->lanes);
        fault->inner = ambiguous_work(a, process, step);
    }
    if (!fault->asked)
        fault->asked = broker_of(a, process);
    fault->queued_commands += request->ambiguous > 0;
    fault->failed += by_timer;
    fault->from_ns = MIN(fault->from_ns, step->start_ns);
    fault->to_ns = MAX(fault->to_ns, step->end_ns);
    fault_add_request(a, fault, request, took_ns, VICTIM_WAITED);
}

void unexplained_request_done(struct analysis *a, const struct process *process, struct request *request)
{
    /* Of one that another service waits for, that one's slow peer tells (slow.c). */
    if (request->state == REQUEST_UNFINISHED || request->messages || request->caller)
        return;
    for (size_t i = 0; i < request->path_steps.count; i++) {
        const struct path_step *step = &request->path_steps.at[i];
        bool last = i + 1 == request->path_steps.count;
        uint64_t took_ns = step->end_ns - step->start_ns;
        if (step->class != PATH_OTHER || step->of_child || step->span != VSPAN_NONE ||
            took_ns < WAIT_MIN_NS || (!last && is_timer(request, step + 1)) ||
            failure_covers(request, step->start_ns, step->end_ns))
            continue;
        /* What the loop was busy with, other findings tell. */
        uint64_t own_ns = loop_busy_ns(process, request->tid, step->start_ns, step->end_ns);
        uint64_t rest_ns = took_ns - own_ns;
        if (rest_ns >= WAIT_MIN_NS && (step->timed || rest_ns * SMALL_PART >= took_ns))
            add(a, process, request, step, rest_ns,
                request->answered_by_timer && i + 2 >= request->path_steps.count);
    }
}
