/* See blocks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/outlier.h"

enum { LEAST_TIME_NS = 10000 }; /* a stack of folded text that weighs more weighs time, else samples */

static bool is_group(const struct profile *p, uint32_t frame)
{
    char name[64];
    return p->frames.at[frame].kind == FRAME_GROUP ||
           profile_group_parts(profile_text(p, p->frames.at[frame].name), name, sizeof(name)) != 0;
}

/* The index of each frame's function; UINT32_MAX: none. */
static uint32_t *functions_of_frames(const struct profile_blocks *s)
{
    struct map index = {0};
    uint32_t *of = malloc((s->profile->frames.count + 1) * sizeof(*of));
    bool failed = !of;
    for (size_t i = 0; !failed && i < s->count; i++) {
        uint64_t *place = map_put(&index, profile_function_key(s->profile, s->functions[i].frame), NULL);
        if (place)
            *place = i + 1;
        failed = !place;
    }
    for (size_t f = 0; !failed && f < s->profile->frames.count; f++) {
        const uint64_t *place = map_get(&index, profile_function_key(s->profile, (uint32_t)f));
        of[f] = place ? (uint32_t)*place - 1 : UINT32_MAX;
    }
    map_done(&index);
    if (failed) {
        free(of);
        of = NULL;
    }
    return of;
}

static void blocks_of_windows(struct profile_blocks *s, const uint32_t *of)
{
    const struct profile_windows *w = s->profile->windows;
    for (size_t f = 1; f < w->frames.count && f < s->profile->frames.count; f++)
        for (uint32_t i = 0; of[f] != UINT32_MAX && i < w->used; i++) {
            s->self[of[f]].weight[i] += (double)w->frames.at[f].self[i];
            s->total[of[f]].weight[i] += (double)w->frames.at[f].total[i];
            s->all.weight[i] += (double)w->frames.at[f].self[i];
        }
    s->block_count = w->used;
    s->by_window = true;
}

/* Processes are dealt to the blocks in turn. */
static int blocks_of_processes(struct profile_blocks *s, const uint32_t *of)
{
    const struct profile *p = s->profile;
    uint64_t *totals = profile_totals(p);
    uint32_t *block = calloc(p->nodes.count, sizeof(*block)), processes = 0;
    int r = totals && block ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        bool process = !n->parent && is_group(p, n->frame);
        block[i] = process ? 1 + processes++ % BLOCKS : block[n->parent];
        uint32_t function = of[n->frame];
        if (function == UINT32_MAX || !block[i])
            continue;
        bool recursive = false;
        for (uint32_t up = n->parent; up && !recursive; up = p->nodes.at[up].parent)
            recursive = of[p->nodes.at[up].frame] == function;
        s->self[function].weight[block[i] - 1] += (double)n->weight;
        s->total[function].weight[block[i] - 1] += recursive ? 0 : (double)totals[i];
        s->all.weight[block[i] - 1] += (double)n->weight;
    }
    s->block_count = processes >= LEAST_PROCESSES ? MIN(processes, (uint32_t)BLOCKS) : 0;
    free(totals);
    free(block);
    return r;
}

double profile_sample_weight(const struct profile *p)
{
    double samples = 0, least = INFINITY, sum = 0;
    size_t stacks = 0;
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        if (!n->weight)
            continue;
        stacks++;
        samples += (double)n->count;
        sum += (double)n->weight;
        least = fmin(least, (double)n->weight);
    }
    bool counted = samples > (double)stacks; /* folded text has one line for each stack */
    return !stacks ? 1 : counted ? sum / samples : least >= LEAST_TIME_NS ? least : 1;
}

int profile_blocks_open(const struct profile *p, struct profile_blocks *ret_blocks)
{
    struct profile_blocks *s = ret_blocks;
    *s = (struct profile_blocks){.profile = p};
    s->functions = profile_functions(p, &s->count);
    if (!s->functions)
        return -ENOMEM;
    for (size_t i = 1; i < p->nodes.count; i++)
        s->sum += (double)p->nodes.at[i].weight;
    s->quantum = profile_sample_weight(p);
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!is_group(p, s->functions[i].frame))
            s->functions[kept++] = s->functions[i];
    s->count = kept;
    s->self = calloc(kept + 1, sizeof(*s->self));
    s->total = calloc(kept + 1, sizeof(*s->total));
    s->of = functions_of_frames(s);
    if (!s->self || !s->total || !s->of)
        return -ENOMEM;
    if (p->windows && p->windows->used >= LEAST_BLOCKS) {
        blocks_of_windows(s, s->of);
        return 0;
    }
    return blocks_of_processes(s, s->of);
}

void profile_blocks_close(struct profile_blocks *s)
{
    free(s->functions);
    free(s->of);
    free(s->self);
    free(s->total);
}

double profile_blocks_variance(const struct profile_blocks *s, size_t function, bool total)
{
    const double *weight = total ? s->total[function].weight : s->self[function].weight, *all = s->all.weight;
    double squares = 0, sum = 0, whole = 0, n = (double)s->block_count;
    for (size_t i = 0; i < s->block_count; i++) {
        sum += weight[i];
        whole += all[i];
    }
    if (!(sum > 0) || !(whole > 0) || n < 2)
        return 0;
    for (size_t i = 0; i < s->block_count; i++) {
        double rest = weight[i] - sum / whole * all[i];
        squares += rest * rest;
    }
    return n / (n - 1) * squares / (sum * sum);
}
