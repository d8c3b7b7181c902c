/* See locks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/locks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/proc_text.h"
#include "profile/waits.h"

/* A program can have as many locks as it likes, and threads; what does not fit is counted. */
enum { LOCKS = 16384, SITES = 32768, PARTS = 131072, THREADS = 65536, NODES = 262144 };
enum { RELEASES = 64 }; /* the last ones of a lock */

/* Who may have held a lock. */
struct thread_at {
    uint32_t pid, tid;
    char name[16];
    uint32_t stack, where;
};

struct release {
    uint64_t time_ns;
    uint64_t since_ns; /* when who released it went on after it had waited for it; 0: it did not wait */
    uint32_t by;       /* index of threads_at */
};

struct account {
    uint32_t pid, process;
    uint64_t address;
    const struct lock_kind *kind;
    struct release releases[RELEASES]; /* a ring, by time */
    size_t released;                   /* in all */
    struct map waiters;                /* threads, for locks that may be none */
};

struct site {
    uint32_t account, frame;
    uint64_t waited_ns, longest_ns, count;
    uint32_t open, longest_stack;
    struct map threads;
};

/* A part of waits: of a site, by a stack, for a holder. by: an index of threads_at; or NOBODY that is known;
 * or NO_CPU: who had been let go on, this thread or another, did not run yet. */
struct part {
    uint32_t site, stack, by;
    uint64_t ns, count;
};
enum { NOBODY = UINT32_MAX, NO_CPU = UINT32_MAX - 1 };

/* A thread that waits, or did. */
struct waiter {
    bool open, idle, has_waker;
    uint64_t start_ns;
    uint32_t pid, site, stack, owner;
    uint64_t back_ns;    /* when it went on after its last wait, */
    uint32_t back_site;  /* and of which site that was */
    uint64_t carried_ns; /* of earlier waits of this one for the same lock that nobody ended */
    uint32_t carried_site;
    struct thread_at waker;
};

struct locks {
    struct profile *profile, *stacks;
    uint64_t least_ns;
    bool (*thread_name)(void *context, uint32_t pid, uint32_t tid, char ret_name[16]);
    void *context;
    struct lock_frames known;
    struct map account_ids, site_ids, part_ids, thread_ids, waiter_ids, names;
    ARRAY(struct account) accounts;
    ARRAY(struct site) sites;
    ARRAY(struct part) parts;
    ARRAY(struct thread_at) threads_at;
    ARRAY(struct waiter) waiters;
    ARRAY(struct thread_at) named; /* owners that were looked up */
    struct locks_counts counts;
};

int locks_new(struct profile *profile, uint64_t least_ns,
              bool (*thread_name)(void *context, uint32_t pid, uint32_t tid, char ret_name[16]),
              void *context, struct locks **ret_locks)
{
    struct locks *l = calloc(1, sizeof(*l));
    if (!l || profile_new(&l->stacks) < 0) {
        free(l);
        return -ENOMEM;
    }
    l->stacks->node_limit = NODES;
    l->profile = profile;
    l->least_ns = least_ns;
    l->thread_name = thread_name;
    l->context = context;
    *ret_locks = l;
    return 0;
}

void locks_free(struct locks *l)
{
    if (!l)
        return;
    array_foreach (&l->accounts, a)
        map_done(&a->waiters);
    array_foreach (&l->sites, s)
        map_done(&s->threads);
    struct map *maps[] = {&l->account_ids, &l->site_ids,   &l->part_ids,
                          &l->thread_ids,  &l->waiter_ids, &l->names};
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        map_done(maps[i]);
    array_done(&l->accounts);
    array_done(&l->sites);
    array_done(&l->parts);
    array_done(&l->threads_at);
    array_done(&l->waiters);
    array_done(&l->named);
    lock_kinds_done(&l->known);
    profile_free(l->stacks);
    free(l);
}

/* ---- finding and adding ---- */

/* The index under a key: of what is there, or *count for what the caller must add; -1: there is no room. */
static int64_t index_of(struct map *ids, const void *key, size_t size, size_t count, size_t limit,
                        bool *ret_new)
{
    uint64_t hash = map_hash(key, size), *known = map_get(ids, hash);
    *ret_new = !known;
    if (known)
        return (int64_t)*known;
    if (count >= limit || !(known = map_put(ids, hash, NULL)))
        return -1;
    *known = count;
    return (int64_t)count;
}

