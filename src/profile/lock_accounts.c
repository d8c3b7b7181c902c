/* What came out of the waits for locks (locks.h): by lock and place, and as stacks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/locks_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/waits.h"

const struct profile *locks_stacks(const struct locks *l)
{
    return l->stacks;
}

struct locks_counts locks_counts(const struct locks *l)
{
    return l->counts;
}

size_t locks_hidden(const struct locks *l, uint32_t *ret_processes, size_t size)
{
    size_t count = 0;
    array_foreach (&l->accounts, a) {
        bool known = !a->kind->hides || map_get(&l->seen, a->pid);
        for (size_t i = 0; i < count; i++)
            known |= ret_processes[i] == a->process;
        if (!known && count < size)
            ret_processes[count++] = a->process;
    }
    return count;
}

static uint64_t thread_key(const struct thread_at *t)
{
    return locks_waiter_key(t->pid, t->tid, t->goroutine);
}

/* Those that may be locks or not are if who lets others go on waits there himself, for half of the time at
 * least. By account; the caller's. */
static bool *which_are_locks(const struct locks *l)
{
    bool *is = calloc(l->accounts.count + 1, sizeof(*is));
    int64_t *turns = calloc(l->accounts.count + 1, sizeof(*turns));
    for (size_t i = 0; is && turns && i < l->parts.count; i++) {
        const struct part *p = &l->parts.at[i];
        uint32_t account = l->sites.at[p->site].account;
        bool waits = p->by != NOBODY && p->by != NO_CPU &&
                     map_get(&l->accounts.at[account].waiters, thread_key(&l->threads_at.at[p->by]));
        if (p->by != NO_CPU)
            turns[account] += waits ? (int64_t)p->ns : -(int64_t)p->ns;
    }
    for (size_t i = 0; is && turns && i < l->accounts.count; i++)
        is[i] = l->accounts.at[i].kind->class == LOCK_OWNED ||
                (l->accounts.at[i].kind->class == LOCK_TURNS && turns[i] > 0);
    if (!turns) {
        free(is);
        is = NULL;
    }
    free(turns);
    return is;
}

static int by_account(const void *a, const void *b)
{
    const struct lock_account *x = a, *y = b;
    if (x->is_lock != y->is_lock)
        return x->is_lock ? -1 : 1;
    return x->waited_ns > y->waited_ns ? -1 : x->waited_ns < y->waited_ns;
}

static int by_site(const void *a, const void *b)
{
    const struct lock_site *x = a, *y = b;
    return x->waited_ns > y->waited_ns ? -1 : x->waited_ns < y->waited_ns;
}

static int by_held(const void *a, const void *b)
{
    const struct lock_holder *x = a, *y = b;
    return x->held_ns > y->held_ns ? -1 : x->held_ns < y->held_ns;
}

/* The list, which only grows, with room for one more element of that size. NULL: there is none, and the list
 * is as it was. */
static void *with_room(void *list, size_t count, size_t size)
{
    if (count & (count - 1)) /* it was doubled when it had a power of two */
        return list;
    return realloc(list, (count ? 2 * count : 1) * size);
}

/* ids: (site, process, thread, frame) -> index in the site's holders. */
static int add_holder(struct lock_site *site, struct map *ids, const struct thread_at *t,
                      const struct part *part)
{
    uint32_t key[] = {part->site, t->pid, t->tid, t->where, t->goroutine};
    bool added;
    int64_t i = locks_index(ids, key, sizeof(key), site->holder_count, SIZE_MAX, &added);
    struct lock_holder *list = site->holders;
    if (i < 0 || (added && !(list = with_room(list, site->holder_count, sizeof(*list)))))
        return -ENOMEM;
    site->holders = list;
    struct lock_holder *h = &list[i];
    if (added) {
        *h = (struct lock_holder){
            .pid = t->pid, .tid = t->tid, .goroutine = t->goroutine, .where = t->where, .stack = t->stack};
        memcpy(h->name, t->name, sizeof(h->name));
        site->holder_count++;
    }
    h->held_ns += part->ns;
    h->count += part->count;
    return 0;
}

void locks_accounts_free(struct lock_account *accounts, size_t count)
{
    for (size_t i = 0; accounts && i < count; i++) {
        for (size_t k = 0; k < accounts[i].site_count; k++)
            free(accounts[i].sites[k].holders);
        free(accounts[i].sites);
    }
    free(accounts);
}

