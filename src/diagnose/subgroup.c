/* See subgroup.h.
 *
 * The statistic of a combination is D: the mean of what its newer requests take beyond the older side's
 * prediction, less
 *   - what the newer side's other requests do (drift, or a slow-down everywhere), where that is above zero;
 *   - what those of them do that share one of its values, as far as that says that the prediction for the
 *     value is off;
 *   - what its older requests did already (attributes that interact), where that is above zero. How much
 *     combinations do so at all is learnt from all of the older side's (empirical Bayes), and one may do so
 *     by itself.
 * How likely chance is to make a mean of n requests as large is bounded by Chernoff's inequality over all
 * residuals of both sides, so that their long tails count; to that come the errors of what was subtracted,
 * and that hosts differ. Bonferroni's inequality pays for all combinations of a length that can have enough
 * requests on either side (their number does not hang on how long these take), a third of the level going to
 * each length, and within it less to those with few requests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/subgroup.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/book_parts.h"
#include "diagnose/combinations.h"
#include "diagnose/residuals.h"
#include "diagnose/shape.h"
#include "diagnose/stats.h"

#define BEAM         24
#define REQUESTS_MIN 6    /* of either side within a combination, and of the newer one outside */
#define VALUES_MAX   4096 /* of all keys; further ones are not looked at */
#define FIT_SHRINK   5.0  /* requests that hold a value's effect to zero (excess.c) */
#define OLDER_SHRINK \
    10.0 /* requests that hold the older side's own excess to zero, while candidates are ranked */
#define SMOOTHING         0.1 /* of the shape of residuals, in logarithms */
#define SHAPE_WORTH       1.5 /* information by which the shape is used, as a multiple of what the mean uses */
#define PECULIAR          0.01 /* how likely a combination was slower before, by itself */
#define PECULIAR_VARIANCE 1.0  /* of the log excess of those */

/* What is known of the requests with a combination: of either side. */
struct part_sums {
    double n, sum, older_n, older_sum;
};

struct candidate {
    struct label labels[CAUSE_LENGTH_MAX];
    size_t length;
    struct part_sums sums;
    double z; /* before hosts are looked at */
};

/* What the older side's combinations of one length do beyond the sum of their values' effects. */
struct interactions {
    double squares, requests; /* sums over combinations: n times the squared mean excess; n */
    size_t combinations;
};

struct search {
    const struct book *book;
    struct excess_list list;
    struct residuals residuals, counts; /* as shares, and before that */
    double older_variance;              /* of the older side's residuals alone */
    struct shape shape;                 /* of all residuals */
    bool by_shape;                      /* it says much more of a shift than means do */
    double newer_level;                 /* what the newer side's are about */
    double n, sum;                      /* of all newer requests */
    struct candidate beam[BEAM], next[BEAM];
    size_t beam_count, next_count;
    struct map alone; /* key << 32 | value: index of its part_sums */
    ARRAY(struct part_sums) of_values;
    struct interactions interactions[CAUSE_LENGTH_MAX + 1]; /* by length */
    struct combination_limits limits;
    double weights[CAUSE_LENGTH_MAX + 1]; /* of all combinations that may have enough requests */
    struct map index;                     /* the same: among values */
    struct {
        struct label label;
        struct part_sums sums;
    } values[VALUES_MAX];
    size_t value_count;
};

/* ---- chance ---- */

/* Counts a cell's requests, at their residuals less `level`; times -1 to take them back. */
static void add_cell(const struct excess *cell, double level, double times, struct residuals *to)
{
    residuals_add(to, &cell->cell->latency, cell->predicted + level, times);
}

/* Of one side, about its own mean, which is returned. */
static double add_residuals(const struct excess *cells, size_t count, struct residuals *to)
{
    double n = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        n += cells[i].n;
        sum += cells[i].n * cells[i].beyond;
    }
    for (size_t i = 0; i < count; i++)
        add_cell(&cells[i], sum / n, 1, to);
    return sum / n;
}

