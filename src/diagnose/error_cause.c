/* See error_cause.h.
 *
 * A combination is scored as a zone of a spatial scan with Poisson counts (Kulldorff, Communications in
 * Statistics 26, 1997, section 4), but with the older side's errors as the expectation and no condition on
 * the total, so that "everywhere" competes: with k errors where E are expected, the log-likelihood ratio is
 * k log(k/E) - k + E. A wider combination dilutes it by requests that do not fail, a narrower one has fewer
 * errors. What it must exceed that of all requests by pays for every combination of its length.
 *
 * A part that fails where all requests together hardly show it: the older side's errors, and a few more at
 * the share of all requests, give the share there a gamma distribution, so that the newer errors by chance
 * are negative binomial; Bonferroni's inequality pays for all combinations of a length, a third of the level
 * going to each length. One host alone is no part. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/error_cause.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/book_parts.h"
#include "diagnose/stats.h"

#define BEAM         24
#define VALUES_MAX   4096 /* of all keys; further ones are not looked at */
#define REQUESTS_MIN 6    /* of the newer side, within a combination and outside */
#define PRIOR_ERRORS                                                                                        \
    2.0                   /* what holds the older side's share within a combination to that of all requests \
                           */
#define PECULIAR     0.01 /* how likely a combination had a share of its own before, of any size */
#define COVERAGE_MIN 0.5  /* of the additional errors: a combination with fewer does not explain them */
#define PART_ERRORS  4    /* fewer are no part */
#define CHANCE       3.0  /* a combination chosen wrongly once in 20 times: the logarithm of 20 */

struct sums {
    double requests, errors, older_requests, older_errors;
};

struct zone {
    struct label labels[CAUSE_LENGTH_MAX];
    size_t length;
    struct sums sums;
    double score;
};

struct scan {
    const struct book *book;
    const struct excess_of *of;
    struct sums all;
    struct zone beam[BEAM], next[BEAM];
    size_t beam_count, next_count;
    struct map index; /* key << 32 | value: among values */
    struct {
        struct label label;
        struct sums sums;
    } values[VALUES_MAX];
    size_t value_count;
};

static void add_cell(struct sums *to, const struct cell *cell, bool newer)
{
    *(newer ? &to->requests : &to->older_requests) += (double)cell->latency.count;
    *(newer ? &to->errors : &to->older_errors) += (double)cell->errors;
}

/* The older side's share of errors among all requests. */
static double usual_share(const struct scan *s)
{
    return (s->all.older_errors + 0.5) / (s->all.older_requests + 1);
}

static double log_gamma_ratio(double a, double k) /* of a + k over a, less the factorial of k */
{
    return lgamma(a + k) - lgamma(a) - lgamma(k + 1);
}

/* How sure it is, by the older side's requests within, that their share of errors is one of its own. */
static double peculiarity(const struct scan *s, double requests, double errors)
{
    double prior = PRIOR_ERRORS / usual_share(s), all = requests + prior;
    double usual = log_gamma_ratio(PRIOR_ERRORS, errors) + PRIOR_ERRORS * log(prior / all) +
                   (errors > 0 ? errors * log(requests / all) : 0);
    double own = PECULIAR / (requests + 1);
    return own / (own + (1 - PECULIAR) * exp(usual));
}

/* Errors of the newer requests, by the older side's share. */
static double expected_of(const struct scan *s, const struct sums *sums)
{
    double own = peculiarity(s, sums->older_requests, sums->older_errors);
    double usual_mean =
        (sums->older_errors + PRIOR_ERRORS) / (sums->older_requests + PRIOR_ERRORS / usual_share(s));
    double own_mean = (sums->older_errors + 1) / (sums->older_requests + 2);
    return sums->requests * ((1 - own) * usual_mean + own * own_mean);
}

static double score_of(const struct scan *s, const struct sums *sums)
{
    double expected = expected_of(s, sums);
    return sums->errors > expected ? sums->errors * log(sums->errors / expected) - sums->errors + expected
                                   : 0;
}

