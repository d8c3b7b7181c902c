/* See allocs.h. An allocation of size bytes was chosen with the probability p = 1 - e^(-size / interval); it
 * stands for size / p bytes in 1 / p allocations (Horvitz and Thompson's estimate), whose variance is
 * (size / p)^2 * (1 - p). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/allocs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/frame_name.h"

enum { NODES_MOST = 390000 };

struct sum {
    double bytes, count, variance;
};

struct node_sums {
    struct sum made, alive;
    bool in_heap;
};

struct piece {
    uint64_t address;
    uint32_t pid, node; /* node 0: free to be used */
    uint64_t size;
};

struct allocs {
    struct profile *profile;
    struct profile *stacks;
    uint64_t interval;
    ARRAY(struct node_sums) sums; /* by node of stacks */
    ARRAY(struct piece) pieces;
    ARRAY(uint32_t) unused; /* places in pieces */
    struct map places;      /* hash of process and address -> place in pieces */
    uint64_t sampled, not_followed;
};

int allocs_new(struct profile *profile, uint64_t interval_bytes, struct allocs **ret_allocs)
{
    _cleanup_(allocs_freep) struct allocs *a = calloc(1, sizeof(*a));
    if (!a || profile_new(&a->stacks) < 0)
        return -ENOMEM;
    a->profile = profile;
    a->interval = interval_bytes;
    a->stacks->node_limit = NODES_MOST;
    *ret_allocs = a;
    a = NULL;
    return 0;
}

void allocs_free(struct allocs *a)
{
    if (!a)
        return;
    profile_free(a->stacks);
    array_done(&a->sums);
    array_done(&a->pieces);
    array_done(&a->unused);
    map_done(&a->places);
    free(a);
}

void allocs_decay(uint32_t ret_decay[SAMPLER_DECAYS])
{
    for (size_t i = 0; i < SAMPLER_DECAYS; i++)
        ret_decay[i] = (uint32_t)fmin(exp(-(double)i / 256) * 4294967296.0, UINT32_MAX);
}

/* ---- one at a time ---- */

static uint64_t key_of(uint32_t pid, uint64_t address)
{
    uint64_t words[2] = {pid, address};
    return map_hash(words, sizeof(words));
}

static void add(const struct allocs *a, struct sum *sum, uint64_t size, double sign)
{
    double x = (double)size / (double)a->interval, p = -expm1(-x);
    double bytes = size ? (double)size / p : 0; /* nothing is never chosen */
    sum->bytes += sign * bytes;
    sum->count += sign / (size ? p : 1);
    sum->variance += sign * bytes * bytes * (1 - p);
}

/* A piece of a virtual machine's heap was used up there, by chance: who used it before was not seen. */
static void add_heap(struct sum *sum, uint64_t size)
{
    sum->bytes += (double)size;
    sum->variance += (double)size * (double)size;
}

bool allocs_collects(const struct profile *p, const uint32_t *frames, size_t count)
{
    static const char *const PARTS[] = {"::CollectGarbage", "Scavenge", "Evacuat"};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(PARTS); k++)
            if (p->frames.at[frames[i]].kind == FRAME_NATIVE &&
                strstr(profile_text(p, p->frames.at[frames[i]].name), PARTS[k]))
                return true;
    return false;
}

static struct node_sums *sums_of(struct allocs *a, uint32_t node)
{
    while (a->sums.count <= node)
        if (array_add(&a->sums, (struct node_sums){0}) < 0)
            return NULL;
    return &a->sums.at[node];
}

static void forget(struct allocs *a, uint64_t *place)
{
    struct piece *piece = &a->pieces.at[*place];
    uint64_t key = key_of(piece->pid, piece->address);
    if (array_add(&a->unused, (uint32_t)*place) < 0)
        a->profile->failed = true;
    piece->node = 0;
    map_remove(&a->places, key);
}

void allocs_freed(struct allocs *a, uint32_t pid, uint64_t address)
{
    uint64_t *place = map_get(&a->places, key_of(pid, address));
    if (!place)
        return;
    struct piece *piece = &a->pieces.at[*place];
    add(a, &a->sums.at[piece->node].alive, piece->size, -1);
    forget(a, place);
}

static int remember(struct allocs *a, struct piece piece)
{
    uint64_t at = a->unused.count ? a->unused.at[a->unused.count - 1] : a->pieces.count;
    if (at == a->pieces.count && array_add(&a->pieces, piece) < 0)
        return -ENOMEM;
    uint64_t *place = map_put(&a->places, key_of(piece.pid, piece.address), NULL);
    if (!place)
        return -ENOMEM;
    a->unused.count -= a->unused.count && at == a->unused.at[a->unused.count - 1];
    a->pieces.at[at] = piece;
    *place = at;
    return 0;
}

void allocs_made(struct allocs *a, const struct sampler_sample *head, const struct sampler_alloc *alloc,
                 const struct alloc_stack *stack)
{
    uint32_t node = 0;
    for (size_t i = 0; i < stack->group_count; i++)
        node = profile_child(a->stacks, node, stack->groups[i]);
    for (size_t i = stack->count; i > 0; i--)
        node = profile_child(a->stacks, node, stack->frames[i - 1]);
    struct node_sums *sums = node ? sums_of(a, node) : NULL;
    if (!sums) {
        a->profile->failed = true;
        return;
    }
    if (alloc->in_heap) {
        a->sampled++;
        sums->in_heap = true;
        add_heap(&sums->made, alloc->size);
        return;
    }
    allocs_freed(a, head->pid, alloc->address); /* what was there has ended unseen */
    a->sampled++;
    a->not_followed += !alloc->followed;
    add(a, &sums->made, alloc->size, 1);
    if (!alloc->followed)
        return;
    add(a, &sums->alive, alloc->size, 1);
    if (remember(a, (struct piece){alloc->address, head->pid, node, alloc->size}) < 0)
        a->profile->failed = true;
}

