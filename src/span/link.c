/* See link.h. Skew: a synchronous call's child, on another host, must lie within its caller. Each such call
 * bounds the offset between the two clocks from both sides; where the bounds of one pair of hosts within a
 * trace have something in common that excludes zero, the middle of it is taken, and the child's side is
 * moved. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/link.h"

#include <errno.h>

#include "base/clock.h"
#include "base/macro.h"

#define HOSTS_MAX 64 /* pairs of hosts within one trace whose clocks are compared */

static void drop_duplicates(struct trace *trace, struct map *by_id, struct link_counts *counts)
{
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        bool added;
        uint64_t *index = map_put(by_id, trace->parts[i].id, &added);
        if (!index)
            return;
        if (!added) {
            counts->duplicates++;
            continue;
        }
        *index = n;
        trace->parts[n++] = trace->parts[i];
    }
    trace->count = n;
}

/* The index of a part's parent, or NULL. Of a span that client and server share, the server's half is the
 * parent of what the same service did, and itself a child of the client's half, if that came. */
static const uint64_t *parent_of(const struct trace *trace, const struct map *by_id, const struct part *part,
                                 bool any_shared)
{
    if (!any_shared)
        return map_get(by_id, part->parent);
    const uint64_t *half = part->shared ? map_get(by_id, part->id ^ SPAN_SHARED_BIT) : NULL;
    if (half)
        return half;
    const uint64_t *up = map_get(by_id, part->parent),
                   *server = map_get(by_id, part->parent ^ SPAN_SHARED_BIT);
    bool inner = server && trace->parts[*server].shared && &trace->parts[*server] != part &&
                 (!up || trace->parts[*server].service == part->service);
    return inner ? server : up;
}

static void find_parents(struct trace *trace, const struct map *by_id, struct link_counts *counts)
{
    bool any_shared = false;
    for (size_t i = 0; i < trace->count; i++)
        any_shared |= trace->parts[i].shared;
    for (size_t i = 0; i < trace->count; i++) {
        struct part *part = &trace->parts[i];
        part->up = PART_NONE;
        part->orphan = false;
        if (!part->parent && !part->shared)
            continue;
        const uint64_t *up = parent_of(trace, by_id, part, any_shared);
        if (up) {
            part->up = (uint32_t)*up;
        } else if (part->parent) {
            part->orphan = true;
            counts->orphans++;
        }
    }
}

#define DEPTH_UNKNOWN UINT32_MAX
#define DEPTH_WALKING (UINT32_MAX - 1)

/* Depths, by walking up to one that is known and back down; a walk that meets itself is a cycle, which is cut
 * there. path: room for all parts. */
static void find_depths(struct trace *trace, uint32_t *depth, uint32_t *path, struct link_counts *counts)
{
    for (size_t i = 0; i < trace->count; i++)
        depth[i] = DEPTH_UNKNOWN;
    for (uint32_t i = 0; i < trace->count; i++) {
        size_t n = 0;
        uint32_t at = i;
        for (; at != PART_NONE && depth[at] == DEPTH_UNKNOWN; at = trace->parts[at].up) {
            depth[at] = DEPTH_WALKING;
            path[n++] = at;
        }
        if (at != PART_NONE && depth[at] == DEPTH_WALKING) {
            trace->parts[path[n - 1]].up = at = PART_NONE;
            trace->parts[path[n - 1]].orphan = true;
            counts->cycles++;
        }
        uint32_t next = at == PART_NONE ? 0 : depth[at] + 1;
        while (n > 0)
            depth[path[--n]] = next++;
    }
}

struct place {
    uint32_t index, depth;
    uint64_t start_ns, end_ns;
    bool orphan;
};

static int by_depth_and_time(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    if (x->orphan != y->orphan)
        return x->orphan - y->orphan;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Parents before children, siblings by time; `up` follows. */
static int sort_parts(struct trace *trace, struct link_counts *counts)
{
    size_t n = trace->count;
    _cleanup_(freep) uint32_t *depth = malloc(n * sizeof(*depth));
    _cleanup_(freep) struct place *places = malloc(n * sizeof(*places));
    _cleanup_(freep) struct part *parts = malloc(n * sizeof(*parts));
    if (!depth || !places || !parts)
        return -ENOMEM;
    find_depths(trace, depth, (uint32_t *)parts, counts); /* which has nothing yet */
    for (uint32_t i = 0; i < n; i++)
        places[i] = (struct place){i, depth[i], trace->parts[i].start_ns, trace->parts[i].end_ns,
                                   trace->parts[i].orphan};
    qsort(places, n, sizeof(*places), by_depth_and_time);
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = trace->parts[places[i].index];
        depth[places[i].index] = i; /* the new place of an old index */
    }
    for (uint32_t i = 0; i < n; i++)
        if (parts[i].up != PART_NONE)
            parts[i].up = depth[parts[i].up];
    memcpy(trace->parts, parts, n * sizeof(*parts));
    return 0;
}