static int tally(struct scan *s, const struct zone *base)
{
    map_clear(&s->index);
    s->value_count = 0;
    array_foreach (&s->book->cells, cell) {
        int side = excess_side(s->book, s->of, cell);
        size_t count;
        if (side < 0 || !labels_match(s->book, cell->labels, base->labels, base->length))
            continue;
        const struct label *pairs = labels_of(s->book->labels, cell->labels, &count);
        for (size_t i = 0; i < count; i++) {
            bool added;
            if (!labels_usable(s->book, pairs[i]) ||
                book_is_outcome(labels_key_name(s->book->labels, pairs[i].key)))
                continue;
            uint64_t *slot = map_put(&s->index, (uint64_t)pairs[i].key << 32 | pairs[i].value, &added);
            if (!slot)
                return -ENOMEM;
            if (added) {
                *slot = s->value_count;
                if (s->value_count < VALUES_MAX) {
                    s->values[s->value_count].sums = (struct sums){0};
                    s->values[s->value_count++].label = pairs[i];
                }
            }
            if (*slot < VALUES_MAX)
                add_cell(&s->values[*slot].sums, cell, side == 1);
        }
    }
    return 0;
}

/* The same combination in another order, or attributes that always go with its own: the first one stays. */
static bool same_requests(const struct zone *a, const struct zone *b)
{
    return memcmp(&a->sums, &b->sums, sizeof(a->sums)) == 0;
}

static void keep_best(struct scan *s, const struct zone *zone)
{
    size_t at = s->next_count;
    for (size_t i = 0; i < s->next_count; i++)
        if (same_requests(&s->next[i], zone))
            return;
    while (at > 0 && s->next[at - 1].score < zone->score)
        at--;
    if (at >= BEAM)
        return;
    if (s->next_count < BEAM)
        s->next_count++;
    memmove(s->next + at + 1, s->next + at, (s->next_count - at - 1) * sizeof(*s->next));
    s->next[at] = *zone;
}

/* All combinations one longer than those of the beam; how many values there are to combine. */
static int extend(struct scan *s, double *ret_values)
{
    s->next_count = 0;
    for (size_t b = 0; b < s->beam_count; b++) {
        const struct zone *base = &s->beam[b];
        double values = 0;
        int r = tally(s, base);
        if (r < 0)
            return r;
        for (size_t v = 0; v < s->value_count; v++) {
            struct zone longer = *base;
            longer.sums = s->values[v].sums;
            if (labels_have_key(base->labels, base->length, s->values[v].label.key) ||
                longer.sums.requests < REQUESTS_MIN)
                continue;
            values++;
            if (base->sums.requests - longer.sums.requests < REQUESTS_MIN)
                continue; /* nearly all have it */
            longer.labels[longer.length++] = s->values[v].label;
            longer.score = score_of(s, &longer.sums);
            if (longer.score > 0)
                keep_best(s, &longer);
        }
        if (base->length == 0)
            *ret_values = values;
    }
    memcpy(s->beam, s->next, sizeof(s->beam));
    s->beam_count = s->next_count;
    return 0;
}

/* Of all errors beyond what the older side predicts, the share within. */
static double coverage_of(const struct scan *s, const struct sums *in)
{
    double beyond = in->errors - expected_of(s, in), of_all = s->all.errors - expected_of(s, &s->all);
    return of_all > 0 ? fmin(beyond / of_all, 1) : 0;
}

static void describe(const struct scan *s, const struct zone *zone, double dispersion,
                     struct error_cause *ret_cause)
{
    const struct sums *in = &zone->sums, *all = &s->all;
    struct sums out = {all->requests - in->requests, all->errors - in->errors,
                       all->older_requests - in->older_requests, all->older_errors - in->older_errors};
    struct error_cause found = {.cause = {.length = zone->length, .gain = zone->score}};
    memcpy(found.cause.labels, zone->labels, sizeof(zone->labels));
    found.cause.requests = (uint64_t)in->requests;
    found.cause.ratio = in->errors / expected_of(s, in);
    found.cause.ratio_outside = out.requests > 0 ? out.errors / expected_of(s, &out) : 1;
    /* Logarithms of counts, whose variances are about 1 / count. */
    double reach = 1.96 * sqrt(dispersion * (1 / (in->errors + 0.5) + 1 / (in->older_errors + PRIOR_ERRORS)));
    found.low = found.cause.ratio * exp(-reach);
    found.high = found.cause.ratio * exp(reach);
    found.cause.coverage = coverage_of(s, in);
    found.errors = (uint64_t)in->errors;
    found.share = in->errors / in->requests;
    found.share_outside = out.requests > 0 ? out.errors / out.requests : 0;
    found.share_older = in->older_requests > 0 ? in->older_errors / in->older_requests : 0;
    *ret_cause = found;
}

/* P(X >= errors) of the newer requests within, where they fail as often as the older side's let expect, times
 * what the other newer requests fail more often. */
