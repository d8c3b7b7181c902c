/* See regress.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/regress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

#define HOSTS_ENOUGH      3   /* on both sides, for a test over hosts */
#define HOSTS_SHARE       0.9 /* of a side's requests: what the hosts that are tested must have served */
#define PER_HOST_FOR_P99  200 /* requests, below which a host's p99 is mostly noise */
#define RESAMPLES         200
#define RESAMPLED_FOR_P95 200 /* requests of a side, of which ten are beyond the quantile */
#define RESAMPLED_FOR_P99 1000
#define DEFAULT_SPREAD    0.05
#define STRANGE           20     /* times the median: a variance that speaks for no other bucket */
#define TAIL_FOR_SPREAD   0.0002 /* where the distributions are made alike: far out, as alarms are */
#define SPREAD_KNOWN      30 /* degrees of freedom of the spread between hosts, from which it is relied on */
#define PRIOR_FREEDOM     4  /* what the default counts for beside what is seen */

static struct regress_settings effective(const struct regress_settings *settings)
{
    struct regress_settings s = settings ? *settings : (struct regress_settings){0};
    s.false_discovery_rate = s.false_discovery_rate > 0 ? s.false_discovery_rate : 0.02;
    s.minimum_ratio = s.minimum_ratio > 0 ? s.minimum_ratio : 1.05;
    s.minimum_requests = s.minimum_requests ? s.minimum_requests : REGRESS_MINIMUM_REQUESTS;
    s.minimum_per_host = s.minimum_per_host ? s.minimum_per_host : 20;
    s.host_spread = s.host_spread > 0 ? s.host_spread : DEFAULT_SPREAD;
    return s;
}

const char *regress_method_words(enum regress_method method)
{
    static const char *const words[] = {"too little data", "Welch's test over hosts",
                                        "paired test over hosts", "Poisson bootstrap of requests"};
    return words[method];
}

const char *regress_measure_name(enum regress_measure measure)
{
    static const char *const names[] = {"middle", "p95", "p99"};
    return names[measure];
}

static double log_quantile(const struct sketch *sketch, double q)
{
    return log(fmax(sketch_quantile(sketch, q), 1));
}

static double measure_of(const struct sketch *sketch, enum regress_measure measure)
{
    double mean, variance;
    switch (measure) {
    case MEASURE_P95:
        return log_quantile(sketch, 0.95);
    case MEASURE_P99:
        return log_quantile(sketch, 0.99);
    default:
        sketch_log_moments(sketch, &mean, &variance);
        return mean;
    }
}

/* Hosts with enough requests, in the order of their clusters. */
static size_t collect(const struct cluster *clusters, size_t count, uint64_t minimum,
                      const struct cluster **ret_kept)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (clusters[i].latency->count >= minimum)
            ret_kept[n++] = &clusters[i];
    return n;
}

static int pool(const struct cluster *clusters, size_t count, struct sketch *into)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = sketch_merge(into, clusters[i].latency);
    return r;
}

static void set_measure(struct regress_result *result, enum regress_measure measure, struct welch test,
                        double freedom, double time_spread)
{
    if (time_spread > 0 && test.p < 1) {
        test.error = sqrt(test.error * test.error + time_spread * time_spread);
        test.p = stats_student_above(test.difference / test.error, fmax(freedom, 1));
    }
    double reach = stats_student_quantile(0.025, fmax(freedom, 1)) * test.error;
    result->ratio[measure] = exp(test.difference);
    result->low[measure] = exp(test.difference - reach);
    result->high[measure] = exp(test.difference + reach);
    result->p_of[measure] = test.p;
}

struct sides {
    const struct cluster **older, **newer;
    size_t older_count, newer_count;
    double *a, *b; /* room for the values of either side */
};

#define PRIOR_HOSTS 4.0 /* as how many more hosts the spread of other buckets counts */
#define PRIOR_FREEDOMS \
    3.0 /* times a bucket's own degrees of freedom that it must rest on: others' must lead */
