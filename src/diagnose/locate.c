/* See locate.h. Four kinds of evidence, each a number per service:
 *
 *   inside   its own time grew (an operation's time without what it calls)
 *   into     the gaps between callers' and callee's spans grew for all of its callers: its network, or it is
 * too busy to take calls. One caller's gaps that grew towards all of its callees are that caller's instead.
 *   out of   the gaps grew towards all services that it calls
 *   broken   calls end after it, or within it, that used to go on: an error or an early return
 *
 * An edge has a time of its own; charging it to the caller hides faults of the network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/locate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define FLOOR_NS     50000.0 /* added to both sides of a ratio: differences of microseconds are nothing */
#define TAIL_WEIGHT  0.3
#define TIE_WEIGHT   0.05
#define BROKEN_MIN   0.04
#define CALLER_SHARE 0.8
#define CALLS_MIN    8

/* One operation's own time, one edge's gap, or one (parent, last child): pooled over call paths. */
struct feature {
    uint32_t service, other; /* numbers in `names`; other: the callee of an edge */
    struct sketch before, after;
    uint64_t before_calls, after_calls;
    uint32_t parent;                        /* for last children: the service that called */
    uint64_t before_parents, after_parents; /* and its calls */
};

enum feature_kind { FEATURE_SELF, FEATURE_EDGE, FEATURE_LAST, FEATURE_KINDS };

struct features {
    struct names names; /* of services and operations of both books */
    ARRAY(struct feature) list[FEATURE_KINDS];
    struct map index[FEATURE_KINDS];
    struct map service_of; /* service name's number: index of struct suspect */
    double requests[2];
};

static int put(struct features *f, enum feature_kind kind, const uint32_t *identity, size_t size,
               struct feature **ret_feature)
{
    bool added;
    uint64_t *slot = map_put(&f->index[kind], map_hash(identity, size), &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        *slot = f->list[kind].count;
        if (array_add(&f->list[kind], (struct feature){0}) < 0)
            return -ENOMEM;
    }
    *ret_feature = &f->list[kind].at[*slot];
    return 0;
}

static uint32_t shared_name(struct features *f, const struct book *book, uint32_t name)
{
    return names_put(&f->names, slice_of(names_get(book->names, name)));
}

/* The callee of a client's path: the service of its child in another service; its own where there is none. */
static uint32_t callee_service(const struct book *book, const struct map *callee_of, uint32_t path)
{
    const uint64_t *child = map_get(callee_of, path);
    return book->paths.at[child ? *child : path].service;
}

static int add_self(struct features *f, const struct book *book, const struct vertex *v, int side)
{
    const struct path *path = &book->paths.at[v->path];
    uint32_t identity[] = {shared_name(f, book, path->service), shared_name(f, book, path->name)};
    struct feature *feature;
    int r = put(f, FEATURE_SELF, identity, sizeof(identity), &feature);
    if (r < 0)
        return r;
    feature->service = identity[0];
    *(side ? &feature->after_calls : &feature->before_calls) += v->calls;
    return sketch_merge(side ? &feature->after : &feature->before, &v->self);
}

static int add_edge(struct features *f, const struct book *book, const struct vertex *v, int side)
{
    const struct path *path = &book->paths.at[v->path], *caller = &book->paths.at[path->parent];
    uint32_t identity[] = {shared_name(f, book, caller->service), shared_name(f, book, path->service),
                           shared_name(f, book, path->name)};
    struct feature *feature;
    int r = put(f, FEATURE_EDGE, identity, sizeof(identity), &feature);
    if (r < 0)
        return r;
    feature->service = identity[0];
    feature->other = identity[1];
    *(side ? &feature->after_calls : &feature->before_calls) += v->edges;
    return sketch_merge(side ? &feature->after : &feature->before, &v->edge);
}

