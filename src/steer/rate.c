/* See rate.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/rate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/stats.h"

enum { LENGTHS = 5, LONGEST = 81 };
static const unsigned LENGTH[LENGTHS] = {1, 3, 9, 27, LONGEST};

/* With the window before and with the reference, of all cells together and of each alone. */
#define TESTS (2.0 * (1 + LENGTHS))

/* Learning. A statistic counts for at most HUBER times its scale. */
#define HUBER         3.0
#define MEMORY        200.0 /* windows */
#define FREEDOM_FIRST 6.0   /* of what nothing is known of yet: a wild guess */
#define LEARNING      12    /* windows that are sampled at the first rate, at least */
#define FREEDOM_MOST  150.0 /* tails are heavier than those of a normal distribution */
#define LEARNERS_MOST 8192
enum { FREEDOMS = 152, HALVES = 2 * DIVERGENCE_CELLS };
#define SAME_AGAIN   0.01  /* a regime is met again when it diverges by no more than this chance */
#define FITS_BETTER  10.0  /* by so much chi-squared, a window belongs to another known regime */
#define LARGE_CHANGE 0.05  /* nats: no program's windows wander so far (the paper's smaller threshold) */
#define UNKNOWN      7.0   /* dispersion before anything is known of it: samples in runs of four */
#define MEDIAN_WORTH 0.64  /* of a mean, in samples */
#define ALMOST_SURE  3.09  /* standard deviations: one of a thousand is farther off */
#define TELL         40.0  /* chi-squared by which regimes are told apart even by an unlucky window */
#define TELL_LEAST   100.0 /* samples: of fewer, only the hottest functions can be compared */
#define VARIES_MORE  2.0   /* dispersion, and variance between windows over that of one sample, above which */
#define VARIES_LARGE 0.001 /* windows do not speak for each other: a share of 30 % is off by 1.5 points */
#define SAVED_FIRST  2.0   /* windows at the highest rate: so many beside those that are learnt from, */
#define SAVED_MOST   15.0  /* and so many at most when the rate was low for long */

const struct rate_options RATE_USUAL = {.top = 20,
                                        .lambda = 0.5,
                                        .quiet = 3,
                                        .false_per_hour = 0.01,
                                        .window_s = 10,
                                        .first = 125,
                                        .least = 20,
                                        .most = 999,
                                        .budget = 0.08};
const struct rate_options RATE_PAPER = {.top = 10,
                                        .lambda = 0.8,
                                        .quiet = 5,
                                        .theta = 0.5,
                                        .window_s = 10,
                                        .first = 1000,
                                        .least = 50,
                                        .most = 1000,
                                        .previous_only = true};
const struct rate_options RATE_PAPER_FINE = {.top = 10,
                                             .lambda = 0.8,
                                             .quiet = 5,
                                             .theta = 0.05,
                                             .window_s = 10,
                                             .first = 1000,
                                             .least = 50,
                                             .most = 1000,
                                             .previous_only = true};

const struct rate_options *rate_preset(const char *name)
{
    return strcmp(name, "usual") == 0        ? &RATE_USUAL
           : strcmp(name, "paper") == 0      ? &RATE_PAPER
           : strcmp(name, "paper-fine") == 0 ? &RATE_PAPER_FINE
                                             : NULL;
}

/* The scale of one statistic: its size over what independent samples give. */
struct learner {
    double scale, seen; /* seen: statistics so far, at this number of samples */
    double samples;     /* that they were of */
};

struct regime {
    struct distribution pool;
    size_t windows;
    uint64_t last; /* window that it was met in */
    bool proven;   /* it lasted or came again: no mere odd window */
};

struct rate {
    struct rate_options options;
    double frequency;
    unsigned quiet; /* windows without a change */
    double saved;   /* windows at the highest rate that the budget still has */
    uint64_t window;
    struct regime regimes[RATE_REGIMES];
    size_t regime;
    struct distribution recent[LONGEST]; /* of the present regime: a ring, by window % LONGEST */
    size_t recent_count;
    /* Thresholds, computed once: of one cell, by the number of cells; of all, by half degrees of freedom. */
    float one[FREEDOMS][DIVERGENCE_CELLS + 1], all[FREEDOMS][HALVES + 1];
    struct map index; /* (function, length) -> place in learners */
    ARRAY(struct learner) learners;
    struct distribution half; /* the first one of the window that goes on */
    double within[LEARNING];  /* dispersion between the halves of the first windows */
    unsigned within_count;
    double within_freedom; /* all of them together */
};