static void find_residuals(struct search *s)
{
    struct residuals older = {0};
    add_residuals(s->list.older.at, s->list.older.count, &older);
    s->counts = older;
    s->newer_level = add_residuals(s->list.cells.at, s->list.cells.count, &s->counts);
    residuals_normalise(&older);
    s->older_variance = older.variance;
    s->residuals = s->counts;
    residuals_normalise(&s->residuals);
    shape_of(&s->residuals, SMOOTHING, &s->shape);
    s->by_shape = s->shape.information >= SHAPE_WORTH;
    s->limits.least = REQUESTS_MIN;
    s->limits.noise = s->residuals.variance / (s->by_shape ? s->shape.information : 1);
}

/* All residuals, those of a combination's newer requests about their own mean: a slow-down that is the same
 * for all of them says nothing of what chance does. */
static void find_residuals_beside(const struct search *s, const struct candidate *c,
                                  struct residuals *ret_residuals)
{
    *ret_residuals = s->counts;
    array_foreach (&s->list.cells, e)
        if (labels_match(s->book, e->labels, c->labels, c->length)) {
            add_cell(e, s->newer_level, -1, ret_residuals);
            add_cell(e, c->sums.sum / c->sums.n, 1, ret_residuals);
        }
    residuals_normalise(ret_residuals);
}

/* ---- one combination ---- */

static bool has_enough(const struct search *s, const struct part_sums *p)
{
    return p->n >= REQUESTS_MIN && p->older_n >= REQUESTS_MIN && s->n - p->n >= REQUESTS_MIN;
}

static double rest_of(const struct search *s, const struct part_sums *p)
{
    return (s->sum - p->sum) / (s->n - p->n);
}

/* What candidates are ranked by: variances alone, and a fixed weight of what the older side did. */
static double rough_z(const struct search *s, const struct candidate *c)
{
    const struct part_sums *p = &c->sums;
    double shrunk = p->older_n + OLDER_SHRINK;
    double d = p->sum / p->n - fmax(rest_of(s, p), 0) - fmax(p->older_sum / shrunk, 0);
    double of_one = 1 / p->n + 1 / (s->n - p->n) + p->older_n / (shrunk * shrunk);
    return d / sqrt(s->residuals.variance * of_one + 1e-12);
}

/* Something that is to be subtracted, and how sure that is. */
struct estimate {
    double mean, variance;
};

/* How far the prediction for one value is off, by what the newer side's other requests with it take. */
static struct estimate prediction_error(const struct search *s, const struct candidate *c, struct label label)
{
    const uint64_t *at = map_get(&s->alone, (uint64_t)label.key << 32 | label.value);
    struct part_sums none = {0};
    const struct part_sums *value = at ? &s->of_values.at[*at] : &none;
    double others = value->n - c->sums.n, older = value->older_n + FIT_SHRINK;
    struct estimate e = {.variance = s->residuals.variance / (older + fmax(others, 0))};
    if (others >= REQUESTS_MIN) {
        double beyond = (value->sum - c->sums.sum) / others - rest_of(s, &c->sums);
        e.mean = beyond * others / (older + others);
    }
    return e;
}

static double log_density(double x, double variance)
{
    return -0.5 * (x * x / variance + log(variance));
}

/* The variance of what combinations of a length do by themselves on the older side, and one standard error
 * more. */
static double interaction_variance(const struct search *s, size_t length)
{
    const struct interactions *all = &s->interactions[length];
    double noise = s->older_variance, n = (double)all->combinations;
    if (all->requests <= 0)
        return noise / OLDER_SHRINK;
    return fmax(all->squares - n * noise, 0) / all->requests + noise * sqrt(2 * n) / all->requests;
}

/* What a combination's older requests took beyond its values' effects. */
static struct estimate seen_before(const struct search *s, const struct candidate *c)
{
    const struct part_sums *p = &c->sums;
    struct residuals part = {0};
    if (!s->by_shape)
        return (struct estimate){p->older_sum / p->older_n, s->older_variance / p->older_n};
    array_foreach (&s->list.older, e)
        if (labels_match(s->book, e->labels, c->labels, c->length))
            add_cell(e, 0, 1, &part);
    return (struct estimate){shape_shift(&s->shape, part.share),
                             s->older_variance / s->shape.information / p->older_n};
}

