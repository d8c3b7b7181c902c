/* See locks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/locks_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/proc_text.h"
#include "profile/waits.h"

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
    struct map *maps[] = {&l->account_ids, &l->site_ids, &l->part_ids,        &l->thread_ids,
                          &l->waiter_ids,  &l->names,    &l->goroutine_locks, &l->seen};
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

int64_t locks_index(struct map *ids, const void *key, size_t size, size_t count, size_t limit, bool *ret_new)
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
    int64_t i = locks_index(&l->account_ids, key, sizeof(key), l->accounts.count, LOCKS, &added);
    return i >= 0 && added && array_add(&l->accounts, fresh) < 0 ? -1 : i;
}

static int64_t site_index(struct locks *l, uint32_t account, uint32_t frame)
{
    uint32_t key[] = {account, frame};
    struct site fresh = {.account = account, .frame = frame};
    bool added;
    int64_t i = locks_index(&l->site_ids, key, sizeof(key), l->sites.count, SITES, &added);
    return i >= 0 && added && array_add(&l->sites, fresh) < 0 ? -1 : i;
}

static void add_part(struct locks *l, uint32_t site, uint32_t stack, uint32_t by, uint64_t ns, uint64_t count)
{
    uint32_t key[] = {site, stack, by};
    struct part fresh = {.site = site, .stack = stack, .by = by};
    bool added;
    if (!ns && !count)
        return;
    int64_t i = locks_index(&l->part_ids, key, sizeof(key), l->parts.count, PARTS, &added);
    if (i < 0 || (added && array_add(&l->parts, fresh) < 0)) {
        l->counts.crowded++;
        return;
    }
    l->parts.at[i].ns += ns;
    l->parts.at[i].count += count;
}

static uint32_t thread_index(struct locks *l, const struct thread_at *t)
{
    uint32_t key[] = {t->pid, t->tid, t->stack, t->where, t->goroutine};
    bool added;
    int64_t i = locks_index(&l->thread_ids, key, sizeof(key), l->threads_at.count, PARTS, &added);
    if (i >= 0 && added && array_add(&l->threads_at, *t) < 0)
        i = -1;
    return i < 0 ? NOBODY : (uint32_t)i;
}

uint64_t locks_waiter_key(uint32_t pid, uint32_t tid, bool goroutine)
{
    return goroutine ? (uint64_t)pid << 32 | tid : tid;
}

static uint64_t key_of(const struct sampler_sample *head)
{
    return locks_waiter_key(head->pid, head->goroutine ? head->goroutine : head->tid, head->goroutine);
}

static struct waiter *waiter_of(struct locks *l, uint64_t key, bool add)
{
    uint64_t *known = map_get(&l->waiter_ids, key);
    if (known || !add)
        return known ? &l->waiters.at[*known] : NULL;
    if (l->waiters.count >= THREADS || array_add(&l->waiters, (struct waiter){0}) < 0)
        return NULL;
    if (!(known = map_put(&l->waiter_ids, key, NULL))) {
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

static uint64_t goroutine_lock(uint32_t pid, uint64_t address)
{
    const uint64_t key[] = {pid, address};
    return map_hash(key, sizeof(key));
}

/* Of a goroutine's lock only who waits for it can say what it is. */
static int64_t account_of(struct locks *l, const struct sampler_sample *head, uint32_t process,
                          const struct lock_place *place, uint64_t address)
{
    if (!head->goroutine)
        return account_index(l, head->pid, process, place, address);
    uint64_t *known = map_put(&l->goroutine_locks, goroutine_lock(head->pid, address), NULL);
    if (known && *known)
        return (int64_t)*known - 1;
    int64_t account = account_index(l, head->pid, process, place, address);
    if (known && account >= 0)
        *known = (uint64_t)account + 1;
    return account;
}

void locks_began(struct locks *l, const struct sampler_sample *head, const struct sampler_lock *lock,
                 const struct lock_stack *stack)
{
    struct waiter *w = waiter_of(l, key_of(head), true);
    struct lock_place place = lock_kinds_place(&l->known, l->profile, stack->frames, stack->count, lock);
    uint32_t process = stack->group_count ? stack->groups[0] : 0;
    int64_t account = account_of(l, head, process, &place, lock->address),
            site = account < 0 ? -1 : site_index(l, (uint32_t)account, place.site);
    if (head->goroutine)
        locks_see(l, head->pid);
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
        (void)map_put(&l->accounts.at[account].waiters, key_of(head), NULL);
}

