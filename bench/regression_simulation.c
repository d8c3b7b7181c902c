/* How well regressions are found: 480 buckets, 24 of them slowed down, hosts that differ, half of the noise
 * taken from real spans, over many seeds. Each method sees the same data and nothing of the truth. Then a
 * year of windows without any slow-down, and rollouts watched every minute.
 *
 *     regression_simulation [SEEDS] [FOLDER OF SPAN FILES FOR THE NOISE] [all | watch | year | table] [EPOCH]
 *
 * Each epoch has seeds of its own: what was tuned on one is measured on another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/macro.h"
#include "base/map.h"
#include "diagnose/sequential.h"
#include "span/files.h"

enum { BUCKETS = 480, SLOWED = 24, VERSIONS = 8, HOSTS_MAX = 64, POOLS_MAX = 64 };

static const double HOST_SPREAD = 0.08, VERSION_SPREAD = 0.01;

static uint64_t first_seed; /* of the epoch */

/* ---- noise ---- */

typedef ARRAY(double) number_list;
static number_list pools[POOLS_MAX]; /* log durations of one operation, less their mean */
static size_t pool_count;
static struct map pool_of;

static int take(void *context, const struct span *span)
{
    uint64_t key = map_hash(span->name.at, span->name.length) ^
                   map_hash(span->resource->service.at, span->resource->service.length) * 3;
    bool added;
    uint64_t *slot = map_put(&pool_of, key, &added);
    if (added)
        *slot = pool_count < POOLS_MAX ? pool_count++ : POOLS_MAX;
    if (*slot < POOLS_MAX && span->end_ns > span->start_ns)
        return array_add(&pools[*slot], log((double)(span->end_ns - span->start_ns)));
    return 0;
}

static void load_noise(const char *folder)
{
    struct span_files files = {0};
    struct span_sink sink = {.take = take};
    struct problem problem = {0};
    if (!folder || span_files_read(&files, &folder, 1, &sink, &problem) < 0)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < pool_count; i++) {
        double mean, variance;
        stats_moments(pools[i].at, pools[i].count, &mean, &variance);
        if (pools[i].count < 200 || variance < 1e-4) {
            array_done(&pools[i]);
            continue;
        }
        array_foreach (&pools[i], value)
            *value -= mean;
        number_list keep = pools[i];
        pools[i] = (number_list){0};
        pools[kept++] = keep;
    }
    pool_count = kept;
    map_done(&pool_of);
}

/* ---- one bucket ---- */

struct setting {
    int older_hosts, newer_hosts, requests;
    bool paired;
};

enum effect { EFFECT_NONE, EFFECT_HALF, EFFECT_SMALL, EFFECT_TAIL };

struct bucket {
    struct sketch older[HOSTS_MAX], newer[HOSTS_MAX];
    struct cluster older_clusters[HOSTS_MAX], newer_clusters[HOSTS_MAX];
    struct sketch versions[VERSIONS]; /* the older side again, by version */
    struct contrast contrast;
};

static double draw_noise(struct stats_random *random, const number_list *pool, double sigma)
{
    if (pool)
        return pool->at[(size_t)(stats_random_unit(random) * (double)pool->count)];
    return sigma * stats_random_normal(random);
}

static double draw_effect(struct stats_random *random, enum effect effect)
{
    switch (effect) {
    case EFFECT_HALF:
        return log(1.5);
    case EFFECT_SMALL:
        return log(1.15);
    case EFFECT_TAIL: /* a tenth of the requests takes three times as long: the mean of the logs moves by 11 %
                       */
        return stats_random_unit(random) < 0.1 ? log(3) : 0;
    default:
        return 0;
    }
}

