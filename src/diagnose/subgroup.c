/* See subgroup.h.
 *
 * The statistic of a combination is D: the mean of what its newer requests take beyond the older side's
 * prediction, less what the newer side's other requests do (drift, or a slow-down everywhere), less what its
 * older requests did already (attributes that interact); either is subtracted only where it is above zero.
 * How likely chance is to make a mean of n requests as large is bounded by Chernoff's inequality over all
 * residuals of both sides, so that their long tails count; to that come the errors of what was subtracted,
 * and that hosts differ. Bonferroni's inequality pays for all combinations of a length, a third of the level
 * going to each length. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/subgroup.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/book_parts.h"
#include "diagnose/stats.h"

#define BEAM         24
#define REQUESTS_MIN 6    /* of either side within a combination, and of the newer one outside */
#define VALUES_MAX   4096 /* of all keys; further ones are not looked at */
#define FIT_SHRINK   5.0  /* requests that hold a value's effect to zero (excess.c) */
#define OLDER_SHRINK 10.0 /* requests that hold the older side's own excess to zero */

/* Residuals of log latency, -24 to 24: of any durations. */
#define RESIDUAL_BINS 960
#define RESIDUAL_STEP 0.05

struct residuals {
    double share[RESIDUAL_BINS];
    double variance;
};

/* What is known of the requests with a combination: of either side. */
struct part_sums {
    double n, sum, older_n, older_sum;
};

struct candidate {
    struct label labels[CAUSE_LENGTH_MAX];
    size_t length;
    struct part_sums sums;
    double fitted; /* of one request's variance, that the prediction for these values may be off by */
    double z;      /* before hosts are looked at */
};

struct search {
    const struct book *book;
    struct excess_list list;
    struct residuals residuals;
    double n, sum; /* of all newer requests */
    struct candidate beam[BEAM], next[BEAM];
    size_t beam_count, next_count;
    struct map alone; /* key << 32 | value: the older requests that have it */
    struct map index; /* the same: among values */
    struct {
        struct label label;
        struct part_sums sums;
    } values[VALUES_MAX];
    size_t value_count;
};

/* ---- chance ---- */

static void add_residuals(const struct excess *cells, size_t count, struct residuals *to)
{
    double n = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        n += cells[i].n;
        sum += cells[i].n * cells[i].beyond;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t first, end;
        sketch_range(&cells[i].cell->latency, &first, &end);
        for (unsigned bin = first; bin < end; bin++) {
            uint64_t times = sketch_bin_count(&cells[i].cell->latency, (uint16_t)bin);
            if (!times)
                continue;
            double x = log(fmax(sketch_bin_middle((uint16_t)bin), 1)) - cells[i].predicted - sum / n;
            double at = x / RESIDUAL_STEP + RESIDUAL_BINS / 2.0;
            to->share[(size_t)fmin(fmax(at, 0), RESIDUAL_BINS - 1)] += (double)times;
        }
    }
}

static double residual_at(size_t bin)
{
    return ((double)bin + 0.5 - RESIDUAL_BINS / 2.0) * RESIDUAL_STEP;
}

static void find_residuals(struct search *s)
{
    struct residuals *r = &s->residuals;
    double n = 0, mean = 0;
    add_residuals(s->list.older.at, s->list.older.count, r);
    add_residuals(s->list.cells.at, s->list.cells.count, r);
    for (size_t i = 0; i < RESIDUAL_BINS; i++) {
        n += r->share[i];
        mean += r->share[i] * residual_at(i);
    }
    mean /= n;
    for (size_t i = 0; i < RESIDUAL_BINS; i++) {
        r->share[i] /= n;
        r->variance += r->share[i] * (residual_at(i) - mean) * (residual_at(i) - mean);
    }
}

/* The logarithm of the residuals' moment-generating function about zero. */
static double cumulant(const struct residuals *r, double t)
{
    double sum = 0, mean = 0;
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        mean += r->share[i] * residual_at(i);
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        if (r->share[i] > 0)
            sum += r->share[i] * exp(t * (residual_at(i) - mean));
    return log(sum);
}

/* The standard normal deviate as unlikely as a mean of n residuals above x: from the largest of t x - K(t),
 * which is concave (golden section). */
static double deviate_of(const struct residuals *r, double n, double x)
{
    double low = 0, high = fmin(4 * x / fmax(r->variance, 1e-6), 80), best = 0;
    for (int step = 0; step < 40; step++) {
        double a = low + 0.382 * (high - low), b = low + 0.618 * (high - low);
        double at_a = a * x - cumulant(r, a), at_b = b * x - cumulant(r, b);
        best = fmax(best, fmax(at_a, at_b));
        if (at_a < at_b)
            low = a;
        else
            high = b;
    }
    return sqrt(2 * n * best);
}

/* ---- one combination ---- */

