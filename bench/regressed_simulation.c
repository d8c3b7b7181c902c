/* How well functions whose share of a service's CPU grows are found (src/steer/regressed.h): months in which
 * nothing changes, whose findings are false, and deployments after which one function takes more, which
 * should be found within a day. One line of JSON: regressed_simulation SEED [NAME=NUMBER...]; see
 * regressed.mjs.
 *
 * The service has functions whose shares fall off by a power of their rank. Each varies with the hour of the
 * day and at weekends in its own way, which comes again, and by chance from day to day, from six hours to six
 * hours and from three to three, which does not; samples come in runs. Now and then (odd) a function takes a
 * multiple for three hours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/stats.h"
#include "profile/windows.h"
#include "steer/regressed.h"

enum {
    FUNCTIONS = 200,
    SLOTS_A_DAY = 8, /* of three hours */
    HISTORY_DAYS = 28,
    RUNS_MOST = 14,
};

static int argument_count;
static char **arguments;

static double number(const char *name, double usual)
{
    size_t length = strlen(name);
    for (int i = 2; i < argument_count; i++)
        if (strncmp(arguments[i], name, length) == 0 && arguments[i][length] == '=')
            return atof(arguments[i] + length + 1);
    return usual;
}

static void die(const char *what)
{
    fprintf(stderr, "regressed_simulation: %s\n", what);
    exit(1);
}

/* ---- the service ---- */

struct service {
    double share[FUNCTIONS], swing[FUNCTIONS], peak[FUNCTIONS], weekend[FUNCTIONS]; /* what comes again */
    double day[FUNCTIONS], quarter[FUNCTIONS]; /* by chance: logarithms */
    int grown;                                 /* the function that takes more from a slot on; -1: none */
    double growth;                             /* of the service's CPU */
    long from_slot;
};

static void service_init(struct service *s, struct stats_random *random)
{
    double sum = 0, swing = number("swing", 0.2), weekend = number("weekend", 0.05);
    *s = (struct service){.grown = -1};
    for (int f = 0; f < FUNCTIONS; f++) {
        sum += s->share[f] = pow(f + 2, -1.1);
        s->swing[f] = swing * (2 * stats_random_unit(random) - 1);
        s->peak[f] = 24 * stats_random_unit(random);
        s->weekend[f] = weekend * stats_random_normal(random);
    }
    for (int f = 0; f < FUNCTIONS; f++)
        s->share[f] /= sum;
}

static bool is_weekend(long day)
{
    return day % 7 >= 5;
}

/* Samples of runs of `run` on average. */
static double sampled(struct stats_random *random, double mean, double run)
{
    if (mean > 200)
        return fmax(0, round(mean + sqrt(mean * run) * stats_random_normal(random)));
    return round(run * (double)stats_random_poisson(random, mean / run));
}

/* The samples of one slot. */
static void take_slot(struct service *s, struct stats_random *random, long slot, float *counts)
{
    double weight[FUNCTIONS], sum = 0, samples = number("samples", 72000) * 24 / SLOTS_A_DAY;
    double hour = 24.0 / SLOTS_A_DAY * (double)(slot % SLOTS_A_DAY), run = number("run", 4);
    int odd = stats_random_unit(random) < number("odd", 0) / (7 * SLOTS_A_DAY)
                  ? (int)(stats_random_unit(random) * FUNCTIONS)
                  : -1;
    samples *= 1 + 0.5 * sin(hour * M_PI / 12); /* traffic */
    for (int f = 0; f < FUNCTIONS; f++) {
        if (slot % SLOTS_A_DAY == 0)
            s->day[f] = number("day", 0.01) * stats_random_normal(random);
        if (slot % (SLOTS_A_DAY / 4) == 0)
            s->quarter[f] = number("quarter", 0.01) * stats_random_normal(random);
        double off = s->day[f] + s->quarter[f] + number("slot", 0.02) * stats_random_normal(random) +
                     s->swing[f] * sin((hour - s->peak[f]) * M_PI / 12) +
                     (is_weekend(slot / SLOTS_A_DAY) ? s->weekend[f] : 0);
        sum += weight[f] = s->share[f] * exp(off) * (f == odd ? 2 : 1);
    }
    double planted = s->grown >= 0 && slot >= s->from_slot ? s->growth : 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        double share = weight[f] / sum * (1 - planted) + (f == s->grown ? planted : 0);
        counts[f] = (float)sampled(random, samples * share, run);
    }
}

