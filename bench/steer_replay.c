/* What lower rates, rates that follow the load, a stated error and pruning would have made of what was
 * recorded once: see steer-loads.mjs. One line of JSON for each.
 * steer_replay rates SAMPLES TRUTH RUNS    SAMPLES: "MS FUNCTION LEAF" lines, by time, at RECORDED_HZ;
 * FUNCTION is one of those of TRUTH, or -1. TRUTH: "MS NS NS ..." lines steer_replay prune PROFILE.pb.gz with
 * threads */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/stats.h"
#include "profile/formats.h"
#include "profile/windows.h"
#include "steer/certainty.h"
#include "steer/pooling.h"
#include "steer/prune.h"
#include "steer/rate.h"
#include "steer/tuning.h"

enum { MOST = 16 };
#define RECORDED_HZ 997.0
#define WINDOW_S    10.0

struct sample {
    double at_s; /* since the first line of the truth */
    int function, leaf;
};

struct recording {
    int functions;
    size_t count, moments;
    struct sample *samples;
    double *at_s, *used; /* used[moment * functions + function], in ns */
    double length_s;
};

static void die(const char *what)
{
    fprintf(stderr, "steer_replay: %s\n", what);
    exit(1);
}

static FILE *open_file(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        die("a file cannot be read");
    return f;
}

static void *grown(void *of, size_t count, size_t size)
{
    void *more = (count & (count - 1)) ? of : realloc(of, (count ? 2 * count : 1) * size);
    if (!more)
        die("out of memory");
    return more;
}

static double read_truth(struct recording *r, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    double start = 0;
    FILE *f = open_file(path);
    while (getline(&line, &size, f) > 0) {
        double values[MOST + 1];
        int n = 0, used;
        for (char *at = line; n <= MOST && sscanf(at, "%lf%n", &values[n], &used) == 1; n++)
            at += used;
        if (n < 2)
            continue;
        if (!r->moments) {
            start = values[0];
            r->functions = n - 1;
        }
        r->at_s = grown(r->at_s, r->moments, sizeof(double));
        r->used = grown(r->used, r->moments, MOST * sizeof(double));
        r->at_s[r->moments] = (values[0] - start) / 1e3;
        memcpy(r->used + r->moments * MOST, values + 1, MOST * sizeof(double));
        r->moments++;
    }
    free(line);
    fclose(f);
    if (r->moments < 2)
        die("there is no truth");
    r->length_s = r->at_s[r->moments - 1];
    return start;
}

static void recording_read(struct recording *r, const char *samples, const char *truth)
{
    double start = read_truth(r, truth), ms;
    struct sample s;
    FILE *f = open_file(samples);
    while (fscanf(f, "%lf %d %d", &ms, &s.function, &s.leaf) == 3) {
        s.at_s = (ms - start) / 1e3;
        if (s.at_s < 0 || s.at_s >= r->length_s)
            continue;
        r->samples = grown(r->samples, r->count, sizeof(s));
        r->samples[r->count++] = s;
    }
    fclose(f);
    if (!r->count)
        die("there are no samples");
}

/* A function's CPU time until then; linear between two moments. */
static double used_until(const struct recording *r, int function, double at_s)
{
    size_t i = 1;
    while (i + 1 < r->moments && r->at_s[i] < at_s)
        i++;
    double length = r->at_s[i] - r->at_s[i - 1],
           part = length > 0 ? fmin(1, fmax(0, (at_s - r->at_s[i - 1]) / length)) : 1;
    double before = r->used[(i - 1) * MOST + (size_t)function], after = r->used[i * MOST + (size_t)function];
    return before + part * (after - before);
}

/* Shares of the functions among each other; false: none of them ran. */
static bool true_shares(const struct recording *r, double from_s, double until_s, double *shares)
{
    double sum = 0;
    for (int f = 0; f < r->functions; f++)
        sum += shares[f] = used_until(r, f, until_s) - used_until(r, f, from_s);
    for (int f = 0; f < r->functions; f++)
        shares[f] = sum > 0 ? shares[f] / sum : 0;
    return sum > 0;
}

