/* See compare.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/compare.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/macro.h"

#define AT_ONCE    1.4  /* concurrency from which calls count as running at once */
#define IN_ROW     0.75 /* share of the former concurrency below which they no longer do */
#define LONGER     1.4  /* times that the calls together may take longer, where concurrency was lost */
#define NOTABLE_NS 1000.0

static int pool_vertex(struct forest *forest, const struct vertex *from)
{
    bool added;
    uint64_t *slot = map_put(&forest->vertex_of, from->path, &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        struct pooled_vertex fresh = {.path = from->path, .sum.path = from->path};
        *slot = forest->vertices.count;
        if (array_add(&forest->vertices, fresh) < 0)
            return -ENOMEM;
    }
    struct vertex *to = &forest->vertices.at[*slot].sum;
    to->calls += from->calls;
    to->errors += from->errors;
    to->requests += from->requests;
    to->total_ns += from->total_ns;
    to->self_ns += from->self_ns;
    to->critical_ns += from->critical_ns;
    to->on_path += from->on_path;
    to->edges += from->edges;
    to->edge_ns += from->edge_ns;
    to->edge_critical_ns += from->edge_critical_ns;
    to->together_ns += from->together_ns;
    to->busy_ns += from->busy_ns;
    to->together_calls += from->together_calls;
    to->children_total_ns += from->children_total_ns;
    to->children_busy_ns += from->children_busy_ns;
    int r = sketch_merge(&to->duration, &from->duration);
    return r < 0 ? r : sketch_merge(&to->edge, &from->edge);
}

static int by_path(const void *a, const void *b)
{
    const struct pooled_vertex *x = a, *y = b;
    return x->path < y->path ? -1 : x->path > y->path;
}

/* A path's number is above its parent's: callers come first. */
static void number_vertices(struct forest *forest)
{
    if (forest->vertices.count)
        qsort(forest->vertices.at, forest->vertices.count, sizeof(*forest->vertices.at), by_path);
    for (size_t v = 0; v < forest->vertices.count; v++)
        *map_get(&forest->vertex_of, forest->vertices.at[v].path) = v;
}

int forest_init(struct forest *forest, const struct group *const *groups, size_t count)
{
    *forest = (struct forest){0};
    struct sketch latency = {0};
    int r = 0;
    for (size_t g = 0; r == 0 && g < count; g++) {
        forest->requests += groups[g]->requests;
        r = sketch_merge(&latency, &groups[g]->latency);
        for (size_t v = 0; r == 0 && v < groups[g]->vertices.count; v++)
            r = pool_vertex(forest, &groups[g]->vertices.at[v]);
    }
    forest->mean_ns = sketch_mean(&latency);
    sketch_done(&latency);
    if (r < 0) {
        forest_done(forest);
        return r;
    }
    number_vertices(forest);
    return 0;
}

/* The path below `to` with the steps that lead from `from` to `path`; the path itself when there is none. */
static uint32_t find_twin(const struct book *book, uint32_t path, uint32_t from, uint32_t to)
{
    if (path == from)
        return to;
    const struct path *step = &book->paths.at[path];
    uint32_t parent = step->parent == BOOK_NONE ? BOOK_NONE : find_twin(book, step->parent, from, to);
    if (parent == step->parent)
        return path;
    for (uint32_t p = parent + 1; p < book->paths.count; p++) {
        const struct path *other = &book->paths.at[p];
        if (other->parent == parent && other->service == step->service && other->name == step->name &&
            other->kind == step->kind)
            return p;
    }
    return path;
}

int forest_rename(const struct book *book, struct forest *forest, uint32_t from, uint32_t to)
{
    array_foreach (&forest->vertices, v)
        v->path = v->sum.path = find_twin(book, v->path, from, to);
    map_clear(&forest->vertex_of);
    array_foreach (&forest->vertices, v)
        if (!map_put(&forest->vertex_of, v->path, NULL))
            return -ENOMEM;
    number_vertices(forest);
    return 0;
}