int rate_new(const struct rate_options *options, double first, struct rate **ret_rate)
{
    struct rate *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->options = *options;
    r->options.top = MIN(options->top, DIVERGENCE_CELLS - 1u);
    r->frequency = fmin(fmax(first, options->least), options->most);
    r->saved = LEARNING * r->frequency / options->most + SAVED_FIRST;
    *ret_rate = r;
    return 0;
}

void rate_free(struct rate *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < RATE_REGIMES; i++)
        distribution_done(&r->regimes[i].pool);
    for (size_t i = 0; i < LONGEST; i++)
        distribution_done(&r->recent[i]);
    map_done(&r->index);
    array_done(&r->learners);
    distribution_done(&r->half);
    free(r);
}

int rate_half(struct rate *r, const struct distribution *so_far)
{
    distribution_done(&r->half);
    return distribution_merge(&r->half, so_far, 1);
}

int rate_half_profile(struct rate *r, const struct profile *so_far)
{
    distribution_done(&r->half);
    return distribution_add_profile(&r->half, so_far);
}

const struct distribution *rate_regime(const struct rate *r, size_t regime, size_t *ret_windows)
{
    *ret_windows = r->regimes[regime].windows;
    return &r->regimes[regime].pool;
}

/* ---- over-dispersion ---- */

static struct learner *learner_of(struct rate *r, uint64_t function, unsigned length)
{
    uint64_t words[2] = {function, length};
    bool added;
    struct learner fresh = {.scale = 1};
    if (r->learners.count >= LEARNERS_MOST) { /* functions come and go: what is still there is learnt again */
        map_done(&r->index);
        r->index = (struct map){0};
        array_clear(&r->learners);
    }
    uint64_t *at = map_put(&r->index, map_hash(words, sizeof(words)), &added);
    if (!at || (added && array_add(&r->learners, fresh) < 0))
        return NULL;
    if (added)
        *at = r->learners.count - 1;
    return &r->learners.at[*at];
}

/* Variation between windows does not shrink with the number of samples, so what was learnt of few holds for
 * more only as an upper bound: it grows with them, and is learnt anew. */
static void expect_samples(struct learner *l, double samples)
{
    if (!(l->samples > 0))
        l->samples = samples;
    double factor = samples / l->samples;
    if (factor < 2 && factor > 0.5)
        return;
    if (l->scale > 1 && factor > 1)
        l->scale *= factor;
    l->seen = fmin(l->seen, 12);
    l->samples = samples;
}

/* The mean of min(chi-squared / freedom, HUBER): with it, independent samples have scale 1. */
static double bounded_mean(double freedom)
{
    return 1 - stats_chi_square_above(HUBER * freedom, freedom + 2) +
           HUBER * stats_chi_square_above(HUBER * freedom, freedom);
}

/* value: the statistic over its degrees of freedom. */
static void learn(struct learner *l, double value, double mean)
{
    double step = 1 / fmin(l->seen + 3, MEMORY);
    l->scale *= exp(step * (fmin(value / l->scale, HUBER) / mean - 1));
    l->seen++;
}

static double scale_of(const struct learner *l)
{
    return fmax(1, l->scale);
}

static double freedom_of(const struct learner *l)
{
    return fmin(FREEDOM_FIRST + l->seen, FREEDOM_MOST);
}

/* Samples in runs differ as much between the halves of a window as between windows. */
static int compare_halves(struct rate *r, const struct distribution *window)
{
    struct distribution rest = {0};
    struct divergence d;
    int e = 0;
    if (r->half.samples >= 1 && r->within_count < LEARNING) {
        e = distribution_merge(&rest, window, 1);
        if (e == 0)
            e = distribution_merge(&rest, &r->half, -1);
        if (e == 0)
            e = divergence_of(&r->half, &rest, r->options.top, &d);
        if (e == 0 && d.cells >= 2) {
            r->within[r->within_count++] = d.nats * d.scale / (d.cells - 1);
            r->within_freedom += d.cells - 1;
        }
        distribution_done(&rest);
    }
    distribution_done(&r->half);
    return e;
}

/* What the dispersion is at most while little is known of how windows differ: what halves of windows say,
 * where there are any; their median, because in one of them something may have changed. The quantile of
 * chi-squared is that of Wilson and Hilferty. */
static double dispersion_at_most(const struct rate *r)
{
    double sorted[LEARNING], each = r->within_freedom / fmax(r->within_count, 1);
    if (!r->within_count)
        return UNKNOWN;
    memcpy(sorted, r->within, r->within_count * sizeof(*sorted));
    double part = 2 / (9 * MEDIAN_WORTH * r->within_freedom), low = 1 - part - ALMOST_SURE * sqrt(part);
    return stats_median(sorted, r->within_count) / pow(1 - 2 / (9 * each), 3) / pow(fmax(low, 0.5), 3);
}