#define PRIOR_DOUBTED 4.0 /* times the expected variance, from which the bucket is of another kind */

static double noise_of(const struct sketch *latency)
{
    double mean, variance;
    sketch_log_moments(latency, &mean, &variance);
    return variance / (double)latency->count;
}

/* The variance between a side's hosts as others lead to expect it: theirs, and the noise of the requests. */
static double expected_variance(const struct cluster *const *hosts, size_t count, double spread)
{
    double noise = 0;
    for (size_t i = 0; i < count; i++)
        noise += noise_of(hosts[i]->latency);
    return spread * spread + noise / (double)count;
}

/* Six hosts tell little of how much they differ. Where it fits what other buckets show, both are taken
 * together (Smyth, Statistical Applications in Genetics and Molecular Biology 2004, section 3, with a fixed
 * weight of the prior), which leaves more degrees of freedom. */
static void moderate(const struct sides *sides, const struct regress_settings *settings, struct welch *w)
{
    double spread = settings->host_spread;
    double mean, a, b, a0 = expected_variance(sides->older, sides->older_count, spread),
                       b0 = expected_variance(sides->newer, sides->newer_count, spread);
    double a_freedom = (double)sides->older_count - 1, b_freedom = (double)sides->newer_count - 1;
    stats_moments(sides->a, sides->older_count, &mean, &a);
    stats_moments(sides->b, sides->newer_count, &mean, &b);
    if (settings->spread_freedom < PRIOR_FREEDOMS * (a_freedom + b_freedom) || a > PRIOR_DOUBTED * a0 ||
        b > PRIOR_DOUBTED * b0)
        return;
    a = (PRIOR_HOSTS * a0 + a_freedom * a) / (PRIOR_HOSTS + a_freedom);
    b = (PRIOR_HOSTS * b0 + b_freedom * b) / (PRIOR_HOSTS + b_freedom);
    w->error = sqrt(a / (double)sides->older_count + b / (double)sides->newer_count);
    w->freedom = fmin(a_freedom, b_freedom) + PRIOR_HOSTS;
    if (a_freedom + b_freedom < 2.5 * fmin(a_freedom, b_freedom))
        w->freedom = a_freedom + b_freedom + PRIOR_HOSTS;
    w->p = w->error > 0 ? stats_student_above(w->difference / w->error, w->freedom) : 1;
}

static void test_hosts(const struct sides *sides, enum regress_measure measure,
                       const struct regress_settings *settings, double time_spread,
                       struct regress_result *result)
{
    for (size_t i = 0; i < sides->older_count; i++)
        sides->a[i] = measure_of(sides->older[i]->latency, measure);
    for (size_t i = 0; i < sides->newer_count; i++)
        sides->b[i] = measure_of(sides->newer[i]->latency, measure);
    struct welch w = stats_welch(sides->a, sides->older_count, sides->b, sides->newer_count);
    if (measure == MEASURE_MIDDLE)
        moderate(sides, settings, &w);
    set_measure(result, measure, w, w.freedom, time_spread);
}

/* Of hosts on both sides: how many, their differences, and the mean noise of these (both may be NULL). */
static size_t pair_hosts(const struct sides *sides, enum regress_measure measure, double *differences,
                         double *ret_noise)
{
    double noise = 0;
    size_t n = 0;
    for (size_t i = 0; i < sides->newer_count; i++)
        for (size_t j = 0; j < sides->older_count; j++)
            if (sides->older[j]->host == sides->newer[i]->host) {
                if (differences)
                    differences[n] = measure_of(sides->newer[i]->latency, measure) -
                                     measure_of(sides->older[j]->latency, measure);
                noise +=
                    ret_noise ? noise_of(sides->newer[i]->latency) + noise_of(sides->older[j]->latency) : 0;
                n++;
                break;
            }
    if (ret_noise)
        *ret_noise = noise / (double)MAX(n, (size_t)1);
    return n;
}

