/* See certainty.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/certainty.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "diagnose/stats.h"
#include "profile/blocks.h"

/* Of this many samples or more, a function's own blocks say how much it varies; of fewer, all functions
 * together say as much as PRIOR further blocks would. */
#define ENOUGH 100
#define PRIOR  4.0
#define LEVEL  0.025 /* on each side */

#define PERSISTENCE_MOST 0.8

static bool is_code(const struct profile *p, uint32_t frame)
{
    return p->frames.at[frame].kind != FRAME_GROUP;
}

/* The variance over that of as many independent samples. 0: not known. */
static double dispersion_of(const struct profile_blocks *b, size_t function, bool total)
{
    double weight = (double)(total ? b->functions[function].total : b->functions[function].self);
    double share = weight / b->sum, samples = b->sum / b->quantum;
    double variance = b->block_count > 1 ? profile_blocks_variance(b, function, total) : 0;
    if (!(share > 0) || share >= 1 || !(variance > 0))
        return 0;
    return variance * share * samples / (1 - share);
}

/* How alike neighbouring blocks are: the correlation of what functions take more or less in one block than on
 * average with the same of the next one, of all functions together, because what a program does takes as long
 * for all of them; weighted by how much each varies. Corrected for the few blocks (Kendall, Note on bias in
 * the estimation of autocorrelation, 1954). 0: not at all. */
static double persistence_of(const struct profile_blocks *b)
{
    double products = 0, squares = 0, n = (double)b->block_count;
    if (!b->by_window || n < LEAST_BLOCKS)
        return 0;
    for (size_t f = 0; f < b->count; f++) {
        double share = (double)b->functions[f].self / b->sum, before = 0,
               unit = b->sum * share * (1 - share) * b->quantum;
        if ((double)b->functions[f].self / b->quantum < ENOUGH || !(unit > 0))
            continue;
        for (size_t i = 0; i < b->block_count; i++) {
            double rest = b->self[f].weight[i] - share * b->all.weight[i];
            products += i ? rest * before / unit : 0;
            squares += rest * rest / unit;
            before = rest;
        }
    }
    if (!(squares > 0))
        return 0;
    return fmin(fmax((products / squares + 1 / n) / (1 - 3 / n), 0), PERSISTENCE_MOST);
}

/* What varies beyond independent samples, when neighbouring blocks are alike, counts for more: their mean
 * varies by (1 + r) / (1 - r) times as much as that of independent ones (autoregression of the first order),
 * and they are worth fewer degrees of freedom. It may vary by chance alone, and the less so the more there is
 * of it: it is taken as what it is in proportion to its part in the whole. */
static double prolong(double dispersion, double persistence, double *freedom)
{
    double excess = fmax(dispersion - 1, 0), longer = (1 + persistence) / (1 - persistence);
    longer /= fmax(1 - (longer - 1) / *freedom, 0.5);
    double prolonged = dispersion + excess * excess / dispersion * (longer - 1);
    *freedom = fmax(*freedom * dispersion / prolonged, 2);
    return prolonged;
}

static double common_dispersion(const struct profile_blocks *b)
{
    double *known = calloc(b->count + 1, sizeof(*known)), median;
    size_t count = 0;
    for (size_t i = 0; known && i < b->count; i++)
        if ((double)b->functions[i].self / b->quantum >= ENOUGH) {
            double dispersion = dispersion_of(b, i, false);
            if (dispersion > 0)
                known[count++] = dispersion;
        }
    median = count ? stats_median(known, count) : 1;
    free(known);
    return fmax(median, 1);
}

void certainty_wilson(double share, double n, double t, double *ret_low, double *ret_high)
{
    double middle = (share + t * t / (2 * n)) / (1 + t * t / n);
    double half = t * sqrt(share * (1 - share) / n + t * t / (4 * n * n)) / (1 + t * t / n);
    *ret_low = fmax(0, middle - half);
    *ret_high = fmin(1, middle + half);
}

enum { FREEDOMS = 41 };