void allocs_ended(struct allocs *a, uint32_t pid, bool begins, void (*gone)(void *context, uint64_t address),
                  void *context)
{
    for (size_t i = 0; i < a->pieces.count; i++) {
        struct piece *piece = &a->pieces.at[i];
        if (!piece->node || piece->pid != pid)
            continue;
        gone(context, piece->address);
        if (begins)
            add(a, &a->sums.at[piece->node].alive, piece->size, -1);
        uint64_t place = i;
        forget(a, &place);
    }
}

/* ---- what came out ---- */

static bool in_library(const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    const char *module = profile_text(p, f->module), *slash = strrchr(module, '/');
    const char *name = slash ? slash + 1 : module;
    return frame_in_c_library(module) || strncmp(name, "libstdc++.", 10) == 0 ||
           strncmp(name, "libc++", 6) == 0 || strncmp(name, "libgcc_s.", 9) == 0 ||
           strncmp(name, "libjemalloc", 11) == 0 || strncmp(name, "libtcmalloc", 11) == 0 ||
           strncmp(name, "libmimalloc", 11) == 0;
}

/* The innermost frame of a stack that is the program's own; else the innermost. */
static uint32_t site_of(const struct allocs *a, uint32_t node)
{
    uint32_t innermost = 0;
    bool in_heap = a->sums.at[node].in_heap;
    for (uint32_t at = node; at; at = a->stacks->nodes.at[at].parent) {
        uint32_t frame = a->stacks->nodes.at[at].frame;
        uint8_t kind = a->profile->frames.at[frame].kind;
        if (kind == FRAME_GROUP || kind == FRAME_TRUNCATED)
            break;
        if (in_heap ? kind == FRAME_JS || kind == FRAME_JAVA : !in_library(a->profile, frame))
            return frame;
        innermost = innermost ? innermost : frame;
    }
    return innermost;
}

static void add_up(struct alloc_amount *to, const struct sum *sum)
{
    to->bytes += fmax(sum->bytes, 0);
    to->count += fmax(sum->count, 0);
    to->bytes_error += fmax(sum->variance, 0); /* until it is complete */
}

static void complete(struct alloc_amount *amount)
{
    amount->bytes_error = 1.96 * sqrt(amount->bytes_error);
}

static int by_alive_and_made(const void *a, const void *b)
{
    const struct alloc_site *x = a, *y = b;
    if (x->alive.bytes != y->alive.bytes)
        return x->alive.bytes < y->alive.bytes ? 1 : -1;
    return (x->made.bytes < y->made.bytes) - (x->made.bytes > y->made.bytes);
}

struct alloc_site *allocs_sites(const struct allocs *a, struct alloc_site *ret_all, size_t *ret_count)
{
    struct alloc_site *sites = calloc(a->sums.count + 1, sizeof(*sites)), all = {0};
    double *most = calloc(a->sums.count + 1, sizeof(*most));
    struct map by_frame = {0};
    size_t count = 0;
    bool failed = !sites || !most;
    for (uint32_t node = 1; node < a->sums.count && !failed; node++) {
        const struct node_sums *sums = &a->sums.at[node];
        bool is_new;
        if (!(sums->made.bytes > 0))
            continue;
        uint32_t frame = site_of(a, node);
        uint64_t *place = map_put(&by_frame, frame, &is_new);
        if (!place) {
            failed = true;
            break;
        }
        if (is_new) {
            *place = count;
            sites[count++].frame = frame;
        }
        struct alloc_site *site = &sites[*place];
        double weight = sums->alive.bytes + sums->made.bytes / 1e6; /* of what is all freed, the largest */
        if (!site->stack || weight > most[*place]) {
            site->stack = node;
            most[*place] = weight;
        }
        add_up(&site->made, &sums->made);
        add_up(&site->alive, &sums->alive);
        add_up(&all.made, &sums->made);
        add_up(&all.alive, &sums->alive);
    }
    map_done(&by_frame);
    free(most);
    if (failed) {
        free(sites);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        complete(&sites[i].made);
        complete(&sites[i].alive);
    }
    complete(&all.made);
    complete(&all.alive);
    qsort(sites, count, sizeof(*sites), by_alive_and_made);
    *ret_all = all;
    *ret_count = count;
    return sites;
}

const struct profile *allocs_stacks(const struct allocs *a)
{
    return a->stacks;
}

void allocs_into_profile(const struct allocs *a, bool alive)
{
    uint32_t *nodes = calloc(a->stacks->nodes.count, sizeof(*nodes)); /* in the profile, by ours */
    if (!nodes) {
        a->profile->failed = true;
        return;
    }
    for (uint32_t node = 1; node < a->stacks->nodes.count; node++) { /* parents come first */
        const struct profile_node *n = &a->stacks->nodes.at[node];
        const struct sum *sum = node >= a->sums.count ? &(const struct sum){0}
                                : alive               ? &a->sums.at[node].alive
                                                      : &a->sums.at[node].made;
        nodes[node] = profile_child(a->profile, nodes[n->parent], n->frame);
        if (sum->bytes >= 1)
            profile_count(a->profile, nodes[node], (uint64_t)llround(fmax(sum->count, 1)),
                          (uint64_t)llround(sum->bytes));
    }
    free(nodes);
}

uint64_t allocs_sampled(const struct allocs *a, uint64_t *ret_not_followed)
{
    *ret_not_followed = a->not_followed;
    return a->sampled;
}
