/* See assemble.h. Waiting traces are in a map by id and in one of two lists by time of last arrival: those
 * that have a root, and those whose root is yet to come. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/assemble.h"

#include <errno.h>

#include "base/clock.h"
#include "base/macro.h"
#include "span/operation.h"
#include "span/packed.h"

#define WAITING_BYTES ((size_t)256 << 20)
#define TRACE_BYTES   (sizeof(struct waiting) + 48) /* of a trace that waits, with its place in the map */
#define PATIENCE_NS   (600 * NS_PER_S)
#define TRACE_MAX     100000
#define NAMES_KEPT    100000
#define NAME_BYTES    512    /* longer names are cut */
#define FINISHED_KEPT 262144 /* ids of traces handed on, by which late spans are known */

/* A trace that waits for more spans. */
struct waiting {
    uint64_t high, low, key;
    uint64_t first_ns, touched_ns; /* arrivals */
    uint64_t turn;                 /* of the last one, in spans: files have no times */
    struct packed spans;
    struct waiting *older, *newer;
    bool rooted;  /* which list it is in */
    bool endless; /* older than the patience, and counted */
};

struct waiting_list {
    struct waiting *oldest, *newest;
};

/* What a resource's spans share, once its strings are numbers. */
struct known_resource {
    uint64_t serial;
    uint32_t service, version, host, labels;
};

struct assembler {
    struct assembler_settings settings;
    struct names names;
    uint32_t other; /* the name of all that are not kept */
    struct labels labels;
    struct map by_id;             /* key of a trace: struct waiting * */
    struct waiting_list lists[2]; /* by `rooted` */
    struct waiting *spare;
    size_t waiting_spans, waiting_traces;
    struct packed_pool pool; /* of what waits */
    struct parts parts;      /* of the trace that is handed on */
    struct known_resource resource;
    struct map finished;
    uint64_t finished_ring[FINISHED_KEPT];
    size_t finished_at;
    struct assembler_counts counts;
};

int assembler_new(const struct assembler_settings *settings, struct assembler **ret_assembler)
{
    struct assembler *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->settings = *settings;
    if (!a->settings.waiting_max)
        a->settings.waiting_max = SIZE_MAX;
    if (!a->settings.waiting_bytes_max)
        a->settings.waiting_bytes_max = WAITING_BYTES;
    if (!a->settings.trace_max)
        a->settings.trace_max = TRACE_MAX;
    if (!a->settings.names_max)
        a->settings.names_max = NAMES_KEPT;
    if (!a->settings.patience_ns)
        a->settings.patience_ns = PATIENCE_NS;
    a->other = 1;
    if (names_put(&a->names, (struct slice){0}) != 0 || names_put(&a->names, SLICE("(other)")) != a->other) {
        assembler_free(a);
        return -ENOMEM;
    }
    *ret_assembler = a;
    return 0;
}

/* The number of a name. Names that hold ids or addresses have no end: beyond the limit they are one. */
static uint32_t intern(struct assembler *a, struct slice name)
{
    name.length = MIN(name.length, (size_t)NAME_BYTES);
    if (a->names.strings.count < a->settings.names_max)
        return names_put(&a->names, name);
    uint32_t known = names_find(&a->names, name);
    a->counts.names_folded += known == NAMES_NONE;
    return known == NAMES_NONE ? a->other : known;
}

static void add_label(struct assembler *a, struct label *pairs, size_t *count,
                      const struct span_attribute *from)
{
    if (*count < LABELS_SET_MAX && from->key.length && from->value.length &&
        labels_put(&a->labels, from->key, from->value, &pairs[*count]))
        ++*count;
}

/* Strings to numbers, labels to a set, with the tables' attributes joined. Cached by the resource's serial.
 */
