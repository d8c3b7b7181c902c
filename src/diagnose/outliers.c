/* See outliers.h. The deleted residual (Belsley, Kuh and Welsch, Regression Diagnostics, 2.1): the slowest
 * host against the mean of the others, over their own spread, so that it does not hide behind the spread that
 * it makes itself; its p-value is Student's, times the number of hosts, since the slowest one was picked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/outliers.h"

#include <math.h>
#include <stdlib.h>

#include "base/macro.h"

#define SPREAD_MIN 0.05

bool outliers_find(const struct cluster *clusters, size_t count, uint64_t minimum,
                   struct outlier *ret_outlier)
{
    _cleanup_(freep) double *levels = calloc(2 * count + 1, sizeof(*levels));
    double *others = levels ? levels + count : NULL, mean, variance, noise = 0, slowest = -INFINITY;
    size_t used = 0, at = 0, n = 0;
    if (!levels)
        return false;
    for (size_t i = 0; i < count; i++) {
        levels[i] = -INFINITY;
        if (clusters[i].latency->count < minimum)
            continue;
        sketch_log_moments(clusters[i].latency, &levels[i], &variance);
        used++;
        if (levels[i] > slowest) {
            slowest = levels[i];
            at = i;
            noise = variance / (double)clusters[i].latency->count;
        }
    }
    if (used < OUTLIERS_HOSTS_MIN)
        return false;
    for (size_t i = 0; i < count; i++)
        if (i != at && isfinite(levels[i]))
            others[n++] = levels[i];
    stats_moments(others, n, &mean, &variance);
    variance = fmax(variance, SPREAD_MIN * SPREAD_MIN);
    double t = (slowest - mean) / sqrt(variance * (1 + 1 / (double)n) + noise);
    struct outlier found = {at, exp(slowest - mean),
                            fmin(1, (double)used * stats_student_above(t, (double)n - 1)), mean};
    if (found.ratio < OUTLIERS_RATIO_MIN)
        return false;
    *ret_outlier = found;
    return true;
}