/* ---- one way to sample ---- */

struct outcome {
    double error, samples, mean_hz;        /* of shares in the whole run, in points */
    int within_fixed, within_own, of;      /* shares */
    double window_error;                   /* of what is known of each window at its end */
    int window_within, window_of, windows; /* within the interval that 997 Hz states for that window alone */
    int changes, regimes;
    double half;   /* of the whole run's intervals, in points */
    double chance; /* the error that as many samples have that are drawn at random, in points */
};

struct sampled {
    struct profile *profile;
    uint32_t functions[MOST + 1]; /* nodes; the last: everything else */
};

static void sampled_init(struct sampled *s)
{
    char name[32];
    if (profile_new(&s->profile) < 0)
        die("out of memory");
    for (int f = 0; f <= MOST; f++) {
        snprintf(name, sizeof(name), "function %d", f);
        s->functions[f] = profile_child(s->profile, 0, profile_named_frame(s->profile, name, FRAME_NATIVE));
    }
}

static void sampled_add(struct sampled *s, const struct sample *sample, double hz, bool windows)
{
    char name[32];
    snprintf(name, sizeof(name), "leaf %d", sample->leaf);
    uint32_t node = profile_child(s->profile, s->functions[sample->function < 0 ? MOST : sample->function],
                                  profile_named_frame(s->profile, name, FRAME_NATIVE));
    uint64_t weight = (uint64_t)(1e9 / hz);
    profile_count(s->profile, node, 1, weight);
    if (windows)
        profile_windows_add(s->profile, node, weight, (uint64_t)((sample->at_s + 1) * 1e9));
}

/* Shares of the functions among each other, and half their intervals. */
static double shares_of(struct profile *p, int functions, double *shares, double *halves)
{
    double sum = 0, half = 0;
    char name[32];
    if (certainty_measure(p) < 0)
        die("out of memory");
    for (int f = 0; f < functions; f++) {
        snprintf(name, sizeof(name), "function %d", f);
        const struct profile_interval *i = profile_interval_of(p, profile_named_frame(p, name, FRAME_NATIVE));
        sum += shares[f] = i ? i->total : 0;
        halves[f] = i ? (i->total_high - i->total_low) / 2 : 0;
    }
    for (int f = 0; f < functions; f++) {
        shares[f] /= fmax(sum, 1e-9);
        halves[f] /= fmax(sum, 1e-9);
        half += 100 * halves[f] / functions;
    }
    return half;
}

struct fixed { /* what 997 Hz says: of the whole, and of each window */
    double halves[MOST], *window_halves;
};

static void judge_window(const struct recording *r, const struct fixed *fixed, double from_s, double until_s,
                         const double *counts, struct outcome *o)
{
    double truth[MOST], sum = 0;
    for (int f = 0; f < r->functions; f++)
        sum += counts[f];
    if (!true_shares(r, from_s, until_s, truth) || !(sum > 0))
        return;
    size_t window = (size_t)(from_s / WINDOW_S + 0.5);
    for (int f = 0; f < r->functions; f++) {
        double error = fabs(counts[f] / sum - truth[f]);
        o->window_error += 100 * error;
        o->window_within += error <= fixed->window_halves[window * MOST + (size_t)f];
        o->window_of++;
    }
    o->windows++;
}

static void judge_whole(const struct recording *r, const struct fixed *fixed, struct profile *p,
                        struct outcome *o)
{
    double truth[MOST], shares[MOST], halves[MOST];
    (void)true_shares(r, 0, r->length_s, truth);
    o->half += shares_of(p, r->functions, shares, halves);
    for (int f = 0; f < r->functions; f++) {
        double error = fabs(shares[f] - truth[f]);
        o->error += 100 * error / r->functions;
        o->within_fixed += error <= fixed->halves[f];
        o->within_own += error <= halves[f];
        o->of++;
    }
}