/* As moderate(), of differences. */
static void test_pairs(const struct sides *sides, enum regress_measure measure,
                       const struct regress_settings *settings, double time_spread,
                       struct regress_result *result)
{
    double noise, mean, variance;
    size_t n = pair_hosts(sides, measure, sides->b, &noise);
    struct welch w = stats_paired(sides->b, n);
    double freedom = (double)n - 1, expected = settings->pair_spread * settings->pair_spread + noise;
    stats_moments(sides->b, n, &mean, &variance);
    if (measure == MEASURE_MIDDLE && settings->pair_freedom >= PRIOR_FREEDOMS * freedom &&
        variance <= PRIOR_DOUBTED * expected) {
        variance = (PRIOR_HOSTS * expected + freedom * variance) / (PRIOR_HOSTS + freedom);
        w.error = sqrt(variance / (double)n);
        w.freedom = freedom + PRIOR_HOSTS;
        w.p = w.error > 0 ? stats_student_above(w.difference / w.error, w.freedom) : 1;
    }
    set_measure(result, measure, w, w.freedom, time_spread);
}

/* One resampled sketch's measure: every bin's count is drawn anew (Poisson bootstrap). */
static double resample(const struct sketch *sketch, enum regress_measure measure, struct stats_random *random)
{
    static const double quantile[] = {0, 0.95, 0.99};
    double drawn[SKETCH_BINS], total = 0, sum = 0;
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        uint64_t times = sketch_bin_count(sketch, (uint16_t)bin);
        drawn[bin] = times ? (double)stats_random_poisson(random, (double)times) : 0;
        total += drawn[bin];
        sum += drawn[bin] > 0 ? drawn[bin] * log(fmax(sketch_bin_middle((uint16_t)bin), 1)) : 0;
    }
    if (measure == MEASURE_MIDDLE)
        return total > 0 ? sum / total : 0;
    double seen = 0, wanted = quantile[measure] * total;
    for (unsigned bin = first; bin < end; bin++) {
        seen += drawn[bin];
        if (seen >= wanted && drawn[bin] > 0)
            return log(fmax(sketch_bin_middle((uint16_t)bin), 1));
    }
    return 0;
}

/* One over the number of hosts, counted by how much of the requests each of them served. */
static double concentration(const struct cluster *hosts, size_t count, double requests)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)hosts[i].latency->count * (double)hosts[i].latency->count;
    return requests > 0 ? sum / (requests * requests) : 1;
}

static void test_bootstrap(const struct sketch *older, const struct sketch *newer,
                           const struct contrast *contrast, double spread, enum regress_measure measure,
                           struct regress_result *result)
{
    struct stats_random random;
    double differences[RESAMPLES], mean, variance;
    stats_random_init(&random, older->count * 31 + newer->count);
    for (int i = 0; i < RESAMPLES; i++)
        differences[i] = resample(newer, measure, &random) - resample(older, measure, &random);
    stats_moments(differences, RESAMPLES, &mean, &variance);
    double hosts = concentration(contrast->older, contrast->older_count, (double)older->count) +
                   concentration(contrast->newer, contrast->newer_count, (double)newer->count);
    struct welch w = {.difference = measure_of(newer, measure) - measure_of(older, measure),
                      .error = sqrt(variance + spread * spread * hosts)};
    w.p = w.error > 0 ? stats_normal_above(w.difference / w.error) : w.difference > 0 ? 0 : 1;
    set_measure(result, measure, w, 1e6, contrast->time_spread);
}