/* Student's quantile; computed once for each number of degrees, because that takes long. */
static double student(double *quantiles, double freedom)
{
    size_t at = (size_t)fmax(freedom, 1);
    if (freedom >= FREEDOMS)
        return 1.96;
    if (!(quantiles[at] > 0))
        quantiles[at] = stats_student_quantile(LEVEL, (double)at);
    return quantiles[at];
}

static void measure(const struct profile_blocks *b, size_t function, bool total, double common,
                    double persistence, double *quantiles, struct profile_interval *to)
{
    double weight = (double)(total ? b->functions[function].total : b->functions[function].self);
    double share = fmin(1, weight / b->sum), samples = b->sum / b->quantum, freedom = 1e6,
           dispersion = SAMPLES_PER_DRAW;
    if (b->block_count) {
        double own = dispersion_of(b, function, total);
        freedom = (double)b->block_count - 1;
        dispersion = own > 0 ? own : common;
        if (persistence > 0)
            dispersion = prolong(dispersion, persistence, &freedom);
        if (weight / b->quantum < ENOUGH) {
            dispersion = (freedom * dispersion + PRIOR * common) / (freedom + PRIOR);
            freedom += PRIOR;
        }
    }
    double low, high, n = fmax(samples / fmax(dispersion, 1e-6), 1e-6);
    double t = student(quantiles, freedom);
    certainty_wilson(share, n, t, &low, &high);
    *(total ? &to->total : &to->self) = share;
    *(total ? &to->total_low : &to->self_low) = low;
    *(total ? &to->total_high : &to->self_high) = high;
}

int certainty_measure(struct profile *p)
{
    struct profile_blocks b;
    double quantiles[FREEDOMS] = {0};
    int r = profile_blocks_open(p, &b);
    profile_intervals_end(p);
    double common = r == 0 ? common_dispersion(&b) : 1, persistence = r == 0 ? persistence_of(&b) : 0;
    for (size_t i = 0; r == 0 && i < b.count && b.sum > 0; i++) {
        struct profile_interval to;
        if (!is_code(p, b.functions[i].frame))
            continue;
        measure(&b, i, false, common, persistence, quantiles, &to);
        measure(&b, i, true, common, persistence, quantiles, &to);
        r = profile_intervals_add(p, b.functions[i].frame, &to);
    }
    if (r == 0 && p->intervals)
        p->intervals->basis = !b.block_count ? "samples counted as a quarter of their number"
                              : b.by_window  ? "how shares vary over the profile's time"
                                             : "how shares vary between processes";
    profile_blocks_close(&b);
    return r;
}

int certainty_target_read(const char *text, struct certainty_target *ret_target)
{
    struct certainty_target t = {.above = 1};
    int end = 0;
    if (sscanf(text, "%lf%%%n@%lf%%%n", &t.error, &end, &t.above, &end) < 1 || !end || text[end] ||
        !(t.error > 0 && t.error < 100) || !(t.above > 0 && t.above <= 100))
        return -EINVAL;
    *ret_target = (struct certainty_target){t.error / 100, t.above / 100};
    return 0;
}

static void check(double share, double low, double high, bool total, uint32_t frame,
                  const struct certainty_target *target, struct certainty_reached *r)
{
    if (share < target->above)
        return;
    double error = (high - low) / 2 / share;
    r->functions++;
    r->unknown += error > target->error;
    if (error > r->worst) {
        r->worst = error;
        r->frame = frame;
        r->worst_is_total = total;
    }
}

struct certainty_reached certainty_check(const struct profile *p, const struct certainty_target *target)
{
    struct certainty_reached r = {0};
    struct map seen = {0};
    for (uint32_t f = 1; p->intervals && f < p->frames.count; f++) {
        const struct profile_interval *i = profile_interval_of(p, f);
        bool added = false;
        if (!i || !map_put(&seen, profile_function_key(p, f), &added) || !added)
            continue;
        check(i->self, i->self_low, i->self_high, false, f, target, &r);
        check(i->total, i->total_low, i->total_high, true, f, target, &r);
    }
    map_done(&seen);
    r.reached = r.functions && !r.unknown;
    r.times = r.worst > 0 ? pow(r.worst / target->error, 2) : 0;
    return r;
}