/* options NULL: at a fixed rate. Each sample of the recording is taken or not, at equal distances. */
static void sample_once(const struct recording *r, const struct fixed *fixed, struct stats_random *random,
                        const struct rate_options *options, double hz, struct outcome *o)
{
    struct sampled whole;
    struct rate *rate = NULL;
    struct pool *pool = NULL;
    struct rate_decision d = {.next = hz};
    double pooled[RATE_REGIMES][MOST] = {{0}}, due = stats_random_unit(random), hz_s = 0, named = 0,
           truth[MOST];
    size_t at = 0;
    sampled_init(&whole);
    if (profile_windows_begin(whole.profile) < 0 ||
        (options && (rate_new(options, hz, &rate) < 0 || pool_new(whole.profile, 100000, &pool) < 0)))
        die("out of memory");
    for (double from = 0; from < r->length_s; from += WINDOW_S) {
        double until = fmin(from + WINDOW_S, r->length_s), counts[MOST] = {0}, *known = counts;
        double now_hz = fmin(options ? round(d.next) : hz, RECORDED_HZ);
        struct sampled window;
        if (options)
            sampled_init(&window);
        bool halved = !options;
        for (; at < r->count && r->samples[at].at_s < until; at++) {
            if (!halved && r->samples[at].at_s >= from + WINDOW_S / 2) {
                if (rate_half_profile(rate, window.profile) < 0)
                    die("out of memory");
                halved = true;
            }
            due += now_hz / RECORDED_HZ;
            if (due < 1)
                continue;
            due -= 1;
            sampled_add(options ? &window : &whole, &r->samples[at], now_hz, !options);
            if (r->samples[at].function >= 0) {
                counts[r->samples[at].function]++;
                named++;
            }
            o->samples++;
        }
        hz_s += now_hz * (until - from);
        if (options) {
            struct distribution functions = {0};
            if (distribution_add_profile(&functions, window.profile) < 0 ||
                rate_window(rate, &functions, &d) < 0 ||
                pool_add(pool, d.regime, d.fresh, window.profile) < 0)
                die("out of memory");
            o->changes += d.changed;
            o->regimes += d.fresh || from < WINDOW_S / 2;
            if (d.fresh)
                memset(pooled[d.regime], 0, sizeof(pooled[d.regime]));
            for (int f = 0; f < r->functions; f++)
                pooled[d.regime][f] += counts[f];
            known = options->previous_only ? counts : pooled[d.regime];
            distribution_done(&functions);
            profile_free(window.profile);
        }
        if (until - from > WINDOW_S - 1)
            judge_window(r, fixed, from, until, known, o);
    }
    o->mean_hz += hz_s / r->length_s;
    (void)true_shares(r, 0, r->length_s, truth);
    for (int f = 0; f < r->functions && named > 0; f++)
        o->chance += 100 * sqrt(2 / M_PI * truth[f] * (1 - truth[f]) / named) / r->functions;
    if (pool && pool_finish(pool, whole.profile) < 0)
        die("out of memory");
    judge_whole(r, fixed, whole.profile, o);
    pool_free(pool);
    rate_free(rate);
    profile_free(whole.profile);
}

static void print_outcome(const struct recording *r, const char *name, const struct outcome *o, int runs)
{
    printf("{\"mode\": \"%s\", \"runs\": %d, \"mean_hz\": %.1f, \"samples\": %.0f, \"samples_share\": %.4f, "
           "\"error_points\": %.4f, \"chance_points\": %.4f, \"half_points\": %.4f, \"within_fixed\": %.3f, "
           "\"within_own\": %.3f, "
           "\"window_error_points\": %.4f, \"window_within_fixed\": %.3f, \"windows\": %d, \"changes\": "
           "%.1f, \"regimes\": %.1f}\n",
           name, runs, o->mean_hz / runs, o->samples / runs, o->samples / runs / (double)r->count,
           o->error / runs, o->chance / runs, o->half / runs, (double)o->within_fixed / o->of,
           (double)o->within_own / o->of, o->window_of ? o->window_error / o->window_of : 0,
           o->window_of ? (double)o->window_within / o->window_of : 0, o->windows / runs,
           (double)o->changes / runs, (double)o->regimes / runs);
}