static void describe(const struct sketch *older, const struct sketch *newer, struct regress_result *result)
{
    double older_mean = sketch_mean(older), squares = 0, log_mean, log_variance, newer_log_mean, ignored;
    uint16_t first, end;
    sketch_range(older, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        double off = sketch_bin_middle((uint16_t)bin) - older_mean;
        squares += off * off * (double)sketch_bin_count(older, (uint16_t)bin);
    }
    double deviation = sqrt(squares / fmax((double)older->count - 1, 1));
    sketch_log_moments(older, &log_mean, &log_variance);
    sketch_log_moments(newer, &newer_log_mean, &ignored);
    result->z = deviation > 0 ? (sketch_mean(newer) - older_mean) / deviation : 0;
    result->effect = log_variance > 0 ? (newer_log_mean - log_mean) / sqrt(log_variance) : 0;
    result->older_requests = older->count;
    result->newer_requests = newer->count;
}

/* The smallest p of the measures, times how many there were. */
static void combine(struct regress_result *result, int measures)
{
    result->measure = MEASURE_MIDDLE;
    for (int m = 1; m < measures; m++)
        if (result->p_of[m] < result->p_of[result->measure])
            result->measure = (enum regress_measure)m;
    result->p = fmin(1, result->p_of[result->measure] * measures);
}

static double requests_of(const struct cluster *const *hosts, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)hosts[i]->latency->count;
    return sum;
}

/* Whether the hosts with enough requests have most of what either side served. Else a few of them would speak
 * for all, though the others' requests tell as much: a canary's hosts have few each. */
static bool speak_for_all(const struct sides *sides, const struct sketch *older, const struct sketch *newer)
{
    return requests_of(sides->older, sides->older_count) >= HOSTS_SHARE * (double)older->count &&
           requests_of(sides->newer, sides->newer_count) >= HOSTS_SHARE * (double)newer->count;
}

/* How many of the measures tell something. Of few requests a high quantile is but the slowest of them, and
 * these drawn anew hardly vary: resampling would be far too sure of it. */
static int count_measures(const struct sides *sides, const struct sketch *older, const struct sketch *newer,
                          enum regress_method method)
{
    uint64_t least = MIN(older->count, newer->count);
    if (method == METHOD_BOOTSTRAP)
        return least >= RESAMPLED_FOR_P99 ? 3 : least >= RESAMPLED_FOR_P95 ? 2 : 1;
    for (size_t i = 0; i < sides->older_count; i++)
        least = MIN(least, sides->older[i]->latency->count);
    for (size_t i = 0; i < sides->newer_count; i++)
        least = MIN(least, sides->newer[i]->latency->count);
    return least >= PER_HOST_FOR_P99 ? 3 : 2;
}

static void test_sides(const struct contrast *contrast, const struct sides *sides, const struct sketch *older,
                       const struct sketch *newer, const struct regress_settings *settings,
                       struct regress_result *result)
{
    result->older_hosts = sides->older_count;
    result->newer_hosts = sides->newer_count;
    result->paired_hosts = pair_hosts(sides, MEASURE_P95, NULL, NULL);
    bool most = settings->spread_freedom < SPREAD_KNOWN || speak_for_all(sides, older, newer);
    if (most && result->paired_hosts >= HOSTS_ENOUGH && result->paired_hosts * 2 >= sides->newer_count)
        result->method = METHOD_PAIRED;
    else if (most && sides->older_count >= HOSTS_ENOUGH && sides->newer_count >= HOSTS_ENOUGH)
        result->method = METHOD_HOSTS;
    else
        result->method = METHOD_BOOTSTRAP;
    int measures = contrast->middle_only ? 1 : count_measures(sides, older, newer, result->method);
    for (int m = 0; m < measures; m++) {
        enum regress_measure measure = (enum regress_measure)m;
        if (result->method == METHOD_PAIRED) {
            test_pairs(sides, measure, settings, contrast->time_spread, result);
        } else if (result->method == METHOD_HOSTS) {
            test_hosts(sides, measure, settings, contrast->time_spread, result);
        } else {
            test_bootstrap(older, newer, contrast, settings->host_spread, measure, result);
        }
    }
    combine(result, measures);
}