/* What of that is to be expected again: what others do, too, or what it does by itself. */
static struct estimate older_excess(const struct search *s, const struct candidate *c)
{
    struct estimate seen = seen_before(s, c);
    double noise = seen.variance, m = seen.mean;
    double variances[] = {interaction_variance(s, c->length), PECULIAR_VARIANCE}, means[2];
    double odds = PECULIAR / (1 - PECULIAR) *
                  exp(log_density(m, noise + variances[1]) - log_density(m, noise + variances[0]));
    double shares[] = {1 / (1 + odds), odds / (1 + odds)};
    struct estimate e = {0};
    for (int i = 0; i < 2; i++) {
        means[i] = m * variances[i] / (variances[i] + noise);
        e.mean += shares[i] * means[i];
    }
    for (int i = 0; i < 2; i++)
        e.variance += shares[i] * (variances[i] * noise / (variances[i] + noise) +
                                   (means[i] - e.mean) * (means[i] - e.mean));
    e.mean = fmax(e.mean, 0);
    return e;
}

/* All that is subtracted from what a combination's newer requests take beyond the prediction. */
static struct estimate beside(const struct search *s, const struct candidate *c)
{
    struct estimate all = older_excess(s, c);
    all.mean += fmax(rest_of(s, &c->sums), 0);
    all.variance += s->residuals.variance / (s->n - c->sums.n);
    for (size_t i = 0; i < c->length; i++) {
        struct estimate e = prediction_error(s, c, c->labels[i]);
        all.mean += e.mean;
        all.variance += e.variance;
    }
    return all;
}

/* The variance that hosts make in the difference between a side's requests within and outside, as a multiple
 * of the variance between hosts: one that serves both alike adds nothing. */
static int host_share(const struct excess *cells, size_t count, const struct candidate *c,
                      const struct book *book, double *ret_share, size_t *ret_hosts)
{
    struct map hosts = {0}; /* host: entries within << 32 | outside */
    double within = 0, outside = 0, share = 0;
    size_t used = 0;
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        bool in = labels_match(book, cells[i].labels, c->labels, c->length);
        for (size_t h = 0; h < BOOK_CELL_HOSTS && cells[i].cell->hosts[h].entries; h++) {
            uint64_t entries = cells[i].cell->hosts[h].entries,
                     *both = map_put(&hosts, cells[i].cell->hosts[h].host, NULL);
            if (!both)
                r = -ENOMEM;
            else
                *both += in ? entries << 32 : entries;
            *(in ? &within : &outside) += (double)entries;
        }
    }
    map_foreach (&hosts, slot) {
        double in = (double)(slot->value >> 32), out = (double)(uint32_t)slot->value;
        double by = in / fmax(within, 1) - out / fmax(outside, 1);
        share += by * by;
        used += in > 0;
    }
    map_done(&hosts);
    *ret_share = share;
    *ret_hosts = used;
    return r;
}

/* By where each request lies, not by their mean: that of a few shifts is tested that is nearest to the most
 * likely one. p; the most likely shift and its standard error. */
static double test_shape(const struct search *s, const struct candidate *c, const struct residuals *chance,
                         struct estimate subtracted, double *ret_shift, double *ret_error)
{
    static const double tried[] = {1.5, 2, 3};
    struct residuals part = {0};
    struct shape shape;
    double nearest = INFINITY;
    array_foreach (&s->list.cells, e)
        if (labels_match(s->book, e->labels, c->labels, c->length))
            add_cell(e, subtracted.mean, 1, &part);
    shape_of(chance, sqrt(SMOOTHING * SMOOTHING + subtracted.variance), &shape);
    double likely = shape_shift(&shape, part.share);
    for (size_t i = 0; i < ARRAY_SIZE(tried); i++)
        if (fabs(log(tried[i]) - likely) < fabs(nearest - likely))
            nearest = log(tried[i]);
    double z = shape_deviate(&shape, chance, part.share, c->sums.n, nearest);
    double own = z > 0 ? nearest / z : sqrt(s->residuals.variance / c->sums.n);
    double error = sqrt(own * own + subtracted.variance);
    *ret_shift = likely;
    *ret_error = error;
    return z > 0 ? fmin(1, (double)ARRAY_SIZE(tried) * stats_normal_above(nearest / error)) : 1;
}

