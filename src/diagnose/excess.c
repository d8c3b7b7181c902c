/* See excess.h. The older side's log latency is fitted as the mean of all plus an effect of each value of
 * each attribute (backfitting, Buja, Hastie and Tibshirani, Annals of Statistics 1989). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/excess.h"

#include <errno.h>

#define CELL_MIN 5   /* older requests, for a level of the cell's own */
#define ROUNDS   8   /* of fitting the additive model */
#define SHRINK   5.0 /* requests that a value's effect is held to zero by */

int excess_side(const struct book *book, const struct excess_of *of, const struct cell *cell)
{
    size_t count;
    if (cell->type != of->type || !cell->latency.count)
        return -1;
    const struct label *within = labels_of(book->labels, of->labels, &count);
    return labels_match(book, cell->labels, within, count) ? of->is_newer(of->context, cell->combination)
                                                           : -1;
}

struct older {
    double n, sum;
};

/* Mean log latency of the older side per label set. */
static int sum_older(const struct book *book, const struct excess_of *of, struct map *index,
                     struct older *sums, struct older *ret_all)
{
    size_t used = 0;
    struct older all = {0};
    for (size_t i = 0; i < book->cells.count; i++) {
        const struct cell *cell = &book->cells.at[i];
        if (excess_side(book, of, cell) != 0)
            continue;
        bool added;
        uint64_t *slot = map_put(index, cell->labels, &added);
        if (!slot)
            return -ENOMEM;
        if (added)
            *slot = used++;
        double mean, variance, n = (double)cell->latency.count;
        sketch_log_moments(&cell->latency, &mean, &variance);
        sums[*slot].n += n;
        sums[*slot].sum += n * mean;
        all.n += n;
        all.sum += n * mean;
    }
    *ret_all = all;
    return 0;
}

/* What the older side predicts for a set of labels of which it has seen little: the mean of all, and an
 * effect of each value, fitted to each other. */
struct prediction {
    double all;
    struct map index;            /* key << 32 | value: among effects */
    ARRAY(struct older) effects; /* n; sum: the effect itself */
    double noise;
};

static double predict(const struct book *book, const struct prediction *p, uint32_t labels)
{
    size_t count;
    const struct label *pairs = labels_of(book->labels, labels, &count);
    double level = p->all;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *slot = map_get(&p->index, (uint64_t)pairs[i].key << 32 | pairs[i].value);
        level += slot ? p->effects.at[*slot].sum : 0;
    }
    return level;
}

/* An older cell, while the effects are fitted. */
struct fitted {
    uint32_t labels;
    double n, mean, within;
};

/* One round: each value's effect becomes the shrunk mean of what the others leave unexplained (backfitting, a
 * round for all values at half step, so that correlated attributes share instead of overshooting). */
static int fit_round(const struct book *book, struct prediction *p, const struct fitted *cells, size_t count)
{
    _cleanup_(freep) double *sums = calloc(p->effects.count + 1, sizeof(*sums));
    if (!sums)
        return -ENOMEM;
    p->noise = 0;
    double n = 0;
    for (size_t c = 0; c < count; c++) {
        size_t pairs_count;
        const struct label *pairs = labels_of(book->labels, cells[c].labels, &pairs_count);
        double rest = cells[c].mean - predict(book, p, cells[c].labels);
        p->noise += cells[c].within + cells[c].n * rest * rest;
        n += cells[c].n;
        for (size_t i = 0; i < pairs_count; i++)
            sums[*map_get(&p->index, (uint64_t)pairs[i].key << 32 | pairs[i].value)] += cells[c].n * rest;
    }
    p->noise = n > 0 ? p->noise / n : 0;
    for (size_t i = 0; i < p->effects.count; i++)
        p->effects.at[i].sum += 0.5 * sums[i] / (p->effects.at[i].n + SHRINK);
    return 0;
}

