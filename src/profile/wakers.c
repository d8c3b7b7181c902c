/* See wakers.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/wakers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"

enum { THREADS = 65536, NODES = 262144 }; /* with more of them, all is forgotten: chains are shorter then */

struct thread {
    uint32_t pid, woken_by, stack;
    uint64_t woken_ns; /* who was about to wake it last, and at which stack; 0: nobody since it waited */
    struct wakers_chain then; /* behind the waker's last wait at that time */
    struct wakers_chain last; /* behind its own last wait */
};

struct wakers {
    struct profile *stacks; /* a trie whose frames are those of the profile */
    uint32_t serial;        /* of that profile */
    struct map ids;
    ARRAY(struct thread) threads;
};

int wakers_new(struct wakers **ret_wakers)
{
    struct wakers *w = calloc(1, sizeof(*w));
    if (!w || profile_new(&w->stacks) < 0) {
        free(w);
        return -ENOMEM;
    }
    *ret_wakers = w;
    return 0;
}

void wakers_free(struct wakers *w)
{
    if (!w)
        return;
    profile_free(w->stacks);
    map_done(&w->ids);
    array_done(&w->threads);
    free(w);
}

/* Frames are of one profile, until it is folded. False: there is no memory. */
static bool keep_to(struct wakers *w, const struct profile *profile)
{
    if (w->serial == profile->serial && w->threads.count < THREADS && w->stacks->nodes.count < NODES)
        return true;
    struct profile *fresh;
    if (profile_new(&fresh) < 0)
        return false;
    profile_free(w->stacks);
    w->stacks = fresh;
    w->serial = profile->serial;
    map_clear(&w->ids);
    array_clear(&w->threads);
    return true;
}

/* add: pid is its process. Valid until the next one is added. */
static struct thread *thread_of(struct wakers *w, uint32_t tid, uint32_t pid, bool add)
{
    uint64_t *known = map_get(&w->ids, tid);
    if (!known && add && array_add(&w->threads, (struct thread){.pid = pid}) == 0) {
        if ((known = map_put(&w->ids, tid, NULL)))
            *known = w->threads.count - 1;
        else
            w->threads.count--;
    }
    return known ? &w->threads.at[*known] : NULL;
}

void wakers_woke(struct wakers *w, const struct profile *profile, const struct sampler_sample *head,
                 const uint32_t *frames, size_t count)
{
    if (!keep_to(w, profile))
        return;
    struct thread *woken = thread_of(w, (uint32_t)head->weight, 0, true);
    const struct thread *waker = thread_of(w, head->tid, head->pid, false);
    uint32_t node = 0;
    while (count-- > 0)
        node = profile_child(w->stacks, node, frames[count]);
    if (!woken)
        return;
    woken->woken_by = head->tid;
    woken->woken_ns = head->time_ns;
    woken->stack = node;
    /* The number may have been that of a thread that has ended. */
    woken->then = waker && waker->pid == head->pid ? waker->last : (struct wakers_chain){0};
}

struct wakers_chain wakers_ended(struct wakers *w, const struct profile *profile,
                                 const struct sampler_sample *wait, uint32_t by, uint32_t thread)
{
    struct wakers_chain chain = {.count = 1, .links = {{.by = by}}};
    struct thread *t = keep_to(w, profile) ? thread_of(w, wait->tid, wait->pid, true) : NULL;
    uint64_t end_ns = wait->time_ns + wait->weight;
    chain.links[0].woke_ns = end_ns - MIN(wait->ready_ns, wait->weight);
    if (!t)
        return chain;
    if (thread && t->woken_by == thread && t->woken_ns >= wait->time_ns && t->woken_ns <= end_ns) {
        chain.links[0].stack = t->stack;
        chain.links[0].woke_ns = t->woken_ns;
        for (size_t i = 0; i < t->then.count && chain.count < WOKEN_LINKS; i++) {
            if (t->then.links[i].woke_ns < wait->time_ns)
                break;
            chain.links[chain.count++] = t->then.links[i];
        }
    }
    t->pid = wait->pid;
    t->woken_ns = 0;
    t->last = chain;
    return chain;
}

uint32_t wakers_below(const struct wakers *w, struct profile *profile, uint32_t node,
                      const struct wakers_chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        node = profile_child(profile, node, chain->links[i].by);
        for (uint32_t at = chain->links[i].stack; at; at = w->stacks->nodes.at[at].parent)
            node = profile_child(profile, node, w->stacks->nodes.at[at].frame);
    }
    return node;
}
