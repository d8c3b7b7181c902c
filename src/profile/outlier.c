/* Outliers among equals. A weight counts as too large when it exceeds the median of its equals by half,
 * by 3.5 times their spread (median absolute deviation, scaled as for a normal distribution), and by four
 * times what sampling alone scatters (a count of n samples scatters by its root): the three together are
 * silent on equal instances, however few samples there are.
 *
 * Equals are processes of one name and one job (instance.h) that did not start each other, and threads of one
 * pool: of one process, with names that differ in the number at their end. Threads without a name of their
 * own have the name of the program; of them those are equals that begin in the same function of the
 * application.
 *
 * Where the profile says how its weights spread over time, instances are compared over the time in which both
 * were there, which must be half of an instance's life at least: compilers that a build starts one after the
 * other do the same job with different input, and who started later has done less. And an outlier exceeds
 * the median of its equals during most of its life: which thread of a pool gets one long task is chance. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/outlier.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/business.h"
#include "profile/windows.h"

enum {
    EQUALS_MIN = 3,
    LIFE_MIN = 4,   /* windows of an instance's life */
    COMMON_MIN = 2, /* and that it shares with an equal */
};
#define RATIO_MIN  1.5
#define SPREADS    3.5
#define MAD_NORMAL 1.4826
#define SCATTERS   4.0

struct instance {
    uint32_t node, process;
    bool is_thread;
    uint64_t key;    /* of its equals */
    uint64_t number; /* of the process or thread */
    uint64_t parent; /* of the process; 0: unknown */
    uint64_t weight, count;
    const float *windows; /* NULL: not known */
    int from, until;      /* the windows in which it was there all the time */
};

uint64_t profile_group_parts(const char *text, char *ret_name, size_t size)
{
    const char *from = strncmp(text, "thread ", 7) == 0 ? text + 7 : text;
    const char *open = strrchr(from, '(');
    bool numbered = open && open > from && open[-1] == ' ';
    size_t length = numbered ? (size_t)(open - 1 - from) : strlen(from);
    snprintf(ret_name, size, "%.*s", (int)MIN(length, size - 1), from);
    return numbered ? strtoull(open + 1, NULL, 10) : 0;
}

bool profile_is_instance(const struct profile *p, uint32_t at)
{
    const struct profile_node *node = &p->nodes.at[at];
    const char *text = profile_text(p, p->frames.at[node->frame].name), *open = strrchr(text, '(');
    bool outermost = node->parent == 0;
    if (!outermost && (p->nodes.at[node->parent].parent != 0 || strncmp(text, "thread ", 7) != 0))
        return false;
    size_t digits = open && open > text && open[-1] == ' ' ? strspn(open + 1, "0123456789") : 0;
    if (open && open > text && open[-1] == ' ' && strcmp(open, "(" PROFILE_ENDED ")") == 0)
        return true;
    return digits && strcmp(open + 1 + digits, ")") == 0;
}

/* The kernel's threads have their CPU and number in their name: "[kworker/0:1]". */
static void without_instance(char *name)
{
    char *slash = *name == '[' ? strchr(name, '/') : NULL;
    if (slash)
        strcpy(slash, "]");
}

int profile_by_service(const struct profile *p, struct profile **ret_profile)
{
    _cleanup_(profile_freep) struct profile *copy = NULL;
    uint32_t *nodes = calloc(p->nodes.count, sizeof(*nodes));
    if (!nodes || profile_new(&copy) < 0) {
        free(nodes);
        return -ENOMEM;
    }
    strcpy(copy->event, p->event);
    strcpy(copy->unit, p->unit);
    copy->period = p->period;
    copy->by_line = p->by_line;
    copy->start_ns = p->start_ns;
    copy->end_ns = p->end_ns;
    profile_count(copy, 0, p->nodes.at[0].count, p->nodes.at[0].weight);
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        struct profile_frame f = p->frames.at[n->frame];
        const char *name = profile_text(p, f.name);
        char plain[64];
        if (profile_is_instance(p, (uint32_t)i)) {
            (void)profile_group_parts(name, plain, sizeof(plain));
            without_instance(plain);
            name = plain;
            f = (struct profile_frame){.kind = FRAME_GROUP};
        }
        f.name = profile_string(copy, name);
        f.file = profile_string(copy, profile_text(p, f.file));
        f.module = profile_string(copy, profile_text(p, f.module));
        nodes[i] = profile_child(copy, nodes[n->parent], profile_add_frame(copy, &f));
        profile_count(copy, nodes[i], n->count, n->weight);
    }
    free(nodes);
    if (copy->failed)
        return -ENOMEM;
    *ret_profile = copy;
    copy = NULL;
    return 0;
}