const struct vertex *forest_vertex(const struct forest *forest, uint32_t path)
{
    const uint64_t *slot = map_get(&forest->vertex_of, path);
    return slot ? &forest->vertices.at[*slot].sum : NULL;
}

void forest_done(struct forest *forest)
{
    array_foreach (&forest->vertices, v) {
        sketch_done(&v->sum.duration);
        sketch_done(&v->sum.edge);
    }
    array_done(&forest->vertices);
    map_done(&forest->vertex_of);
}

size_t forest_critical_path(const struct book *book, const struct forest *forest, uint32_t *paths,
                            size_t room)
{
    size_t n = forest->vertices.count, length = 0;
    _cleanup_(freep) uint64_t *below = calloc(n + 1, sizeof(*below));
    if (!below || !n)
        return 0;
    uint32_t root = BOOK_NONE;
    for (size_t v = n; v-- > 0;) { /* children before parents */
        const struct vertex *vertex = &forest->vertices.at[v].sum;
        below[v] += vertex->critical_ns + vertex->edge_critical_ns;
        uint32_t parent = book->paths.at[vertex->path].parent;
        const uint64_t *slot = parent == BOOK_NONE ? NULL : map_get(&forest->vertex_of, parent);
        if (slot)
            below[*slot] += below[v];
        else if (root == BOOK_NONE || below[v] >= below[root])
            root = (uint32_t)v;
    }
    for (uint32_t at = root; at != BOOK_NONE && length < room;) {
        paths[length++] = forest->vertices.at[at].path;
        uint32_t next = BOOK_NONE;
        for (uint32_t v = at + 1; v < n; v++)
            if (book->paths.at[forest->vertices.at[v].path].parent == forest->vertices.at[at].path &&
                below[v] > 0 && (next == BOOK_NONE || below[v] > below[next]))
                next = v;
        at = next;
    }
    return length;
}

static double per_request(uint64_t sum, const struct forest *forest)
{
    return forest->requests ? (double)sum / (double)forest->requests : 0;
}

/* How many of a vertex' calls under one parent ran at once: of its own path's, or with its siblings of other
 * paths, whichever is more telling. 1: one after another. */
static double concurrency(const struct book *book, const struct forest *forest, const struct vertex *vertex)
{
    double own = vertex->busy_ns ? (double)vertex->together_ns / (double)vertex->busy_ns : 1;
    uint32_t up = book->paths.at[vertex->path].parent;
    const struct vertex *parent = up == BOOK_NONE ? NULL : forest_vertex(forest, up);
    double all = parent && parent->children_busy_ns
                     ? (double)parent->children_total_ns / (double)parent->children_busy_ns
                     : 1;
    return vertex->together_calls * 2 >= vertex->calls ? own : all;
}

static enum change_kind classify(const struct forest_change *c, bool was, bool is)
{
    if (!was)
        return CHANGE_APPEARED;
    if (!is)
        return CHANGE_VANISHED;
    if (c->after_ns > c->before_ns && c->concurrency_before >= AT_ONCE &&
        c->concurrency_after <= 1 + (c->concurrency_before - 1) * (1 - IN_ROW))
        return CHANGE_SEQUENTIAL;
    if (c->after_ns < c->before_ns && c->concurrency_after >= AT_ONCE &&
        c->concurrency_before <= 1 + (c->concurrency_after - 1) * (1 - IN_ROW))
        return CHANGE_PARALLEL;
    if (c->after_ns < c->before_ns)
        return CHANGE_FASTER;
    if (c->calls_after > 1.2 * c->calls_before && c->p95_after_ns < 1.15 * c->p95_before_ns)
        return CHANGE_MORE_CALLS;
    return CHANGE_SLOWER;
}