static int know_resource(struct assembler *a, const struct span_resource *resource)
{
    if (resource->serial && resource->serial == a->resource.serial)
        return 0;
    struct label pairs[LABELS_SET_MAX];
    struct span_attribute joined[32];
    struct slice version = resource->version;
    size_t count = 0;
    for (size_t t = 0; t < a->settings.table_count; t++) {
        size_t n = table_join(a->settings.tables[t], resource, joined, ARRAY_SIZE(joined));
        for (size_t i = 0; i < n; i++) {
            add_label(a, pairs, &count, &joined[i]);
            if (slice_is(joined[i].key, "service.version") && !version.length)
                version = joined[i].value;
        }
    }
    for (size_t i = 0; i < resource->attribute_count; i++)
        add_label(a, pairs, &count, &resource->attributes[i]);
    struct known_resource known = {.serial = resource->serial,
                                   .service = intern(a, resource->service),
                                   .version = intern(a, version),
                                   .host = intern(a, resource->host)};
    if (known.service == NAMES_NONE || known.version == NAMES_NONE || known.host == NAMES_NONE)
        return -ENOMEM;
    int r = labels_set(&a->labels, pairs, count, &known.labels);
    if (r < 0)
        return r;
    a->resource = known;
    return 0;
}

/* The resource's labels with the span's own before them. */
static int span_labels(struct assembler *a, const struct span *span, uint32_t *ret_set)
{
    struct label pairs[LABELS_SET_MAX];
    size_t count = 0;
    for (size_t i = 0; i < span->attribute_count; i++)
        add_label(a, pairs, &count, &span->attributes[i]);
    if (count == 0) {
        *ret_set = a->resource.labels;
        return 0;
    }
    size_t shared;
    const struct label *from = labels_of(&a->labels, a->resource.labels, &shared);
    for (size_t i = 0; i < shared && count < LABELS_SET_MAX; i++)
        pairs[count++] = from[i];
    return labels_set(&a->labels, pairs, count, ret_set);
}

static void unlink_waiting(struct assembler *a, struct waiting *w)
{
    struct waiting_list *list = &a->lists[w->rooted];
    *(w->older ? &w->older->newer : &list->oldest) = w->newer;
    *(w->newer ? &w->newer->older : &list->newest) = w->older;
    w->older = w->newer = NULL;
}

static void link_newest(struct assembler *a, struct waiting *w)
{
    struct waiting_list *list = &a->lists[w->rooted];
    w->older = list->newest;
    w->newer = NULL;
    *(list->newest ? &list->newest->newer : &list->oldest) = w;
    list->newest = w;
}

/* Ids may be far from random (counters, say), so both halves are mixed well: a finished trace is known by
 * this key alone. */
static uint64_t trace_key(uint64_t high, uint64_t low)
{
    uint64_t id[2] = {high, low};
    return map_hash(id, sizeof(id));
}

static struct waiting *find_or_add(struct assembler *a, const struct span *span, uint64_t now_ns)
{
    uint64_t key = trace_key(span->trace_high, span->trace_low);
    uint64_t *slot;
    for (; (slot = map_get(&a->by_id, key)); key++) {
        struct waiting *w = (struct waiting *)(uintptr_t)*slot;
        if (w->low == span->trace_low && w->high == span->trace_high)
            return w;
    }
    struct waiting *w = a->spare;
    if (w)
        a->spare = w->newer;
    else if (!(w = calloc(1, sizeof(*w))))
        return NULL;
    slot = map_put(&a->by_id, key, NULL);
    if (!slot) {
        free(w);
        return NULL;
    }
    *slot = (uintptr_t)w;
    w->high = span->trace_high;
    w->low = span->trace_low;
    w->key = key;
    w->first_ns = w->touched_ns = now_ns;
    w->rooted = w->endless = false;
    link_newest(a, w);
    a->waiting_traces++;
    return w;
}

static void remember_finished(struct assembler *a, uint64_t key)
{
    uint64_t *slot = &a->finished_ring[a->finished_at++ % FINISHED_KEPT];
    if (*slot)
        map_remove(&a->finished, *slot);
    *slot = key ? key : 1;
    map_put(&a->finished, *slot, NULL);
}

/* To the end of its list, or of the other one when its root came. One that has been there for too long is
 * left where it is, so that it falls idle. */
static void touch(struct assembler *a, struct waiting *w, bool root, uint64_t now_ns)
{
    if (now_ns - w->first_ns > a->settings.patience_ns) {
        a->counts.endless += !w->endless;
        w->endless = true;
        return;
    }
    w->touched_ns = now_ns;
    w->turn = a->counts.spans;
    if (a->lists[w->rooted].newest == w && w->rooted >= root)
        return;
    unlink_waiting(a, w);
    w->rooted |= root;
    link_newest(a, w);
}