/* Threads of one pool differ in the number at the end of their names: "io-worker-12", "pool-1-thread-3".
 * Other numbers are of the pool or the job: "C1 CompilerThre", "pool-2-thread-3". entry: where threads of the
 * program's own name begin; 0 for others. */
static uint64_t pool_key(uint32_t process, const char *name, uint32_t entry)
{
    char plain[96];
    size_t length = strlen(name);
    while (length && isdigit((unsigned char)name[length - 1]))
        length--;
    int n = snprintf(plain, sizeof(plain), "%u %u %.*s", process, entry, (int)MIN(length, 64u), name);
    return map_hash(plain, (size_t)n);
}

static int by_key(const void *a, const void *b)
{
    const struct instance *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int by_excess(const void *a, const void *b)
{
    const struct profile_outlier *x = a, *y = b;
    uint64_t ex = x->weight - x->median, ey = y->weight - y->median;
    return ex > ey ? -1 : ex < ey;
}

static uint64_t median_of(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_number);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

typedef ARRAY(struct instance) instances;
typedef ARRAY(struct profile_outlier) outliers;

static uint64_t number_of(const struct profile *p, uint32_t group)
{
    char name[64];
    return profile_group_parts(profile_text(p, p->frames.at[p->nodes.at[group].frame].name), name,
                               sizeof(name));
}

/* ---- where threads begin ---- */

/* By the node of each process and thread: the function of the application, as a frame, below which most of
 * its weight lies, called by none of the application; 0: none. owner: the group above each node. Owned by the
 * caller, NULL when memory ran out. */
static uint32_t *entries_of(const struct profile *p, const uint64_t *totals, const uint32_t *owner)
{
    uint32_t *entries = calloc(p->nodes.count + 1, sizeof(*entries)); /* nodes, at first */
    bool *within = calloc(p->nodes.count + 1, sizeof(*within));       /* an application's function */
    uint8_t *library = malloc(p->frames.count + 1);
    bool failed = !entries || !within || !library;
    for (size_t i = 0; !failed && i < p->frames.count; i++)
        library[i] = business_is_library(p, NULL, (uint32_t)i);
    for (size_t i = 1; !failed && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        bool above = within[n->parent];
        within[i] = above || !library[n->frame];
        if (within[i] && !above && (!entries[owner[i]] || totals[i] > totals[entries[owner[i]]]))
            entries[owner[i]] = (uint32_t)i;
    }
    for (size_t i = 0; !failed && i < p->nodes.count; i++)
        entries[i] = entries[i] ? p->nodes.at[entries[i]].frame : 0;
    free(within);
    free(library);
    if (!failed)
        return entries;
    free(entries);
    return NULL;
}

/* ---- instances ---- */

/* Without its windows nothing is said of its life. */
static void set_life(const struct profile *p, struct instance *x)
{
    const struct profile_windows *w = p->windows;
    uint32_t frame = p->nodes.at[x->node].frame;
    struct profile_instance known = {0};
    if (!w || frame >= w->frames.count)
        return;
    if (frame < w->instances.count)
        known = w->instances.at[frame];
    x->parent = (uint64_t)known.parent;
    x->windows = w->frames.at[frame].total;
    int first = 0, last = WINDOWS - 1;
    while (first < last && x->windows[first] <= 0)
        first++;
    while (last > first && x->windows[last] <= 0)
        last--;
    x->from = first;
    x->until = last + 1;
    if (!w->width_ns || !known.from_ns)
        return;
    x->from =
        known.from_ns <= w->start_ns
            ? 0
            : (int)MIN((known.from_ns - w->start_ns + w->width_ns - 1) / w->width_ns, (uint64_t)WINDOWS);
    if (known.until_ns)
        x->until = known.until_ns <= w->start_ns
                       ? 0
                       : (int)MIN((known.until_ns - w->start_ns) / w->width_ns, (uint64_t)WINDOWS);
    else if (!x->is_thread) /* a thread may have ended after its last sample */
        x->until = (int)w->used;
}

static uint64_t job_of(const struct profile *p, uint32_t node)
{
    uint32_t frame = p->nodes.at[node].frame;
    return p->windows && frame < p->windows->instances.count ? p->windows->instances.at[frame].job : 0;
}

static bool collect(const struct profile *p, const uint64_t *totals, const uint32_t *owner, uint64_t *counts,
                    instances *list)
{
    uint32_t *entries = entries_of(p, totals, owner);
    if (!entries)
        return false;
    for (size_t i = p->nodes.count; i-- > 1;) {
        counts[i] += p->nodes.at[i].count;
        counts[p->nodes.at[i].parent] += counts[i];
    }
    bool failed = false;
    for (size_t i = 1; i < p->nodes.count && !failed; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        const char *text = profile_text(p, p->frames.at[n->frame].name);
        char name[64], process[64];
        if (p->frames.at[n->frame].kind != FRAME_GROUP || (n->parent && p->nodes.at[n->parent].parent))
            continue;
        /* Processes that ended without a number are many. */
        uint64_t number = profile_group_parts(text, name, sizeof(name));
        if (!number)
            continue;
        /* The threads that a program started do not have its main thread's work to do, whatever their names.
         */
        if (n->parent && number == number_of(p, n->parent))
            continue;
        struct instance x = {.node = (uint32_t)i, .number = number, .weight = totals[i], .count = counts[i]};
        x.is_thread = strncmp(text, "thread ", 7) == 0;
        x.process = x.is_thread && n->parent ? n->parent : (uint32_t)i;
        uint64_t identity[2] = {map_hash(name, strlen(name)), job_of(p, (uint32_t)i)};
        x.key = map_hash(identity, sizeof(identity));
        if (x.is_thread && n->parent) {
            (void)profile_group_parts(profile_text(p, p->frames.at[p->nodes.at[n->parent].frame].name),
                                      process, sizeof(process));
            bool unnamed = strcmp(name, process) == 0;
            uint32_t entry = unnamed ? entries[i] : 0;
            if (unnamed && !entry)
                continue;
            x.key = pool_key(x.process, name, entry);
        }
        set_life(p, &x);
        failed = array_add(list, x) < 0;
    }
    free(entries);
    return !failed;
}

static double sum_of(const float *weights, int from, int until)
{
    double sum = 0;
    for (int w = from; w < until; w++)
        sum += (double)weights[w];
    return sum;
}

static bool is_parent(const struct instance *equals, size_t count, size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (equals[k].parent && equals[k].parent == equals[i].number)
            return true;
    return false;
}

/* What the other would weigh had it been there as long as this one. False: the time in which both were there
 * is too short to say. */
static bool weight_beside(const struct instance *x, const struct instance *other, uint64_t *ret_weight)
{
    *ret_weight = other->weight;
    if (!x->windows || !other->windows)
        return true;
    int from = MAX(x->from, other->from), until = MIN(x->until, other->until), common = until - from;
    if (x->until - x->from < LIFE_MIN || common < COMMON_MIN || 2 * common < x->until - x->from)
        return false;
    double own = sum_of(x->windows, from, until);
    if (own <= 0)
        return false;
    *ret_weight = (uint64_t)((double)x->weight * (sum_of(other->windows, from, until) / own) + 0.5);
    return true;
}

/* Does it exceed the median of its equals in most windows of its life? */
static bool exceeds_mostly(const struct instance *equals, size_t count, const bool *is_equal, size_t i,
                           uint64_t *scratch)
{
    const struct instance *x = &equals[i];
    int exceeds = 0;
    if (!x->windows)
        return true;
    for (int w = x->from; w < x->until; w++) {
        size_t n = 0;
        for (size_t k = 0; k < count; k++)
            if (is_equal[k] && equals[k].windows && equals[k].from <= w && w < equals[k].until)
                scratch[n++] = (uint64_t)equals[k].windows[w];
        exceeds += n && (uint64_t)x->windows[w] > median_of(scratch, n);
    }
    return 2 * exceeds > x->until - x->from;
}

/* Is the i-th of these too large? ret_is_equal: with which of them it was compared. */
static bool stands_out(const struct instance *equals, size_t count, size_t i, uint64_t *scratch,
                       bool *ret_is_equal, struct profile_outlier *outlier)
{
    size_t n = 0;
    for (size_t k = 0; k < count; k++) {
        ret_is_equal[k] =
            k != i && !is_parent(equals, count, k) && weight_beside(&equals[i], &equals[k], &scratch[n]);
        n += ret_is_equal[k];
    }
    outlier->equals = n;
    if (n < EQUALS_MIN || is_parent(equals, count, i))
        return false;
    uint64_t median = median_of(scratch, n);
    for (size_t k = 0; k < n; k++)
        scratch[k] = scratch[k] > median ? scratch[k] - median : median - scratch[k];
    double spread = MAD_NORMAL * (double)median_of(scratch, n);
    const struct instance *x = &equals[i];
    double period = x->count ? (double)x->weight / (double)x->count : 0;
    double scatter = period * sqrt((double)x->count + (period > 0 ? (double)median / period : 0));
    double excess = (double)x->weight - (double)median;
    outlier->median = median;
    return (double)x->weight >= RATIO_MIN * (double)median && excess > SPREADS * spread &&
           excess > SCATTERS * scatter && exceeds_mostly(equals, count, ret_is_equal, i, scratch);
}

/* The function with the largest excess over the mean of the equals: own weights, by the function's frame. */
static bool explain(const struct profile *p, const struct instance *equals, size_t count, size_t i,
                    const bool *is_equal, const uint32_t *owner, struct profile_outlier *outlier)
{
    struct map mine = {0}, theirs = {0}, member = {0};
    bool failed = false;
    for (size_t k = 0; k < count; k++) {
        if (k != i && !is_equal[k])
            continue;
        uint64_t *at = map_put(&member, equals[k].node, NULL);
        failed |= !at;
        if (at)
            *at = k == i;
    }
    for (size_t node = 1; !failed && node < p->nodes.count; node++) {
        uint32_t at = owner[node];
        uint64_t *is_mine = p->nodes.at[node].weight ? map_get(&member, at) : NULL;
        if (!is_mine && at) /* a thread's stacks are its process's, too */
            is_mine = p->nodes.at[node].weight ? map_get(&member, owner[at]) : NULL;
        if (!is_mine)
            continue;
        uint64_t *sum = map_put(*is_mine ? &mine : &theirs, p->nodes.at[node].frame, NULL);
        failed |= !sum;
        if (sum)
            *sum += p->nodes.at[node].weight;
    }
    map_foreach (&mine, slot) {
        uint64_t *other = map_get(&theirs, slot->key), mean = other ? *other / outlier->equals : 0;
        uint64_t before = outlier->frame_weight - outlier->frame_mean;
        if (slot->value > mean && slot->value - mean > before) {
            outlier->frame = (uint32_t)slot->key;
            outlier->frame_weight = slot->value;
            outlier->frame_mean = mean;
        }
    }
    map_done(&mine);
    map_done(&theirs);
    map_done(&member);
    return !failed;
}

static int find_among(const struct profile *p, const struct instance *equals, size_t count,
                      const uint32_t *owner, uint64_t *scratch, bool *is_equal, outliers *found)
{
    for (size_t k = 0; count > EQUALS_MIN && k < count; k++) {
        struct profile_outlier o = {.node = equals[k].node,
                                    .process = equals[k].process,
                                    .is_thread = equals[k].is_thread,
                                    .weight = equals[k].weight};
        if (!stands_out(equals, count, k, scratch, is_equal, &o))
            continue;
        if (!explain(p, equals, count, k, is_equal, owner, &o) || array_add(found, o) < 0)
            return -ENOMEM;
    }
    return 0;
}

struct profile_outlier *profile_outliers(const struct profile *p, size_t *ret_count)
{
    instances list = {0};
    outliers found = {0};
    uint64_t *totals = profile_totals(p), *counts = calloc(p->nodes.count + 1, sizeof(*counts));
    uint32_t *owner = calloc(p->nodes.count + 1, sizeof(*owner)); /* the group above each node */
    for (size_t i = 1; owner && i < p->nodes.count; i++) {
        uint32_t parent = p->nodes.at[i].parent;
        bool group = p->frames.at[p->nodes.at[parent].frame].kind == FRAME_GROUP && parent;
        owner[i] = group ? parent : owner[parent];
    }
    /* Waiting is no cost: who waits longer than others has less to do. */
    bool failed =
        !totals || !counts || !owner || (!profile_has_waits(p) && !collect(p, totals, owner, counts, &list));
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_key);
    uint64_t *scratch = malloc((list.count + 1) * sizeof(*scratch));
    bool *is_equal = malloc(list.count + 1);
    failed |= !scratch || !is_equal;
    for (size_t i = 0, end; !failed && i < list.count; i = end) {
        for (end = i + 1; end < list.count && list.at[end].key == list.at[i].key;)
            end++;
        failed = find_among(p, list.at + i, end - i, owner, scratch, is_equal, &found) < 0;
    }
    array_done(&list);
    free(totals);
    free(counts);
    free(owner);
    free(scratch);
    free(is_equal);
    if (failed) {
        array_done(&found);
        return NULL;
    }
    if (found.count)
        qsort(found.at, found.count, sizeof(*found.at), by_excess);
    *ret_count = found.count;
    return found.at ? found.at : calloc(1, sizeof(struct profile_outlier));
}
