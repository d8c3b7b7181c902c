/* How the job server of examples/jobs is recognised and hooked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "attach/target.h"

static const struct hook HOOKS[] = {
    /* int (struct jobs *, struct job *) */
    {"jobs_execute", "jobs_execute", 1, 2, "the jobs that it executes"},
};

static bool recognise(struct target *target)
{
    target->versions[0] = target_constant(target, "jobs_version");
    return target->versions[0] != 0;
}

static void layout(struct target *target, enum sonde_context context, struct sonde_config *config)
{
    config->jobs.name = target_address(target, "jobs_name");
    config->jobs.waiting = target_address(target, "jobs_waiting");
    if (!config->jobs.name)
        target_miss(target, "the names of jobs", "this build has no symbol jobs_name", NULL);
}

static void describe(const struct target *target, char *buffer, size_t size)
{
    snprintf(buffer, size, "job server %u (sonde's example of a target)", target->versions[0]);
}

const struct target_kind target_kind_jobs = {.runtime = SONDE_runtime_jobs,
                                             .hooks = HOOKS,
                                             .hook_count = ARRAY_SIZE(HOOKS),
                                             .recognise = recognise,
                                             .layout = layout,
                                             .describe = describe};