static double chance_of(const struct scan *s, const struct sums *in, double dispersion)
{
    struct sums out = {s->all.requests - in->requests, s->all.errors - in->errors,
                       s->all.older_requests - in->older_requests, s->all.older_errors - in->older_errors};
    double drift = fmax(out.errors / fmax(expected_of(s, &out), 1e-9), 1);
    double n = floor(in->requests / dispersion), older_n = in->older_requests / dispersion,
           older = in->older_errors / dispersion, own = peculiarity(s, older_n, older);
    double rate = n * drift / (older_n + PRIOR_ERRORS / usual_share(s)), odds = rate / (1 + rate);
    double failing = older + 1, passing = older_n - older + 1, usual = 0, peculiar = 0;
    for (double k = ceil(in->errors / dispersion); k <= n; k++) {
        usual += exp(log_gamma_ratio(older + PRIOR_ERRORS, k) + (older + PRIOR_ERRORS) * log1p(-odds) +
                     k * log(odds));
        /* Beta-binomial: any share before was as likely. */
        peculiar += exp(log_gamma_ratio(failing, k) + log_gamma_ratio(passing, n - k) -
                        log_gamma_ratio(failing + passing, n));
    }
    return fmin((1 - own) * usual + own * peculiar, 1);
}

/* Whether more than one host of the newer side served it, or there is only one. */
static bool on_hosts(const struct scan *s, const struct zone *zone)
{
    uint32_t within = NAMES_NONE, any = NAMES_NONE;
    bool several = false;
    array_foreach (&s->book->cells, cell) {
        if (excess_side(s->book, s->of, cell) != 1)
            continue;
        bool in = labels_match(s->book, cell->labels, zone->labels, zone->length);
        for (size_t h = 0; h < BOOK_CELL_HOSTS && cell->hosts[h].entries; h++) {
            uint32_t host = cell->hosts[h].host;
            several |= any != NAMES_NONE && host != any;
            any = host;
            if (in && within != NAMES_NONE && host != within)
                return true;
            within = in ? host : within;
        }
    }
    return !several;
}

static int scan_lengths(struct scan *s, double dispersion, struct error_cause *ret_cause,
                        struct error_cause *ret_part)
{
    struct zone everywhere = {.sums = s->all, .score = score_of(s, &s->all)}, best = everywhere, part = {0};
    double best_worth = everywhere.score / dispersion, part_worth = -INFINITY, part_p = 1, values = 0;
    int r = 0;
    s->beam[0] = everywhere;
    s->beam_count = 1;
    for (size_t length = 1; r == 0 && length <= CAUSE_LENGTH_MAX && s->beam_count; length++) {
        r = extend(s, &values);
        for (size_t i = 0; r == 0 && i < s->beam_count; i++) {
            const struct zone *zone = &s->beam[i];
            double many = stats_log_combinations(values, length);
            double worth = zone->score / dispersion - many - CHANCE;
            if (worth > best_worth && coverage_of(s, &zone->sums) >= COVERAGE_MIN) {
                best_worth = worth;
                best = *zone;
            }
            if (zone->sums.errors < PART_ERRORS || zone->sums.older_requests < REQUESTS_MIN)
                continue;
            if (worth > part_worth) {
                part_worth = worth;
                part = *zone;
                part_p = fmin(1, CAUSE_LENGTH_MAX * exp(many) * chance_of(s, &zone->sums, dispersion));
            }
        }
    }
    if (r == 0)
        describe(s, &best, dispersion, ret_cause);
    if (r == 0 && part.length && on_hosts(s, &part))
        describe(s, &part, dispersion, ret_part);
    ret_part->p = part_p;
    return r;
}

int error_cause_search(const struct book *book, const struct excess_of *of, double dispersion,
                       struct error_cause *ret_cause, struct error_cause *ret_part)
{
    struct scan *s = calloc(1, sizeof(*s));
    struct error_cause found = {0}, part = {.p = 1};
    int r = s ? 0 : -ENOMEM;
    if (r == 0) {
        s->book = book;
        s->of = of;
        array_foreach (&book->cells, cell) {
            int side = excess_side(book, of, cell);
            if (side >= 0)
                add_cell(&s->all, cell, side == 1);
        }
        if (s->all.errors > 0 && s->all.older_requests > 0)
            r = scan_lengths(s, fmax(dispersion, 1), &found, &part);
        map_done(&s->index);
        free(s);
    }
    if (r == 0) {
        *ret_cause = found;
        *ret_part = part;
    }
    return r;
}