static void fill(struct bucket *b, const struct setting *s, enum effect effect, uint64_t seed, bool real)
{
    struct stats_random random;
    double host_level[HOSTS_MAX], version_level[VERSIONS];
    stats_random_init(&random, first_seed + seed);
    const number_list *pool =
        real && pool_count ? &pools[(size_t)(stats_random_unit(&random) * (double)pool_count)] : NULL;
    double base = log(5e6) + 4 * stats_random_unit(&random), sigma = 0.3 + 0.5 * stats_random_unit(&random);
    for (int v = 0; v < VERSIONS; v++)
        version_level[v] = VERSION_SPREAD * stats_random_normal(&random);
    double newer_level = VERSION_SPREAD * stats_random_normal(&random);
    for (int h = 0; h < s->older_hosts; h++) {
        host_level[h] = HOST_SPREAD * stats_random_normal(&random);
        for (int i = 0; i < s->requests; i++) {
            int v = i % VERSIONS;
            uint64_t ns =
                (uint64_t)exp(base + host_level[h] + version_level[v] + draw_noise(&random, pool, sigma));
            sketch_add(&b->older[h], ns);
            sketch_add(&b->versions[v], ns);
        }
        b->older_clusters[h] = (struct cluster){(uint32_t)h, &b->older[h]};
    }
    for (int h = 0; h < s->newer_hosts; h++) {
        double level = s->paired ? host_level[h] : HOST_SPREAD * stats_random_normal(&random);
        for (int i = 0; i < s->requests; i++)
            sketch_add(&b->newer[h],
                       (uint64_t)exp(base + level + newer_level + draw_noise(&random, pool, sigma) +
                                     draw_effect(&random, effect)));
        b->newer_clusters[h] = (struct cluster){(uint32_t)(s->paired ? h : 1000 + h), &b->newer[h]};
    }
    b->contrast = (struct contrast){b->older_clusters, b->newer_clusters, (size_t)s->older_hosts,
                                    (size_t)s->newer_hosts};
}

static void empty(struct bucket *b)
{
    for (int h = 0; h < HOSTS_MAX; h++) {
        sketch_done(&b->older[h]);
        sketch_done(&b->newer[h]);
    }
    for (int v = 0; v < VERSIONS; v++)
        sketch_done(&b->versions[v]);
}

/* ---- methods ---- */

enum method {
    M_Z_RAW,
    M_Z_VERSIONS,
    M_WELCH_REQUESTS,
    M_MANN_WHITNEY,
    M_HOSTS_P95,
    M_OURS,
    M_SEQUENTIAL,
    METHODS
};

static const char *const METHOD_NAMES[] = {
    "Z > 3, spread of requests",         "Z > 3, spread of versions",      "Welch on requests, BH 0.02",
    "Mann-Whitney on requests, BH 0.02", "Welch on p95 per host, BH 0.05", "sonde diagnose, q = 0.02",
    "sonde watch, e-BH q = 0.02"};

static void pool_side(const struct cluster *clusters, size_t count, struct sketch *into)
{
    for (size_t i = 0; i < count; i++)
        sketch_merge(into, clusters[i].latency);
}

/* Mann-Whitney from two histograms: ranks by bin, ties within. */
static double mann_whitney(const struct sketch *a, const struct sketch *b)
{
    double below = 0, rank_sum = 0, ties = 0, na = (double)a->count, nb = (double)b->count, n = na + nb;
    for (unsigned bin = 0; bin < SKETCH_BINS; bin++) {
        double x = (double)sketch_bin_count(a, (uint16_t)bin), y = (double)sketch_bin_count(b, (uint16_t)bin);
        rank_sum += y * (below + (x + y + 1) / 2);
        ties += (x + y) * (x + y) * (x + y) - (x + y);
        below += x + y;
    }
    double u = rank_sum - nb * (nb + 1) / 2, variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
    return variance > 0 ? stats_normal_above((u - na * nb / 2) / sqrt(variance)) : 1;
}

/* What each method makes of a bucket: a score (Z, e-value) or a p-value; ours also a result. */
struct scores {
    double value[METHODS];
    struct regress_result ours;
};

static double z_of_versions(const struct bucket *b, const struct sketch *newer)
{
    double means[VERSIONS], mean, variance;
    for (int v = 0; v < VERSIONS; v++)
        means[v] = sketch_mean(&b->versions[v]);
    stats_moments(means, VERSIONS, &mean, &variance);
    return variance > 0 ? (sketch_mean(newer) - mean) / sqrt(variance) : 0;
}

static double welch_requests(const struct sketch *a, const struct sketch *b)
{
    double ma, va, mb, vb;
    sketch_log_moments(a, &ma, &va);
    sketch_log_moments(b, &mb, &vb);
    return stats_normal_above((mb - ma) / sqrt(va / (double)a->count + vb / (double)b->count));
}