static int test_candidate(const struct search *s, const struct candidate *c, double spread,
                          struct subgroup *ret_subgroup)
{
    const struct part_sums *p = &c->sums;
    struct subgroup found = {.tested = true, .p = 1, .adjusted_p = 1};
    struct estimate subtracted = beside(s, c);
    double d = p->sum / p->n - subtracted.mean, newer_share, older_share;
    int r = host_share(s->list.cells.at, s->list.cells.count, c, s->book, &newer_share, &found.hosts);
    if (r == 0)
        r = host_share(s->list.older.at, s->list.older.count, c, s->book, &older_share, &found.base_hosts);
    if (r < 0)
        return r;
    double beside_variance = subtracted.variance + spread * spread * (newer_share + older_share), error;
    struct residuals residuals;
    find_residuals_beside(s, c, &residuals);
    if (s->by_shape) {
        found.p =
            test_shape(s, c, &residuals, (struct estimate){subtracted.mean, beside_variance}, &d, &error);
    } else {
        double deviate = residuals_deviate(&residuals, p->n, d);
        double own = deviate > 0 ? d / deviate : sqrt(residuals.variance / p->n);
        error = sqrt(own * own + beside_variance);
        found.p = d > 0 ? stats_normal_above(d / error) : 1;
    }
    double weight = combinations_weight(&s->limits, p->n, p->older_n);
    found.p = fmin(1, CAUSE_LENGTH_MAX * s->weights[c->length] / weight * found.p);
    memcpy(found.cause.labels, c->labels, sizeof(c->labels));
    found.cause.length = c->length;
    found.cause.requests = (uint64_t)p->n;
    found.cause.ratio = exp(d);
    found.cause.ratio_outside = exp(rest_of(s, p));
    found.cause.coverage = s->sum > 0 && p->sum > 0 ? fmin(p->sum / s->sum, 1) : 1;
    found.low = exp(d - 1.96 * error);
    found.high = exp(d + 1.96 * error);
    found.base_requests = (uint64_t)p->older_n;
    *ret_subgroup = found;
    return 0;
}

/* ---- the search ---- */

static int tally(struct search *s, const struct candidate *base, const struct excess *cells, size_t count,
                 bool newer)
{
    for (size_t i = 0; i < count; i++) {
        size_t pairs_count;
        if (!labels_match(s->book, cells[i].labels, base->labels, base->length))
            continue;
        const struct label *pairs = labels_of(s->book->labels, cells[i].labels, &pairs_count);
        for (size_t k = 0; k < pairs_count; k++) {
            bool added;
            if (!labels_usable(s->book, pairs[k]) ||
                book_is_outcome(labels_key_name(s->book->labels, pairs[k].key)))
                continue;
            uint64_t *slot = map_put(&s->index, (uint64_t)pairs[k].key << 32 | pairs[k].value, &added);
            if (!slot)
                return -ENOMEM;
            if (added) {
                *slot = s->value_count;
                if (s->value_count < VALUES_MAX) {
                    memset(&s->values[s->value_count], 0, sizeof(s->values[0]));
                    s->values[s->value_count++].label = pairs[k];
                }
            }
            if (*slot >= VALUES_MAX)
                continue;
            struct part_sums *sums = &s->values[*slot].sums;
            *(newer ? &sums->n : &sums->older_n) += cells[i].n;
            *(newer ? &sums->sum : &sums->older_sum) += cells[i].n * cells[i].beyond;
        }
    }
    return 0;
}

/* The same requests as another one of the length: the same combination in another order, or other attributes
 * that always go with its own. */
static bool same_requests(const struct candidate *a, const struct candidate *b)
{
    return a->sums.n == b->sums.n && fabs(a->sums.sum - b->sums.sum) < 1e-9 * (1 + fabs(a->sums.sum));
}

static void keep_best(struct search *s, const struct candidate *c)
{
    size_t at = s->next_count;
    for (size_t i = 0; i < s->next_count; i++)
        if (same_requests(&s->next[i], c))
            return;
    while (at > 0 && s->next[at - 1].z < c->z)
        at--;
    if (at >= BEAM)
        return;
    if (s->next_count < BEAM)
        s->next_count++;
    memmove(s->next + at + 1, s->next + at, (s->next_count - at - 1) * sizeof(*s->next));
    s->next[at] = *c;
}

