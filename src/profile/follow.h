/* Processes that those which are watched start later: places in programs (malloc() and its family, functions,
 * probes) are watched in them, too. That takes rights, which the sampler has given up by then; so it is done
 * in a process beside it (broker/apart.h), which reads nothing of processes but what they have mapped, and
 * gets its news from the kernel. A place is watched some milliseconds after the process has begun. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_FOLLOW_H
#define PROFILE_FOLLOW_H

#include <stdint.h>

#include "base/problem.h"
#include "profile/sampler.h"

/* The places of a file that is new, and that the process has mapped, at most `most`; how many, or a negative
 * errno. It is called in the process beside; `path` and `pid` of the places need not be set. */
typedef int follow_find_fn(pid_t pid, int file, struct sampler_place *ret_places, size_t most);

/* Watches what the sampler's options do (places, and whose), in what is started from now on until the sampler
 * stops. find: NULL when new files have no places. To be called after sampler_open(), while there are rights.
 * 0 or a negative errno with problem set. */
int follow_start(struct sampler *sampler, const struct sampler_options *options, follow_find_fn *find,
                 struct problem *problem);

struct follow_counts {
    uint64_t followed;          /* processes */
    uint64_t busy, failed;      /* others, which were not: there were too many at a time, or in too short a
                                   time; another reason. The rest had ended before */
    uint64_t latest_ns, sum_ns; /* from the beginning of those that were to when they were */
};
struct follow_counts follow_counts(const struct sampler *sampler);

#endif
