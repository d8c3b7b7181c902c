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

static int window_of(const struct load *load, struct stats_random *random, double samples, double *counts)
{
    double cumulative[FUNCTIONS], sum = 0;
    memset(counts, 0, FUNCTIONS * sizeof(*counts));
    for (int f = 0; f < FUNCTIONS; f++) {
        double off = load->wander > 0 ? exp(load->wander * stats_random_normal(random)) : 1;
        cumulative[f] = sum += load->share[f] * off;
    }
    int n = 0;
    for (double left = samples; left >= 1; n++) {
        double run = load->burst > 1 ? fmin(left, 1 + floor(log(fmax(stats_random_unit(random), 1e-12)) /
                                                            log(1 - 1 / load->burst)))
                                     : 1;
        counts[draw(random, cumulative)] += run;
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
    struct distribution window = {0};
    for (int f = 0; f < FUNCTIONS; f++)
        if (counts[f] > 0 && distribution_add(&window, (uint64_t)f + 10, counts[f]) < 0)
            die("out of memory");
    if (rate_window(rate, &window, decision) < 0)
        die("out of memory");
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
    if (rate_new(options, options->most, &rate) < 0)
        die("out of memory");
    return rate;
}

/* The samples of a window are given, or follow the rate: then `busy` processors are sampled. */
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
    struct rate_decision decision = {.next = options.most};
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
        struct rate_decision decision = {.next = options.most};
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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct stats_random *random);
    } CASES[] = {{"steady", steady}, {"change", change}};
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
