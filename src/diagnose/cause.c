/* See cause.h.
 *
 * Search: each cell of the newer side has a log ratio d to the older cells with the same attributes, or to
 * what is predicted for them (excess.h). A combination c explains (sum over c of n d)^2 / (sum over c of n),
 * the drop in squared error of the model "d is one number within c and zero elsewhere". A wider combination
 * is diluted by unaffected requests, a narrower one has fewer; the true one has the most. Beam search by
 * length, and a longer combination must explain clearly more than a shorter one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/cause.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/excess.h"

#define BEAM               24
#define LONGER_WORTH       1.08 /* what one attribute more must multiply the gain by */
#define LONGER_NOISE       10.0 /* and by as many variances of one request: chance offers many combinations */
#define EXPLAINED_MIN      0.05
#define VALUE_REQUESTS_MIN 30

static double gain_of(double n, double sum)
{
    return sum > 0 && n > 0 ? sum * sum / n : 0;
}

struct tally {
    struct label label;
    double n, sum;
};

/* Per (key, value): requests and slow-down of the cells that match `base` and have it. */
static int tally_extensions(const struct book *book, const struct excess_list *list, const struct cause *base,
                            struct map *index, struct tally *tallies, size_t room, size_t *ret_count)
{
    size_t n = 0;
    map_clear(index);
    array_foreach (&list->cells, e) {
        if (!labels_match(book, e->labels, base->labels, base->length))
            continue;
        size_t count;
        const struct label *pairs = labels_of(book->labels, e->labels, &count);
        for (size_t i = 0; i < count; i++) {
            bool added;
            if (!labels_usable(book, pairs[i]))
                continue;
            uint64_t *slot = map_put(index, (uint64_t)pairs[i].key << 32 | pairs[i].value, &added);
            if (!slot)
                return -ENOMEM;
            if (added) {
                if (n == room)
                    continue;
                *slot = n;
                tallies[n++] = (struct tally){.label = pairs[i]};
            }
            if (*slot < n) {
                tallies[*slot].n += e->n;
                tallies[*slot].sum += e->n * e->d;
            }
        }
    }
    *ret_count = n;
    return 0;
}

static bool same_labels(const struct cause *a, const struct cause *b)
{
    if (a->length != b->length)
        return false;
    for (size_t i = 0; i < a->length; i++) {
        bool found = false;
        for (size_t k = 0; k < b->length; k++)
            found |= a->labels[i].key == b->labels[k].key && a->labels[i].value == b->labels[k].value;
        if (!found)
            return false;
    }
    return true;
}

static void keep_best(struct cause *beam, size_t *count, const struct cause *cause)
{
    for (size_t i = 0; i < *count; i++)
        if (same_labels(&beam[i], cause))
            return;
    size_t at = *count;
    while (at > 0 && beam[at - 1].gain < cause->gain)
        at--;
    if (at >= BEAM)
        return;
    if (*count < BEAM)
        ++*count;
    memmove(beam + at + 1, beam + at, (*count - at - 1) * sizeof(*beam));
    beam[at] = *cause;
}

#define TALLIES_MAX 8192

/* All combinations one longer than those of the beam. */
static int extend(const struct book *book, const struct excess_list *list, const struct cause *from,
                  size_t from_count, struct cause *to, size_t *ret_count)
{
    struct map index = {0};
    struct tally *tallies = malloc(TALLIES_MAX * sizeof(*tallies));
    int r = tallies ? 0 : -ENOMEM;
    *ret_count = 0;
    for (size_t b = 0; r == 0 && b < from_count; b++) {
        size_t n = 0;
        r = tally_extensions(book, list, &from[b], &index, tallies, TALLIES_MAX, &n);
        for (size_t t = 0; r == 0 && t < n; t++) {
            struct cause longer = from[b];
            bool repeats = false;
            for (size_t i = 0; i < longer.length; i++)
                repeats |= longer.labels[i].key == tallies[t].label.key;
            if (repeats)
                continue;
            longer.labels[longer.length++] = tallies[t].label;
            longer.gain = gain_of(tallies[t].n, tallies[t].sum);
            longer.requests = (uint64_t)tallies[t].n;
            if (longer.gain > from[b].gain * LONGER_WORTH &&
                longer.gain > from[b].gain + LONGER_NOISE * list->noise)
                keep_best(to, ret_count, &longer);
        }
    }
    free(tallies);
    map_done(&index);
    return r;
}