/* ---- comparisons ---- */

/* Over how many windows an hour's false triggers are spread. */
static double level(const struct rate *r)
{
    return fmin(r->options.false_per_hour * r->options.window_s / 3600 / TESTS, 0.05);
}

/* What the statistic of one of so many cells has to exceed; and that of all cells over its degrees of
 * freedom. known: the freedom of what was learnt. */
static double limit_of_one(struct rate *r, unsigned cells, double known)
{
    float *limit = &r->one[(unsigned)known][cells];
    if (!(*limit > 0))
        *limit = (float)stats_f_quantile(level(r) / cells, 1, floor(known));
    return (double)*limit;
}

static double limit_of_all(struct rate *r, double freedom, double known)
{
    unsigned halves = (unsigned)fmax(2, 2 * freedom);
    float *limit = &r->all[(unsigned)known][MIN(halves, (unsigned)HALVES)];
    if (!(*limit > 0))
        *limit = (float)stats_f_quantile(level(r), halves / 2.0, floor(known));
    return (double)*limit;
}

/* Compares and, when it shows no change, learns. length: of the block, 0: with the window before. */
static int compare(struct rate *r, const struct distribution *block, const struct distribution *with,
                   unsigned length, bool may_learn, struct rate_decision *decision)
{
    struct divergence d;
    int e = divergence_of(block, with, r->options.top, &d);
    if (e < 0 || d.cells < 2)
        return e;
    double freedom = d.cells - 1, sum = 0, squares = 0, largest = 0;
    struct learner *of[DIVERGENCE_CELLS], *all = learner_of(r, 0, length);
    uint64_t key = 0;
    if (!all)
        return -ENOMEM;
    size_t place = (size_t)(all - r->learners.at);
    for (unsigned i = 0; i < d.cells; i++) {
        struct learner *l = learner_of(r, d.cell[i].key ? d.cell[i].key : 1, length);
        if (!l)
            return -ENOMEM;
        expect_samples(l, block->samples);
        sum += scale_of(l);
        squares += scale_of(l) * scale_of(l);
        double limit = scale_of(l) * limit_of_one(r, d.cells, freedom_of(l)),
               value = d.cell[i].nats * d.scale;
        if (value / limit > largest) {
            largest = value / limit;
            key = d.cell[i].key;
        }
    }
    /* Cells that vary differently are as many as vary alike (Satterthwaite). */
    all = &r->learners.at[place];
    expect_samples(all, block->samples);
    double alike = fmin(freedom, sum * sum / squares);
    double unit = scale_of(all) * freedom / d.scale, theta = unit * limit_of_all(r, alike, freedom_of(all)),
           least = fmax(scale_of(all), all->seen < LEARNING ? dispersion_at_most(r) : 1) * freedom / d.scale,
           large = fmax(LARGE_CHANGE, least * limit_of_all(r, alike, FREEDOM_MOST));
    theta = fmin(theta, large);
    if (!length) {
        decision->divergence = d.nats;
        decision->theta = theta;
    }
    if (d.nats / theta > largest) {
        largest = d.nats / theta;
        key = 0;
    }
    if (largest > decision->excess) {
        decision->excess = largest;
        decision->length = length;
        decision->key = key;
    }
    if (!may_learn || d.nats > large) /* that is how far regimes are apart, not how much windows vary */
        return 0;
    learn(all, d.nats * d.scale / freedom, bounded_mean(freedom));
    double mean = bounded_mean(1);
    for (unsigned i = 0; i < d.cells; i++) {
        of[i] = learner_of(r, d.cell[i].key ? d.cell[i].key : 1, length);
        if (of[i])
            learn(of[i], d.cell[i].nats * d.scale, mean);
    }
    return 0;
}

/* The last windows of the regime, this one included, against the others of it. */
static int compare_block(struct rate *r, const struct distribution *window, unsigned length,
                         struct rate_decision *decision)
{
    struct regime *regime = &r->regimes[r->regime];
    struct distribution block = {0}, rest = {0};
    if (r->window % MAX(length / 3, 1u) || regime->windows < 2ul * length || r->recent_count + 1 < length)
        return 0;
    int e = distribution_merge(&block, window, 1);
    for (unsigned back = 1; e == 0 && back < length; back++)
        e = distribution_merge(&block, &r->recent[(r->window - back) % LONGEST], 1);
    if (e == 0)
        e = distribution_merge(&rest, &regime->pool, 1);
    if (e == 0)
        e = distribution_merge(&rest, &block, -1);
    if (e == 0) /* the window itself is not in the pool yet */
        e = distribution_merge(&rest, window, 1);
    if (e == 0)
        e = compare(r, &block, &rest, length, regime->windows % length == 0, decision);
    distribution_done(&block);
    distribution_done(&rest);
    return e;
}