void regress_test(const struct contrast *contrast, const struct regress_settings *settings,
                  struct regress_result *ret_result)
{
    struct regress_settings s = effective(settings);
    struct regress_result result = {.p = 1, .adjusted_p = 1};
    for (int m = 0; m < MEASURES; m++) {
        result.ratio[m] = result.low[m] = result.high[m] = 1;
        result.p_of[m] = 1;
    }
    struct sketch older = {0}, newer = {0};
    size_t room = contrast->older_count + contrast->newer_count + 1;
    _cleanup_(freep) const struct cluster **kept = calloc(2 * room, sizeof(*kept));
    _cleanup_(freep) double *values = calloc(2 * room, sizeof(*values));
    if (kept && values && pool(contrast->older, contrast->older_count, &older) == 0 &&
        pool(contrast->newer, contrast->newer_count, &newer) == 0) {
        describe(&older, &newer, &result);
        struct sides sides = {.older = kept, .newer = kept + room, .a = values, .b = values + room};
        sides.older_count = collect(contrast->older, contrast->older_count, s.minimum_per_host, sides.older);
        sides.newer_count = collect(contrast->newer, contrast->newer_count, s.minimum_per_host, sides.newer);
        if (older.count >= s.minimum_requests && newer.count >= s.minimum_requests)
            test_sides(contrast, &sides, &older, &newer, &s, &result);
    }
    sketch_done(&older);
    sketch_done(&newer);
    *ret_result = result;
}

size_t regress_select(struct regress_result *results, size_t count, const struct regress_settings *settings)
{
    struct regress_settings s = effective(settings);
    _cleanup_(freep) double *p = calloc(count + 1, sizeof(*p));
    _cleanup_(freep) double *adjusted = calloc(count + 1, sizeof(*adjusted));
    _cleanup_(freep) bool *rejected = calloc(count + 1, sizeof(*rejected));
    if (!p || !adjusted || !rejected)
        return 0;
    size_t n = 0, slower = 0;
    for (size_t i = 0; i < count; i++)
        if (results[i].method != METHOD_NONE)
            p[n++] = results[i].p;
    stats_benjamini_hochberg(p, n, s.false_discovery_rate, rejected, adjusted);
    n = 0;
    for (size_t i = 0; i < count; i++) {
        results[i].slower = false;
        if (results[i].method == METHOD_NONE)
            continue;
        results[i].adjusted_p = adjusted[n];
        results[i].slower = rejected[n] && results[i].ratio[results[i].measure] >= s.minimum_ratio;
        slower += results[i].slower;
        n++;
    }
    return slower;
}

struct spread {
    double variance, noise, freedom; /* between hosts, and what of it the means' own noise is */
};

/* Of one side's hosts; no degrees of freedom with fewer than two. */
static struct spread side_spread(const struct cluster *clusters, size_t count, uint64_t minimum,
                                 double *values)
{
    struct spread spread = {0};
    double mean;
    size_t hosts = 0;
    for (size_t h = 0; h < count; h++) {
        if (clusters[h].latency->count < minimum)
            continue;
        values[hosts++] = measure_of(clusters[h].latency, MEASURE_MIDDLE);
        spread.noise += noise_of(clusters[h].latency);
    }
    if (hosts < 2)
        return spread;
    stats_moments(values, hosts, &mean, &spread.variance);
    spread.noise /= (double)hosts;
    spread.freedom = (double)hosts - 1;
    return spread;
}

static int by_variance(const void *x, const void *y)
{
    const struct spread *a = x, *b = y;
    return a->variance < b->variance ? -1 : a->variance > b->variance;
}

/* How much is learnt of the spread where the means are as noisy: all, unless the noise hides a usual spread.
 */
static double weight_of(const struct spread *spread)
{
    double usual = DEFAULT_SPREAD * DEFAULT_SPREAD, share = usual / (usual + spread->noise);
    return share * share;
}