/* Bounds of (child's clock - parent's clock) for one pair of hosts. */
struct offset {
    uint32_t parent_host, child_host;
    int64_t low_ns, high_ns;
};

static bool is_synchronous(const struct part *child, const struct part *parent)
{
    if (child->kind == SPAN_KIND_CONSUMER || parent->kind == SPAN_KIND_PRODUCER)
        return false;
    if (child->kind == SPAN_KIND_SERVER && parent->kind == SPAN_KIND_CLIENT)
        return true;
    return child->end_ns - child->start_ns <= parent->end_ns - parent->start_ns;
}

static size_t find_offsets(const struct trace *trace, struct offset *offsets, int64_t resolution_ns,
                           struct link_counts *counts)
{
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct part *child = &trace->parts[i];
        if (child->up == PART_NONE)
            continue;
        const struct part *parent = &trace->parts[child->up];
        if (child->host == parent->host || !child->host || !parent->host || !is_synchronous(child, parent))
            continue;
        int64_t low = (int64_t)(child->end_ns - parent->end_ns);
        int64_t high = (int64_t)(child->start_ns - parent->start_ns);
        if (low > high) {
            counts->unskewable += low - high > 2 * resolution_ns;
            continue;
        }
        size_t at = 0;
        while (at < n && (offsets[at].parent_host != parent->host || offsets[at].child_host != child->host))
            at++;
        if (at == HOSTS_MAX)
            continue;
        if (at == n)
            offsets[n++] = (struct offset){parent->host, child->host, low, high};
        offsets[at].low_ns = MAX(offsets[at].low_ns, low);
        offsets[at].high_ns = MIN(offsets[at].high_ns, high);
    }
    return n;
}

/* What times of this trace are rounded to: milliseconds, microseconds, or nothing that shows. */
static int64_t resolution_of(const struct trace *trace)
{
    static const uint64_t steps[] = {NS_PER_MS, NS_PER_US};
    for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
        bool rounded = true;
        for (size_t i = 0; i < trace->count && rounded; i++)
            rounded = trace->parts[i].start_ns % steps[s] == 0 && trace->parts[i].end_ns % steps[s] == 0;
        if (rounded)
            return (int64_t)steps[s];
    }
    return 1;
}

/* An offset that rounding may make is none. */
static int64_t offset_of(const struct offset *offsets, size_t n, uint32_t parent_host, uint32_t child_host,
                         int64_t resolution_ns)
{
    for (size_t i = 0; i < n; i++) {
        const struct offset *o = &offsets[i];
        if (o->parent_host != parent_host || o->child_host != child_host)
            continue;
        if (o->low_ns > o->high_ns || (o->low_ns <= resolution_ns && o->high_ns >= -resolution_ns))
            return 0;
        return o->low_ns + (o->high_ns - o->low_ns) / 2;
    }
    return 0;
}

/* Parents come first, so a parent's own shift is known when its children are moved. Hosts without a name (0)
 * are never compared. */
static int correct_skew(struct trace *trace, struct link_counts *counts)
{
    struct offset offsets[HOSTS_MAX];
    int64_t resolution_ns = resolution_of(trace);
    size_t n = find_offsets(trace, offsets, resolution_ns, counts);
    bool moved = false;
    for (size_t i = 0; i < n; i++)
        moved |= offset_of(offsets, n, offsets[i].parent_host, offsets[i].child_host, resolution_ns) != 0;
    if (!moved)
        return 0;
    counts->skewed++;
    _cleanup_(freep) int64_t *shift = calloc(trace->count, sizeof(*shift));
    if (!shift)
        return -ENOMEM;
    for (size_t i = 0; i < trace->count; i++) {
        struct part *part = &trace->parts[i];
        if (part->up == PART_NONE)
            continue;
        const struct part *parent = &trace->parts[part->up];
        shift[i] = shift[part->up];
        if (part->host != parent->host)
            shift[i] += offset_of(offsets, n, parent->host, part->host, resolution_ns);
        part->start_ns -= (uint64_t)shift[i];
        part->end_ns -= (uint64_t)shift[i];
    }
    return sort_parts(trace, counts);
}

int trace_link(struct trace *trace, struct link_counts *counts, uint32_t *ret_root)
{
    *ret_root = PART_NONE;
    if (trace->count == 0)
        return 0;
    struct map by_id = {0};
    drop_duplicates(trace, &by_id, counts);
    find_parents(trace, &by_id, counts);
    map_done(&by_id);
    int r = sort_parts(trace, counts);
    if (r < 0)
        return r;
    r = correct_skew(trace, counts);
    if (r < 0)
        return r;
    if (trace->parts[0].orphan)
        counts->rootless++;
    else
        *ret_root = 0;
    return 0;
}
