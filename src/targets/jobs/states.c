/* The job server's states over time: Jobs/PID/Job is the job that runs, .../Waiting how many wait behind it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/source.h"

#include <inttypes.h>
#include <stdio.h>

static int start(void **ret_self)
{
    *ret_self = NULL; /* the attributes are looked up each time */
    return 0;
}

static int on_event(void *self, struct state_places *places, const struct event *e)
{
    struct state_host *host;
    uint32_t server, job, waiting;
    char pid[24];
    const char *name = event_names_get(&places->names, e->trace, e->pid, e->values[FIELD_jobs_job_name].u);
    snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
    int r = state_host_at(places, e->trace, &host);
    if (r >= 0)
        r = emit_attribute(places->emit, host->root, "Jobs", &server);
    if (r >= 0)
        r = emit_attribute(places->emit, server, pid, &server);
    if (r >= 0)
        r = emit_attribute(places->emit, server, "Job", &job);
    if (r >= 0)
        r = emit_attribute(places->emit, server, "Waiting", &waiting);
    if (r >= 0)
        r = emit_interval(places->emit, state_start(e), e->time_ns, job,
                          history_string(name ? name : "unknown"));
    if (r >= 0)
        r = emit_interval(places->emit, state_start(e), e->time_ns, waiting,
                          history_int((int64_t)e->values[FIELD_jobs_job_waiting].u));
    return r;
}

static const uint16_t WANTED[] = {SONDE_EVENT_jobs_job, 0};

const struct state_source states_jobs = {WANTED, start, on_event, NULL};
