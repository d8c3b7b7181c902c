/* See intervals.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/intervals.h"

#include <errno.h>
#include <stdlib.h>

int profile_intervals_add(struct profile *p, uint32_t frame, const struct profile_interval *interval)
{
    if (!p->intervals && !(p->intervals = calloc(1, sizeof(*p->intervals))))
        return -ENOMEM;
    uint64_t *at = map_put(&p->intervals->index, profile_function_key(p, frame), NULL);
    if (!at || array_add(&p->intervals->list, *interval) < 0)
        return -ENOMEM;
    *at = p->intervals->list.count - 1;
    return 0;
}

const struct profile_interval *profile_interval_of(const struct profile *p, uint32_t frame)
{
    const uint64_t *at = p->intervals ? map_get(&p->intervals->index, profile_function_key(p, frame)) : NULL;
    return at ? &p->intervals->list.at[*at] : NULL;
}

int profile_intervals_copy(struct profile *to, const struct profile *from)
{
    int r = 0;
    profile_intervals_end(to);
    for (uint32_t f = 1; r == 0 && f < from->frames.count; f++) {
        const struct profile_interval *interval = profile_interval_of(from, f);
        struct profile_frame frame = from->frames.at[f];
        if (!interval)
            continue;
        frame.name = profile_string(to, profile_text(from, frame.name));
        frame.file = profile_string(to, profile_text(from, frame.file));
        frame.module = profile_string(to, profile_text(from, frame.module));
        r = profile_intervals_add(to, profile_add_frame(to, &frame), interval);
    }
    if (r == 0 && to->intervals)
        to->intervals->basis = from->intervals->basis;
    return r;
}

void profile_intervals_end(struct profile *p)
{
    if (!p->intervals)
        return;
    map_done(&p->intervals->index);
    array_done(&p->intervals->list);
    free(p->intervals);
    p->intervals = NULL;
}