static void describe(const struct book *book, const struct excess_list *list, struct cause *cause)
{
    double n = 0, sum = 0, n_out = 0, sum_out = 0;
    array_foreach (&list->cells, e) {
        bool in = labels_match(book, e->labels, cause->labels, cause->length);
        n += in ? e->n : 0;
        sum += in ? e->n * e->d : 0;
        n_out += in ? 0 : e->n;
        sum_out += in ? 0 : e->n * e->d;
    }
    cause->requests = (uint64_t)n;
    cause->ratio = n > 0 ? exp(sum / n) : 1;
    cause->ratio_outside = n_out > 0 ? exp(sum_out / n_out) : 1;
    cause->coverage = sum > 0 ? sum / (sum + fmax(sum_out, 0)) : 0;
}

/* The simple rule that is always shown beside: the one value with the largest ratio. */
static int simple_rule(const struct book *book, const struct excess_list *list, struct cause *ret_rule)
{
    struct map index = {0};
    struct tally *tallies = malloc(TALLIES_MAX * sizeof(*tallies));
    struct cause none = {0}, rule = {0};
    size_t n = 0;
    int r = tallies ? tally_extensions(book, list, &none, &index, tallies, TALLIES_MAX, &n) : -ENOMEM;
    double best = 0;
    for (size_t t = 0; r == 0 && t < n; t++)
        if (tallies[t].n >= VALUE_REQUESTS_MIN && tallies[t].sum / tallies[t].n > best) {
            best = tallies[t].sum / tallies[t].n;
            rule = (struct cause){.labels = {tallies[t].label}, .length = 1};
        }
    if (r == 0) {
        rule.gain = 0;
        describe(book, list, &rule);
        *ret_rule = rule;
    }
    free(tallies);
    map_done(&index);
    return r;
}

int cause_search(const struct book *book, uint32_t type, int (*is_newer)(void *, uint32_t), void *context,
                 struct cause *causes, size_t room, size_t *ret_count, struct cause *ret_rule)
{
    struct excess_list list = {0};
    struct cause *beam = calloc(3 * (BEAM + 1), sizeof(*beam)), *next = beam ? beam + BEAM + 1 : NULL;
    struct cause *all = beam ? beam + 2 * (BEAM + 1) : NULL;
    size_t beam_count = 1, all_count = 0;
    int r = beam ? excess_collect(book, &(struct excess_of){type, 0, is_newer, context}, &list) : -ENOMEM;
    if (r == 0) {
        double n = 0, sum = 0;
        array_foreach (&list.cells, e) {
            n += e->n;
            sum += e->n * e->d;
        }
        beam[0].gain = gain_of(n, sum); /* everything: the empty combination */
        keep_best(all, &all_count, &beam[0]);
    }
    for (size_t length = 1; r == 0 && length <= CAUSE_LENGTH_MAX && beam_count; length++) {
        size_t longer = 0;
        memset(next, 0, (BEAM + 1) * sizeof(*next));
        r = extend(book, &list, beam, beam_count, next, &longer);
        for (size_t i = 0; i < longer; i++)
            keep_best(all, &all_count, &next[i]);
        memcpy(beam, next, (BEAM + 1) * sizeof(*next));
        beam_count = longer;
    }
    size_t n = MIN(room, all_count);
    for (size_t i = 0; r == 0 && i < n; i++) {
        causes[i] = all[i];
        describe(book, &list, &causes[i]);
    }
    if (r == 0 && ret_rule)
        r = simple_rule(book, &list, ret_rule);
    if (r == 0)
        *ret_count = n;
    free(beam);
    excess_done(&list);
    return r;
}