static int64_t account_index(struct locks *l, uint32_t pid, uint32_t process, const struct lock_place *place,
                             uint64_t address)
{
    enum lock_identity identity = place->kind->identity;
    /* Kinds that wait for two words in turn have them side by side. */
    uint64_t unit = place->kind->words == 2 ? address & ~7ull : address;
    struct account fresh = {pid, process, identity == LOCK_BY_ADDRESS ? unit : 0, place->kind};
    uint64_t key[] = {pid, (uintptr_t)place->kind, fresh.address, identity == LOCK_BY_SITE ? place->site : 0};
    bool added;
    int64_t i = index_of(&l->account_ids, key, sizeof(key), l->accounts.count, LOCKS, &added);
    return i >= 0 && added && array_add(&l->accounts, fresh) < 0 ? -1 : i;
}

static int64_t site_index(struct locks *l, uint32_t account, uint32_t frame)
{
    uint32_t key[] = {account, frame};
    struct site fresh = {.account = account, .frame = frame};
    bool added;
    int64_t i = index_of(&l->site_ids, key, sizeof(key), l->sites.count, SITES, &added);
    return i >= 0 && added && array_add(&l->sites, fresh) < 0 ? -1 : i;
}

static void add_part(struct locks *l, uint32_t site, uint32_t stack, uint32_t by, uint64_t ns, uint64_t count)
{
    uint32_t key[] = {site, stack, by};
    struct part fresh = {.site = site, .stack = stack, .by = by};
    bool added;
    if (!ns && !count)
        return;
    int64_t i = index_of(&l->part_ids, key, sizeof(key), l->parts.count, PARTS, &added);
    if (i < 0 || (added && array_add(&l->parts, fresh) < 0)) {
        l->counts.crowded++;
        return;
    }
    l->parts.at[i].ns += ns;
    l->parts.at[i].count += count;
}

static uint32_t thread_index(struct locks *l, const struct thread_at *t)
{
    uint32_t key[] = {t->pid, t->tid, t->stack, t->where};
    bool added;
    int64_t i = index_of(&l->thread_ids, key, sizeof(key), l->threads_at.count, PARTS, &added);
    if (i >= 0 && added && array_add(&l->threads_at, *t) < 0)
        i = -1;
    return i < 0 ? NOBODY : (uint32_t)i;
}

static struct waiter *waiter_of(struct locks *l, uint32_t tid, bool add)
{
    uint64_t *known = map_get(&l->waiter_ids, tid);
    if (known || !add)
        return known ? &l->waiters.at[*known] : NULL;
    if (l->waiters.count >= THREADS || array_add(&l->waiters, (struct waiter){0}) < 0)
        return NULL;
    if (!(known = map_put(&l->waiter_ids, tid, NULL))) {
        l->waiters.count--;
        return NULL;
    }
    *known = l->waiters.count - 1;
    return &l->waiters.at[*known];
}

static uint32_t stack_node(struct locks *l, const struct lock_stack *stack)
{
    uint32_t node = 0;
    for (size_t i = 0; i < stack->group_count; i++)
        node = profile_child(l->stacks, node, stack->groups[i]);
    for (size_t i = stack->count; i-- > 0;)
        node = profile_child(l->stacks, node, stack->frames[i]);
    return node;
}

/* ---- the three records ---- */

/* What was carried and nobody ended. */
static void drop_carried(struct locks *l, struct waiter *w)
{
    if (w->carried_ns)
        add_part(l, w->carried_site, w->stack, NOBODY, w->carried_ns, 1);
    w->carried_ns = 0;
}

void locks_began(struct locks *l, const struct sampler_sample *head, const struct sampler_lock *lock,
                 const struct lock_stack *stack)
{
    struct waiter *w = waiter_of(l, head->tid, true);
    struct lock_place place = lock_kinds_place(&l->known, l->profile, stack->frames, stack->count, lock);
    uint32_t process = stack->group_count ? stack->groups[0] : 0;
    int64_t account = account_index(l, head->pid, process, &place, lock->address),
            site = account < 0 ? -1 : site_index(l, (uint32_t)account, place.site);
    if (!w || site < 0) {
        l->counts.crowded++;
        if (w)
            w->open = false;
        return;
    }
    l->counts.torn += w->open;
    if (w->carried_site != (uint32_t)site || w->pid != head->pid)
        drop_carried(l, w);
    w->open = true;
    w->idle = stack->idle && place.kind->class != LOCK_OWNED;
    w->has_waker = false;
    w->start_ns = head->time_ns;
    w->pid = head->pid;
    w->site = (uint32_t)site;
    w->stack = stack_node(l, stack);
    w->owner = lock_kinds_owner(place.kind, lock);
    if (place.kind->class == LOCK_TURNS)
        (void)map_put(&l->accounts.at[account].waiters, head->tid, NULL);
}

