/* The search for faults, as the core of the analysis asks it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"

static void connection_forget(struct connection *c)
{
    free(c->lane);
    c->lane = NULL;
}

static void thread_free(struct thread *thread)
{
    array_foreach (&thread->stretches, s)
        stretch_free(*s);
    array_done(&thread->stretches);
}

static void request_done(struct analysis *a, struct process *process, struct request *request)
{
    short_request_done(a, process, request);
    pieces_request_done(a, process, request);
}

const struct analyzer analyzer_faults = {.name = "faults",
                                         .events = STRETCH_EVENTS,
                                         .connection_forget = connection_forget,
                                         .thread_free = thread_free,
                                         .call_ended = lane_used,
                                         .request_done = request_done,
                                         .request_complete = slow_request_done};

const struct analyzer analyzer_failures = {
    .name = "failures", .events = FAILURE_EVENTS, .process_free = failure_forget};

const struct analyzer analyzer_quotas = {
    .name = "quotas", .events = QUOTA_EVENTS, .process_free = quota_forget};

const struct analyzer analyzer_machine = {.name = "machine", .events = MACHINE_EVENTS};
