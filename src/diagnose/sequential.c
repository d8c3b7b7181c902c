/* See sequential.h. The model: log latency is a host's level plus noise; levels of hosts vary with variance
 * tau^2, a harmless version moves all by a little, and the candidate adds d. The e-value is the likelihood
 * ratio of all data so far, with d mixed over a half-normal prior, to d = 0 (Robbins' mixture). A host's
 * level is drawn once and stays, so with few hosts the evidence is bounded however many requests they serve.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sequential.h"

#include <math.h>
#include <stdlib.h>

#include "base/macro.h"

#define PRIOR_SCALE    0.26 /* log 1.3: slow-downs of this size are looked for first */
#define TAIL_SHARE     0.1
#define TAU_PRIOR      4.0  /* hosts that the borrowed spread counts for */
#define PAIRED_SPREAD  0.03 /* how differently two hosts may take to one version */
#define LEVELS_BELOW   1.0
#define VERSION_SPREAD 0.01 /* how much harmless versions differ */
#define SPREAD_MIN     0.01
#define REQUESTS_MIN   20  /* of a host */
#define SIDE_MIN       300 /* requests of either side, before which the noise is not known well enough */
#define EXPONENT_MAX   690.0

/* Requests of one host: number, mean and variance of the statistic. */
struct level {
    double n, mean, variance;
};

/* The mean and variance of max(log x - floor, 0), or of log x when there is no floor. */
static struct level level_of(const struct sketch *sketch, const double *floor)
{
    struct level level = {0};
    uint16_t first, end;
    double squares = 0;
    sketch_range(sketch, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        double times = (double)sketch_bin_count(sketch, (uint16_t)bin);
        if (times == 0)
            continue;
        double value = log(fmax(sketch_bin_middle((uint16_t)bin), 1));
        if (floor)
            value = fmax(value - *floor, 0);
        double off = value - level.mean;
        level.n += times;
        level.mean += off * times / level.n;
        squares += off * (value - level.mean) * times;
    }
    level.variance = level.n > 1 ? squares / (level.n - 1) : 0;
    return level;
}

struct estimate {
    double difference, variance;
    bool paired;
    size_t older, newer;
};

static double pooled_variance(const struct level *levels, size_t count)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        sum += levels[i].variance * (levels[i].n - 1);
        n += levels[i].n - 1;
    }
    return n > 0 ? sum / n : 0;
}

/* Variance between hosts beyond the noise of their means, shrunk towards the borrowed one and never below it:
 * few hosts that agree by chance prove nothing. */
static double spread_of(const struct level *levels, size_t count, double noise, double borrowed)
{
    double mean = 0, squares = 0, noise_of_means = 0;
    for (size_t i = 0; i < count; i++)
        mean += levels[i].mean / (double)count;
    for (size_t i = 0; i < count; i++) {
        squares += (levels[i].mean - mean) * (levels[i].mean - mean);
        noise_of_means += noise / levels[i].n / (double)count;
    }
    double freedom = count > 1 ? (double)count - 1 : 0;
    double own = freedom > 0 ? fmax(squares / freedom - noise_of_means, 0) : 0;
    return fmax((freedom * own + TAU_PRIOR * borrowed) / (freedom + TAU_PRIOR), borrowed);
}

static void weigh(const struct level *levels, size_t count, double between, double noise, double *ret_mean,
                  double *ret_variance)
{
    double weights = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        double weight = 1 / (between + noise / levels[i].n);
        weights += weight;
        sum += weight * levels[i].mean;
    }
    *ret_mean = weights > 0 ? sum / weights : 0;
    *ret_variance = weights > 0 ? 1 / weights : INFINITY;
}

static size_t levels_of(const struct cluster *clusters, size_t count, const double *floor,
                        struct level *levels, uint32_t *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (clusters[i].latency->count < REQUESTS_MIN)
            continue;
        levels[n] = level_of(clusters[i].latency, floor);
        hosts[n++] = clusters[i].host;
    }
    return n;
}

/* Differences per host that is on both sides, where that is most of the newer side. */
static bool estimate_paired(const struct level *a, const uint32_t *a_hosts, size_t a_count,
                            const struct level *b, const uint32_t *b_hosts, size_t b_count, double noise,
                            double scale, struct estimate *ret_estimate)
{
    double weights = 0, sum = 0;
    size_t pairs = 0;
    for (size_t i = 0; i < b_count; i++)
        for (size_t j = 0; j < a_count; j++) {
            if (a_hosts[j] != b_hosts[i])
                continue;
            double weight =
                1 / (PAIRED_SPREAD * PAIRED_SPREAD * scale * scale + noise / a[j].n + noise / b[i].n);
            weights += weight;
            sum += weight * (b[i].mean - a[j].mean);
            pairs++;
        }
    if (pairs * 2 < b_count || !pairs)
        return false;
    *ret_estimate = (struct estimate){
        sum / weights, 1 / weights + VERSION_SPREAD * VERSION_SPREAD * scale * scale, true, pairs, pairs};
    return true;
}

