/* What a profile says, as findings in one JSON document, and where else it is sent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_REPORT_H
#define CLI_PROFILE_REPORT_H

#include "base/problem.h"
#include "profile/business.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "steer/certainty.h"
#include "steer/prune.h"

struct cost;
struct rate_summary;
struct allocs;
struct locks;
struct io;

/* What is known of how a profile came to be; each NULL when there is nothing. */
struct profile_facts {
    const struct sampler_counts *counts; /* of one that was sampled now */
    const struct prune_result *pruned;
    const struct rate_summary *rate;        /* when it followed the load */
    const struct cost *cost;                /* when it was limited (--cost) */
    const struct certainty_reached *target; /* of --error */
    const struct locks *locks;              /* of --event lock */
    const struct allocs *allocs;            /* of --event alloc */
    const struct io *io;                    /* of --event block and connect */
    bool wakers;                            /* waits have their wakers' stacks behind them */
};

/* Prints the document: findings (hot-function, outlier-instance), the top functions, what is known
 * of its quality. An exit status. */
int profile_report_json(const struct profile *profile, const struct business_rules *rules,
                        const struct profile_facts *facts, unsigned top);

/* Prints the outliers in words, to stderr; nothing when there is none. */
void profile_report_outliers(const struct profile *profile);

/* Sends the profile: to a Pyroscope server (a URL whose path ends in /ingest), or to an OpenTelemetry
 * collector
 * (.../v1development/profiles). */
int profile_push(const struct profile *profile, const char *url, const char *service,
                 struct problem *problem);

#endif
