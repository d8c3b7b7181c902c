/* Kinds of finding of the job server: see finding/kinds.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_JOBS_KINDS_H
#define TARGETS_JOBS_KINDS_H

/* clang-format off */
#define FINDING_KINDS_jobs(KIND)                                                                             \
    KIND(jobs_blocked, "jobs-blocked", WARNING, WARNING,                                                     \
         "A job ran so long that the jobs behind it waited (example target).",                               \
         "Divide the job, or execute it in a process of its own.",                                           \
         EVIDENCE("job", "the job's name")                                                                   \
         EVIDENCE("jobs_count", "how often such a job ran too long")                                         \
         EVIDENCE("took_ns", "those runs, in total")                                                         \
         EVIDENCE("worst_ns", "the longest of them")                                                         \
         EVIDENCE("waiting_count", "the most jobs that waited behind one of them"))
/* clang-format on */

#endif
