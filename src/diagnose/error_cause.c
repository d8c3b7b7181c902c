/* See error_cause.h.
 *
 * A combination is scored as a zone of a spatial scan with Poisson counts (Kulldorff, Communications in
 * Statistics 26, 1997, section 4), but with the older side's errors as the expectation and no condition on
 * the total, so that "everywhere" competes: with k errors where E are expected, the log-likelihood ratio is
 * k log(k/E) - k + E. A wider combination dilutes it by requests that do not fail, a narrower one has fewer
 * errors. What it must exceed that of all requests by pays for every combination of its length. Like is
 * compared with like: where the newer side has more requests of a kind that always failed more often, the
 * expectation has them, too (indirect standardisation by the sets of attributes, the finest kinds there are).
 *
 * Where all requests together explain more than any combination, a few may still explain more than all
 * requests do: the best one, the best one of what it leaves, and so on; the first of them is named. And
 * where a combination lies within a wider one of which most else fails more often, too, the wider one is
 * named: the narrower one is only where it is worst.
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
#define COVERAGE_MIN 0.5  /* of the additional errors: combinations with fewer do not explain them */
#define ROUNDS       4    /* combinations that explain the errors together */
#define ROUNDS_ANY   2    /* from here on, only while they are a minority of the requests */
#define TOGETHER_MIN 0.8  /* of the additional errors: those that combinations have together */
#define ALSO_RATIO   1.5  /* errors to expected ones of what else the wider combination has */
#define PART_ERRORS  4    /* fewer are no part */
#define CHANCE       3.0  /* a combination chosen wrongly once in 20 times: the logarithm of 20 */

struct sums {
    double requests, errors, older_requests, older_errors;
    double predicted, older_predicted; /* errors, by what each kind of requests had on the older side */
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
    double dispersion;
    bool by_contrast; /* whether combinations are scored by what sets them off from all others */
    double usual;     /* the older side's share of errors among all requests */
    struct sums all;
    struct map kinds;            /* label set: among older */
    ARRAY(struct sums) older;    /* of a kind; only its older side */
    struct zone without[ROUNDS]; /* their requests are not looked at */
    size_t without_count;
    struct zone beam[BEAM], next[BEAM];
    size_t beam_count, next_count;
    struct map index; /* key << 32 | value: among values */
    struct {
        struct label label;
        struct sums sums;
    } values[VALUES_MAX];
    size_t value_count;
};

/* The share of errors that a kind of requests had on the older side, held to that of all. */
static double predicted_share(const struct scan *s, uint32_t kind)
{
    const uint64_t *slot = map_get(&s->kinds, kind);
    const struct sums *older = slot ? &s->older.at[*slot] : &(struct sums){0};
    return (older->older_errors + PRIOR_ERRORS) / (older->older_requests + PRIOR_ERRORS / s->usual);
}

static void add_cell(const struct scan *s, struct sums *to, const struct cell *cell, bool newer)
{
    double requests = (double)cell->latency.count;
    *(newer ? &to->requests : &to->older_requests) += requests;
    *(newer ? &to->errors : &to->older_errors) += (double)cell->errors;
    *(newer ? &to->predicted : &to->older_predicted) += requests * predicted_share(s, cell->labels);
}

static void add_sums(struct sums *to, const struct sums *sums)
{
    to->requests += sums->requests;
    to->errors += sums->errors;
    to->older_requests += sums->older_requests;
    to->older_errors += sums->older_errors;
    to->predicted += sums->predicted;
    to->older_predicted += sums->older_predicted;
}

static struct sums outside_of(const struct scan *s, const struct sums *in)
{
    const struct sums *all = &s->all;
    return (struct sums){all->requests - in->requests,
                         all->errors - in->errors,
                         all->older_requests - in->older_requests,
                         all->older_errors - in->older_errors,
                         all->predicted - in->predicted,
                         all->older_predicted - in->older_predicted};
}

/* How much more often the newer requests are of kinds that fail: 1 where both sides have the same kinds. */
static double mix_of(const struct sums *sums)
{
    return sums->older_predicted > 0 && sums->requests > 0
               ? sums->predicted / sums->requests * sums->older_requests / sums->older_predicted
               : 1;
}

