/* See samples.h. Only the innermost function of a sample is kept: a node below the root for each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/samples.h"

#include <stdlib.h>

#include "analyze/model.h"

enum {
    SAMPLES_MAX = 1 << 20, /* 32 MB: an hour and a half of two busy processors at the usual rate */
    LOSS_UNREAD = 12,      /* SONDE_ENUM_loss_reason */
};

void samples_event(struct analysis *a, const struct event *e)
{
    if (!a->samples && profile_new(&a->samples) < 0) {
        a->failed = true;
        return;
    }
    struct profile *p = a->samples;
    const struct value *name = &e->values[FIELD_profile_sample_function];
    if (!HAS(e, profile_sample_function))
        return;
    if (p->samples.count == SAMPLES_MAX) {
        a->losses.count[LOSS_UNREAD]++;
        return;
    }
    const struct profile_frame frame = {.name =
                                            profile_string_n(p, name->length ? name->s : "", name->length)};
    const struct profile_sample sample = {.time_ns = e->time_ns,
                                          .weight = U(e, profile_sample_weight),
                                          .pid = (uint32_t)U(e, profile_sample_pid),
                                          .tid = (uint32_t)U(e, profile_sample_tid),
                                          .node = profile_child(p, 0, profile_add_frame(p, &frame))};
    p->sample_limit = SAMPLES_MAX;
    profile_keep(p, &sample);
    a->failed |= p->failed;
}

const struct profile *analysis_samples(struct analysis *a)
{
    if (a->samples && a->samples->samples.count > a->samples_sorted) {
        qsort(a->samples->samples.at, a->samples->samples.count, sizeof(struct profile_sample),
              profile_by_thread_and_time);
        a->samples_sorted = a->samples->samples.count;
    }
    return a->samples;
}

static int heaviest_first(const void *x, const void *y)
{
    const struct ran_function *a = x, *b = y;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

static void add_sample(struct ran *ran, struct map *index, const struct profile *p,
                       const struct profile_sample *sample)
{
    bool added;
    uint64_t *place = map_put(index, (uint64_t)sample->node + 1, &added);
    if (!place)
        return;
    if (added) {
        *place = ran->functions.count;
        const char *name = profile_text(p, p->frames.at[p->nodes.at[sample->node].frame].name);
        if (array_add(&ran->functions, (struct ran_function){.name = name}) < 0) {
            map_remove(index, (uint64_t)sample->node + 1);
            return;
        }
    }
    struct ran_function *f = &ran->functions.at[*place];
    f->count++;
    f->weight += sample->weight;
    ran->count++;
    ran->weight += sample->weight;
}

void ran_find(const struct profile *p, int64_t pid, int64_t tid, uint64_t start_ns, uint64_t end_ns,
              struct ran *ret_ran)
{
    *ret_ran = (struct ran){0};
    if (!p)
        return;
    const struct profile_sample first = {.time_ns = start_ns, .pid = (uint32_t)pid, .tid = (uint32_t)tid};
    size_t low = 0, high = p->samples.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (profile_by_thread_and_time(&p->samples.at[middle], &first) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct map index = {0};
    for (const struct profile_sample *s = p->samples.at + low;
         low < p->samples.count && s->pid == first.pid && s->tid == first.tid && s->time_ns < end_ns;
         low++, s++)
        add_sample(ret_ran, &index, p, s);
    map_done(&index);
    if (ret_ran->functions.count)
        qsort(ret_ran->functions.at, ret_ran->functions.count, sizeof(*ret_ran->functions.at),
              heaviest_first);
}

void ran_done(struct ran *ran)
{
    array_done(&ran->functions);
}