/* How often a call under this parent is the last one; or, of a vertex, that there is none. */
static int add_last(struct features *f, const struct book *book, uint32_t parent, uint64_t parent_calls,
                    uint32_t child, uint64_t last, uint32_t blamed, int side)
{
    const struct path *p = &book->paths.at[parent];
    uint32_t identity[] = {shared_name(f, book, p->service), shared_name(f, book, p->name), NAMES_NONE,
                           NAMES_NONE};
    struct feature *feature;
    if (child != BOOK_NONE) {
        identity[2] = shared_name(f, book, book->paths.at[child].service);
        identity[3] = shared_name(f, book, book->paths.at[child].name);
    }
    int r = put(f, FEATURE_LAST, identity, sizeof(identity), &feature);
    if (r < 0)
        return r;
    /* A call's callee is known only while it answers: what was seen of it once stays. */
    uint32_t service = shared_name(f, book, blamed);
    if (!feature->other || service != identity[0])
        feature->service = service;
    feature->other = 1;
    feature->parent = identity[0];
    *(side ? &feature->after_calls : &feature->before_calls) += last;
    *(side ? &feature->after_parents : &feature->before_parents) += parent_calls;
    return 0;
}

static int add_group(struct features *f, const struct book *book, const struct group *group, int side)
{
    struct map callee_of = {0};
    int r = 0;
    array_foreach (&group->vertices, v) {
        uint32_t parent = book->paths.at[v->path].parent;
        uint64_t *slot = v->edges && parent != BOOK_NONE ? map_put(&callee_of, parent, NULL) : NULL;
        if (slot)
            *slot = v->path;
    }
    array_foreach (&group->vertices, v) {
        uint32_t parent = book->paths.at[v->path].parent;
        const struct vertex *up = parent == BOOK_NONE ? NULL : group_vertex(group, parent);
        if (r == 0 && !map_get(&callee_of, v->path)) /* a client's own time is the edge */
            r = add_self(f, book, v, side);
        if (r == 0 && v->edges)
            r = add_edge(f, book, v, side);
        if (r == 0 && up)
            r = add_last(f, book, parent, up->calls, v->path, v->last,
                         callee_service(book, &callee_of, v->path), side);
        if (r == 0)
            r = add_last(f, book, v->path, v->calls, BOOK_NONE, v->childless,
                         callee_service(book, &callee_of, v->path), side);
    }
    map_done(&callee_of);
    f->requests[side] += (double)group->requests;
    return r;
}

static int add_book(struct features *f, const struct book *book, int side)
{
    int r = 0;
    array_foreach (&book->buckets, bucket)
        array_foreach (&bucket->groups, group)
            if (r == 0 && bucket->whole)
                r = add_group(f, book, group, side);
    return r;
}

/* The growth of a feature: of its middle, and a little of its tail, less what chance would do. Never
 * negative. The median of a distribution with two humps jumps from one to the other by chance, the mean of
 * the logarithms does not; the mean is moved by a few outliers, the median is not: the middle grew when both
 * did.
 */
static double growth(const struct feature *f)
{
    double mean_before, mean_after, a, b;
    double n = (double)f->before_calls, m = (double)f->after_calls;
    if (f->before_calls < CALLS_MIN || f->after_calls < CALLS_MIN)
        return 0;
    sketch_log_moments(&f->before, &mean_before, &a);
    sketch_log_moments(&f->after, &mean_after, &b);
    double median =
        log((sketch_quantile(&f->after, 0.5) + FLOOR_NS) / (sketch_quantile(&f->before, 0.5) + FLOOR_NS));
    double tail =
        log((sketch_quantile(&f->after, 0.9) + FLOOR_NS) / (sketch_quantile(&f->before, 0.9) + FLOOR_NS));
    double chance = 1.5 * sqrt(fmin(a, 4) / n + fmin(b, 4) / m);
    double middle = fmin(median - chance, mean_after - mean_before - 1.5 * sqrt(a / n + b / m));
    return fmax(middle, 0) + TAIL_WEIGHT * fmax(tail - 2 * chance, 0);
}