static void learn_interaction(struct interactions *all, const struct part_sums *sums)
{
    all->squares += sums->older_sum * sums->older_sum / sums->older_n;
    all->requests += sums->older_n;
    all->combinations++;
}

/* All values, each a combination by itself; what is known of them stays. */
static int remember_values(struct search *s)
{
    for (size_t v = 0; v < s->value_count; v++) {
        struct label label = s->values[v].label;
        uint64_t *slot = map_put(&s->alone, (uint64_t)label.key << 32 | label.value, NULL);
        if (!slot)
            return -ENOMEM;
        *slot = s->of_values.count;
        if (array_add(&s->of_values, s->values[v].sums) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int weigh_combinations(struct search *s)
{
    _cleanup_(freep) struct label *values = calloc(s->value_count + 1, sizeof(*values));
    size_t n = 0;
    if (!values)
        return -ENOMEM;
    for (size_t v = 0; v < s->value_count; v++)
        if (has_enough(s, &s->values[v].sums))
            values[n++] = s->values[v].label;
    return combinations_weigh(s->book, &s->list, values, n, &s->limits, s->weights);
}

/* All combinations one longer than those of the beam. */
static int extend(struct search *s)
{
    s->next_count = 0;
    for (size_t b = 0; b < s->beam_count; b++) {
        const struct candidate *base = &s->beam[b];
        map_clear(&s->index);
        s->value_count = 0;
        int r = tally(s, base, s->list.cells.at, s->list.cells.count, true);
        if (r == 0)
            r = tally(s, base, s->list.older.at, s->list.older.count, false);
        if (r == 0 && base->length == 0)
            r = remember_values(s);
        if (r == 0 && base->length == 0)
            r = weigh_combinations(s);
        if (r < 0)
            return r;
        for (size_t v = 0; v < s->value_count; v++) {
            struct candidate longer = *base;
            if (labels_have_key(base->labels, base->length, s->values[v].label.key) ||
                !has_enough(s, &s->values[v].sums))
                continue;
            longer.labels[longer.length++] = s->values[v].label;
            longer.sums = s->values[v].sums;
            if (base->length && longer.sums.n >= base->sums.n)
                continue; /* the same requests */
            learn_interaction(&s->interactions[longer.length], &longer.sums);
            longer.z = rough_z(s, &longer);
            if (longer.z > 0)
                keep_best(s, &longer);
        }
    }
    memcpy(s->beam, s->next, sizeof(s->beam));
    s->beam_count = s->next_count;
    return 0;
}

static int search_lengths(struct search *s, double spread, struct subgroup *ret_subgroup)
{
    struct subgroup best = {.p = 1, .adjusted_p = 1};
    int r = 0;
    s->beam_count = 1; /* everything */
    for (size_t length = 1; r == 0 && length <= CAUSE_LENGTH_MAX && s->beam_count; length++) {
        r = extend(s);
        for (size_t i = 0; r == 0 && i < s->beam_count; i++) {
            struct subgroup found;
            r = test_candidate(s, &s->beam[i], spread, &found);
            if (r == 0 && (!best.tested || found.p < best.p))
                best = found;
        }
    }
    if (r == 0)
        *ret_subgroup = best;
    return r;
}

int subgroup_search(const struct book *book, const struct excess_of *of, double spread,
                    struct subgroup *ret_subgroup)
{
    struct search *s = calloc(1, sizeof(*s));
    struct subgroup found = {.p = 1, .adjusted_p = 1};
    if (!s)
        return -ENOMEM;
    s->book = book;
    int r = excess_collect(book, of, &s->list);
    array_foreach (&s->list.cells, e) {
        s->n += e->n;
        s->sum += e->n * e->beyond;
    }
    if (r == 0 && s->list.older.count > 1 && s->n >= 2 * REQUESTS_MIN) {
        find_residuals(s);
        r = search_lengths(s, spread, &found);
    }
    excess_done(&s->list);
    map_done(&s->index);
    map_done(&s->alone);
    array_done(&s->of_values);
    free(s);
    if (r == 0)
        *ret_subgroup = found;
    return r;
}