/* The side of a cell that is looked at; or -1. */
static int side_of(const struct scan *s, const struct cell *cell)
{
    int side = excess_side(s->book, s->of, cell);
    for (size_t i = 0; side >= 0 && i < s->without_count; i++)
        if (labels_match(s->book, cell->labels, s->without[i].labels, s->without[i].length))
            side = -1;
    return side;
}

static double log_gamma_ratio(double a, double k) /* of a + k over a, less the factorial of k */
{
    return lgamma(a + k) - lgamma(a) - lgamma(k + 1);
}

/* How sure it is, by the older side's requests within, that their share of errors is one of its own. */
static double peculiarity(const struct scan *s, double requests, double errors)
{
    double prior = PRIOR_ERRORS / s->usual, all = requests + prior;
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
        (sums->older_errors + PRIOR_ERRORS) / (sums->older_requests + PRIOR_ERRORS / s->usual);
    double own_mean = (sums->older_errors + 1) / (sums->older_requests + 2);
    return sums->requests * mix_of(sums) * ((1 - own) * usual_mean + own * own_mean);
}

static double score_of(const struct scan *s, const struct sums *sums)
{
    double expected = expected_of(s, sums);
    return sums->errors > expected ? sums->errors * log(sums->errors / expected) - sums->errors + expected
                                   : 0;
}

/* The same on the condition of the total, so that what all share is no evidence for any. */
static double contrast_of(const struct scan *s, const struct sums *in)
{
    struct sums out = outside_of(s, in);
    double expected_in = expected_of(s, in), expected_out = fmax(expected_of(s, &out), 1e-9);
    double share = in->errors + out.errors > 0 ? expected_in / (expected_in + expected_out) : 1;
    double all = in->errors + out.errors;
    if (in->errors <= all * share)
        return 0;
    return in->errors * log(in->errors / (all * share)) +
           (out.errors > 0 ? out.errors * log(out.errors / (all * (1 - share))) : 0);
}

