/* Today against yesterday and last week. Of each bucket of entries every hour of three weeks is kept: how
 * many there were, how many failed, and the level of their latency. The newest whole hour, and those before
 * it, are compared with the same hours of the days before (day_steps.h). No version is blamed for what is
 * found this way, and what one explains is left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_DAYS_H
#define DIAGNOSE_DAYS_H

#include <stdbool.h>

#include "base/array.h"
#include "diagnose/day_steps.h"
#include "span/sketch.h"

#define DAYS_HOURS    DAY_LEVELS
#define DAYS_OPEN     4   /* of these the newest, into which requests may come in any order */
#define DAYS_REQUESTS 100 /* in an hour, before it is compared */

/* An hour, over all that is looked at. */
#define DAY_FALSE_ALARMS 0.001

enum day_measure { DAY_MIDDLE, DAY_HIGH, DAY_ERRORS, DAY_MEASURES };

/* An hour of a bucket: since 1970. Levels are logarithms of the geometric mean and of the 95th percentile in
 * nanoseconds; that of errors is 2 asin(sqrt(share)), whose error does not depend on the share. */
struct day_hour {
    uint32_t hour, requests, errors;
    float level[DAY_MEASURES], error[DAY_MEASURES]; /* and their standard errors */
};

/* An hour that requests still come for. */
struct open_hour {
    uint32_t hour; /* 0: none */
    uint32_t errors;
    uint64_t last_ns; /* the newest start in it */
    struct sketch latency;
};

struct day_line {
    ARRAY(struct day_hour) hours;     /* ascending */
    struct open_hour open[DAYS_OPEN]; /* the newest ones, the newest first */
    uint32_t odd;                     /* requests in succession that are far from these */
};

/* Lines by number of bucket. Zero-initialise to use; days_done() when finished. */
struct days {
    ARRAY(struct day_line) lines;
};

/* Counts a request of a bucket. 0 or -ENOMEM. */
int days_add(struct days *days, uint32_t bucket, uint64_t start_ns, uint64_t duration_ns, bool failed);

/* What all lines say of the days of one. Zero is nothing. */
struct day_fleet {
    struct day_prior of[DAY_MEASURES];
};

int days_learn(const struct days *days, struct day_fleet *ret_fleet); /* 0 or -ENOMEM */

/* Requests of several hours. */
struct day_sum {
    uint64_t requests, errors;
};

/* What stands out in the newest whole hour of a bucket. */
struct day_change {
    uint32_t bucket;
    enum day_measure measure;
    struct day_hour now, yesterday, last_week;              /* requests 0: not known */
    size_t hours;                                           /* since it is so; 1: in the newest alone */
    struct day_sum since, since_yesterday, since_last_week; /* of these hours, where known */
    double ratio;                            /* of these hours / as usual; of errors: of the shares */
    double yesterday_ratio, last_week_ratio; /* and / those of yesterday, and of a week ago; 0: not known */
    double p;    /* one-sided, against the usual day, by how much the days differ among themselves */
    size_t days; /* before, with that hour */
};

/* False when a line has no whole hour to compare, or too few days before it. */
bool days_compare(const struct day_line *line, enum day_measure measure, const struct day_fleet *fleet,
                  struct day_change *ret_change);

/* Whether it is so much that somebody should know. */
bool days_matter(const struct day_change *change);

void days_done(struct days *days);

#endif
