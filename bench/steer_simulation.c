/* How often the steering of profiles (src/steer) is right, on made samples whose truth is known: see
 * steer.mjs. One line of JSON for a case: steer_simulation CASE SEED [NAME=NUMBER...] */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/stats.h"
#include "profile/windows.h"
#include "steer/certainty.h"
#include "steer/pooling.h"
#include "steer/rate.h"

static int argument_count;
static char **arguments;

static double number(const char *name, double usual)
{
    size_t length = strlen(name);
    for (int i = 3; i < argument_count; i++)
        if (strncmp(arguments[i], name, length) == 0 && arguments[i][length] == '=')
            return atof(arguments[i] + length + 1);
    return usual;
}

static const char *word(const char *name, const char *usual)
{
    size_t length = strlen(name);
    for (int i = 3; i < argument_count; i++)
        if (strncmp(arguments[i], name, length) == 0 && arguments[i][length] == '=')
            return arguments[i] + length + 1;
    return usual;
}

/* ---- a load: functions whose shares are known ---- */

enum { FUNCTIONS = 200 };

struct load {
    double share[FUNCTIONS]; /* sum 1; function 5 has 5 % */
    double burst;            /* samples come in runs of so many of one function, on average */
    double wander;           /* relative deviation of a function from window to window */
};

/* Shares fall off as those of real services do: by a power of the rank. */
static void load_init(struct load *load)
{
    double sum = 0;
    *load = (struct load){.burst = number("burst", 1), .wander = number("wander", 0)};
    for (int f = 0; f < FUNCTIONS; f++)
        if (f != 5)
            sum += load->share[f] = pow(f + 2, -1.1);
    for (int f = 0; f < FUNCTIONS; f++)
        load->share[f] *= f == 5 ? 0 : 0.95 / sum;
    load->share[5] = 0.05;
}

/* One function's share is multiplied; the others make room. */
static void load_change(struct load *load, int function, double factor)
{
    double share = load->share[function], rest = (1 - share * factor) / (1 - share);
    for (int f = 0; f < FUNCTIONS; f++)
        load->share[f] *= f == function ? factor : rest;
}