void locks_woke(struct locks *l, const struct sampler_sample *head, const struct lock_stack *stack)
{
    struct waiter *w = waiter_of(l, (uint32_t)head->weight, false);
    if (!w || !w->open)
        return;
    const struct lock_kind *kind = l->accounts.at[l->sites.at[w->site].account].kind;
    w->has_waker = true;
    w->waker = (struct thread_at){.pid = head->pid, .tid = head->tid};
    w->waker.stack = stack_node(l, stack);
    w->waker.where = lock_kinds_released(&l->known, l->profile, kind, stack->frames, stack->count);
}

/* The thread that the program's memory names, if there is such a thread in its process; else NOBODY. A
 * program may write there what it likes: nothing outside its own process is ever named so. */
static uint32_t owner_index(struct locks *l, uint32_t pid, uint32_t tid)
{
    struct thread_at owner = {.pid = pid, .tid = tid};
    bool added;
    if (!tid)
        return NOBODY;
    uint32_t key[] = {pid, tid};
    int64_t i = index_of(&l->names, key, sizeof(key), l->named.count, THREADS, &added);
    if (i < 0)
        return NOBODY;
    if (added) {
        if (!l->thread_name(l->context, pid, tid, owner.name))
            owner.tid = 0;
        if (array_add(&l->named, owner) < 0)
            return NOBODY;
    }
    return l->named.at[i].tid ? thread_index(l, &l->named.at[i]) : NOBODY;
}

/* Of two that may have been the same: whose stack is known. */
static uint32_t first_holder(struct locks *l, const struct waiter *w, uint32_t released_by)
{
    if (released_by != NOBODY && l->threads_at.at[released_by].tid == w->owner)
        return released_by;
    uint32_t owner = owner_index(l, w->pid, w->owner);
    return owner != NOBODY ? owner : released_by;
}

/* From then until a release: who released it had it, once it ran. */
static void add_hold(struct locks *l, const struct waiter *w, uint64_t from_ns, const struct release *r,
                     bool first, uint64_t more_ns, uint64_t count)
{
    uint64_t since_ns = MIN(MAX(r->since_ns, from_ns), r->time_ns);
    uint32_t by = first ? first_holder(l, w, r->by) : r->by;
    if (by != r->by) /* it was another's before */
        since_ns = from_ns;
    add_part(l, w->site, w->stack, NO_CPU, since_ns - from_ns, 0);
    add_part(l, w->site, w->stack, by, r->time_ns - since_ns + more_ns, count);
}

/* Divides a wait, until it was ended at last->time_ns by a thread (NOBODY: by none), among those who held the
 * lock.
 */
static void share_out(struct locks *l, struct waiter *w, struct release *last)
{
    struct account *a = &l->accounts.at[l->sites.at[w->site].account];
    uint64_t from_ns = w->start_ns;
    bool first = true;
    size_t kept = MIN(a->released, (size_t)RELEASES);
    for (size_t i = a->released - kept; i < a->released; i++) {
        const struct release *r = &a->releases[i % RELEASES];
        if (r->time_ns <= from_ns || r->time_ns >= last->time_ns)
            continue;
        add_hold(l, w, from_ns, r, first, 0, 0);
        from_ns = r->time_ns;
        first = false;
    }
    if (last->by == NOBODY && first)
        last->by = first_holder(l, w, NOBODY);
    if (last->by == NOBODY) { /* it tries again, and who lets it go on then had it all the time */
        w->carried_ns += last->time_ns - from_ns;
        w->carried_site = w->site;
        return;
    }
    add_hold(l, w, from_ns, last, first, w->carried_ns, 1);
    w->carried_ns = 0;
}

static void note_release(struct account *a, const struct release *release)
{
    size_t at = a->released++;
    while (at > 0 && a->released - at < RELEASES &&
           a->releases[(at - 1) % RELEASES].time_ns > release->time_ns) {
        a->releases[at % RELEASES] = a->releases[(at - 1) % RELEASES];
        at--;
    }
    a->releases[at % RELEASES] = *release;
}