static int tally(struct scan *s, const struct zone *base)
{
    map_clear(&s->index);
    s->value_count = 0;
    array_foreach (&s->book->cells, cell) {
        int side = side_of(s, cell);
        size_t count;
        if (side < 0 || !labels_match(s->book, cell->labels, base->labels, base->length))
            continue;
        const struct label *pairs = labels_of(s->book->labels, cell->labels, &count);
        struct sums sums = {0};
        add_cell(s, &sums, cell, side == 1);
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
                add_sums(&s->values[*slot].sums, &sums);
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
            longer.score = s->by_contrast ? contrast_of(s, &longer.sums) : score_of(s, &longer.sums);
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

static void describe(const struct scan *s, const struct zone *zone, struct error_cause *ret_cause)
{
    const struct sums *in = &zone->sums;
    struct sums out = outside_of(s, in);
    struct error_cause found = {.cause = {.length = zone->length, .gain = zone->score}};
    memcpy(found.cause.labels, zone->labels, sizeof(zone->labels));
    found.cause.requests = (uint64_t)in->requests;
    found.cause.ratio = in->errors / expected_of(s, in);
    found.cause.ratio_outside = out.requests > 0 ? out.errors / expected_of(s, &out) : 1;
    /* Logarithms of counts, whose variances are about 1 / count. */
    double reach =
        1.96 * sqrt(s->dispersion * (1 / (in->errors + 0.5) + 1 / (in->older_errors + PRIOR_ERRORS)));
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
static double chance_of(const struct scan *s, const struct sums *in)
{
    struct sums out = outside_of(s, in);
    double dispersion = s->dispersion, drift = fmax(out.errors / fmax(expected_of(s, &out), 1e-9), 1);
    double n = floor(in->requests / dispersion), older_n = in->older_requests / dispersion,
           older = in->older_errors / dispersion, own = peculiarity(s, older_n, older);
    double rate = n * drift * mix_of(in) / (older_n + PRIOR_ERRORS / s->usual), odds = rate / (1 + rate);
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

/* How much better a combination explains than none, after what choosing it costs. */
static double worth_of(const struct scan *s, const struct zone *zone, double values)
{
    double price = zone->length ? stats_log_combinations(values, zone->length) + CHANCE : 0;
    return zone->score / s->dispersion - price;
}

/* What one search is after: the best combination, and the part that could be a finding by itself. */
struct found {
    struct zone best, part;
    double best_worth, part_worth, part_p;
    double values; /* that were combined */
};

static int scan_lengths(struct scan *s, struct found *ret_found)
{
    struct found f = {.best_worth = -INFINITY, .part_worth = -INFINITY, .part_p = 1};
    int r = 0;
    s->beam[0] = (struct zone){.sums = s->all};
    s->beam_count = 1;
    for (size_t length = 1; r == 0 && length <= CAUSE_LENGTH_MAX && s->beam_count; length++) {
        r = extend(s, &f.values);
        for (size_t i = 0; r == 0 && i < s->beam_count; i++) {
            const struct zone *zone = &s->beam[i];
            double worth = worth_of(s, zone, f.values);
            if (worth > f.best_worth) {
                f.best_worth = worth;
                f.best = *zone;
            }
            if (zone->sums.errors < PART_ERRORS || zone->sums.older_requests < REQUESTS_MIN)
                continue;
            if (worth > f.part_worth) {
                f.part_worth = worth;
                f.part = *zone;
                f.part_p = fmin(1, CAUSE_LENGTH_MAX * exp(stats_log_combinations(f.values, length)) *
                                       chance_of(s, &zone->sums));
            }
        }
    }
    *ret_found = f;
    return r;
}

/* Whether most of what a wider combination has beside a narrower one fails more often, too. wide: set to the
 * wider one, without the label at `left_out`. */
static int is_affected_beside(struct scan *s, const struct zone *narrow, size_t left_out, struct zone *wide,
                              bool *ret_affected)
{
    struct label label = narrow->labels[left_out];
    struct sums beside = {0};
    double affected = 0;
    *wide = *narrow;
    wide->length--;
    memmove(wide->labels + left_out, wide->labels + left_out + 1,
            (wide->length - left_out) * sizeof(*wide->labels));
    int r = tally(s, wide);
    if (r < 0)
        return r;
    wide->sums = (struct sums){0};
    array_foreach (&s->book->cells, cell) {
        int side = side_of(s, cell);
        if (side < 0 || !labels_match(s->book, cell->labels, wide->labels, wide->length))
            continue;
        add_cell(s, &wide->sums, cell, side == 1);
        if (labels_value(s->book->labels, cell->labels, label.key) != label.value)
            add_cell(s, &beside, cell, side == 1);
    }
    wide->score = score_of(s, &wide->sums);
    for (size_t v = 0; v < s->value_count; v++) {
        const struct sums *sums = &s->values[v].sums;
        if (s->values[v].label.key == label.key && s->values[v].label.value != label.value &&
            sums->errors >= ALSO_RATIO * expected_of(s, sums))
            affected += sums->requests;
    }
    *ret_affected = beside.requests > 0 && affected >= beside.requests / 2 &&
                    beside.errors >= ALSO_RATIO * expected_of(s, &beside) &&
                    score_of(s, &beside) >= CHANCE * s->dispersion;
    return 0;
}

/* The widest combination that the one found is only the worst part of. */
static int widen(struct scan *s, struct zone *zone)
{
    bool wider = true;
    while (wider && zone->length > 1) {
        struct zone best = {0};
        wider = false;
        for (size_t i = 0; i < zone->length; i++) {
            struct zone wide;
            bool affected;
            int r = is_affected_beside(s, zone, i, &wide, &affected);
            if (r < 0)
                return r;
            if (affected && (!wider || wide.score > best.score)) {
                best = wide;
                wider = true;
            }
        }
        if (wider)
            *zone = best;
    }
    return 0;
}

/* Sums of all that is looked at. */
static void sum_up(struct scan *s)
{
    s->all = (struct sums){0};
    array_foreach (&s->book->cells, cell) {
        int side = side_of(s, cell);
        if (side >= 0)
            add_cell(s, &s->all, cell, side == 1);
    }
}

/* The combinations that explain the errors together: each the one that is most set off from what the ones
 * before it leave. Whether they explain more than all requests do, and the first of them. */
static int explain_together(struct scan *s, const struct zone *everywhere, struct zone *ret_first,
                            bool *ret_together)
{
    const struct sums all = s->all;
    double worth = 0, beyond = 0, requests = 0, of_all = all.errors - expected_of(s, &all);
    int r = 0;
    s->by_contrast = true;
    while (r == 0 && s->without_count < ROUNDS && s->all.errors > 0 && s->all.older_requests > 0) {
        struct found found = {0};
        r = scan_lengths(s, &found);
        requests += found.best.sums.requests;
        bool most = s->without_count >= ROUNDS_ANY && requests > all.requests / 2;
        if (r < 0 || !found.best.length || found.best_worth <= 0 || most)
            break;
        found.best.score = score_of(s, &found.best.sums);
        worth += worth_of(s, &found.best, found.values);
        beyond += found.best.sums.errors - expected_of(s, &found.best.sums);
        if (s->without_count == 0)
            *ret_first = found.best;
        s->without[s->without_count++] = found.best;
        sum_up(s);
    }
    s->without_count = 0;
    s->by_contrast = false;
    s->all = all;
    *ret_together = worth > everywhere->score / s->dispersion && beyond >= TOGETHER_MIN * of_all;
    return r;
}

static int search(struct scan *s, struct error_cause *ret_cause, struct error_cause *ret_part)
{
    struct zone everywhere = {.sums = s->all, .score = score_of(s, &s->all)};
    struct found found;
    bool together = false;
    int r = scan_lengths(s, &found);
    bool alone = found.best_worth > everywhere.score / s->dispersion &&
                 coverage_of(s, &found.best.sums) >= COVERAGE_MIN;
    if (r == 0 && !alone)
        r = explain_together(s, &everywhere, &found.best, &together);
    if (r == 0 && (alone || together))
        r = widen(s, &found.best);
    if (r < 0)
        return r;
    describe(s, alone || together ? &found.best : &everywhere, ret_cause);
    if (found.part.length && on_hosts(s, &found.part))
        describe(s, &found.part, ret_part);
    ret_part->p = found.part_p;
    return 0;
}

/* What each kind of requests had on the older side. */
static int learn_kinds(struct scan *s)
{
    struct sums all = {0};
    array_foreach (&s->book->cells, cell) {
        bool added;
        if (excess_side(s->book, s->of, cell) != 0)
            continue;
        uint64_t *slot = map_put(&s->kinds, cell->labels, &added);
        if (!slot)
            return -ENOMEM;
        if (added) {
            *slot = s->older.count;
            if (array_add(&s->older, (struct sums){0}) < 0)
                return -ENOMEM;
        }
        s->older.at[*slot].older_requests += (double)cell->latency.count;
        s->older.at[*slot].older_errors += (double)cell->errors;
        all.older_requests += (double)cell->latency.count;
        all.older_errors += (double)cell->errors;
    }
    s->usual = (all.older_errors + 0.5) / (all.older_requests + 1);
    return 0;
}

int error_cause_search(const struct book *book, const struct excess_of *of, double dispersion,
                       struct error_cause *ret_cause, struct error_cause *ret_part)
{
    struct scan *s = calloc(1, sizeof(*s));
    struct error_cause found = {0}, part = {.p = 1};
    if (!s)
        return -ENOMEM;
    s->book = book;
    s->of = of;
    s->dispersion = fmax(dispersion, 1);
    int r = learn_kinds(s);
    if (r == 0)
        sum_up(s);
    if (r == 0 && s->all.errors > 0 && s->all.older_requests > 0)
        r = search(s, &found, &part);
    map_done(&s->index);
    map_done(&s->kinds);
    array_done(&s->older);
    free(s);
    if (r == 0) {
        *ret_cause = found;
        *ret_part = part;
    }
    return r;
}
