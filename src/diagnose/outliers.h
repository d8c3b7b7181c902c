/* One bad host: a host on which a service is much slower than on its equals, whatever version it runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_OUTLIERS_H
#define DIAGNOSE_OUTLIERS_H

#include "diagnose/regress.h"

#define OUTLIERS_HOSTS_MIN 4   /* equals, itself included, from which one can be told to be the odd one */
#define OUTLIERS_RATIO_MIN 1.5 /* against the middle of the others */

/* How far one host of many is from the others. */
struct outlier {
    size_t at;    /* among the clusters */
    double ratio; /* its middle latency over that of the others */
    double p;     /* one-sided, for the slowest of so many hosts */
    double level; /* of the others, log nanoseconds */
};

/* The slowest of some hosts that serve the same, each with at least minimum requests; false when there are
 * too few of them or it is not far enough from the others. */
bool outliers_find(const struct cluster *clusters, size_t count, uint64_t minimum,
                   struct outlier *ret_outlier);

#endif