/* ---- regimes ---- */

/* How far the window is from a regime, as chi-squared, and what it may be at most to belong to it. */
static int distance(struct rate *r, const struct distribution *window, size_t regime, double *ret_distance,
                    double *ret_limit)
{
    struct divergence d;
    int e = divergence_of(window, &r->regimes[regime].pool, r->options.top, &d);
    struct learner *all = e == 0 ? learner_of(r, 0, 1) : NULL;
    if (!all)
        return -ENOMEM;
    double freedom = d.cells - 1.0;
    *ret_distance = d.cells < 2 ? INFINITY : d.nats * d.scale;
    *ret_limit =
        d.cells < 2 ? 0 : scale_of(all) * freedom * stats_f_quantile(SAME_AGAIN, freedom, freedom_of(all));
    return 0;
}

/* The known regime beside the present one, or the proven one, that the window fits best, closer than
 * `within`; RATE_REGIMES: none. */
static int find_regime(struct rate *r, const struct distribution *window, double within, bool proven,
                       size_t *ret_regime)
{
    double best = within;
    *ret_regime = RATE_REGIMES;
    for (size_t i = 0; i < RATE_REGIMES; i++) {
        double far, limit;
        if (i == r->regime || !r->regimes[i].windows || (proven && !r->regimes[i].proven))
            continue;
        int e = distance(r, window, i, &far, &limit);
        if (e < 0)
            return e;
        if (far < limit && far < best) {
            best = far;
            *ret_regime = i;
        }
    }
    return 0;
}

/* A window that fits another proven regime clearly better than the present one is that regime's: what is
 * known needs less evidence than what is new. An odd window that was taken for a change proves nothing:
 * otherwise windows that are odd in the same way by chance would go back and forth. */
static int recognise(struct rate *r, const struct distribution *window, struct rate_decision *d)
{
    double far, limit;
    size_t found;
    if (!r->regimes[r->regime].windows)
        return 0;
    int e = distance(r, window, r->regime, &far, &limit);
    if (e < 0 || !(far < INFINITY))
        return e;
    struct learner *all = learner_of(r, 0, 1);
    if (!all)
        return -ENOMEM;
    e = find_regime(r, window, far - FITS_BETTER * scale_of(all), true, &found);
    if (e < 0 || found == RATE_REGIMES)
        return e;
    r->regime = found;
    r->recent_count = 0;
    d->changed = d->known = true;
    return 0;
}

/* A free number, else that of the regime that was met the longest ago. */
static size_t free_regime(struct rate *r)
{
    size_t oldest = r->regime ? 0 : 1;
    for (size_t i = 0; i < RATE_REGIMES; i++) {
        if (!r->regimes[i].windows)
            return i;
        if (i != r->regime && r->regimes[i].last < r->regimes[oldest].last)
            oldest = i;
    }
    distribution_done(&r->regimes[oldest].pool);
    r->regimes[oldest] = (struct regime){0};
    return oldest;
}

/* The windows in which the change was found leave the regime that was before it: it was no longer that. */
static int leave(struct rate *r, unsigned length)
{
    struct regime *old = &r->regimes[r->regime];
    int e = 0;
    for (unsigned back = 1; e == 0 && back < length && back <= r->recent_count && old->windows > 1; back++) {
        e = distribution_merge(&old->pool, &r->recent[(r->window - back) % LONGEST], -1);
        old->windows--;
    }
    r->recent_count = 0;
    return e;
}

static int change_regime(struct rate *r, const struct distribution *window, struct rate_decision *d)
{
    size_t found = RATE_REGIMES;
    int e = leave(r, d->length);
    if (e == 0 && !r->options.previous_only)
        e = find_regime(r, window, INFINITY, false, &found);
    if (e < 0)
        return e;
    d->known = found < RATE_REGIMES;
    d->fresh = !d->known;
    r->regime = d->known ? found : free_regime(r);
    if (d->known && r->regimes[r->regime].windows >= r->options.quiet - 1)
        r->regimes[r->regime].proven = true;
    return 0;
}

/* How many samples a window needs so that the known regime that is nearest to the present one would be told
 * from it. */
