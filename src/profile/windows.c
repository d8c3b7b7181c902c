/* See windows.h. How long a profile will be is not known: when the windows are full, two become one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_WIDTH_NS = 50000000 };

int profile_windows_begin(struct profile *p)
{
    p->windows = calloc(1, sizeof(*p->windows));
    return p->windows ? 0 : -ENOMEM;
}

void profile_windows_end(struct profile *p)
{
    if (!p->windows)
        return;
    array_done(&p->windows->frames);
    array_done(&p->windows->counted);
    array_done(&p->windows->instances);
    free(p->windows);
    p->windows = NULL;
}

struct window_weights *profile_windows_of(struct profile *p, uint32_t frame)
{
    struct profile_windows *w = p->windows;
    struct window_weights none = {0};
    while (w->frames.count <= frame)
        if (array_add(&w->frames, none) < 0 || array_add(&w->counted, 0) < 0)
            return NULL;
    return &w->frames.at[frame];
}

struct profile_instance *profile_windows_instance(struct profile *p, uint32_t frame)
{
    struct profile_windows *w = p->windows;
    struct profile_instance none = {0};
    while (w && w->instances.count <= frame)
        if (array_add(&w->instances, none) < 0)
            return NULL;
    return w ? &w->instances.at[frame] : NULL;
}

static void halve(float *weights)
{
    for (int i = 0; i < WINDOWS / 2; i++)
        weights[i] = weights[2 * i] + weights[2 * i + 1];
    memset(weights + WINDOWS / 2, 0, WINDOWS / 2 * sizeof(*weights));
}

/* The window of a time; samples of several CPUs come a little out of order. */
static uint32_t window_at(struct profile_windows *w, uint64_t time_ns)
{
    if (!w->width_ns) {
        w->start_ns = time_ns;
        w->width_ns = FIRST_WIDTH_NS;
    }
    uint64_t since = time_ns > w->start_ns ? time_ns - w->start_ns : 0;
    while (since / w->width_ns >= WINDOWS) {
        array_foreach (&w->frames, f) {
            halve(f->self);
            halve(f->total);
        }
        w->width_ns *= 2;
        w->used = WINDOWS / 2;
    }
    uint32_t window = (uint32_t)(since / w->width_ns);
    w->used = MAX(w->used, window + 1);
    return window;
}

void profile_windows_add(struct profile *p, uint32_t node, uint64_t weight, uint64_t time_ns)
{
    if (p->windows)
        profile_windows_add_at(p, node, weight, window_at(p->windows, time_ns));
}

void profile_windows_add_at(struct profile *p, uint32_t node, uint64_t weight, uint32_t window)
{
    struct profile_windows *w = p->windows;
    if (!w)
        return;
    w->used = MAX(w->used, window + 1);
    uint32_t sample = ++w->sample;
    for (uint32_t at = node; at; at = p->nodes.at[at].parent) {
        uint32_t frame = p->nodes.at[at].frame;
        struct window_weights *weights = profile_windows_of(p, frame);
        if (!weights) { /* without them there is less to say, and nothing wrong */
            profile_windows_end(p);
            return;
        }
        if (at == node)
            weights->self[window] += (float)weight;
        if (w->counted.at[frame] != sample)
            weights->total[window] += (float)weight;
        w->counted.at[frame] = sample;
    }
}