static struct forest_change vertex_change(const struct book *book, const struct forest *before,
                                          const struct forest *after, uint32_t path)
{
    static const struct vertex none;
    const struct vertex *b = forest_vertex(before, path), *a = forest_vertex(after, path);
    struct forest_change c = {.path = path};
    bool was = b != NULL, is = a != NULL;
    b = b ? b : &none;
    a = a ? a : &none;
    c.before_ns = per_request(b->critical_ns, before);
    c.after_ns = per_request(a->critical_ns, after);
    c.p95_before_ns = sketch_quantile(&b->duration, 0.95);
    c.p95_after_ns = sketch_quantile(&a->duration, 0.95);
    c.calls_before = per_request(b->calls, before);
    c.calls_after = per_request(a->calls, after);
    c.concurrency_before = was ? concurrency(book, before, b) : 1;
    c.concurrency_after = is ? concurrency(book, after, a) : 1;
    c.kind = classify(&c, was, is);
    return c;
}

static struct forest_change edge_change(const struct forest *before, const struct forest *after,
                                        uint32_t path)
{
    const struct vertex *b = forest_vertex(before, path), *a = forest_vertex(after, path);
    struct forest_change c = {
        .path = path, .kind = CHANGE_EDGE, .concurrency_before = 1, .concurrency_after = 1};
    if (b) {
        c.before_ns = per_request(b->edge_critical_ns, before);
        c.p95_before_ns = sketch_quantile(&b->edge, 0.95);
        c.calls_before = per_request(b->edges, before);
    }
    if (a) {
        c.after_ns = per_request(a->edge_critical_ns, after);
        c.p95_after_ns = sketch_quantile(&a->edge, 0.95);
        c.calls_after = per_request(a->edges, after);
    }
    return c;
}

static int by_growth(const void *x, const void *y)
{
    const struct forest_change *a = x, *b = y;
    double da = fabs(a->after_ns - a->before_ns), db = fabs(b->after_ns - b->before_ns);
    bool a_grew = a->after_ns > a->before_ns, b_grew = b->after_ns > b->before_ns;
    if (a_grew != b_grew)
        return a_grew ? -1 : 1;
    return da > db ? -1 : da < db;
}

/* ---- concurrency that was lost ---- */

/* How many of a vertex' calls, of all paths, ran at once. */
static double calls_at_once(const struct vertex *v)
{
    return v && v->children_busy_ns ? (double)v->children_total_ns / (double)v->children_busy_ns : 1;
}

static bool is_below(const struct book *book, uint32_t path, uint32_t above)
{
    for (uint32_t at = book->paths.at[path].parent; at != BOOK_NONE; at = book->paths.at[at].parent)
        if (at == above)
            return true;
    return false;
}

/* Whether the calls of a path that ran at once now run one after another, and take no longer by themselves.
 */
static bool lost_concurrency(const struct forest *before, const struct forest *after, uint32_t path)
{
    const struct vertex *b = forest_vertex(before, path), *a = forest_vertex(after, path);
    double was = calls_at_once(b), is = calls_at_once(a);
    if (!a || !b || was < AT_ONCE || is > 1 + (was - 1) * (1 - IN_ROW))
        return false;
    return per_request(a->children_total_ns, after) < LONGER * per_request(b->children_total_ns, before);
}

/* The one path of all calls below, where it is of the same service: it says more than the caller. */
static uint32_t calls_of(const struct book *book, const struct forest *after, uint32_t path)
{
    uint32_t call = BOOK_NONE;
    array_foreach (&after->vertices, v) {
        const struct path *p = &book->paths.at[v->path];
        if (p->parent != path)
            continue;
        if (call != BOOK_NONE || p->service != book->paths.at[path].service)
            return path;
        call = v->path;
    }
    return call == BOOK_NONE ? path : call;
}

