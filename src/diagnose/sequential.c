/* See sequential.h. The model: log latency is a host's level plus noise; levels of hosts vary with variance
 * tau^2, a harmless version moves all by a little, and the candidate adds d. The e-value is the likelihood
 * ratio of all data so far, with d mixed over a half-normal prior, to d = 0 (Robbins' mixture). A host's
 * level is drawn once and stays, so with few hosts the evidence is bounded however many requests they serve.
 * The mean of few newer requests, as a canary's first ones, is not normal where latency has a long tail: its
 * noise is taken to be as large as makes a normal mean as unlikely as Chernoff's bound over the older side's
 * requests allows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sequential.h"

#include <math.h>
#include <stdlib.h>

#include "base/macro.h"
#include "diagnose/residuals.h"

#define PRIOR_SCALE    0.26 /* log 1.3: slow-downs of this size are looked for first */
#define TAIL_SHARE     0.1
#define TAU_PRIOR      4.0  /* hosts that the borrowed spread counts for */
#define PAIRED_SPREAD  0.03 /* how differently two hosts may take to one version */
#define LEVELS_BELOW   1.0
#define VERSION_SPREAD 0.01 /* how much harmless versions differ */
#define SPREAD_MIN     0.01
#define REQUESTS_MIN   20  /* of a host */
#define OLDER_MIN      300 /* requests of the older side, before which the noise is not known well enough */
#define NEWER_MIN      40
#define NEWER_MANY     300 /* of the newer side, from which on a mean is normal, and tails are compared */
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

/* What an estimate is to be made of. */
struct statistic {
    const double *floor; /* of a tail; NULL: the middle */
    double scale;        /* how much smaller its effects are than the middle's */
    double newer_noise;  /* a newer request's variance as a multiple of an older one's */
    double host_requests_min;
};

struct estimate {
    double difference, variance;
    double noise; /* of one older request */
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

static size_t levels_of(const struct cluster *clusters, size_t count, const double *floor, double least,
                        struct level *levels, uint32_t *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if ((double)clusters[i].latency->count < least)
            continue;
        levels[n] = level_of(clusters[i].latency, floor);
        hosts[n++] = clusters[i].host;
    }
    return n;
}

/* Differences per host that is on both sides, where that is most of the newer side. */
static bool estimate_paired(const struct level *a, const uint32_t *a_hosts, size_t a_count,
                            const struct level *b, const uint32_t *b_hosts, size_t b_count, double noise,
                            const struct statistic *of, struct estimate *ret_estimate)
{
    double weights = 0, sum = 0, scale = of->scale;
    size_t pairs = 0;
    for (size_t i = 0; i < b_count; i++)
        for (size_t j = 0; j < a_count; j++) {
            if (a_hosts[j] != b_hosts[i])
                continue;
            double weight = 1 / (PAIRED_SPREAD * PAIRED_SPREAD * scale * scale + noise / a[j].n +
                                 of->newer_noise * noise / b[i].n);
            weights += weight;
            sum += weight * (b[i].mean - a[j].mean);
            pairs++;
        }
    if (pairs * 2 < b_count || !pairs)
        return false;
    *ret_estimate = (struct estimate){
        sum / weights, 1 / weights + VERSION_SPREAD * VERSION_SPREAD * scale * scale, noise, true, pairs,
        pairs};
    return true;
}

