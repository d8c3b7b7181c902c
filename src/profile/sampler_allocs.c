/* What the sampler makes of allocations: stacks with names, for the account of them (allocs.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <string.h>

#include <bpf/bpf.h>

static bool ready(struct sampler *s)
{
    return s->allocs || (s->on && allocs_new(s->on, s->options.alloc_interval, &s->allocs) == 0);
}

const struct allocs *sampler_allocs(const struct sampler *s)
{
    return s->allocs;
}

static void forget(void *context, uint64_t address)
{
    const struct sampler_live *of = context;
    struct sampler_live key = {.address = address, .pid = of->pid};
    bpf_map_delete_elem((int)of->address, &key);
}

void sampler_allocs_ended(struct sampler *s, uint32_t pid, bool begins)
{
    struct sampler_live of = {.pid = pid};
    if (!s->allocs)
        return;
    of.address = (uint64_t)bpf_map__fd(s->bpf->maps.alive);
    allocs_ended(s->allocs, pid, begins, forget, &of);
}

void sampler_on_alloc(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                      size_t count)
{
    uint64_t own = (uint64_t)sample->kernel_words + sample->user_words + sample->python_words;
    uint32_t groups[SAMPLER_GROUPS];
    struct subject *process;
    if (!s->options.allocs || own > count || (count - own) * sizeof(*words) < sizeof(struct sampler_alloc) ||
        !ready(s))
        return;
    const struct sampler_alloc *alloc = (const struct sampler_alloc *)(words + own);
    if (sample->kind == SAMPLE_FREE) {
        allocs_freed(s->allocs, sample->pid, alloc->address);
        return;
    }
    if (!sampler_name(s, s->on, sample, words, &process))
        return;
    enum sampler_end end = sampler_end_of(s, sample, (enum sampler_end)sample->end);
    struct alloc_stack stack = {.groups = groups,
                                .frames = s->stack->frames,
                                .group_count = sampler_groups(s, s->on, process, sample, end, groups),
                                .count = s->stack->count};
    if (alloc->in_heap && allocs_collects(s->on, s->stack->frames, s->stack->count))
        return;
    sampler_count_stack(s, s->on, sample, end);
    allocs_made(s->allocs, sample, alloc, &stack);
}