/* What grew below such a path is its doing: one change in the place of those of all calls below. */
static size_t gather_lost(const struct book *book, const struct forest *before, const struct forest *after,
                          struct forest_change *changes, size_t count)
{
    array_foreach (&after->vertices, v) { /* callers before what they call */
        if (!lost_concurrency(before, after, v->path))
            continue;
        struct forest_change lost = {.path = calls_of(book, after, v->path), .kind = CHANGE_SEQUENTIAL};
        size_t kept = 0, merged = 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_below(book, changes[i].path, v->path)) {
                changes[kept++] = changes[i];
                continue;
            }
            lost.before_ns += changes[i].before_ns;
            lost.after_ns += changes[i].after_ns;
            if (merged++ == 0 || changes[i].path == lost.path) {
                lost.p95_before_ns = changes[i].p95_before_ns;
                lost.p95_after_ns = changes[i].p95_after_ns;
                lost.calls_before = changes[i].calls_before;
                lost.calls_after = changes[i].calls_after;
            }
        }
        if (!merged)
            continue;
        lost.concurrency_before = calls_at_once(forest_vertex(before, v->path));
        lost.concurrency_after = calls_at_once(&v->sum);
        changes[kept++] = lost;
        count = kept;
    }
    return count;
}

int forest_compare(const struct book *book, const struct forest *before, const struct forest *after,
                   struct forest_change *changes, size_t room, size_t *ret_count)
{
    ARRAY(struct forest_change) all = {0};
    double growth = after->mean_ns - before->mean_ns;
    int r = 0;
    for (int side = 0; r == 0 && side < 2; side++) {
        const struct forest *forest = side ? before : after;
        for (size_t v = 0; r == 0 && v < forest->vertices.count; v++) {
            uint32_t path = forest->vertices.at[v].path;
            if (side && forest_vertex(after, path))
                continue;
            r = array_add(&all, vertex_change(book, before, after, path));
            struct forest_change edge = edge_change(before, after, path);
            if (r == 0 && (edge.calls_before > 0 || edge.calls_after > 0))
                r = array_add(&all, edge);
        }
    }
    if (r == 0)
        all.count = gather_lost(book, before, after, all.at, all.count);
    if (r == 0 && all.count)
        qsort(all.at, all.count, sizeof(*all.at), by_growth);
    size_t n = 0;
    for (size_t i = 0; r == 0 && i < all.count && n < room; i++) {
        struct forest_change *c = &all.at[i];
        if (fabs(c->after_ns - c->before_ns) < NOTABLE_NS)
            continue;
        c->share = fabs(growth) > 0 ? (c->after_ns - c->before_ns) / growth : 0;
        changes[n++] = *c;
    }
    array_done(&all);
    if (r == 0)
        *ret_count = n;
    return r;
}

const char *forest_change_name(enum change_kind kind)
{
    static const char *const names[] = {"slower",     "faster",     "appeared", "vanished",
                                        "more-calls", "sequential", "parallel", "edge"};
    return names[kind];
}

void forest_change_words(const struct book *book, const struct forest_change *c, struct text *to)
{
    char before[32], after[32];
    clock_format_duration((uint64_t)c->before_ns, before, sizeof(before));
    clock_format_duration((uint64_t)c->after_ns, after, sizeof(after));
    if (c->kind == CHANGE_EDGE)
        text_add(to, "network or queue before ");
    book_path_words(book, c->path, to);
    switch (c->kind) {
    case CHANGE_SEQUENTIAL:
        text_addf(to, ": %.1f calls ran at once, now they run one after another (%.1f)",
                  c->concurrency_before, c->concurrency_after);
        break;
    case CHANGE_PARALLEL:
        text_addf(to, ": calls that ran one after another now run at once (%.1f)", c->concurrency_after);
        break;
    case CHANGE_APPEARED:
        text_addf(to, ": new, %s on the critical path of a request", after);
        return;
    case CHANGE_VANISHED:
        text_addf(to, ": gone, was %s on the critical path of a request", before);
        return;
    case CHANGE_MORE_CALLS:
        text_addf(to, ": called %.1f times a request instead of %.1f", c->calls_after, c->calls_before);
        break;
    default:
        break;
    }
    text_addf(to, ": %s on the critical path of a request, was %s", after, before);
}
