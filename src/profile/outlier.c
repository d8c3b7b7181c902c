/* Outliers among equals. A weight counts as too large when it exceeds the median of its equals by half,
 * by 3.5 times their spread (median absolute deviation, scaled as for a normal distribution), and by four
 * times what sampling alone scatters (a count of n samples scatters by its root): the three together are
 * silent on equal instances, however few samples there are. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/outlier.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EQUALS_MIN = 3 };
#define RATIO_MIN  1.5
#define SPREADS    3.5
#define MAD_NORMAL 1.4826
#define SCATTERS   4.0

struct instance {
    uint32_t node, process;
    bool is_thread;
    uint64_t key; /* of its equals */
    uint64_t weight, count;
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

/* Threads of one pool differ in their number: "io-worker-12", "pool-1-thread-3". */
static uint64_t pool_key(uint32_t process, const char *name)
{
    char plain[72];
    size_t n = 0;
    n = (size_t)snprintf(plain, sizeof(plain), "%u ", process);
    for (const char *at = name; *at && n + 1 < sizeof(plain); at++)
        if (*at < '0' || *at > '9')
            plain[n++] = *at;
    return map_hash(plain, n);
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

static uint64_t number_of(const struct profile *p, uint32_t group)
{
    char name[64];
    return profile_group_parts(profile_text(p, p->frames.at[p->nodes.at[group].frame].name), name,
                               sizeof(name));
}

static bool collect(const struct profile *p, const uint64_t *totals, uint64_t *counts, instances *list)
{
    for (size_t i = p->nodes.count; i-- > 1;) {
        counts[i] += p->nodes.at[i].count;
        counts[p->nodes.at[i].parent] += counts[i];
    }
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        const char *text = profile_text(p, p->frames.at[n->frame].name);
        char name[64];
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
        struct instance x = {.node = (uint32_t)i, .weight = totals[i], .count = counts[i]};
        x.is_thread = strncmp(text, "thread ", 7) == 0;
        x.process = x.is_thread && n->parent ? n->parent : (uint32_t)i;
        x.key = x.is_thread ? pool_key(x.process, name) : map_hash(name, strlen(name));
        if (array_add(list, x) < 0)
            return false;
    }
    return true;
}

/* Is the i-th of these equals too large? */
static bool stands_out(const struct instance *equals, size_t count, size_t i, uint64_t *scratch,
                       uint64_t *ret_median)
{
    size_t n = 0;
    for (size_t k = 0; k < count; k++)
        if (k != i)
            scratch[n++] = equals[k].weight;
    uint64_t median = median_of(scratch, n);
    for (size_t k = 0; k < n; k++)
        scratch[k] = scratch[k] > median ? scratch[k] - median : median - scratch[k];
    double spread = MAD_NORMAL * (double)median_of(scratch, n);
    const struct instance *x = &equals[i];
    double period = x->count ? (double)x->weight / (double)x->count : 0;
    double scatter = period * sqrt((double)x->count + (period > 0 ? (double)median / period : 0));
    double excess = (double)x->weight - (double)median;
    *ret_median = median;
    return (double)x->weight >= RATIO_MIN * (double)median && excess > SPREADS * spread &&
           excess > SCATTERS * scatter;
}

/* The function with the largest excess over the mean of the equals: own weights, by the function's frame. */
static bool explain(const struct profile *p, const struct instance *equals, size_t count, size_t i,
                    const uint32_t *owner, struct profile_outlier *outlier)
{
    struct map mine = {0}, theirs = {0}, member = {0};
    bool failed = false;
    for (size_t k = 0; k < count; k++) {
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
        uint64_t *other = map_get(&theirs, slot->key), mean = other ? *other / (count - 1) : 0;
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

struct profile_outlier *profile_outliers(const struct profile *p, size_t *ret_count)
{
    instances list = {0};
    ARRAY(struct profile_outlier) outliers = {0};
    uint64_t *totals = profile_totals(p), *counts = calloc(p->nodes.count + 1, sizeof(*counts));
    uint32_t *owner = calloc(p->nodes.count + 1, sizeof(*owner)); /* the group above each node */
    uint64_t *scratch = NULL;
    bool failed = !totals || !counts || !owner || !collect(p, totals, counts, &list);
    for (size_t i = 1; !failed && i < p->nodes.count; i++) {
        uint32_t parent = p->nodes.at[i].parent;
        bool group = p->frames.at[p->nodes.at[parent].frame].kind == FRAME_GROUP && parent;
        owner[i] = group ? parent : owner[parent];
    }
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_key);
    scratch = malloc((list.count + 1) * sizeof(*scratch));
    failed |= !scratch;
    for (size_t i = 0, end; !failed && i < list.count; i = end) {
        for (end = i + 1; end < list.count && list.at[end].key == list.at[i].key;)
            end++;
        for (size_t k = i; end - i > EQUALS_MIN && k < end && !failed; k++) {
            struct profile_outlier o = {.node = list.at[k].node,
                                        .process = list.at[k].process,
                                        .is_thread = list.at[k].is_thread,
                                        .equals = end - i - 1,
                                        .weight = list.at[k].weight};
            if (!stands_out(list.at + i, end - i, k - i, scratch, &o.median))
                continue;
            failed |= !explain(p, list.at + i, end - i, k - i, owner, &o) || array_add(&outliers, o) < 0;
        }
    }
    array_done(&list);
    free(totals);
    free(counts);
    free(owner);
    free(scratch);
    if (failed) {
        array_done(&outliers);
        return NULL;
    }
    if (outliers.count)
        qsort(outliers.at, outliers.count, sizeof(*outliers.at), by_excess);
    *ret_count = outliers.count;
    return outliers.at ? outliers.at : calloc(1, sizeof(struct profile_outlier));
}