static void count_wait(struct locks *l, struct waiter *w, uint32_t tid, uint64_t waited_ns, uint64_t ready_ns)
{
    struct site *s = &l->sites.at[w->site];
    l->counts.waits++;
    s->waited_ns += waited_ns;
    s->count++;
    if (waited_ns > s->longest_ns || s->count == 1) {
        s->longest_ns = waited_ns;
        s->longest_stack = w->stack;
    }
    (void)map_put(&s->threads, tid, NULL);
    add_part(l, w->site, w->stack, NO_CPU, ready_ns, 0);
}

/* Who ended a wait at that time; by is NOBODY when no thread did. */
static struct release release_of(struct locks *l, const struct waiter *w, const struct sampler_lock_end *end,
                                 uint64_t time_ns)
{
    struct thread_at waker = {.pid = end->pid, .tid = end->tid};
    struct release release = {.time_ns = time_ns, .by = NOBODY};
    if (end->woken != WOKEN_FUTEX)
        return release;
    memcpy(waker.name, end->name, sizeof(waker.name));
    waker.name[sizeof(waker.name) - 1] = '\0';
    proc_make_printable(waker.name);
    if (w->has_waker && w->waker.tid == end->tid) {
        waker.stack = w->waker.stack;
        waker.where = w->waker.where;
    }
    release.by = thread_index(l, &waker);
    const struct waiter *before = waiter_of(l, end->tid, false);
    if (before && before->back_ns && l->sites.at[before->back_site].account == l->sites.at[w->site].account)
        release.since_ns = before->back_ns;
    return release;
}

void locks_ended(struct locks *l, const struct sampler_sample *head, const struct sampler_lock_end *end)
{
    struct waiter *w = waiter_of(l, head->tid, false);
    if (!w || !w->open || w->start_ns != head->time_ns || w->pid != head->pid) {
        l->counts.torn++;
        return;
    }
    uint64_t ready_ns = waits_ready(head), blocked_ns = head->weight - ready_ns;
    w->open = false;
    w->back_ns = head->time_ns + head->weight;
    w->back_site = w->site;
    if (w->idle) {
        l->counts.idle_waits++;
        l->counts.idle_ns += blocked_ns;
        return;
    }
    if (head->weight < l->least_ns)
        return;
    struct account *a = &l->accounts.at[l->sites.at[w->site].account];
    struct release release = release_of(l, w, end, head->time_ns + blocked_ns);
    count_wait(l, w, head->tid, head->weight, ready_ns);
    if (a->kind->class == LOCK_CONDITION)
        add_part(l, w->site, w->stack, release.by, blocked_ns, 1);
    else
        share_out(l, w, &(struct release){release.time_ns, release.since_ns, release.by});
    if (release.by != NOBODY)
        note_release(a, &release);
}

void locks_finish(struct locks *l, uint64_t now_ns)
{
    map_foreach (&l->waiter_ids, slot) {
        struct waiter *w = &l->waiters.at[slot->value];
        if (w->open && !w->idle && now_ns > w->start_ns && now_ns - w->start_ns >= l->least_ns &&
            l->accounts.at[l->sites.at[w->site].account].kind->class == LOCK_OWNED) {
            count_wait(l, w, (uint32_t)slot->key, now_ns - w->start_ns, 0);
            l->sites.at[w->site].open++;
            share_out(l, w, &(struct release){.time_ns = now_ns, .by = NOBODY});
        }
        w->open = false;
        drop_carried(l, w);
    }
}

/* ---- what came out ---- */

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
        bool known = !a->kind->hides;
        for (size_t i = 0; i < count; i++)
            known |= ret_processes[i] == a->process;
        if (!known && count < size)
            ret_processes[count++] = a->process;
    }
    return count;
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
                     map_get(&l->accounts.at[account].waiters, l->threads_at.at[p->by].tid);
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
    uint32_t key[] = {part->site, t->pid, t->tid, t->where};
    bool added;
    int64_t i = index_of(ids, key, sizeof(key), site->holder_count, SIZE_MAX, &added);
    struct lock_holder *list = site->holders;
    if (i < 0 || (added && !(list = with_room(list, site->holder_count, sizeof(*list)))))
        return -ENOMEM;
    site->holders = list;
    struct lock_holder *h = &list[i];
    if (added) {
        *h = (struct lock_holder){.pid = t->pid, .tid = t->tid, .where = t->where, .stack = t->stack};
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