static struct suspect *suspect_of(struct features *f, struct suspect *suspects, size_t room, size_t *count,
                                  uint32_t service)
{
    bool added;
    uint64_t *slot = map_put(&f->service_of, service, &added);
    if (!slot)
        return NULL;
    if (added) {
        *slot = *count;
        if (*count < room)
            suspects[(*count)++] = (struct suspect){.service = names_get(&f->names, service)};
    }
    return *slot < *count ? &suspects[*slot] : NULL;
}

static void look_inside(struct features *f, struct suspect *suspects, size_t room, size_t *count)
{
    array_foreach (&f->list[FEATURE_SELF], feature) {
        struct suspect *s = suspect_of(f, suspects, room, count, feature->service);
        if (!s)
            continue;
        s->inside = fmax(s->inside, growth(feature));
        double before =
            sketch_mean(&feature->before) * (double)feature->before.count / fmax(f->requests[0], 1);
        double after = sketch_mean(&feature->after) * (double)feature->after.count / fmax(f->requests[1], 1);
        s->rule_self += after - before;
        if (feature->before_calls >= CALLS_MIN && feature->after_calls >= CALLS_MIN)
            s->rule_total = fmax(s->rule_total, sketch_quantile(&feature->after, 0.95) /
                                                    fmax(sketch_quantile(&feature->before, 0.95), 1000));
    }
}

/* What the edges of one side of a service share: the growth that a quarter of them stay below at most. */
static double shared_growth(const struct features *f, uint32_t service, bool into, uint32_t *ret_others)
{
    double values[256];
    uint32_t others[256], different = 0;
    size_t n = 0;
    array_foreach (&f->list[FEATURE_EDGE], edge) {
        uint32_t here = into ? edge->other : edge->service, there = into ? edge->service : edge->other;
        if (here != service || n == ARRAY_SIZE(values) || edge->before_calls < CALLS_MIN ||
            edge->after_calls < CALLS_MIN)
            continue;
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= others[i] == there;
        different += !known;
        others[n] = there;
        values[n++] = growth(edge);
    }
    *ret_others = different;
    return n ? stats_quantile(values, n, 0.25) : 0;
}

static void look_at_edges(struct features *f, struct suspect *suspects, size_t room, size_t *count)
{
    array_foreach (&f->list[FEATURE_EDGE], edge) {
        suspect_of(f, suspects, room, count, edge->service);
        suspect_of(f, suspects, room, count, edge->other);
    }
    map_foreach (&f->service_of, slot) {
        uint32_t others;
        if (slot->value >= *count)
            continue;
        struct suspect *s = &suspects[slot->value];
        double out = shared_growth(f, (uint32_t)slot->key, false, &others);
        s->out_of = others >= 3 ? out : 0; /* of two callees, one may be at fault */
    }
    map_foreach (&f->service_of, slot) {
        uint32_t others;
        double callers = 0;
        if (slot->value >= *count)
            continue;
        array_foreach (&f->list[FEATURE_EDGE], edge) {
            const uint64_t *caller = map_get(&f->service_of, edge->service);
            if (edge->other == slot->key && caller && *caller < *count)
                callers = fmax(callers, suspects[*caller].out_of);
        }
        suspects[slot->value].into = fmax(shared_growth(f, (uint32_t)slot->key, true, &others) - callers, 0);
    }
}

/* How much more often calls end so than they used to, beyond chance. */
static double more_often(const struct feature *last)
{
    if (last->after_parents < CALLS_MIN || last->before_parents < CALLS_MIN)
        return 0;
    double after = (double)last->after_calls / (double)last->after_parents;
    double before = (double)last->before_calls / (double)last->before_parents;
    double chance = 1.5 * sqrt(fmax(before * (1 - before), 0.01) / (double)last->before_parents +
                               fmax(after * (1 - after), 0.01) / (double)last->after_parents);
    double more = after - before - chance;
    return more > BROKEN_MIN ? more : 0;
}

/* A caller that stops after a call was most often stopped by what it called; else it stopped by itself. */
static void look_for_breaks(struct features *f, struct suspect *suspects, size_t room, size_t *count)
{
    array_foreach (&f->list[FEATURE_LAST], last) {
        double more = more_often(last);
        struct suspect *callee = suspect_of(f, suspects, room, count, last->service);
        if (callee)
            callee->broken = fmax(callee->broken, more);
        struct suspect *caller = suspect_of(f, suspects, room, count, last->parent);
        if (caller)
            caller->broken = fmax(caller->broken, CALLER_SHARE * more);
    }
}

