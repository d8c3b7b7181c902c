/* See divergence.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/divergence.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Expected in a cell of the smaller side; with fewer, chi-squared is no approximation. */
#define EXPECTED_LEAST 5.0

void distribution_done(struct distribution *d)
{
    map_done(&d->index);
    array_done(&d->cells);
    *d = (struct distribution){0};
}

int distribution_add(struct distribution *d, uint64_t key, double samples)
{
    bool added;
    struct distribution_cell fresh = {.key = key};
    uint64_t *at = map_put(&d->index, key, &added);
    if (!at)
        return -ENOMEM;
    if (added && array_add(&d->cells, fresh) < 0) {
        map_remove(&d->index, key);
        return -ENOMEM;
    }
    if (added)
        *at = d->cells.count - 1;
    d->cells.at[*at].samples += samples;
    d->samples += samples;
    return 0;
}

int distribution_merge(struct distribution *into, const struct distribution *from, double factor)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->cells.count; i++)
        r = distribution_add(into, from->cells.at[i].key, factor * from->cells.at[i].samples);
    return r;
}

/* Ids are of one profile; names are of all. */
static uint64_t name_key(const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    const char *name = profile_text(p, f->name), *file = profile_text(p, f->file ? f->file : f->module);
    uint64_t words[3] = {map_hash(name, strlen(name)), map_hash(file, strlen(file)), f->kind}, key;
    key = map_hash(words, sizeof(words));
    return key ? key : 1;
}

static int add_profile(struct distribution *into, const struct profile *p, bool by_weight, double factor)
{
    double *own = calloc(p->frames.count + 1, sizeof(*own));
    int r = own ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < p->nodes.count; i++)
        own[p->nodes.at[i].frame] +=
            factor * (double)(by_weight ? p->nodes.at[i].weight : p->nodes.at[i].count);
    for (size_t i = 1; r == 0 && i < p->frames.count; i++)
        if (own[i] > 0)
            r = distribution_add(into, name_key(p, (uint32_t)i), own[i]);
    free(own);
    return r;
}

int distribution_add_profile(struct distribution *into, const struct profile *p)
{
    return add_profile(into, p, false, 1);
}

int distribution_add_weights(struct distribution *into, const struct profile *p, double factor)
{
    return add_profile(into, p, true, factor);
}

/* ---- divergence ---- */

static double samples_of(const struct distribution *d, uint64_t key)
{
    const uint64_t *at = map_get(&d->index, key);
    return at ? d->cells.at[*at].samples : 0;
}

/* One cell's part of the divergence. */
static double part(double p, double q)
{
    double m = (p + q) / 2;
    return (p > 0 ? p * log(p / m) / 2 : 0) + (q > 0 ? q * log(q / m) / 2 : 0);
}

struct candidate {
    uint64_t key;
    double p, q;
};

static int by_share(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    double s = x->p + x->q, t = y->p + y->q;
    if (s != t)
        return s > t ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

int divergence_of(const struct distribution *a, const struct distribution *b, unsigned top,
                  struct divergence *ret_divergence)
{
    struct divergence d = {.nats = 0};
    ARRAY(struct candidate) all = {0};
    bool failed = false;
    if (!(a->samples >= 1) || !(b->samples >= 1)) {
        *ret_divergence = d;
        return 0;
    }
    d.scale = 8 / (1 / a->samples + 1 / b->samples);
    double fewer = fmin(a->samples, b->samples);
    for (int side = 0; side < 2; side++) {
        const struct distribution *of = side ? b : a;
        for (size_t i = 0; i < of->cells.count && !failed; i++) {
            uint64_t key = of->cells.at[i].key;
            double p = samples_of(a, key) / a->samples, q = samples_of(b, key) / b->samples;
            if ((side && map_get(&a->index, key)) || (p + q) / 2 * fewer < EXPECTED_LEAST)
                continue;
            failed = array_add(&all, (struct candidate){key, p, q}) < 0;
        }
    }
    if (all.count)
        qsort(all.at, all.count, sizeof(*all.at), by_share);
    double rest_p = 1, rest_q = 1;
    for (size_t i = 0; i < all.count && i < top && d.cells < DIVERGENCE_CELLS - 1; i++) {
        const struct candidate *c = &all.at[i];
        d.cell[d.cells].key = c->key;
        d.cell[d.cells++].nats = part(c->p, c->q) + part(1 - c->p, 1 - c->q);
        d.nats += part(c->p, c->q);
        rest_p -= c->p;
        rest_q -= c->q;
    }
    rest_p = fmax(rest_p, 0);
    rest_q = fmax(rest_q, 0);
    bool others = (rest_p + rest_q) / 2 * fewer >= EXPECTED_LEAST || !d.cells;
    if (others) {
        d.cell[d.cells].key = 0;
        d.cell[d.cells++].nats = part(rest_p, rest_q) + part(1 - rest_p, 1 - rest_q);
    }
    d.nats = fmax(0, d.nats + part(rest_p, rest_q));
    array_done(&all);
    if (failed)
        return -ENOMEM;
    *ret_divergence = d;
    return 0;
}