static double hosts_p95(const struct contrast *c)
{
    double a[HOSTS_MAX], b[HOSTS_MAX];
    for (size_t i = 0; i < c->older_count; i++)
        a[i] = log(sketch_quantile(c->older[i].latency, 0.95));
    for (size_t i = 0; i < c->newer_count; i++)
        b[i] = log(sketch_quantile(c->newer[i].latency, 0.95));
    return stats_welch(a, c->older_count, b, c->newer_count).p;
}

static void score(const struct bucket *b, double spread, struct scores *to)
{
    struct sketch older = {0}, newer = {0};
    struct regress_settings settings = {.host_spread = spread, .spread_freedom = 1000}; /* of 160 buckets */
    struct sequential_result sequential;
    pool_side(b->contrast.older, b->contrast.older_count, &older);
    pool_side(b->contrast.newer, b->contrast.newer_count, &newer);
    regress_test(&b->contrast, &settings, &to->ours);
    sequential_test(&b->contrast, spread, &sequential);
    to->value[M_Z_RAW] = to->ours.z;
    to->value[M_Z_VERSIONS] = z_of_versions(b, &newer);
    to->value[M_WELCH_REQUESTS] = welch_requests(&older, &newer);
    to->value[M_MANN_WHITNEY] = mann_whitney(&older, &newer);
    to->value[M_HOSTS_P95] = hosts_p95(&b->contrast);
    to->value[M_SEQUENTIAL] = sequential.e_value;
    sketch_done(&older);
    sketch_done(&newer);
}

static void decide(const struct scores *scores, enum method method, bool *alarms)
{
    static struct regress_result results[BUCKETS];
    static double values[BUCKETS];
    for (int i = 0; i < BUCKETS; i++) {
        values[i] = scores[i].value[method];
        results[i] = scores[i].ours;
        alarms[i] = values[i] > 3;
    }
    if (method == M_WELCH_REQUESTS || method == M_MANN_WHITNEY)
        stats_benjamini_hochberg(values, BUCKETS, 0.02, alarms, NULL);
    else if (method == M_HOSTS_P95)
        stats_benjamini_hochberg(values, BUCKETS, 0.05, alarms, NULL);
    else if (method == M_SEQUENTIAL)
        sequential_select(values, BUCKETS, 0.02, alarms);
    else if (method == M_OURS) {
        regress_select(results, BUCKETS, NULL);
        for (int i = 0; i < BUCKETS; i++)
            alarms[i] = results[i].slower;
    }
}

/* ---- the table ---- */

struct rates {
    number_list recall, precision;
};

static void print_rates(const char *name, struct rates *rates)
{
    double recall, recall_variance, precision, precision_variance, n = (double)rates->recall.count;
    stats_moments(rates->recall.at, rates->recall.count, &recall, &recall_variance);
    stats_moments(rates->precision.at, rates->precision.count, &precision, &precision_variance);
    printf("  %-36s recall %.3f +- %.3f", name, recall, 1.96 * sqrt(recall_variance / n));
    if (rates->precision.count)
        printf("   precision %.3f +- %.3f\n", precision,
               1.96 * sqrt(precision_variance / (double)rates->precision.count));
    else
        printf("   precision: no alarms\n");
    array_done(&rates->recall);
    array_done(&rates->precision);
}

/* The spread between hosts as the detector would see it: from the data of all buckets. */
static double estimated_spread(const struct setting *setting, uint64_t seed)
{
    enum { LOOKED_AT = 160 }; /* of the buckets: every third */
    struct bucket *buckets = calloc(LOOKED_AT, sizeof(*buckets));
    struct contrast contrasts[LOOKED_AT];
    if (!buckets)
        exit(1);
    for (uint64_t i = 0; i < LOOKED_AT; i++) {
        fill(&buckets[i], setting, EFFECT_NONE, seed * 100003 + 3 * i, (3 * i) % 2);
        contrasts[i] = buckets[i].contrast;
    }
    double freedom, spread = regress_host_spread(contrasts, LOOKED_AT, NULL, &freedom);
    for (uint64_t i = 0; i < LOOKED_AT; i++)
        empty(&buckets[i]);
    free(buckets);
    return spread;
}