/* Sums of one attribute's values. */
struct spread {
    uint32_t value;
    double n, mean, squares; /* squares: within the value */
};

static void add_spread(struct spread *s, double n, double mean, double squares)
{
    double total = s->n + n, off = mean - s->mean;
    s->squares += squares + off * off * s->n * n / total;
    s->mean += off * n / total;
    s->n = total;
}

/* The share of the variance of log latency between a key's values (omega squared). */
static int explain(const struct book *book, uint32_t type, uint32_t key, struct proposal *ret_proposal)
{
    struct spread values[LABELS_VALUES_MAX + 1] = {0}, all = {0};
    for (size_t i = 0; i < book->cells.count; i++) {
        const struct cell *cell = &book->cells.at[i];
        uint32_t value = cell->type == type ? labels_value(book->labels, cell->labels, key) : NAMES_NONE;
        if (value == NAMES_NONE || value >= LABELS_VALUES_MAX)
            continue;
        double mean, variance, n = (double)cell->latency.count;
        sketch_log_moments(&cell->latency, &mean, &variance);
        add_spread(&values[value], n, mean, variance * (n - 1));
        add_spread(&all, n, mean, variance * (n - 1));
    }
    double within = 0;
    uint32_t different = 0;
    for (uint32_t v = 0; v < LABELS_VALUES_MAX; v++) {
        different += values[v].n >= VALUE_REQUESTS_MIN;
        within += values[v].squares;
    }
    *ret_proposal =
        (struct proposal){.type = type, .key = key, .values = different, .requests = (uint64_t)all.n};
    if (different < 2 || all.squares <= 0 || all.n <= different)
        return 0;
    double error = within / (all.n - different), between = all.squares - within;
    ret_proposal->explained = (between - (different - 1) * error) / (all.squares + error);
    return 0;
}

static int by_explained(const void *x, const void *y)
{
    const struct proposal *a = x, *b = y;
    return a->explained > b->explained ? -1 : a->explained < b->explained;
}

static bool bucketed_by(const struct book *book, uint32_t key)
{
    for (const char *const *by = book->settings.bucket_by; *by; by++)
        if (strcmp(*by, labels_key_name(book->labels, key)) == 0)
            return true;
    return false;
}

int cause_propose(const struct book *book, struct proposal *proposals, size_t room, size_t *ret_count)
{
    ARRAY(struct proposal) all = {0};
    struct map types = {0};
    int r = 0;
    array_foreach (&book->buckets, bucket)
        if (!map_put(&types, bucket->type, NULL))
            r = -ENOMEM;
    for (size_t t = 0; r == 0 && t < types.capacity; t++)
        for (uint32_t key = 0; types.slots[t].used && r == 0 && key < book->labels->key_info.count; key++) {
            struct proposal p;
            if (book->labels->key_info.at[key].folded)
                continue;
            r = explain(book, (uint32_t)types.slots[t].key, key, &p);
            p.in_use = bucketed_by(book, key);
            if (r == 0 && p.explained >= EXPLAINED_MIN)
                r = array_add(&all, p);
        }
    if (r == 0 && all.count)
        qsort(all.at, all.count, sizeof(*all.at), by_explained);
    size_t n = MIN(room, all.count);
    if (r == 0 && n)
        memcpy(proposals, all.at, n * sizeof(*proposals));
    if (r == 0)
        *ret_count = n;
    array_done(&all);
    map_done(&types);
    return r;
}

void cause_words(const struct book *book, const struct cause *cause, struct text *to)
{
    if (!cause->length)
        text_add(to, "everywhere");
    for (size_t i = 0; i < cause->length; i++)
        text_addf(to, "%s%s=%s", i ? " and " : "", labels_key_name(book->labels, cause->labels[i].key),
                  labels_value_name(book->labels, cause->labels[i].key, cause->labels[i].value));
}
