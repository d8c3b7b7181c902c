/* See pooling.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/pooling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/windows.h"
#include "steer/divergence.h"

#define UNIT 1024 /* the weight of a sample in PER_SAMPLE */
#define TOP  20   /* functions that the two are compared by */

/* Two ways to weigh the windows of a regime. By time is right whatever happens in them, but what was sampled
 * at low rates is uncertain; by sample is as certain as can be, if all windows have the same shares. */
enum view { PER_TIME, PER_SAMPLE, VIEWS };

/* One regime. Its windows are dealt in turn to those of its profiles (windows.h). */
struct part {
    size_t regime, windows;
    bool ended;     /* its number is another's now */
    double squares; /* of what the samples weigh, in sum */
    struct profile *views[VIEWS];
};

struct pool {
    const struct profile *as;
    size_t keep;
    ARRAY(struct part) parts;
};

int pool_new(const struct profile *as, size_t keep, struct pool **ret_pool)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    pool->as = as;
    pool->keep = keep;
    *ret_pool = pool;
    return 0;
}

static void part_done(struct part *part)
{
    for (int v = 0; v < VIEWS; v++)
        profile_free(part->views[v]);
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    array_foreach (&pool->parts, part)
        part_done(part);
    array_done(&pool->parts);
    free(pool);
}

static struct part *part_of(struct pool *pool, size_t regime, bool fresh)
{
    struct part part = {.regime = regime};
    int r = 0;
    array_foreach (&pool->parts, known)
        if (known->regime == regime && !known->ended) {
            if (!fresh)
                return known;
            known->ended = true;
        }
    for (int v = 0; v < VIEWS && r == 0; v++) {
        r = profile_new(&part.views[v]);
        if (r == 0) {
            part.views[v]->by_line = pool->as->by_line;
            r = profile_windows_begin(part.views[v]);
        }
    }
    if (r == 0)
        r = array_add(&pool->parts, part);
    if (r < 0) {
        part_done(&part);
        return NULL;
    }
    return &pool->parts.at[pool->parts.count - 1];
}

static int add_to_view(struct pool *pool, struct profile *view, const struct profile *window, size_t number)
{
    uint32_t *nodes;
    int r = profile_merge_places(view, window, &nodes);
    if (r < 0)
        return r;
    for (size_t i = 1; i < window->nodes.count; i++)
        if (window->nodes.at[i].weight)
            profile_windows_add_at(view, nodes[i], window->nodes.at[i].weight, number % WINDOWS);
    free(nodes);
    return view->nodes.count > pool->keep ? profile_fold(view, pool->keep / 2, NULL, NULL) : 0;
}

int pool_add(struct pool *pool, size_t regime, bool fresh, struct profile *window)
{
    struct part *part = part_of(pool, regime, fresh);
    int r = part ? add_to_view(pool, part->views[PER_TIME], window, part->windows) : -ENOMEM;
    if (r < 0)
        return r;
    array_foreach (&window->nodes, n) {
        if (n->count)
            part->squares += (double)n->weight * (double)n->weight / (double)n->count;
        n->weight = n->count * UNIT;
    }
    return add_to_view(pool, part->views[PER_SAMPLE], window, part->windows++);
}

static double sum_of(const struct profile *p)
{
    double sum = 0;
    array_foreach (&p->nodes, n)
        sum += (double)n->weight;
    return sum;
}

/* How much of the regime's weight is spread by time, the rest being spread by sample: 0 to 1. What both say
 * of the functions differs by the uncertainty of the former, unless windows differ; the more it does, the
 * less is pooled (James and Stein, Estimation with quadratic loss, 1961: better than either in the mean, and
 * than by time alone whatever the windows are). */
static int share_by_time(const struct part *part, double *ret_share)
{
    struct distribution time = {0}, sample = {0};
    struct divergence d = {0};
    double weight = sum_of(part->views[PER_TIME]), share = 1;
    int r = distribution_add_profile(&sample, part->views[PER_SAMPLE]);
    /* As many samples as would be as certain, if all weighed the same (Kish, Survey Sampling, 1965). */
    double worth = part->squares > 0 ? weight * weight / part->squares : 0;
    if (r == 0 && weight > 0)
        r = distribution_add_weights(&time, part->views[PER_TIME], worth / weight);
    if (r == 0)
        r = divergence_of(&time, &sample, TOP, &d);
    if (r == 0 && worth > 0 && sample.samples > worth * 1.001 && d.cells > 1) {
        double chi_squared = d.nats * 8 / (1 / worth - 1 / sample.samples), freedom = d.cells - 1;
        share = chi_squared > freedom ? 1 - freedom / chi_squared : 0;
    }
    distribution_done(&time);
    distribution_done(&sample);
    *ret_share = share;
    return r;
}

/* Makes the profile's weights sum to `weight`. Rounded so that no bit of it is lost. */
static double spread(struct profile *p, uint64_t weight)
{
    uint64_t sum = 0, seen = 0, given = 0;
    array_foreach (&p->nodes, n)
        sum += n->weight;
    array_foreach (&p->nodes, n) {
        seen += n->weight;
        uint64_t until = sum ? (uint64_t)((__uint128_t)weight * seen / sum) : 0;
        n->weight = until - given;
        given = until;
    }
    return sum ? (double)weight / (double)sum : 0;
}

static void add_windows(struct profile *into, const struct profile *from, const uint32_t *frames,
                        double scale)
{
    const struct profile_windows *w = from->windows;
    for (size_t f = 1; f < w->frames.count && into->windows; f++) {
        struct window_weights *at = frames[f] ? profile_windows_of(into, frames[f]) : NULL;
        for (uint32_t i = 0; at && i < w->used; i++) {
            at->self[i] += (float)(scale * (double)w->frames.at[f].self[i]);
            at->total[i] += (float)(scale * (double)w->frames.at[f].total[i]);
        }
    }
    if (into->windows)
        into->windows->used = MAX(into->windows->used, w->used);
}

static int finish_view(struct profile *into, struct profile *from, uint64_t weight)
{
    uint32_t *nodes, *frames = calloc(from->frames.count + 1, sizeof(*frames));
    double scale = spread(from, weight);
    int r = frames ? profile_merge_places(into, from, &nodes) : -ENOMEM;
    if (r == 0) {
        for (size_t n = 1; n < from->nodes.count; n++)
            frames[from->nodes.at[n].frame] = into->nodes.at[nodes[n]].frame;
        if (from->windows)
            add_windows(into, from, frames, scale);
        else
            profile_windows_end(into); /* folded: nobody knows any more */
        free(nodes);
    }
    free(frames);
    return r;
}

int pool_finish(struct pool *pool, struct profile *into)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < pool->parts.count; i++) {
        struct part *part = &pool->parts.at[i];
        uint64_t weight = 0;
        double by_time;
        array_foreach (&part->views[PER_TIME]->nodes, n) {
            weight += n->weight;
            n->count = 0; /* the other view has the samples, too */
        }
        r = share_by_time(part, &by_time);
        uint64_t first = (uint64_t)((double)weight * by_time);
        if (r == 0)
            r = finish_view(into, part->views[PER_TIME], first);
        if (r == 0)
            r = finish_view(into, part->views[PER_SAMPLE], weight - first);
    }
    return r;
}