/* The null buckets once per seed; the slowed ones anew per effect. */
static void run_setting(const char *title, const struct setting *setting, int seeds)
{
    static struct scores null_scores[BUCKETS], scores[BUCKETS];
    static struct bucket bucket;
    static const struct {
        enum effect effect;
        const char *name;
    } effects[] = {
        {EFFECT_HALF, "1.5 times"}, {EFFECT_SMALL, "1.15 times"}, {EFFECT_TAIL, "tail: 10 % take 3 times"}};
    static struct rates rates[3][METHODS];
    for (int seed = 1; seed <= seeds; seed++) {
        double spread = estimated_spread(setting, (uint64_t)seed);
        for (int i = 0; i < BUCKETS; i++) {
            memset(&bucket, 0, sizeof(bucket));
            fill(&bucket, setting, EFFECT_NONE, (uint64_t)seed * 100003 + (uint64_t)i, i % 2);
            score(&bucket, spread, &null_scores[i]);
            empty(&bucket);
        }
        for (int e = 0; e < 3; e++) {
            bool slowed[BUCKETS] = {0}, alarms[BUCKETS];
            memcpy(scores, null_scores, sizeof(scores));
            for (int k = 0; k < SLOWED; k++) {
                int i = (k * 20 + seed * 7) % BUCKETS;
                slowed[i] = true;
                memset(&bucket, 0, sizeof(bucket));
                fill(&bucket, setting, effects[e].effect, (uint64_t)seed * 100003 + (uint64_t)i, i % 2);
                score(&bucket, spread, &scores[i]);
                empty(&bucket);
            }
            for (int m = 0; m < METHODS; m++) {
                int hits = 0, all = 0;
                decide(scores, (enum method)m, alarms);
                for (int i = 0; i < BUCKETS; i++) {
                    all += alarms[i];
                    hits += alarms[i] && slowed[i];
                }
                array_add(&rates[e][m].recall, (double)hits / SLOWED);
                if (all)
                    array_add(&rates[e][m].precision, (double)hits / all);
            }
        }
    }
    for (int e = 0; e < 3; e++) {
        printf("%s, %s (%d seeds, 95 %% intervals of the means):\n", title, effects[e].name, seeds);
        for (int m = 0; m < METHODS; m++)
            print_rates(METHOD_NAMES[m], &rates[e][m]);
    }
    fflush(stdout);
}

/* A year of hourly windows in which a harmless version came to 24 buckets. */
static void steady_year(void)
{
    static struct bucket bucket;
    static const struct setting setting = {12, 12, 60, false};
    struct regress_result results[24];
    bool before[24] = {0};
    size_t alarms = 0, confirmed = 0, windows = 365 * 24;
    for (size_t w = 0; w < windows; w++) {
        for (size_t i = 0; i < 24; i++) {
            memset(&bucket, 0, sizeof(bucket));
            fill(&bucket, &setting, EFFECT_NONE, 77000000 + w * 24 + i, i % 2);
            regress_test(&bucket.contrast, NULL, &results[i]);
            empty(&bucket);
        }
        alarms += regress_select(results, 24, NULL);
        for (int i = 0; i < 24; i++) {
            confirmed += before[i] && results[i].slower;
            before[i] = results[i].slower;
        }
    }
    printf("a year of steady windows, hourly, 24 buckets with a harmless version in each: %zu false alarms, "
           "%.3f a "
           "day; %zu that the next hour confirms, %.4f a day\n",
           alarms, (double)alarms / 365, confirmed, (double)confirmed / 365);
}

/* One rollout watched every minute for a day: 10 requests a minute and host, 6 older and 6 newer hosts.
 * Returns the minute of the alarm, or 0. */