/* What 997 Hz states of the whole run, and of each window by its samples alone. */
static void fixed_measure(const struct recording *r, struct fixed *fixed)
{
    struct sampled whole;
    double shares[MOST], *counts;
    size_t windows = (size_t)(r->length_s / WINDOW_S) + 2;
    fixed->window_halves = calloc(windows * MOST, sizeof(double));
    counts = calloc(windows * MOST, sizeof(double));
    if (!fixed->window_halves || !counts)
        die("out of memory");
    sampled_init(&whole);
    if (profile_windows_begin(whole.profile) < 0)
        die("out of memory");
    for (size_t i = 0; i < r->count; i++) {
        sampled_add(&whole, &r->samples[i], RECORDED_HZ, true);
        if (r->samples[i].function >= 0)
            counts[(size_t)(r->samples[i].at_s / WINDOW_S) * MOST + (size_t)r->samples[i].function]++;
    }
    (void)shares_of(whole.profile, r->functions, shares, fixed->halves);
    for (size_t w = 0; w < windows; w++) {
        double sum = 0, low, high;
        for (int f = 0; f < r->functions; f++)
            sum += counts[w * MOST + (size_t)f];
        for (int f = 0; f < r->functions && sum > 0; f++) {
            certainty_wilson(counts[w * MOST + (size_t)f] / sum, sum, 1.96, &low, &high);
            fixed->window_halves[w * MOST + (size_t)f] = (high - low) / 2;
        }
    }
    free(counts);
    profile_free(whole.profile);
}

/* sonde profile -F 99 --error: how many samples it takes, and whether what it states is so. */
static void stated_error(const struct recording *r, struct stats_random *random, double error, double above,
                         int runs)
{
    struct certainty_target target = {error, above};
    double samples = 0, seconds = 0, hz = 99;
    int reached = 0, held = 0, of = 0;
    for (int run = 0; run < runs; run++) {
        struct sampled s;
        struct certainty_reached c = {0};
        double due = stats_random_unit(random), next = 2, at = 0, truth[MOST], shares[MOST], halves[MOST];
        sampled_init(&s);
        if (profile_windows_begin(s.profile) < 0)
            die("out of memory");
        for (size_t i = 0; i < r->count && !c.reached; i++) {
            at = r->samples[i].at_s;
            if (at >= next) {
                next = at * 1.1;
                if (certainty_measure(s.profile) < 0)
                    die("out of memory");
                c = certainty_check(s.profile, &target);
            }
            due += hz / RECORDED_HZ;
            if (c.reached || due < 1)
                continue;
            due -= 1;
            sampled_add(&s, &r->samples[i], hz, true);
            samples++;
        }
        reached += c.reached;
        seconds += at;
        (void)shares_of(s.profile, r->functions, shares, halves);
        (void)true_shares(r, 0, at, truth);
        for (int f = 0; f < r->functions && c.reached; f++) {
            held += fabs(shares[f] - truth[f]) <= halves[f];
            of++;
        }
        profile_free(s.profile);
    }
    printf("{\"mode\": \"error %g%%@%g%%\", \"runs\": %d, \"reached\": %.3f, \"seconds\": %.1f, \"samples\": "
           "%.0f, \"samples_share\": %.4f, \"within_own\": %.3f}\n",
           100 * error, 100 * above, runs, (double)reached / runs, seconds / runs, samples / runs,
           samples / runs / (double)r->count, of ? (double)held / of : 0);
}