static int samples_to_tell(struct rate *r, double dispersion, double *ret_samples)
{
    double samples = 0;
    for (size_t i = 0; i < RATE_REGIMES && !r->options.previous_only; i++) {
        struct divergence d;
        if (i == r->regime || r->regimes[i].windows <= r->options.quiet)
            continue;
        int e = divergence_of(&r->regimes[r->regime].pool, &r->regimes[i].pool, r->options.top, &d);
        if (e < 0)
            return e;
        if (d.nats > 0)
            samples = fmax(samples, fmax(TELL_LEAST, TELL * dispersion / (8 * d.nats)));
    }
    *ret_samples = samples;
    return 0;
}

/* The highest rate for the next window, after one at the present rate. */
static double within_budget(struct rate *r)
{
    const struct rate_options *o = &r->options;
    if (!(o->budget > 0))
        return o->most;
    r->saved = fmin(r->saved + o->budget, SAVED_MOST) - r->frequency / o->most;
    return r->saved >= 1 ? o->most : o->budget * o->most;
}

/* The next window's rate. It rises while what is hot is not known, and falls while it is: to the lowest where
 * windows speak for each other, so that what few samples say of one is said by the many of others; where they
 * do not, to what the budget allows always, because then the profile is the most exact with equal rates.
 * samples: of this window; learnt_of: of those that the dispersion is of. */
static int set_frequency(struct rate *r, const struct rate_decision *d, double samples, double learnt_of)
{
    const struct rate_options *o = &r->options;
    double enough, most = within_budget(r), lower = r->frequency * o->lambda;
    int e = samples_to_tell(r, d->dispersion, &enough);
    if (e < 0)
        return e;
    bool unknown = d->changed && !(d->known && r->regimes[r->regime].windows > o->quiet);
    bool varies =
        !o->previous_only && d->dispersion > VARIES_MORE && d->dispersion - 1 > VARIES_LARGE * learnt_of;
    double least = varies ? fmax(o->least, o->budget > 0 ? o->budget * o->most : o->most) : o->least;
    r->quiet = unknown ? 0 : r->quiet + 1;
    if (unknown)
        r->frequency /= o->lambda;
    else if (r->quiet > o->quiet && r->frequency > least && samples * o->lambda >= enough &&
             (o->theta > 0 || r->window >= LEARNING))
        r->frequency = fmax(lower, least);
    r->frequency = fmin(fmax(r->frequency, o->least), most);
    return 0;
}

/* The window's change, by the paper's rule or by ours. */
static int judge(struct rate *r, const struct distribution *window, struct rate_decision *d)
{
    const struct rate_options *o = &r->options;
    const struct distribution *before = r->window ? &r->recent[(r->window - 1) % LONGEST] : NULL;
    int e = 0;
    if (before && o->theta > 0) {
        struct divergence divergence;
        e = divergence_of(window, before, o->top, &divergence);
        if (e < 0)
            return e;
        d->divergence = divergence.nats;
        d->theta = o->theta;
        d->excess = divergence.nats / o->theta;
    }
    if (!o->previous_only)
        e = recognise(r, window, d);
    if (e == 0 && before && !(o->theta > 0) && !d->changed)
        e = compare(r, window, before, 0, true, d);
    for (int i = 0; e == 0 && i < LENGTHS && !o->previous_only; i++)
        e = compare_block(r, window, LENGTH[i], d);
    if (e == 0 && d->excess > 1) {
        d->changed = true;
        e = change_regime(r, window, d);
    }
    return e;
}

int rate_window(struct rate *r, const struct distribution *window, struct rate_decision *ret_decision)
{
    struct rate_decision d = {.dispersion = 1};
    int e = compare_halves(r, window);
    if (e == 0)
        e = judge(r, window, &d);
    struct regime *regime = &r->regimes[r->regime];
    struct distribution *kept = &r->recent[r->window % LONGEST];
    distribution_done(kept);
    if (e == 0)
        e = distribution_merge(kept, window, 1);
    if (e == 0)
        e = distribution_merge(&regime->pool, window, 1);
    if (e < 0)
        return e;
    regime->windows++;
    regime->last = ++r->window;
    r->recent_count = MIN(r->recent_count + 1, (size_t)LONGEST);
    regime->proven |= r->recent_count > r->options.quiet;
    struct learner *all = r->options.previous_only ? NULL : learner_of(r, 0, 1);
    if (all)
        d.dispersion = scale_of(all);
    e = set_frequency(r, &d, window->samples, all ? all->samples : 0);
    if (e < 0)
        return e;
    d.regime = r->regime;
    d.next = r->frequency;
    *ret_decision = d;
    return 0;
}