void locks_see(struct locks *l, uint32_t pid)
{
    (void)map_put(&l->seen, pid, NULL);
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
    int64_t i = locks_index(&l->names, key, sizeof(key), l->named.count, THREADS, &added);
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

static void count_wait(struct locks *l, struct waiter *w, uint64_t key, uint64_t waited_ns, uint64_t ready_ns)
{
    struct site *s = &l->sites.at[w->site];
    l->counts.waits++;
    s->waited_ns += waited_ns;
    s->count++;
    if (waited_ns > s->longest_ns || s->count == 1) {
        s->longest_ns = waited_ns;
        s->longest_stack = w->stack;
    }
    (void)map_put(&s->threads, key, NULL);
    add_part(l, w->site, w->stack, NO_CPU, ready_ns, 0);
}

/* When who lets others go on went on itself after it had waited for the same lock; 0: it did not wait. */
static uint64_t since_ns(struct locks *l, uint64_t key, uint32_t account)
{
    const struct waiter *before = waiter_of(l, key, false);
    bool same = before && before->back_ns && l->sites.at[before->back_site].account == account;
    return same ? before->back_ns : 0;
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
    release.since_ns = since_ns(l, end->tid, l->sites.at[w->site].account);
    return release;
}

/* What ended the wait of a goroutine is the last that let others go on before it went on itself. */
static struct release last_release(const struct account *a, uint64_t from_ns, uint64_t until_ns)
{
    struct release last = {.time_ns = until_ns, .by = NOBODY};
    for (size_t i = 0; i < MIN(a->released, (size_t)RELEASES); i++) {
        const struct release *r = &a->releases[i];
        if (r->time_ns > from_ns && r->time_ns < until_ns && (last.by == NOBODY || r->time_ns > last.time_ns))
            last = *r;
    }
    return last;
}

void locks_released(struct locks *l, const struct sampler_sample *head, const struct lock_stack *stack)
{
    uint64_t *known = map_get(&l->goroutine_locks, goroutine_lock(head->pid, head->weight));
    if (!known || !*known)
        return;
    uint32_t account = (uint32_t)(*known - 1);
    struct account *a = &l->accounts.at[account];
    struct thread_at by = {.pid = head->pid, .tid = head->goroutine, .goroutine = true, .name = "goroutine"};
    by.stack = stack_node(l, stack);
    by.where = lock_kinds_released(&l->known, l->profile, a->kind, stack->frames, stack->count);
    struct release release = {
        .time_ns = head->time_ns, .since_ns = since_ns(l, key_of(head), account), .by = thread_index(l, &by)};
    if (release.by != NOBODY)
        note_release(a, &release);
}

void locks_ended(struct locks *l, const struct sampler_sample *head, const struct sampler_lock_end *end)
{
    struct waiter *w = waiter_of(l, key_of(head), false);
    if (!w || !w->open || w->start_ns != head->time_ns || w->pid != head->pid) {
        l->counts.torn++;
        return;
    }
    struct account *a = &l->accounts.at[l->sites.at[w->site].account];
    struct release release;
    uint64_t ready_ns = waits_ready(head);
    if (head->goroutine) {
        release = last_release(a, head->time_ns, head->time_ns + head->weight);
        ready_ns = head->time_ns + head->weight - release.time_ns;
    } else {
        release = release_of(l, w, end, head->time_ns + head->weight - ready_ns);
    }
    uint64_t blocked_ns = head->weight - ready_ns;
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
    count_wait(l, w, key_of(head), head->weight, ready_ns);
    if (a->kind->class == LOCK_CONDITION || (head->goroutine && release.by == NOBODY))
        add_part(l, w->site, w->stack, release.by, blocked_ns, 1);
    else
        share_out(l, w, &(struct release){release.time_ns, release.since_ns, release.by});
    if (release.by != NOBODY && !head->goroutine)
        note_release(a, &release);
}

void locks_finish(struct locks *l, uint64_t now_ns)
{
    map_foreach (&l->waiter_ids, slot) {
        struct waiter *w = &l->waiters.at[slot->value];
        if (w->open && !w->idle && now_ns > w->start_ns && now_ns - w->start_ns >= l->least_ns &&
            l->accounts.at[l->sites.at[w->site].account].kind->class == LOCK_OWNED) {
            count_wait(l, w, slot->key, now_ns - w->start_ns, 0);
            l->sites.at[w->site].open++;
            share_out(l, w, &(struct release){.time_ns = now_ns, .by = NOBODY});
        }
        w->open = false;
        drop_carried(l, w);
    }
}