static int add_site(struct lock_account *a, const struct site *s, size_t *ret_place)
{
    struct lock_site *list = with_room(a->sites, a->site_count, sizeof(*list));
    if (!list)
        return -ENOMEM;
    a->sites = list;
    *ret_place = a->site_count;
    list[a->site_count++] = (struct lock_site){.frame = s->frame,
                                               .waited_ns = s->waited_ns,
                                               .longest_ns = s->longest_ns,
                                               .count = s->count,
                                               .open = s->open,
                                               .threads = s->threads.count,
                                               .stack = s->longest_stack};
    a->waited_ns += s->waited_ns;
    a->count += s->count;
    return 0;
}

struct lock_account *locks_accounts(const struct locks *l, size_t *ret_count)
{
    struct lock_account *list = calloc(l->accounts.count + 1, sizeof(*list));
    size_t *places = calloc(l->sites.count + 1, sizeof(*places)), count = 0;
    struct map holders = {0};
    bool *is_lock = which_are_locks(l);
    int r = list && places && is_lock ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < l->accounts.count; i++) {
        const struct account *a = &l->accounts.at[i];
        list[i] = (struct lock_account){a->pid, a->process, a->address, a->kind, is_lock[i]};
    }
    for (size_t i = 0; r == 0 && i < l->sites.count; i++)
        if (l->sites.at[i].count)
            r = add_site(&list[l->sites.at[i].account], &l->sites.at[i], &places[i]);
    for (size_t i = 0; r == 0 && i < l->parts.count; i++) {
        const struct part *p = &l->parts.at[i];
        struct lock_site *site = &list[l->sites.at[p->site].account].sites[places[p->site]];
        if (p->by == NOBODY)
            site->unknown_ns += p->ns;
        else if (p->by == NO_CPU)
            site->no_cpu_ns += p->ns;
        else
            r = add_holder(site, &holders, &l->threads_at.at[p->by], p);
    }
    for (size_t i = 0; list && i < l->accounts.count; i++) {
        for (size_t k = 0; k < list[i].site_count; k++)
            if (list[i].sites[k].holder_count)
                qsort(list[i].sites[k].holders, list[i].sites[k].holder_count, sizeof(struct lock_holder),
                      by_held);
        if (list[i].site_count)
            qsort(list[i].sites, list[i].site_count, sizeof(struct lock_site), by_site);
        count += list[i].site_count > 0;
    }
    map_done(&holders);
    free(places);
    free(is_lock);
    if (r < 0) {
        locks_accounts_free(list, list ? l->accounts.count : 0);
        return NULL;
    }
    /* Those without a wait come last. */
    for (size_t i = 0; i < l->accounts.count; i++)
        list[i].is_lock &= list[i].site_count > 0;
    qsort(list, l->accounts.count, sizeof(*list), by_account);
    *ret_count = count;
    return list;
}

/* The same path in the profile, and behind it who held the lock. */
static uint32_t path_of(const struct locks *l, uint32_t node)
{
    uint32_t path[1024];
    size_t count = 0;
    for (; node && count < ARRAY_SIZE(path); node = l->stacks->nodes.at[node].parent)
        path[count++] = l->stacks->nodes.at[node].frame;
    uint32_t to = 0;
    while (count-- > 0)
        to = profile_child(l->profile, to, path[count]);
    return to;
}

static uint32_t held_by(const struct locks *l, uint32_t node, const struct thread_at *holder)
{
    char text[64];
    snprintf(text, sizeof(text), "[held by %s (%u)]", *holder->name ? holder->name : "thread", holder->tid);
    node = profile_child(l->profile, node, profile_named_frame(l->profile, text, FRAME_KERNEL));
    for (uint32_t at = holder->stack; at; at = l->stacks->nodes.at[at].parent) {
        uint32_t frame = l->stacks->nodes.at[at].frame;
        uint8_t kind = l->profile->frames.at[frame].kind;
        if (kind != FRAME_GROUP && kind != FRAME_TRUNCATED)
            node = profile_child(l->profile, node, frame);
    }
    return node;
}

void locks_into_profile(const struct locks *l)
{
    bool *is_lock = which_are_locks(l);
    for (size_t i = 0; is_lock && i < l->parts.count; i++) {
        const struct part *p = &l->parts.at[i];
        if (!is_lock[l->sites.at[p->site].account])
            continue;
        uint32_t node = path_of(l, p->stack);
        if (p->by == NO_CPU)
            node =
                profile_child(l->profile, node, profile_named_frame(l->profile, WAITS_READY, FRAME_KERNEL));
        else if (p->by != NOBODY)
            node = held_by(l, node, &l->threads_at.at[p->by]);
        profile_count(l->profile, node, p->count, p->ns);
    }
    l->profile->failed |= !is_lock;
    free(is_lock);
}
