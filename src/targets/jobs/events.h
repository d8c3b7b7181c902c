/* Events of the job server (examples/jobs): see event/catalogue.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_JOBS_EVENTS_H
#define TARGETS_JOBS_EVENTS_H

#define SONDE_FAMILY_jobs "jobs of the example server"

#define SONDE_ENUM_jobs_result(L, e) L(e, done, 0, "done") L(e, failed, 1, "failed")
#define SONDE_ENUMS_jobs(M)          M(jobs_result)

#define SONDE_FIELDS_jobs_job(F, e)                                           \
    F(e, u32, name, name_id, "the job")                                       \
    F(e, u32, waiting, count, "jobs that waited behind it when it was begun") \
    F(e, u8, result, jobs_result, "how it ended")

#define SONDE_EVENTS_jobs(E) \
    E(jobs_job, "jobs:job", SPAN, PROBE, "a job of the example server (examples/jobs)")

#endif
