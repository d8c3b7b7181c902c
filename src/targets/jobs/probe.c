/* The hook in the job server: each job that it executes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "probe/probe.h"

extern unsigned jobs_version(void) __attribute__((weak, visibility("default")));

bool probe_wants_jobs(void)
{
    return jobs_version != NULL;
}

typedef const char *jobs_name_fn(const void *job);
typedef unsigned jobs_waiting_fn(const void *jobs);

enum { NAME_MAX_BYTES = 63 };

static uint32_t name_of(struct probe_thread *self, const void *job)
{
    jobs_name_fn *name = (jobs_name_fn *)sonde_config.jobs.name;
    const char *text = name ? name(job) : NULL;
    uint32_t length = 0;
    while (text && length < NAME_MAX_BYTES && text[length])
        length++;
    return length ? name_of_text(self, text, length) : 0;
}

HOOK(int, jobs_execute, void *jobs, void *job)
{
    struct probe_thread *self = THREAD_WANTING(jobs_job);
    if (!self)
        return sonde_orig_jobs_execute(jobs, job);
    jobs_waiting_fn *waiting_of = (jobs_waiting_fn *)sonde_config.jobs.waiting;
    uint32_t waiting = waiting_of ? waiting_of(jobs) : 0, name = name_of(self, job),
             depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_jobs_job, waiting, name);
    int result = sonde_orig_jobs_execute(jobs, job);
    if (span_close(self, depth))
        RECORD_OWN(self, jobs_job, start, ticks(), .name = name, .waiting = waiting,
                   .result = result < 0 ? SONDE_jobs_result_failed : SONDE_jobs_result_done);
    return result;
}
