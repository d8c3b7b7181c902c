/* Is the newer side of a bucket slower? One contrast: the hosts that ran the older versions against those
 * that ran the candidate, each host a sketch of request latencies. Requests on one host are not independent,
 * so hosts are what is counted; where there are too few of them, requests are resampled and the spread
 * between hosts is borrowed from the other contrasts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_REGRESS_H
#define DIAGNOSE_REGRESS_H

#include <stdbool.h>

#include "diagnose/stats.h"
#include "span/sketch.h"

struct cluster {
    uint32_t host; /* equal on both sides: the same host, before and after */
    const struct sketch *latency;
};

struct contrast {
    const struct cluster *older, *newer;
    size_t older_count, newer_count;
    bool middle_only;   /* the shapes of the sides differ for other reasons: their tails are not compared */
    double time_spread; /* standard error of the log ratio that is owed to different times; 0: same times */
};

enum regress_measure {
    MEASURE_MIDDLE, /* mean of the logarithms */
    MEASURE_P95,
    MEASURE_P99,
    MEASURES,
};

enum regress_method {
    METHOD_NONE,      /* too little data */
    METHOD_HOSTS,     /* Welch's test over hosts */
    METHOD_PAIRED,    /* the same hosts before and after */
    METHOD_BOOTSTRAP, /* Poisson bootstrap of requests, spread of hosts borrowed */
};

#define REGRESS_MINIMUM_REQUESTS 40 /* of either side, unless said otherwise */

struct regress_settings {
    double false_discovery_rate; /* 0: 0.02 */
    double minimum_ratio;        /* 0: 1.05 */
    uint64_t minimum_requests;   /* of either side; 0: 40 */
    uint64_t minimum_per_host;   /* 0: 20; hosts below are left out of the test */
    double host_spread;          /* standard deviation between hosts of log latency; 0: 0.05 */
    double spread_freedom; /* how many hosts that rests on, less one for each side; 0: it is an assumption */
    double pair_spread, pair_freedom; /* the same of how much a version's effect differs between hosts */
};

struct regress_result {
    enum regress_method method;
    enum regress_measure measure;         /* the one that p rests on */
    double ratio[MEASURES];               /* newer / older */
    double low[MEASURES], high[MEASURES]; /* its 95 % interval */
    double p_of[MEASURES];
    double p;          /* one-sided, for the smallest of the measures (times their number) */
    double adjusted_p; /* over all contrasts; set by regress_select() */
    double z;      /* the paper's: (mean of newer - mean of older) / standard deviation of older requests */
    double effect; /* log ratio over the spread of older requests' logarithms */
    uint64_t older_requests, newer_requests;
    size_t older_hosts, newer_hosts, paired_hosts;
    bool slower; /* set by whoever selects among several: select_verdicts() (select.h), regress_select() */
};

void regress_test(const struct contrast *contrast, const struct regress_settings *settings,
                  struct regress_result *ret_result);

/* Marks the results that are slower at the false-discovery rate over all of them and by the minimum effect.
 * Returns how many. For tests and bench/regression_simulation.c, whose published figures are those of the
 * latency tests alone: a judgement's verdicts also have errors, tails and subgroups in the same family
 * (select.h). */
size_t regress_select(struct regress_result *results, size_t count, const struct regress_settings *settings);

/* The spread between hosts of one version that the contrasts show together, in log latency; 0.05 when they
 * show none; and the degrees of freedom that it rests on. */
double regress_host_spread(const struct contrast *contrasts, size_t count,
                           const struct regress_settings *settings, double *ret_freedom);

/* How much the difference between two versions on the same host varies from host to host, beyond the noise of
 * the requests: of all contrasts with hosts on both sides together; and the degrees of freedom. */
double regress_pair_spread(const struct contrast *contrasts, size_t count,
                           const struct regress_settings *settings, double *ret_freedom);

const char *regress_method_words(enum regress_method method);
const char *regress_measure_name(enum regress_measure measure);

#endif