static bool has_enough(const struct search *s, const struct part_sums *p)
{
    return p->n >= REQUESTS_MIN && p->older_n >= REQUESTS_MIN && s->n - p->n >= REQUESTS_MIN;
}

static double difference(const struct search *s, const struct part_sums *p)
{
    return p->sum / p->n - fmax((s->sum - p->sum) / (s->n - p->n), 0) -
           fmax(p->older_sum / (p->older_n + OLDER_SHRINK), 0);
}

/* The variance of what is subtracted. */
static double variance_beside(const struct search *s, const struct candidate *c)
{
    double shrunk = c->sums.older_n + OLDER_SHRINK;
    return s->residuals.variance * (1 / (s->n - c->sums.n) + c->sums.older_n / (shrunk * shrunk) + c->fitted);
}

/* By variances alone: what candidates are ranked by. */
static double rough_z(const struct search *s, const struct candidate *c)
{
    return difference(s, &c->sums) / sqrt(s->residuals.variance / c->sums.n + variance_beside(s, c) + 1e-12);
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

static int test_candidate(const struct search *s, const struct candidate *c, double values, double spread,
                          struct subgroup *ret_subgroup)
{
    const struct part_sums *p = &c->sums;
    struct subgroup found = {.tested = true, .p = 1, .adjusted_p = 1};
    double d = difference(s, p), newer_share, older_share;
    int r = host_share(s->list.cells.at, s->list.cells.count, c, s->book, &newer_share, &found.hosts);
    if (r == 0)
        r = host_share(s->list.older.at, s->list.older.count, c, s->book, &older_share, &found.base_hosts);
    if (r < 0)
        return r;
    double deviate = d > 0 ? deviate_of(&s->residuals, p->n, d) : 0;
    double own = deviate > 0 ? d / deviate : sqrt(s->residuals.variance / p->n);
    double error = sqrt(own * own + variance_beside(s, c) + spread * spread * (newer_share + older_share));
    if (d > 0)
        found.p = fmin(1, CAUSE_LENGTH_MAX * exp(stats_log_combinations(values, c->length)) *
                              stats_normal_above(d / error));
    memcpy(found.cause.labels, c->labels, sizeof(c->labels));
    found.cause.length = c->length;
    found.cause.requests = (uint64_t)p->n;
    found.cause.ratio = exp(d);
    found.cause.ratio_outside = exp((s->sum - p->sum) / (s->n - p->n));
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

/* All combinations one longer than those of the beam; how many values there are to combine. */
static int extend(struct search *s, double *ret_values)
{
    s->next_count = 0;
    for (size_t b = 0; b < s->beam_count; b++) {
        const struct candidate *base = &s->beam[b];
        map_clear(&s->index);
        s->value_count = 0;
        int r = tally(s, base, s->list.cells.at, s->list.cells.count, true);
        if (r == 0)
            r = tally(s, base, s->list.older.at, s->list.older.count, false);
        if (r < 0)
            return r;
        double values = 0;
        for (size_t v = 0; v < s->value_count; v++) {
            struct candidate longer = *base;
            if (labels_have_key(base->labels, base->length, s->values[v].label.key) ||
                !has_enough(s, &s->values[v].sums))
                continue;
            values++;
            longer.labels[longer.length++] = s->values[v].label;
            longer.sums = s->values[v].sums;
            uint64_t key = (uint64_t)s->values[v].label.key << 32 | s->values[v].label.value;
            uint64_t *alone = base->length ? map_get(&s->alone, key) : map_put(&s->alone, key, NULL);
            if (!alone && !base->length)
                return -ENOMEM;
            if (!alone)
                continue; /* nearly all have it */
            if (!base->length)
                *alone = (uint64_t)s->values[v].sums.older_n;
            longer.fitted += 1 / ((double)*alone + FIT_SHRINK);
            longer.z = rough_z(s, &longer);
            bool narrower = base->length == 0 || longer.sums.n < base->sums.n;
            if (longer.z > 0 && narrower)
                keep_best(s, &longer);
        }
        if (base->length == 0)
            *ret_values = values;
    }
    memcpy(s->beam, s->next, sizeof(s->beam));
    s->beam_count = s->next_count;
    return 0;
}

static int search_lengths(struct search *s, double spread, struct subgroup *ret_subgroup)
{
    struct subgroup best = {.p = 1, .adjusted_p = 1};
    double values = 0;
    int r = 0;
    s->beam_count = 1; /* everything */
    for (size_t length = 1; r == 0 && length <= CAUSE_LENGTH_MAX && s->beam_count; length++) {
        r = extend(s, &values);
        for (size_t i = 0; r == 0 && i < s->beam_count; i++) {
            struct subgroup found;
            r = test_candidate(s, &s->beam[i], values, spread, &found);
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
    free(s);
    if (r == 0)
        *ret_subgroup = found;
    return r;
}