static int fit(const struct book *book, const struct excess_of *of, double all, struct prediction *p)
{
    ARRAY(struct fitted) cells = {0};
    int r = 0;
    p->all = all;
    for (size_t i = 0; r == 0 && i < book->cells.count; i++) {
        const struct cell *cell = &book->cells.at[i];
        if (excess_side(book, of, cell) != 0)
            continue;
        double mean, variance, n = (double)cell->latency.count;
        sketch_log_moments(&cell->latency, &mean, &variance);
        r = array_add(&cells, (struct fitted){cell->labels, n, mean, variance * (n - 1)});
        size_t count;
        const struct label *pairs = labels_of(book->labels, cell->labels, &count);
        for (size_t k = 0; r == 0 && k < count; k++) {
            bool added;
            uint64_t *slot = map_put(&p->index, (uint64_t)pairs[k].key << 32 | pairs[k].value, &added);
            if (!slot) {
                r = -ENOMEM;
                break;
            }
            if (added) {
                *slot = p->effects.count;
                r = array_add(&p->effects, (struct older){0});
            }
            if (r == 0)
                p->effects.at[*slot].n += n;
        }
    }
    for (int round = 0; r == 0 && round < ROUNDS; round++)
        r = fit_round(book, p, cells.at, cells.count);
    array_done(&cells);
    return r;
}

static int add_newer(const struct book *book, const struct cell *cell, const struct prediction *prediction,
                     const struct older *own, struct excess_list *list)
{
    struct excess e = {.cell = cell, .labels = cell->labels, .n = (double)cell->latency.count};
    double mean, variance;
    sketch_log_moments(&cell->latency, &mean, &variance);
    e.predicted = predict(book, prediction, cell->labels);
    e.beyond = mean - e.predicted;
    e.d = own && own->n >= CELL_MIN ? mean - own->sum / own->n : e.beyond;
    return array_add(&list->cells, e);
}

static int add_older(const struct book *book, const struct cell *cell, const struct prediction *prediction,
                     struct excess_list *list)
{
    struct excess e = {.cell = cell, .labels = cell->labels, .n = (double)cell->latency.count};
    double mean, variance;
    sketch_log_moments(&cell->latency, &mean, &variance);
    e.predicted = predict(book, prediction, cell->labels);
    e.d = e.beyond = mean - e.predicted;
    return array_add(&list->older, e);
}

int excess_collect(const struct book *book, const struct excess_of *of, struct excess_list *ret_list)
{
    struct map index = {0};
    struct older all;
    struct prediction prediction = {0};
    struct older *sums = calloc(book->cells.count + 1, sizeof(*sums));
    int r = sums ? sum_older(book, of, &index, sums, &all) : -ENOMEM;
    if (r == 0 && all.n >= CELL_MIN)
        r = fit(book, of, all.sum / all.n, &prediction);
    for (size_t i = 0; r == 0 && all.n >= CELL_MIN && i < book->cells.count; i++) {
        const struct cell *cell = &book->cells.at[i];
        int side = excess_side(book, of, cell);
        const uint64_t *slot = side == 1 ? map_get(&index, cell->labels) : NULL;
        if (side == 1)
            r = add_newer(book, cell, &prediction, slot ? &sums[*slot] : NULL, ret_list);
        else if (side == 0)
            r = add_older(book, cell, &prediction, ret_list);
    }
    ret_list->noise = prediction.noise;
    map_done(&prediction.index);
    array_done(&prediction.effects);
    free(sums);
    map_done(&index);
    return r;
}

void excess_done(struct excess_list *list)
{
    array_done(&list->cells);
    array_done(&list->older);
}

bool labels_usable(const struct book *book, struct label label)
{
    return !book->labels->key_info.at[label.key].folded;
}

bool labels_match(const struct book *book, uint32_t set, const struct label *labels, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (labels_value(book->labels, set, labels[i].key) != labels[i].value)
            return false;
    return true;
}

bool labels_have_key(const struct label *labels, size_t length, uint32_t key)
{
    for (size_t i = 0; i < length; i++)
        if (labels[i].key == key)
            return true;
    return false;
}
