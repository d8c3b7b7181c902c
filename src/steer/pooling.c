/* See pooling.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/pooling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/windows.h"

#define UNIT 1024 /* the worth of a sample as a whole number */

/* One regime. The weights in its profile are what samples are worth, also those of its windows (windows.h),
 * which are dealt to in turn. */
struct part {
    uint64_t weight; /* that its windows had */
    size_t regime;
    bool ended; /* its number is another's now */
    size_t windows;
    struct profile *profile;
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

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    array_foreach (&pool->parts, part)
        profile_free(part->profile);
    array_done(&pool->parts);
    free(pool);
}

static struct part *part_of(struct pool *pool, size_t regime, bool fresh)
{
    struct part part = {.regime = regime};
    array_foreach (&pool->parts, known)
        if (known->regime == regime && !known->ended) {
            if (!fresh)
                return known;
            known->ended = true;
        }
    if (profile_new(&part.profile) < 0)
        return NULL;
    part.profile->sample_limit = pool->as->sample_limit;
    part.profile->by_line = pool->as->by_line;
    if (profile_windows_begin(part.profile) < 0 || array_add(&pool->parts, part) < 0) {
        profile_free(part.profile);
        return NULL;
    }
    return &pool->parts.at[pool->parts.count - 1];
}

int pool_add(struct pool *pool, size_t regime, bool fresh, double worth, struct profile *window)
{
    struct part *part = part_of(pool, regime, fresh);
    uint32_t *nodes;
    if (!part)
        return -ENOMEM;
    array_foreach (&window->nodes, n) {
        part->weight += n->weight;
        n->weight = (uint64_t)((double)n->count * worth * UNIT + 0.5);
    }
    int r = profile_merge_places(part->profile, window, &nodes);
    if (r < 0)
        return r;
    for (size_t i = 1; i < window->nodes.count; i++)
        if (window->nodes.at[i].weight)
            profile_windows_add_at(part->profile, nodes[i], window->nodes.at[i].weight,
                                   part->windows % WINDOWS);
    part->windows++;
    free(nodes);
    if (part->profile->nodes.count > pool->keep)
        r = profile_fold(part->profile, pool->keep / 2, NULL, NULL);
    return r;
}

/* The regime's weight by what its samples are worth. Rounded so that the sum stays what it is. */
static void spread(struct profile *p, uint64_t weight, double *ret_scale)
{
    uint64_t worth = 0, seen = 0, given = 0;
    array_foreach (&p->nodes, n)
        worth += n->weight;
    *ret_scale = worth ? (double)weight / (double)worth : 0;
    array_foreach (&p->nodes, n) {
        seen += n->weight;
        uint64_t until = worth ? (uint64_t)((__uint128_t)weight * seen / worth) : 0;
        n->weight = until - given;
        given = until;
    }
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

int pool_finish(struct pool *pool, struct profile *into)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < pool->parts.count; i++) {
        struct profile *from = pool->parts.at[i].profile;
        uint32_t *nodes, *frames = calloc(from->frames.count + 1, sizeof(*frames));
        double scale;
        spread(from, pool->parts.at[i].weight, &scale);
        r = frames ? profile_merge_places(into, from, &nodes) : -ENOMEM;
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
    }
    return r;
}