/* scale: how much smaller the statistic's effects are than the middle's. */
static bool estimate(const struct contrast *c, const double *floor, double scale, double host_spread,
                     struct estimate *ret_estimate)
{
    size_t room = c->older_count + c->newer_count + 1;
    _cleanup_(freep) struct level *levels = calloc(room, sizeof(*levels));
    _cleanup_(freep) uint32_t *hosts = calloc(room, sizeof(*hosts));
    if (!levels || !hosts)
        return false;
    size_t a = levels_of(c->older, c->older_count, floor, levels, hosts);
    size_t b = levels_of(c->newer, c->newer_count, floor, levels + a, hosts + a);
    if (!a || !b)
        return false;
    double noise = pooled_variance(levels, a); /* of the older side: the null's */
    if (noise <= 0)
        noise = 1e-6;
    double of_time = c->time_spread * c->time_spread * scale * scale;
    if (estimate_paired(levels, hosts, a, levels + a, hosts + a, b, noise, scale, ret_estimate)) {
        ret_estimate->variance += of_time;
        return true;
    }
    double borrowed = fmax(host_spread, SPREAD_MIN) * scale;
    double between = spread_of(levels, a, noise, borrowed * borrowed);
    double older, newer, older_variance, newer_variance;
    weigh(levels, a, between, noise, &older, &older_variance);
    weigh(levels + a, b, between, noise, &newer, &newer_variance);
    *ret_estimate = (struct estimate){newer - older,
                                      older_variance + newer_variance +
                                          VERSION_SPREAD * VERSION_SPREAD * scale * scale + of_time,
                                      false, a, b};
    return true;
}

/* The mixture likelihood ratio with d from a half-normal of that scale. */
static double mixture(const struct estimate *e, double scale)
{
    double v = e->variance, t = scale * scale, total = v + t;
    double exponent = t * e->difference * e->difference / (2 * v * total);
    double toward = 1 - stats_normal_above(e->difference * scale / sqrt(v * total));
    return 2 * toward * sqrt(v / total) * exp(fmin(exponent, EXPONENT_MAX));
}

void sequential_test(const struct contrast *contrast, double host_spread,
                     struct sequential_result *ret_result)
{
    struct sequential_result result = {.e_value = 1, .ratio = 1, .low = 0, .high = INFINITY};
    struct estimate middle, tail;
    struct sketch older = {0};
    uint64_t newer = 0;
    for (size_t i = 0; i < contrast->older_count; i++)
        if (sketch_merge(&older, contrast->older[i].latency) < 0)
            break;
    for (size_t i = 0; i < contrast->newer_count; i++)
        newer += contrast->newer[i].latency->count;
    bool enough = older.count >= SIDE_MIN && newer >= SIDE_MIN;
    double floor = log(fmax(sketch_quantile(&older, 1 - TAIL_SHARE), 1));
    /* How far a host's level moves the tail: by as much as requests lie above a floor that is lower by that
     * level. */
    double lower = exp(floor - LEVELS_BELOW * fmax(host_spread, SPREAD_MIN));
    double share =
        older.count ? (double)sketch_count_above(&older, (uint64_t)lower) / (double)older.count : 1;
    double scale = fmax(share, TAIL_SHARE);
    sketch_done(&older);
    if (enough && estimate(contrast, NULL, 1, host_spread, &middle)) {
        result.e_value = mixture(&middle, PRIOR_SCALE);
        if (!contrast->middle_only && estimate(contrast, &floor, scale, host_spread, &tail))
            result.e_value = (result.e_value + mixture(&tail, PRIOR_SCALE * TAIL_SHARE)) / 2;
        /* Two-sided normal mixture, solved for the differences that it does not reject at 0.05. */
        double v = middle.variance, total = v + PRIOR_SCALE * PRIOR_SCALE;
        double reach = sqrt(v * total / (PRIOR_SCALE * PRIOR_SCALE) * (log(total / v) + 2 * log(1 / 0.05)));
        result.ratio = exp(middle.difference);
        result.low = exp(middle.difference - reach);
        result.high = exp(middle.difference + reach);
        result.older_hosts = middle.older;
        result.newer_hosts = middle.newer;
        result.paired = middle.paired;
    }
    *ret_result = result;
}

static int descending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a > b ? -1 : a < b;
}

size_t sequential_select(const double *e_values, size_t count, double q, bool *selected)
{
    _cleanup_(freep) double *sorted = calloc(count + 1, sizeof(*sorted));
    double threshold = INFINITY;
    size_t n = 0;
    if (!sorted)
        return 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = e_values[i];
    qsort(sorted, count, sizeof(*sorted), descending);
    for (size_t k = 1; k <= count; k++)
        if (sorted[k - 1] >= (double)count / (q * (double)k))
            threshold = sorted[k - 1];
    for (size_t i = 0; i < count; i++)
        n += selected[i] = e_values[i] >= threshold;
    return n;
}
