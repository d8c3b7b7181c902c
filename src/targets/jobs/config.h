/* What the probe must know of the job server (examples/jobs): see event/config.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_JOBS_CONFIG_H
#define TARGETS_JOBS_CONFIG_H

#define SONDE_OFFSETS_jobs(O)
#define SONDE_WORDS_jobs(W)
#define SONDE_FUNCTIONS_jobs(A)                 \
    A(jobs, name, "const char *(struct job *)") \
    A(jobs, waiting, "unsigned (struct jobs *)")

#endif
