/* The analysis of the job server: jobs that ran so long that others waited behind them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "model/model.h"

/* A job that takes longer is a fault when others wait behind it: as long as it takes to notice. */
enum { LONG_JOB_NS = 50000000, JOB_NAMES = 64 };

/* Long jobs of one name in one process. */
struct long_jobs {
    const char *name; /* interned */
    uint64_t count, took_ns, worst_ns, waiting, from_ns, to_ns;
};

struct jobs_process {
    ARRAY(struct long_jobs) names; /* JOB_NAMES at most */
};

static struct long_jobs *long_jobs_get(struct analysis *a, struct process *process, const char *name)
{
    struct jobs_process *own = process->own[SONDE_runtime_jobs];
    array_foreach (&own->names, known)
        if (known->name == name)
            return known;
    if (own->names.count == JOB_NAMES)
        return NULL;
    if (array_add(&own->names, (struct long_jobs){.name = name}) < 0) {
        a->failed = true;
        return NULL;
    }
    return &own->names.at[own->names.count - 1];
}

static void job_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    uint64_t took_ns = event_duration(e);
    if (took_ns < LONG_JOB_NS || !U(e, jobs_job_waiting))
        return;
    const char *name = process_name_of(thread->process, U(e, jobs_job_name));
    struct long_jobs *jobs = long_jobs_get(a, thread->process, name ? name : intern_string(a, "unknown"));
    if (!jobs)
        return;
    if (!jobs->count++)
        jobs->from_ns = e->time_ns - took_ns;
    jobs->to_ns = e->time_ns;
    jobs->took_ns += took_ns;
    jobs->worst_ns = MAX(jobs->worst_ns, took_ns);
    jobs->waiting = MAX(jobs->waiting, U(e, jobs_job_waiting));
}

static void process_free(struct process *process)
{
    struct jobs_process *own = process->own[SONDE_runtime_jobs];
    array_done(&own->names);
}

static int write_finding(const struct process *process, const struct long_jobs *jobs, struct report *report)
{
    struct finding *f = report_add_finding(report, FINDING_jobs_blocked, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    f->title = finding_say(f, "job %s of %s kept up to %" PRIu64 " others waiting for up to %.0f ms",
                           jobs->name, process->service, jobs->waiting, (double)jobs->worst_ns / 1e6);
    f->detail = finding_say(
        f, "The server executes one job at a time, and this one took longer than %d ms %" PRIu64 " times.",
        LONG_JOB_NS / 1000000, jobs->count);
    f->where = (struct finding_place){.service = process->service, .process = process->pid, .layer = "jobs"};
    f->from_ns = jobs->from_ns;
    f->to_ns = jobs->to_ns;
    int r = finding_add_text(f, "job", jobs->name);
    if (r >= 0)
        r = finding_add_count(f, "jobs_count", jobs->count);
    if (r >= 0)
        r = finding_add_count(f, "took_ns", jobs->took_ns);
    if (r >= 0)
        r = finding_add_count(f, "worst_ns", jobs->worst_ns);
    return r < 0 ? r : finding_add_count(f, "waiting_count", jobs->waiting);
}

static int findings(struct analysis *a, struct report *report)
{
    int r = 0;
    array_foreach (&a->all_processes, process) {
        const struct jobs_process *own = (*process)->own[SONDE_runtime_jobs];
        for (size_t i = 0; r >= 0 && i < own->names.count; i++)
            r = write_finding(*process, &own->names.at[i], report);
    }
    return r;
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_jobs_job, job_event}, {0}};

const struct analyzer analyzer_jobs = {.name = "jobs",
                                       .runtime = SONDE_runtime_jobs,
                                       .events = EVENTS,
                                       .process_bytes = sizeof(struct jobs_process),
                                       .process_free = process_free,
                                       .findings = findings};