static void rates(const char *samples, const char *truth, int runs)
{
    static const double RATES[] = {RECORDED_HZ, 499, 249, 99, 49, 20};
    static const struct {
        const char *name;
        double first;
    } PRESETS[] = {{"paper", 0}, {"paper-fine", 0}, {"usual", 0}};
    struct recording r = {0};
    struct fixed fixed;
    struct stats_random random;
    stats_random_init(&random, 1);
    recording_read(&r, samples, truth);
    fixed_measure(&r, &fixed);
    for (size_t i = 0; i < ARRAY_SIZE(RATES); i++) {
        struct outcome o = {0};
        char name[32];
        int times = i ? runs : 1;
        for (int run = 0; run < times; run++)
            sample_once(&r, &fixed, &random, NULL, RATES[i], &o);
        snprintf(name, sizeof(name), "%.0f Hz", RATES[i]);
        print_outcome(&r, name, &o, times);
    }
    for (size_t i = 0; i < ARRAY_SIZE(PRESETS); i++) {
        const struct rate_options *options = rate_preset(PRESETS[i].name);
        struct outcome o = {0};
        for (int run = 0; run < runs; run++)
            sample_once(&r, &fixed, &random, options, options->first, &o);
        print_outcome(&r, PRESETS[i].name, &o, runs);
    }
    stated_error(&r, &random, 0.1, 0.05, runs);
    stated_error(&r, &random, 0.2, 0.05, runs);
    free(r.samples);
    free(r.at_s);
    free(r.used);
    free(fixed.window_halves);
}

static void prune(const char *path)
{
    static const double PERCENTS[] = {50, 60, 70, 80, 85, 90, 95, 97, 99, 99.5, 100};
    _cleanup_(profile_freep) struct profile *p = NULL;
    struct problem problem;
    struct tuning t;
    if (profile_read_file(path, &p, &problem) < 0)
        die("the profile cannot be read");
    if (tuning_measure(p, 1, &t) < 0)
        die("out of memory");
    for (size_t i = 0; i < ARRAY_SIZE(PERCENTS); i++) {
        _cleanup_(profile_freep) struct profile *copy = NULL;
        struct prune_result result;
        if (profile_new(&copy) < 0 || profile_merge(copy, p) < 0 ||
            prune_threads(copy, PERCENTS[i], true, &result) < 0)
            die("out of memory");
        printf("{\"mode\": \"prune\", \"kept_percent\": %g, \"threads\": %zu, \"kept\": %zu, "
               "\"rare_percent\": %.3f, "
               "\"places\": %zu, \"top5\": %.4f, \"top10\": %.4f, \"top20\": %.4f, \"top50\": %.4f, "
               "\"time_ms\": %.4f, \"bytes\": %.0f}\n",
               PERCENTS[i], result.threads, result.kept,
               result.weight ? 100 * (double)result.rare_weight / (double)result.weight : 0,
               result.nodes_after, result.errors[0].mean, result.errors[1].mean, result.errors[2].mean,
               result.errors[3].mean, t.steps[i].time_ns / 1e6, t.steps[i].bytes);
    }
    printf("{\"mode\": \"prune fit\", \"slope_ms\": %.5f, \"offset_ms\": %.5f, \"time_fit_error\": %.3f, "
           "\"scale\": %.5f, \"rate\": %.5f, \"error_fit_error\": %.4f, \"recommended_percent\": %g}\n",
           t.slope / 1e6, t.offset / 1e6, t.time_fit_error, t.scale, t.rate, t.error_fit_error, t.percent);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "rates") == 0)
        rates(argv[2], argv[3], atoi(argv[4]));
    else if (argc == 3 && strcmp(argv[1], "prune") == 0)
        prune(argv[2]);
    else
        die("usage: rates SAMPLES TRUTH RUNS, or prune PROFILE");
    return 0;
}