const struct locate_weights LOCATE_WEIGHTS = {.into = 1.15, .out_of = 1.2, .broken = 12, .others = 0.2};

static double strongest_of(const struct suspect *s, const struct locate_weights *w)
{
    return fmax(fmax(s->inside, w->into * s->into), fmax(w->out_of * s->out_of, w->broken * s->broken));
}

double locate_strength(const struct suspect *s)
{
    return strongest_of(s, &LOCATE_WEIGHTS) / (1 + TAIL_WEIGHT);
}

double locate_score(const struct suspect *s, const struct locate_weights *w)
{
    double strongest = strongest_of(s, w);
    double rest = TIE_WEIGHT * log(fmax(s->rule_total, 1)); /* where chance explains all, the largest ratio */
    return strongest + rest +
           w->others * (s->inside + w->into * s->into + s->out_of + w->broken * s->broken - strongest);
}

/* Growth counts the middle and a part of the tail; this is how many times as long, where both grew alike. */
static double times_of(double growth)
{
    return exp(growth / (1 + TAIL_WEIGHT));
}

static void conclude(struct suspect *s)
{
    char buffer[256];
    const struct locate_weights *w = &LOCATE_WEIGHTS;
    double into = w->into * s->into, broken = w->broken * s->broken, strongest = strongest_of(s, w);
    s->score = locate_score(s, w);
    if (s->score <= 0)
        snprintf(buffer, sizeof(buffer), "nothing differs");
    else if (strongest <= 0)
        snprintf(buffer, sizeof(buffer),
                 "nothing differs beyond chance; the p95 of an operation is %.1f times as long",
                 s->rule_total);
    else if (strongest == s->inside)
        snprintf(buffer, sizeof(buffer), "its own time is %.1f times as long", times_of(s->inside));
    else if (strongest == into)
        snprintf(buffer, sizeof(buffer), "calls into it wait %.1f times as long outside of it",
                 times_of(s->into));
    else if (strongest == broken)
        snprintf(buffer, sizeof(buffer), "%.0f %% more of the calls end with it", s->broken * 100);
    else
        snprintf(buffer, sizeof(buffer), "all its calls to others wait %.1f times as long",
                 times_of(s->out_of));
    snprintf(s->why, sizeof(s->why), "%s", buffer);
}

static int by_score(const void *a, const void *b)
{
    const struct suspect *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

static void features_done(struct features *f)
{
    for (int kind = 0; kind < FEATURE_KINDS; kind++) {
        array_foreach (&f->list[kind], feature) {
            sketch_done(&feature->before);
            sketch_done(&feature->after);
        }
        array_done(&f->list[kind]);
        map_done(&f->index[kind]);
    }
    names_done(&f->names);
    map_done(&f->service_of);
}

int locate(const struct book *normal, const struct book *faulty, struct suspect *suspects, size_t room,
           size_t *ret_count)
{
    struct features f = {0};
    size_t count = 0;
    int r = add_book(&f, normal, 0);
    if (r == 0)
        r = add_book(&f, faulty, 1);
    if (r == 0) {
        look_inside(&f, suspects, room, &count);
        look_at_edges(&f, suspects, room, &count);
        look_for_breaks(&f, suspects, room, &count);
        for (size_t i = 0; i < count; i++) {
            struct suspect *s = &suspects[i];
            conclude(s);
            /* The names go; the books' stay. */
            uint32_t number = names_find(faulty->names, slice_of(s->service));
            const struct names *names = number == NAMES_NONE ? normal->names : faulty->names;
            if (number == NAMES_NONE)
                number = names_find(normal->names, slice_of(s->service));
            s->service = names_get(names, number);
        }
        qsort(suspects, count, sizeof(*suspects), by_score);
        *ret_count = count;
    }
    features_done(&f);
    return r;
}