static int draw(struct stats_random *random, const double *cumulative)
{
    double at = stats_random_unit(random) * cumulative[FUNCTIONS - 1];
    int low = 0, high = FUNCTIONS - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (cumulative[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static double first_half[FUNCTIONS]; /* of the window that was made last */

static int window_of(const struct load *load, struct stats_random *random, double samples, double *counts)
{
    double cumulative[FUNCTIONS], sum = 0;
    memset(counts, 0, FUNCTIONS * sizeof(*counts));
    for (int f = 0; f < FUNCTIONS; f++) {
        double off = load->wander > 0 ? exp(load->wander * stats_random_normal(random)) : 1;
        cumulative[f] = sum += load->share[f] * off;
    }
    int n = 0;
    memset(first_half, 0, sizeof(first_half));
    for (double left = samples; left >= 1; n++) {
        double run = load->burst > 1 ? fmin(left, 1 + floor(log(fmax(stats_random_unit(random), 1e-12)) /
                                                            log(1 - 1 / load->burst)))
                                     : 1;
        int function = draw(random, cumulative);
        counts[function] += run;
        if (2 * left > samples)
            first_half[function] += run;
        left -= run;
    }
    return n;
}

static void die(const char *what)
{
    fprintf(stderr, "steer_simulation: %s\n", what);
    exit(1);
}

static void give(struct rate *rate, const double *counts, struct rate_decision *decision)
{
    struct distribution half = {0}, window = {0};
    for (int f = 0; f < FUNCTIONS; f++)
        if ((counts[f] > 0 && distribution_add(&window, (uint64_t)f + 10, counts[f]) < 0) ||
            (first_half[f] > 0 && distribution_add(&half, (uint64_t)f + 10, first_half[f]) < 0))
            die("out of memory");
    if (rate_half(rate, &half) < 0 || rate_window(rate, &window, decision) < 0)
        die("out of memory");
    distribution_done(&half);
    distribution_done(&window);
}

static struct rate *new_rate(struct rate_options *options)
{
    struct rate *rate;
    const struct rate_options *preset = rate_preset(word("preset", "usual"));
    if (!preset)
        die("there is no such preset");
    *options = *preset;
    options->false_per_hour = number("false_per_hour", options->false_per_hour);
    if (rate_new(options, number("first", options->first), &rate) < 0)
        die("out of memory");
    return rate;
}

/* The samples of a window are given, or follow the rate: then `busy` CPUs are sampled. */
static double samples_at(const struct rate_decision *decision, const struct rate_options *options)
{
    double fixed = number("samples", 0), busy = number("busy", 2);
    return fixed > 0 ? fixed : decision->next * options->window_s * busy;
}

/* ---- cases ---- */

/* Steady load: every trigger is false. */
static void steady(struct stats_random *random)
{
    struct rate_options options;
    struct load load;
    double hours = number("hours", 100), counts[FUNCTIONS], rate_sum = 0, dispersion = 0;
    struct rate *rate = new_rate(&options);
    struct rate_decision decision = {.next = number("first", options.first)};
    long triggers = 0, windows = (long)(hours * 3600 / options.window_s);
    load_init(&load);
    for (long w = 0; w < windows; w++) {
        window_of(&load, random, samples_at(&decision, &options), counts);
        give(rate, counts, &decision);
        triggers += decision.changed;
        rate_sum += decision.next;
        dispersion = decision.dispersion;
    }
    printf(
        "\"hours\": %g, \"triggers\": %ld, \"allowed_per_hour\": %g, \"mean_hz\": %.1f, \"dispersion\": %.2f",
        hours, triggers, options.theta > 0 ? 0 : options.false_per_hour, rate_sum / (double)windows,
        dispersion);
    rate_free(rate);
}

/* A change after `before` windows: after how many more it is seen. */
static void change(struct stats_random *random)
{
    int runs = (int)number("runs", 200), before = (int)number("before", 360), within[3] = {0},
        false_before = 0;
    double counts[FUNCTIONS], factor = number("factor", 1.2), drift = number("drift", 0);
    int limit = drift > 0 ? (int)number("limit", 720) : 3, seen = 0;
    double after = 0;
    for (int run = 0; run < runs; run++) {
        struct rate_options options;
        struct load load;
        struct rate *rate = new_rate(&options);
        struct rate_decision decision = {.next = number("first", options.first)};
        load_init(&load);
        for (int w = 0; w < before; w++) {
            window_of(&load, random, samples_at(&decision, &options), counts);
            give(rate, counts, &decision);
            false_before += decision.changed;
        }
        if (!(drift > 0))
            load_change(&load, 5, factor);
        int w = 0;
        for (bool found = false; w < limit && !found; w++) {
            if (drift > 0) /* relative, an hour */
                load_change(&load, 5, pow(1 + drift, options.window_s / 3600));
            window_of(&load, random, samples_at(&decision, &options), counts);
            give(rate, counts, &decision);
            found = decision.changed;
            seen += found;
            for (int k = w; found && k < 3; k++)
                within[k]++;
            after += found ? w + 1 : 0;
        }
        rate_free(rate);
    }
    printf("\"runs\": %d, \"within_1\": %.3f, \"within_2\": %.3f, \"within_3\": %.3f, \"seen\": %.3f, "
           "\"mean_windows\": %.1f, \"false_before\": %d",
           runs, (double)within[0] / runs, (double)within[1] / runs, (double)within[2] / runs,
           (double)seen / runs, seen ? after / seen : 0, false_before);
}

/* ---- intervals ---- */

/* Samples by function in stretches of a second or so: made, or those of a real process, as "STRETCH FUNCTION
 * SAMPLES" in lines. */
struct history {
    int stretches, functions;
    double *samples; /* [stretch * functions + function] */
    double *truth;   /* by function: its share in the mean */
};

static void history_read(struct history *h, const char *path)
{
    FILE *f = fopen(path, "r");
    int stretch, function;
    double samples, sum = 0;
    if (!f)
        die("the recorded samples cannot be read");
    *h = (struct history){0};
    while (fscanf(f, "%d %d %lf", &stretch, &function, &samples) == 3) {
        h->stretches = MAX(h->stretches, stretch + 1);
        h->functions = MAX(h->functions, function + 1);
    }
    rewind(f);
    h->samples = calloc((size_t)h->stretches * (size_t)h->functions + 1, sizeof(double));
    h->truth = calloc((size_t)h->functions + 1, sizeof(double));
    if (!h->samples || !h->truth || !h->stretches)
        die("there are no recorded samples");
    while (fscanf(f, "%d %d %lf", &stretch, &function, &samples) == 3) {
        h->samples[stretch * h->functions + function] += samples;
        h->truth[function] += samples;
        sum += samples;
    }
    for (int i = 0; i < h->functions; i++)
        h->truth[i] /= sum;
    fclose(f);
}

enum { STRETCHES = 64 };

/* Stretches of a process in the order in which they were, for five on average, then from elsewhere (Politis
 * and Romano, The stationary bootstrap, 1994), of which each sample is taken with the chance `thin`. */
static void replay(const struct history *h, struct stats_random *random, double thin, double *counts)
{
    int at = 0;
    for (int s = 0; s < STRETCHES; s++) {
        at = s && stats_random_unit(random) > 0.2 ? (at + 1) % h->stretches
                                                  : (int)(stats_random_unit(random) * h->stretches);
        for (int f = 0; f < h->functions; f++) {
            double taken = 0;
            for (double left = h->samples[at * h->functions + f]; left >= 1; left--)
                taken += stats_random_unit(random) < thin;
            counts[s * h->functions + f] = taken;
        }
    }
}

static struct profile *profile_of(const double *counts, int functions)
{
    struct profile *p;
    char name[32];
    if (profile_new(&p) < 0 || profile_windows_begin(p) < 0)
        die("out of memory");
    for (int f = 0; f < functions; f++) {
        snprintf(name, sizeof(name), "f%d", f);
        uint32_t node = profile_child(p, 0, profile_named_frame(p, name, FRAME_NATIVE));
        for (int s = 0; s < STRETCHES; s++) {
            uint64_t n = (uint64_t)counts[s * functions + f];
            profile_count(p, node, n, n * 1000);
            if (n)
                profile_windows_add_at(p, node, n * 1000, (uint32_t)(s / (STRETCHES / WINDOWS)));
        }
    }
    return p;
}

/* How often intervals hold the true share, by how large that is. */
static void coverage(struct stats_random *random)
{
    static const double BANDS[] = {0.1, 0.03, 0.01, 0.003, 0.001};
    long held[ARRAY_SIZE(BANDS)] = {0}, all[ARRAY_SIZE(BANDS)] = {0}, every = 0, every_held = 0;
    double width[ARRAY_SIZE(BANDS)] = {0};
    int runs = (int)number("runs", 1000);
    const char *file = word("file", "");
    struct history h;
    struct load load;
    double thin = number("thin", 0.25), per_stretch = number("samples", 250);
    load_init(&load);
    if (*file) {
        history_read(&h, file);
    } else { /* what windows have on average: they wander, so that it is not what the load says */
        h = (struct history){.functions = FUNCTIONS, .truth = calloc(FUNCTIONS, sizeof(double))};
        for (int w = 0; w < 20000; w++) {
            double sum = 0, share[FUNCTIONS];
            for (int f = 0; f < FUNCTIONS; f++)
                sum += share[f] =
                    load.share[f] * (load.wander > 0 ? exp(load.wander * stats_random_normal(random)) : 1);
            for (int f = 0; f < FUNCTIONS; f++)
                h.truth[f] += share[f] / sum / 20000;
        }
    }
    double *counts = calloc((size_t)STRETCHES * (size_t)h.functions, sizeof(double));
    for (int run = 0; run < runs; run++) {
        if (*file)
            replay(&h, random, thin, counts);
        else
            for (int s = 0; s < STRETCHES; s++)
                window_of(&load, random, per_stretch, counts + s * FUNCTIONS);
        struct profile *p = profile_of(counts, h.functions);
        if (certainty_measure(p) < 0)
            die("out of memory");
        for (int f = 0; f < h.functions; f++) {
            size_t band = 0;
            char name[32];
            while (band < ARRAY_SIZE(BANDS) && h.truth[f] < BANDS[band])
                band++;
            snprintf(name, sizeof(name), "f%d", f);
            const struct profile_interval *i =
                band < ARRAY_SIZE(BANDS) ? profile_interval_of(p, profile_named_frame(p, name, FRAME_NATIVE))
                                         : NULL;
            if (!i)
                continue;
            bool inside = i->self_low <= h.truth[f] && h.truth[f] <= i->self_high;
            all[band]++;
            held[band] += inside;
            every++;
            every_held += inside;
            width[band] += (i->self_high - i->self_low) / 2 / h.truth[f];
        }
        profile_free(p);
    }
    printf("\"runs\": %d, \"coverage\": %.4f, \"bands\": [", runs, (double)every_held / (double)every);
    for (size_t b = 0; b < ARRAY_SIZE(BANDS); b++)
        printf("%s{\"from\": %g, \"intervals\": %ld, \"coverage\": %.4f, \"half_width\": %.4f}",
               b ? ", " : "", BANDS[b], all[b], all[b] ? (double)held[b] / (double)all[b] : 0,
               all[b] ? width[b] / (double)all[b] : 0);
    printf("]");
}

/* Sampling ends when the error is what was asked for, and is looked at again and again: how often do the
 * intervals of the functions that it was asked for hold then? */
static void stopping(struct stats_random *random)
{
    struct certainty_target target = {number("error", 0.1), number("above", 0.03)};
    int runs = (int)number("runs", 300), reached = 0;
    long all = 0, held = 0;
    double rate = number("rate", 200), limit = number("limit", 600), seconds = 0, counts[FUNCTIONS];
    struct load load;
    load_init(&load);
    for (int run = 0; run < runs; run++) {
        struct profile *p;
        struct certainty_reached r = {0};
        uint32_t nodes[FUNCTIONS];
        double next = 2;
        int second = 0;
        if (profile_new(&p) < 0 || profile_windows_begin(p) < 0)
            die("out of memory");
        for (int f = 0; f < FUNCTIONS; f++) {
            char name[32];
            snprintf(name, sizeof(name), "f%d", f);
            nodes[f] = profile_child(p, 0, profile_named_frame(p, name, FRAME_NATIVE));
        }
        for (; second < limit && !r.reached; second++) {
            window_of(&load, random, rate, counts);
            for (int f = 0; f < FUNCTIONS; f++)
                if (counts[f] > 0) {
                    profile_count(p, nodes[f], (uint64_t)counts[f], (uint64_t)counts[f] * 1000);
                    profile_windows_add(p, nodes[f], (uint64_t)counts[f] * 1000,
                                        (uint64_t)(second + 1) * 1000000000);
                }
            if (second + 1 < next)
                continue;
            next = (second + 1) * 1.1;
            if (certainty_measure(p) < 0)
                die("out of memory");
            r = certainty_check(p, &target);
        }
        reached += r.reached;
        seconds += r.reached ? second : 0;
        for (int f = 0; f < FUNCTIONS && r.reached; f++) {
            const struct profile_interval *i = profile_interval_of(p, p->nodes.at[nodes[f]].frame);
            if (load.share[f] < target.above || !i)
                continue;
            all++;
            held += i->self_low <= load.share[f] && load.share[f] <= i->self_high;
        }
        profile_free(p);
    }
    printf("\"runs\": %d, \"reached\": %.3f, \"mean_seconds\": %.1f, \"intervals\": %ld, \"coverage\": %.4f",
           runs, (double)reached / runs, reached ? seconds / reached : 0, all,
           all ? (double)held / (double)all : 0);
}

/* ---- a rate that follows the load ---- */

/* The two mixes of steer_target.c. */
enum { MIXED = 8 };
static const double MIXES[2][MIXED] = {{40, 20, 15, 10, 6, 4, 3, 2}, {3, 5, 2, 20, 10, 30, 12, 18}};

struct followed {
    struct profile *profile;
    uint32_t nodes[MIXED];
};

static struct followed new_followed(void)
{
    struct followed f;
    char name[16];
    if (profile_new(&f.profile) < 0)
        die("out of memory");
    for (int i = 0; i < MIXED; i++) {
        snprintf(name, sizeof(name), "work_%d", i);
        f.nodes[i] = profile_child(f.profile, 0, profile_named_frame(f.profile, name, FRAME_NATIVE));
    }
    return f;
}

/* The share of the second mix in a stretch of time. */
static double second_mix(double from, double length, double phase)
{
    double sum = 0;
    enum { PARTS = 20 };
    for (int i = 0; i < PARTS && phase > 0; i++)
        sum += (long)((from + length * (i + 0.5) / PARTS) / phase) % 2;
    return sum / PARTS;
}

static double sample_stretch(struct followed *f, struct stats_random *random, double from, double length,
                             double rate, double phase, bool windows)
{
    double other = second_mix(from, length, phase);
    long count = (long)(length * rate + stats_random_unit(random));
    for (long i = 0; i < count; i++) {
        const double *mix = MIXES[stats_random_unit(random) < other];
        double pick = stats_random_unit(random) * 100;
        int at = 0;
        while (at < MIXED - 1 && pick >= mix[at])
            pick -= mix[at++];
        profile_count(f->profile, f->nodes[at], 1, (uint64_t)(1e9 / rate));
        if (windows)
            profile_windows_add(f->profile, f->nodes[at], (uint64_t)(1e9 / rate),
                                (uint64_t)((from + 1) * 1e9));
    }
    return (double)count;
}

struct quality {
    double error;       /* of the shares, in the mean, in points */
    int held, narrower; /* shares that their interval holds; whose error is within that of `with` */
};

static struct quality quality_of(struct profile *p, const double *truth, struct profile *with)
{
    struct quality q = {0};
    char name[16];
    if (certainty_measure(p) < 0 || (with && certainty_measure(with) < 0))
        die("out of memory");
    for (int i = 0; i < MIXED; i++) {
        snprintf(name, sizeof(name), "work_%d", i);
        const struct profile_interval *own =
                                          profile_interval_of(p, profile_named_frame(p, name, FRAME_NATIVE)),
                                      *other = with ? profile_interval_of(
                                                          with, profile_named_frame(with, name, FRAME_NATIVE))
                                                    : own;
        q.error += 100 * fabs(own->self - truth[i]) / MIXED;
        q.held += own->self_low <= truth[i] && truth[i] <= own->self_high;
        q.narrower += fabs(own->self - truth[i]) <= (other->self_high - other->self_low) / 2;
    }
    return q;
}

/* Two mixes in turn (phase seconds), or one (0): the error at a rate that follows and at the fixed one. */
static void follow(struct stats_random *random)
{
    int runs = (int)number("runs", 20), held = 0, narrower = 0, fixed_held = 0;
    double seconds = number("seconds", 600), phase = number("phase", 60), error = 0, fixed_error = 0,
           equal_error = 0, taken = 0, all = 0, changes = 0;
    for (int run = 0; run < runs; run++) {
        struct rate_options options;
        struct rate *rate = new_rate(&options);
        struct rate_decision d = {.next = number("first", options.first)};
        struct followed whole = new_followed(), fixed = new_followed(), equal = new_followed();
        struct pool *pool;
        double truth[MIXED], second = second_mix(0, seconds, 0), steps = 2000, mine = 0;
        options.window_s = number("window", options.window_s);
        rate_free(rate);
        if (rate_new(&options, d.next, &rate) < 0 || profile_windows_begin(whole.profile) < 0 ||
            profile_windows_begin(fixed.profile) < 0 || pool_new(whole.profile, 1000, &pool) < 0)
            die("out of memory");
        for (int i = 0; i < steps; i++)
            second += second_mix(seconds * i / steps, seconds / steps, phase) / steps;
        for (int i = 0; i < MIXED; i++)
            truth[i] = (MIXES[0][i] * (1 - second) + MIXES[1][i] * second) / 100;
        double late = number("late", 0); /* the first window is longer or shorter, so that windows drift */
        for (double at = 0; at < seconds; at += options.window_s + late) {
            struct followed w = new_followed();
            struct distribution functions = {0};
            double length = fmin(options.window_s, seconds - at);
            double hz = round(d.next);
            bool halved = false;
            for (double s = 0; s < length - 1e-9; s += 0.1) {
                if (!halved && 2 * s >= length && rate_half_profile(rate, w.profile) < 0)
                    die("out of memory");
                halved |= 2 * s >= length;
                mine += sample_stretch(&w, random, at + s, fmin(0.1, length - s), hz, phase, false);
            }
            if (distribution_add_profile(&functions, w.profile) < 0 ||
                rate_window(rate, &functions, &d) < 0 || pool_add(pool, d.regime, d.fresh, w.profile) < 0)
                die("out of memory");
            changes += d.changed;
            if (number("show", 0) > 0)
                fprintf(stderr, "%6.0f s %4.0f Hz -> %4.0f regime %zu%s%s excess %.2f dispersion %.2f\n", at,
                        hz, d.next, d.regime, d.changed ? " changed" : "",
                        d.fresh   ? " fresh"
                        : d.known ? " known"
                                  : "",
                        d.excess, d.dispersion);
            distribution_done(&functions);
            profile_free(w.profile);
        }
        for (double at = 0; at < seconds; at += 0.1)
            all += sample_stretch(&fixed, random, at, 0.1, options.most, phase, true);
        for (double at = 0; at < seconds; at += 0.1)
            sample_stretch(&equal, random, at, 0.1, mine / seconds, phase, false);
        if (pool_finish(pool, whole.profile) < 0)
            die("out of memory");
        struct quality f = quality_of(fixed.profile, truth, NULL),
                       q = quality_of(whole.profile, truth, fixed.profile),
                       e = quality_of(equal.profile, truth, NULL);
        error += q.error / runs;
        fixed_error += f.error / runs;
        equal_error += e.error / runs;
        held += q.held;
        fixed_held += f.held;
        narrower += q.narrower;
        taken += mine;
        pool_free(pool);
        rate_free(rate);
        profile_free(whole.profile);
        profile_free(fixed.profile);
        profile_free(equal.profile);
    }
    printf(
        "\"runs\": %d, \"error_points\": %.4f, \"fixed_error_points\": %.4f, \"equal_error_points\": %.4f, "
        "\"samples_of_fixed\": %.4f, \"coverage\": %.4f, \"fixed_coverage\": %.4f, \"within_fixed\": %.4f, "
        "\"changes\": %.1f",
        runs, error, fixed_error, equal_error, taken / all, held / (double)(MIXED * runs),
        fixed_held / (double)(MIXED * runs), narrower / (double)(MIXED * runs), changes / runs);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct stats_random *random);
    } CASES[] = {{"steady", steady},
                 {"change", change},
                 {"coverage", coverage},
                 {"stopping", stopping},
                 {"follow", follow}};
    struct stats_random random;
    argument_count = argc;
    arguments = argv;
    if (argc < 3) {
        fprintf(stderr, "usage: %s CASE SEED [NAME=NUMBER...]\n", argv[0]);
        return 2;
    }
    stats_random_init(&random, (uint64_t)atoll(argv[2]));
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
        if (strcmp(argv[1], CASES[i].name) == 0) {
            printf("{\"case\": \"%s\", \"seed\": %s, ", argv[1], argv[2]);
            CASES[i].run(&random);
            printf("}\n");
            return 0;
        }
    fprintf(stderr, "%s: there is no case '%s'\n", argv[0], argv[1]);
    return 2;
}