/* ---- a judgement ---- */

struct history {
    float (*slots)[FUNCTIONS];
};

static uint32_t function_at(struct profile *p, int f, bool kept)
{
    char name[32];
    snprintf(name, sizeof(name), "function_%d", f);
    return profile_child(p, 0,
                         kept ? profile_named_frame(p, name, FRAME_NATIVE)
                              : profile_named_frame(p, "[other functions]", FRAME_TRUNCATED));
}

/* Adds slots to one of the profile's windows. */
static void add_slots(struct profile *p, const struct history *h, long from, long count, const bool *kept,
                      uint32_t window)
{
    for (int f = 0; f < FUNCTIONS; f++) {
        double sum = 0;
        for (long slot = from; slot < from + count; slot++)
            sum += (double)h->slots[slot][f];
        uint32_t node = function_at(p, f, kept[f]);
        profile_count(p, node, (uint64_t)sum, (uint64_t)sum);
        profile_windows_add_at(p, node, (uint64_t)sum, window);
    }
}

static struct profile *new_profile(void)
{
    struct profile *p;
    if (profile_new(&p) < 0 || profile_windows_begin(p) < 0)
        die("out of memory");
    return p;
}

/* Of `count` slots before `end`, as a store's are. */
static struct regressed judge(const struct history *h, long end, long count)
{
    struct regressed found = {0};
    struct profile *before = new_profile(), *after = new_profile();
    double all = 0, own[FUNCTIONS] = {0};
    bool kept[FUNCTIONS];
    long from = end - count;
    for (long slot = from; slot < end; slot++)
        for (int f = 0; f < FUNCTIONS; f++) {
            own[f] += (double)h->slots[slot][f];
            all += (double)h->slots[slot][f];
        }
    for (int f = 0; f < FUNCTIONS; f++)
        kept[f] = own[f] >= REGRESSED_LEAST * all;
    add_slots(after, h, from, count / 2, kept, 0);
    add_slots(after, h, from + count / 2, count - count / 2, kept, 1);
    uint32_t runs = 0;
    for (int k = 1; k <= HISTORY_DAYS && runs < RUNS_MOST; k++) {
        long run = from - k * SLOTS_A_DAY;
        if (run >= 0 && is_weekend(run / SLOTS_A_DAY) == is_weekend(from / SLOTS_A_DAY))
            add_slots(before, h, run, count, kept, runs++);
    }
    if (runs >= REGRESSED_RUNS_LEAST &&
        regressed_judge(before, after, "service", REGRESSED_LEVEL, REGRESSED_LEAST, &found) < 0)
        die("out of memory");
    profile_free(before);
    profile_free(after);
    return found;
}

/* ---- months without a change, and deployments ---- */

enum { QUARTER = SLOTS_A_DAY / 4 };

static const long LENGTHS[] = {QUARTER, SLOTS_A_DAY};