static int watch_rollout(uint64_t seed, enum effect effect, const number_list *pool)
{
    static struct bucket bucket;
    struct stats_random random;
    double level[12], base = log(2e7), sigma = 0.5;
    int alarm = 0;
    memset(&bucket, 0, sizeof(bucket));
    stats_random_init(&random, first_seed + seed);
    double version_level = VERSION_SPREAD * stats_random_normal(&random);
    for (int h = 0; h < 12; h++)
        level[h] = HOST_SPREAD * stats_random_normal(&random) + (h < 6 ? 0 : version_level);
    for (int h = 0; h < 6; h++) {
        bucket.older_clusters[h] = (struct cluster){(uint32_t)h, &bucket.older[h]};
        bucket.newer_clusters[h] = (struct cluster){(uint32_t)(h + 6), &bucket.newer[h]};
    }
    bucket.contrast = (struct contrast){bucket.older_clusters, bucket.newer_clusters, 6, 6};
    for (int look = 1; look <= 24 * 60 && !alarm; look++) {
        for (int h = 0; h < 12; h++)
            for (int i = 0; i < 10; i++)
                sketch_add(h < 6 ? &bucket.older[h] : &bucket.newer[h - 6],
                           (uint64_t)exp(base + level[h] + draw_noise(&random, pool, sigma) +
                                         (h < 6 ? 0 : draw_effect(&random, effect))));
        if (look > 60 && look % 15) /* after an hour, every quarter of one: nothing more happens quickly */
            continue;
        struct sequential_result result;
        double freedom;
        sequential_test(&bucket.contrast, regress_host_spread(&bucket.contrast, 1, NULL, &freedom), &result);
        bool selected;
        if (sequential_select(&result.e_value, 1, 0.01, &selected) && selected)
            alarm = look;
    }
    empty(&bucket);
    return alarm;
}

static void watched_rollouts(int rollouts, int harmless)
{
    static const struct {
        enum effect effect;
        const char *name;
    } cases[] = {{EFFECT_NONE, "harmless"},
                 {EFFECT_HALF, "1.5 times"},
                 {EFFECT_SMALL, "1.15 times"},
                 {EFFECT_TAIL, "tail"}};
    for (int c = 0; c < 4; c++) {
        int caught = 0, n = c ? rollouts : harmless;
        number_list minutes = {0};
        for (int r = 0; r < n; r++) {
            const number_list *pool = r % 2 && pool_count ? &pools[(size_t)r / 2 % pool_count] : NULL;
            int minute = watch_rollout((uint64_t)r + 5, cases[c].effect, pool);
            caught += minute > 0;
            if (minute)
                array_add(&minutes, (double)minute);
        }
        double share = (double)caught / n;
        printf("watched rollouts, %s, a day each, e-value >= 100: alarm in %d of %d (%.2f %% +- %.2f)",
               cases[c].name, caught, n, 100 * share, 196 * sqrt(share * (1 - share) / n));
        if (minutes.count)
            printf(", median after %.0f minutes", stats_median(minutes.at, minutes.count));
        printf("\n");
        fflush(stdout);
        array_done(&minutes);
    }
}

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 50;
    uint64_t started_ns = clock_monotonic_ns();
    load_noise(argc > 2 ? argv[2] : NULL);
    printf("%d buckets, %d slowed down; host spread %.2f, version spread %.2f; %zu operations' durations as "
           "noise of "
           "every other bucket\n",
           BUCKETS, SLOWED, HOST_SPREAD, VERSION_SPREAD, pool_count);
    const char *part = argc > 3 ? argv[3] : "all";
    first_seed = argc > 4 ? strtoull(argv[4], NULL, 10) << 40 : 0;
    bool all = strcmp(part, "all") == 0;
    if (all || strcmp(part, "watch") == 0)
        watched_rollouts(200, 365 * 5);
    if (all || strcmp(part, "year") == 0)
        steady_year();
    if (!all && strcmp(part, "table") != 0)
        return 0;
    run_setting("20 older and 20 other newer hosts, 250 requests each", &(struct setting){20, 20, 250, false},
                seeds);
    run_setting("12 hosts before and after, 250 requests each", &(struct setting){12, 12, 250, true}, seeds);
    run_setting("2 older and 2 other newer hosts, 1000 requests each", &(struct setting){2, 2, 1000, false},
                seeds);
    printf("took %.0f s\n", (double)(clock_monotonic_ns() - started_ns) / 1e9);
    for (size_t i = 0; i < pool_count; i++)
        array_done(&pools[i]);
    return 0;
}
