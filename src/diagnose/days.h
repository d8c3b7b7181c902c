/* Today against yesterday and last week. Of each bucket of entries every hour of eight days is kept: how many
 * there were, how many failed, and the level of their latency. The newest whole hour is compared with the
 * same hour of the days before; how much that differs from day to day by itself is taken from the days
 * before, too. No version is blamed for what is found this way, and what one explains is left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_DAYS_H
#define DIAGNOSE_DAYS_H

#include <stdbool.h>

#include "base/array.h"
#include "span/sketch.h"

#define DAYS_HOURS    192 /* that are kept: a week, and a day more */
#define DAYS_OPEN     4   /* of these the newest, into which requests may come in any order */
#define DAYS_REQUESTS 100 /* in an hour, before it is compared */

enum day_measure { DAY_MIDDLE, DAY_HIGH, DAY_ERRORS, DAY_MEASURES };

/* An hour of a bucket: since 1970. Levels are logarithms: of the geometric mean and of the 95th percentile in
 * nanoseconds, and of the odds of an error. */
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

/* What stands out in the newest whole hour of a bucket. */
struct day_change {
    uint32_t bucket;
    enum day_measure measure;
    struct day_hour now, yesterday, last_week; /* requests 0: not known */
    double ratio;                              /* now / the largest of the days before */
    double p;    /* one-sided, against the usual day, by how much the days differ among themselves */
    size_t days; /* that this rests on */
};

/* False when a line has no whole hour to compare, or too few days before it. */
bool days_compare(const struct day_line *line, enum day_measure measure, struct day_change *ret_change);

void days_done(struct days *days);

#endif