static void simulate(struct stats_random *random)
{
    long months = (long)number("months", 10), deployments = (long)number("deployments", 100);
    long days = HISTORY_DAYS + 31, false_found = 0, months_with = 0, found[4] = {0}, intervals = 0, held = 0;
    double growth = number("growth", 0.005);
    struct history h = {.slots = calloc((size_t)(days * SLOTS_A_DAY), sizeof(*h.slots))};
    if (!h.slots)
        die("out of memory");
    struct band {
        double from;
        long deployments, found;
    } bands[] = {{0.05, 0, 0}, {0.01, 0, 0}, {0.001, 0, 0}, {0, 0, 0}};
    long per_month = (deployments + months - 1) / months, done = 0;
    for (long m = 0; m < months; m++) {
        struct service s;
        long last[FUNCTIONS], of_month = 0;
        service_init(&s, random);
        for (int f = 0; f < FUNCTIONS; f++)
            last[f] = -days * SLOTS_A_DAY;
        for (long slot = 0; slot < days * SLOTS_A_DAY; slot++)
            take_slot(&s, random, slot, h.slots[slot]);
        for (long end = HISTORY_DAYS * SLOTS_A_DAY + QUARTER; end <= (HISTORY_DAYS + 30) * SLOTS_A_DAY;
             end += QUARTER)
            for (size_t l = 0; l < ARRAY_SIZE(LENGTHS); l++) {
                struct regressed r = judge(&h, end, LENGTHS[l]);
                array_foreach (&r.functions, f) {
                    int at = atoi(f->function + strlen("function_"));
                    of_month += end - last[at] > SLOTS_A_DAY; /* else it is the same finding */
                    last[at] = end;
                }
                regressed_done(&r);
            }
        false_found += of_month;
        months_with += of_month > 0;
        /* Deployments into the same history: what follows each is taken anew. */
        for (long d = 0; d < per_month && done < deployments; d++, done++) {
            struct service changed = s;
            long begins = HISTORY_DAYS * SLOTS_A_DAY + (long)(stats_random_unit(random) * 7 * SLOTS_A_DAY);
            changed.grown = (int)(pow(FUNCTIONS, stats_random_unit(random))) - 1; /* as many of each decade */
            changed.growth = growth;
            changed.from_slot = begins;
            float kept[SLOTS_A_DAY + 1][FUNCTIONS];
            memcpy(kept, h.slots[begins], sizeof(kept));
            for (long slot = begins; slot <= begins + SLOTS_A_DAY; slot++)
                take_slot(&changed, random, slot, h.slots[slot]);
            char name[32];
            long seen = -1;
            snprintf(name, sizeof(name), "function_%d", changed.grown);
            for (long end = (begins / QUARTER + 1) * QUARTER; end <= begins + SLOTS_A_DAY; end += QUARTER)
                for (size_t l = 0; l < ARRAY_SIZE(LENGTHS); l++) {
                    struct regressed r = judge(&h, end, LENGTHS[l]);
                    array_foreach (&r.functions, f)
                        if (strcmp(f->function, name) == 0) {
                            if (seen < 0)
                                seen = (end - begins) * 24 / SLOTS_A_DAY;
                            if (end - LENGTHS[l] >= begins) { /* all of it is after */
                                intervals++;
                                held += f->share.growth_low <= growth && growth <= f->share.growth_high;
                            }
                        }
                    regressed_done(&r);
                }
            struct band *band = bands;
            while (changed.share[changed.grown] < band->from)
                band++;
            band->deployments++;
            band->found += seen >= 0;
            for (int q = 0; q < 4; q++)
                found[q] += seen >= 0 && seen <= 6 * (q + 1);
            memcpy(h.slots[begins], kept, sizeof(kept));
        }
    }
    printf(
        "\"months\": %ld, \"false_findings\": %ld, \"false_a_month\": %.3f, \"months_with_any\": %ld, "
        "\"deployments\": %ld, \"growth\": %g, \"found_6h\": %.3f, \"found_12h\": %.3f, \"found_18h\": %.3f, "
        "\"found_24h\": %.3f, \"intervals\": %ld, \"coverage\": %.4f",
        months, false_found, (double)false_found / (double)months, months_with, done, growth,
        (double)found[0] / (double)done, (double)found[1] / (double)done, (double)found[2] / (double)done,
        (double)found[3] / (double)done, intervals, intervals ? (double)held / (double)intervals : 0);
    printf(", \"bands\": [");
    for (size_t i = 0; i < ARRAY_SIZE(bands); i++)
        printf("%s{\"share_from\": %g, \"deployments\": %ld, \"found\": %ld}", i ? ", " : "", bands[i].from,
               bands[i].deployments, bands[i].found);
    printf("]");
    free(h.slots);
}

int main(int argc, char **argv)
{
    struct stats_random random;
    argument_count = argc;
    arguments = argv;
    if (argc < 2) {
        fprintf(stderr, "usage: %s SEED [NAME=NUMBER...]\n", argv[0]);
        return 2;
    }
    stats_random_init(&random, (uint64_t)atoll(argv[1]));
    printf("{\"seed\": %s, ", argv[1]);
    simulate(&random);
    printf("}\n");
    return 0;
}