static int hand_on(struct assembler *a, struct waiting *w)
{
    array_clear(&a->parts);
    int r = packed_read(&a->pool, &w->spans, &a->parts);
    if (r < 0)
        return r;
    struct trace trace = {w->high, w->low, a->parts.at, a->parts.count};
    unlink_waiting(a, w);
    map_remove(&a->by_id, w->key);
    remember_finished(a, trace_key(w->high, w->low));
    a->waiting_spans -= w->spans.count;
    a->waiting_traces--;
    a->counts.traces++;
    r = a->settings.take(a->settings.context, &trace);
    packed_clear(&a->pool, &w->spans);
    w->newer = a->spare;
    a->spare = w;
    return r;
}

static struct waiting *longest_waiting(const struct assembler *a)
{
    struct waiting *open = a->lists[false].oldest, *rooted = a->lists[true].oldest;
    return !open || (rooted && rooted->turn < open->turn) ? rooted : open;
}

static bool too_much_waits(const struct assembler *a)
{
    return a->waiting_spans > a->settings.waiting_max ||
           packed_pool_bytes(&a->pool) + a->waiting_traces * TRACE_BYTES > a->settings.waiting_bytes_max;
}

int assembler_add(struct assembler *a, const struct span *span, uint64_t now_ns)
{
    a->counts.spans++;
    uint64_t key = trace_key(span->trace_high, span->trace_low);
    if (a->finished.count && map_get(&a->finished, key ? key : 1)) {
        a->counts.late++;
        return 0;
    }
    int r = know_resource(a, span->resource);
    if (r < 0)
        return r;
    char operation[OPERATION_BYTES];
    struct part part = {.id = span->id,
                        .parent = span->parent,
                        .start_ns = span->start_ns,
                        .end_ns = span->end_ns,
                        .service = a->resource.service,
                        .version = a->resource.version,
                        .host = a->resource.host,
                        .name = intern(a, span_operation(span, operation)),
                        .up = PART_NONE,
                        .kind = span->kind,
                        .error = span_failed(span),
                        .shared = span->shared};
    r = span_labels(a, span, &part.labels);
    if (r < 0)
        return r;
    struct waiting *w = part.name == NAMES_NONE ? NULL : find_or_add(a, span, now_ns);
    if (!w)
        return -ENOMEM;
    if (w->spans.count >= a->settings.trace_max) {
        a->counts.oversized++;
        return 0;
    }
    if (packed_add(&a->pool, &w->spans, &part) < 0)
        return -ENOMEM;
    a->waiting_spans++;
    touch(a, w, !part.parent, now_ns);
    while (r == 0 && too_much_waits(a)) {
        struct waiting *next = longest_waiting(a);
        if (next == w)
            break;
        a->counts.hurried++;
        r = hand_on(a, next);
    }
    return r;
}

int assembler_flush(struct assembler *a, uint64_t idle_since_ns)
{
    uint64_t patience_ns = a->settings.patience_ns;
    bool all = idle_since_ns == UINT64_MAX;
    uint64_t since_ns[2] = {idle_since_ns > patience_ns ? idle_since_ns - patience_ns : 0, idle_since_ns};
    int r = 0;
    for (int rooted = 1; rooted >= 0; rooted--) {
        struct waiting *w;
        while (r == 0 && (w = a->lists[rooted].oldest) && (all || w->touched_ns < since_ns[rooted]))
            r = hand_on(a, w);
    }
    return r;
}

struct names *assembler_names(struct assembler *a)
{
    return &a->names;
}

struct labels *assembler_labels(struct assembler *a)
{
    return &a->labels;
}

const struct assembler_counts *assembler_get_counts(const struct assembler *a)
{
    return &a->counts;
}

static void free_list(struct waiting *w)
{
    while (w) {
        struct waiting *next = w->newer;
        free(w);
        w = next;
    }
}

void assembler_free(struct assembler *a)
{
    if (!a)
        return;
    free_list(a->lists[false].oldest);
    free_list(a->lists[true].oldest);
    free_list(a->spare);
    packed_pool_done(&a->pool);
    array_done(&a->parts);
    map_done(&a->by_id);
    map_done(&a->finished);
    names_done(&a->names);
    labels_done(&a->labels);
    free(a);
}
