/* The time of a profile: samples are taken until its end, at a rate that may follow the load. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_SAMPLING_H
#define CLI_PROFILE_SAMPLING_H

#include <signal.h>
#include <sys/types.h>

#include "cli/profile_metrics.h"
#include "cli/profile_options.h"
#include "steer/cost.h"
#include "steer/rate.h"

/* What became of a rate that followed the load. */
struct rate_summary {
    const struct rate_options *options;
    size_t windows, changes, regimes;
    double mean_hz, least_hz, most_hz; /* of whole windows; the mean by time */
    double theta;                      /* of the last two windows, in nats */
    ARRAY(double) divergences;         /* from window to window, with --tune; the caller's */
    double divergence, dispersion;     /* the largest between two windows; the last learnt */
};

struct profile_sampling {
    const struct profile_options *options;
    struct sampler *sampler;
    struct profile *profile;
    struct profile_metrics *metrics; /* is told of the windows of a store; NULL: nobody is */
    const volatile sig_atomic_t *interrupted;
    pid_t child;                     /* that is sampled, and waited for; 0: none */
    int gate;                        /* lets it begin; -1: there is none */
    int status;                      /* afterwards: the child's */
    struct certainty_reached target; /* afterwards, when there is one */
    struct {
        size_t windows, failed; /* that were kept; that could not be */
    } kept;                     /* afterwards, with a store */
    struct rate_summary rate;   /* afterwards; options NULL: it did not follow the load */
    struct cost cost;           /* afterwards; a limit of 0: sampling could cost what it did */
};

/* CPU time that sonde and all who work for it took so far. */
uint64_t profile_spent_ns(const struct sampler_counts *counts);

/* The sampler has been started. Until the time is over, the child or the processes end, or something
 * interrupts. 0 or a negative errno. */
int profile_sampling_run(struct profile_sampling *sampling, struct problem *problem);

#endif