static bool estimate(const struct contrast *c, const struct statistic *of, double host_spread,
                     struct estimate *ret_estimate)
{
    size_t room = c->older_count + c->newer_count + 1;
    double scale = of->scale;
    _cleanup_(freep) struct level *levels = calloc(room, sizeof(*levels));
    _cleanup_(freep) uint32_t *hosts = calloc(room, sizeof(*hosts));
    if (!levels || !hosts)
        return false;
    size_t a = levels_of(c->older, c->older_count, of->floor, REQUESTS_MIN, levels, hosts);
    size_t b = levels_of(c->newer, c->newer_count, of->floor, of->host_requests_min, levels + a, hosts + a);
    if (!a || !b)
        return false;
    double noise = pooled_variance(levels, a); /* of the older side: the null's */
    if (noise <= 0)
        noise = 1e-6;
    double of_time = c->time_spread * c->time_spread * scale * scale;
    if (estimate_paired(levels, hosts, a, levels + a, hosts + a, b, noise, of, ret_estimate)) {
        ret_estimate->variance += of_time;
        return true;
    }
    double borrowed = fmax(host_spread, SPREAD_MIN) * scale;
    double between = spread_of(levels, a, noise, borrowed * borrowed);
    double older, newer, older_variance, newer_variance;
    weigh(levels, a, between, noise, &older, &older_variance);
    weigh(levels + a, b, between, of->newer_noise * noise, &newer, &newer_variance);
    *ret_estimate = (struct estimate){newer - older,
                                      older_variance + newer_variance +
                                          VERSION_SPREAD * VERSION_SPREAD * scale * scale + of_time,
                                      noise,
                                      false,
                                      a,
                                      b};
    return true;
}

/* The middle of few newer requests. */
static bool estimate_few(const struct contrast *c, double newer, double host_spread,
                         struct estimate *ret_estimate)
{
    struct statistic of = {.scale = 1, .newer_noise = 1, .host_requests_min = 1};
    struct residuals residuals = {0};
    if (!estimate(c, &of, host_spread, ret_estimate))
        return false;
    for (size_t i = 0; i < c->older_count; i++)
        if (c->older[i].latency->count >= REQUESTS_MIN)
            residuals_add(&residuals, c->older[i].latency, level_of(c->older[i].latency, NULL).mean, 1);
    residuals_normalise(&residuals);
    double x = ret_estimate->difference, deviate = residuals_deviate(&residuals, newer, x);
    if (deviate > 0)
        of.newer_noise = fmax(x * x / (deviate * deviate) * newer / ret_estimate->noise, 1);
    return estimate(c, &of, host_spread, ret_estimate);
}

/* The mixture likelihood ratio with d from a half-normal of that scale. */
static double mixture(const struct estimate *e, double scale)
{
    double v = e->variance, t = scale * scale, total = v + t;
    double exponent = t * e->difference * e->difference / (2 * v * total);
    double toward = 1 - stats_normal_above(e->difference * scale / sqrt(v * total));
    return 2 * toward * sqrt(v / total) * exp(fmin(exponent, EXPONENT_MAX));
}

double sequential_evidence(double difference, double variance)
{
    struct estimate e = {.difference = difference, .variance = variance};
    return mixture(&e, PRIOR_SCALE);
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
    bool enough = older.count >= OLDER_MIN && newer >= NEWER_MIN, few = newer < NEWER_MANY;
    double floor = log(fmax(sketch_quantile(&older, 1 - TAIL_SHARE), 1));
    /* How far a host's level moves the tail: by as much as requests lie above a floor that is lower by that
     * level. */
    double lower = exp(floor - LEVELS_BELOW * fmax(host_spread, SPREAD_MIN));
    double share =
        older.count ? (double)sketch_count_above(&older, (uint64_t)lower) / (double)older.count : 1;
    struct statistic of_middle = {.scale = 1, .newer_noise = 1, .host_requests_min = REQUESTS_MIN},
                     of_tail = of_middle;
    of_tail.floor = &floor;
    of_tail.scale = fmax(share, TAIL_SHARE);
    sketch_done(&older);
    if (enough && (few ? estimate_few(contrast, (double)newer, host_spread, &middle)
                       : estimate(contrast, &of_middle, host_spread, &middle))) {
        result.e_value = mixture(&middle, PRIOR_SCALE);
        if (few) /* half of the evidence is kept for the tail, which is not looked at yet */
            result.e_value /= contrast->middle_only ? 1 : 2;
        else if (!contrast->middle_only && estimate(contrast, &of_tail, host_spread, &tail))
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