/* All pooled by how much they tell, since two hosts tell something too once there are many buckets; what is
 * far above the median is cut down, so that one strange bucket does not speak for all. What few hosts tell
 * may be too small by chance: the spread is widened by as much as Student's distribution is wider than the
 * normal one that it is used with. */
static double pool_spreads(struct spread *spreads, size_t n, double *ret_freedom)
{
    *ret_freedom = 0;
    if (n == 0)
        return DEFAULT_SPREAD; /* an assumption, not an estimate */
    qsort(spreads, n, sizeof(*spreads), by_variance);
    double most_variance = fmax(spreads[n / 2].variance, DEFAULT_SPREAD * DEFAULT_SPREAD) * STRANGE;
    double weights = PRIOR_FREEDOM, squares = PRIOR_FREEDOM, noise = 0;
    double sum = PRIOR_FREEDOM * DEFAULT_SPREAD * DEFAULT_SPREAD;
    for (size_t i = 0; i < n; i++) {
        double weight = weight_of(&spreads[i]) * spreads[i].freedom;
        weights += weight;
        squares += weight * weight_of(&spreads[i]);
        sum += weight * fmin(spreads[i].variance, most_variance);
        noise += weight * spreads[i].noise;
    }
    double freedom = weights * weights / squares;
    *ret_freedom = fmax(freedom - PRIOR_FREEDOM, 0);
    double wider =
        stats_student_quantile(TAIL_FOR_SPREAD, freedom) / stats_student_quantile(TAIL_FOR_SPREAD, 1e9);
    /* Widened first: what few requests say of the spread is as uncertain as all of what was seen. */
    double variance = (sum * wider * wider - noise) / weights;
    return sqrt(fmax(variance, 1e-6));
}

static size_t most_hosts(const struct contrast *contrasts, size_t count)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++)
        most = MAX(most, MAX(contrasts[i].older_count, contrasts[i].newer_count));
    return most;
}

double regress_host_spread(const struct contrast *contrasts, size_t count,
                           const struct regress_settings *settings, double *ret_freedom)
{
    struct regress_settings s = effective(settings);
    _cleanup_(freep) struct spread *spreads = malloc((2 * count + 1) * sizeof(*spreads));
    _cleanup_(freep) double *values = malloc(most_hosts(contrasts, count) * sizeof(*values));
    size_t n = 0;
    for (size_t i = 0; spreads && values && i < 2 * count; i++) {
        const struct contrast *c = &contrasts[i / 2];
        spreads[n] = side_spread(i % 2 ? c->newer : c->older, i % 2 ? c->newer_count : c->older_count,
                                 s.minimum_per_host, values);
        n += spreads[n].freedom > 0;
    }
    return pool_spreads(spreads, n, ret_freedom);
}

double regress_pair_spread(const struct contrast *contrasts, size_t count,
                           const struct regress_settings *settings, double *ret_freedom)
{
    struct regress_settings s = effective(settings);
    size_t most = most_hosts(contrasts, count), n = 0;
    _cleanup_(freep) struct spread *spreads = malloc((count + 1) * sizeof(*spreads));
    _cleanup_(freep) const struct cluster **kept = malloc(2 * most * sizeof(*kept));
    _cleanup_(freep) double *values = malloc(most * sizeof(*values));
    for (size_t i = 0; spreads && kept && values && i < count; i++) {
        const struct contrast *c = &contrasts[i];
        struct sides sides = {.older = kept, .newer = kept + most};
        struct spread one = {0};
        double mean;
        sides.older_count = collect(c->older, c->older_count, s.minimum_per_host, sides.older);
        sides.newer_count = collect(c->newer, c->newer_count, s.minimum_per_host, sides.newer);
        size_t pairs = pair_hosts(&sides, MEASURE_MIDDLE, values, &one.noise);
        if (pairs < 2)
            continue;
        stats_moments(values, pairs, &mean, &one.variance);
        one.freedom = (double)pairs - 1;
        spreads[n++] = one;
    }
    return pool_spreads(spreads, n, ret_freedom);
}
