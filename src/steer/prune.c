/* See prune.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profile/outlier.h"

struct thread {
    uint32_t node, process;
    uint64_t weight;
};

struct threads {
    ARRAY(struct thread) list;
    uint32_t *of; /* by node: its thread's index + 1; 0: none */
};

static void threads_done(struct threads *t)
{
    array_done(&t->list);
    free(t->of);
}

static int find_threads(const struct profile *p, struct threads *ret_threads)
{
    struct threads t = {.of = calloc(p->nodes.count, sizeof(*t.of))};
    bool failed = !t.of;
    for (size_t i = 1; !failed && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        struct thread fresh = {.node = (uint32_t)i, .process = n->parent};
        t.of[i] = t.of[n->parent];
        if (n->parent && !t.of[i] && profile_is_instance(p, (uint32_t)i)) {
            failed = array_add(&t.list, fresh) < 0;
            t.of[i] = (uint32_t)t.list.count;
        }
        if (!failed && t.of[i])
            t.list.at[t.of[i] - 1].weight += n->weight;
    }
    if (failed) {
        threads_done(&t);
        return -ENOMEM;
    }
    *ret_threads = t;
    return 0;
}

static int by_process_and_weight(const void *a, const void *b)
{
    const struct thread *x = *(struct thread *const *)a, *y = *(struct thread *const *)b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->node < y->node ? -1 : 1; /* of equals, the one that was met first */
}

/* Marks the threads that are folded. */
static int choose(const struct threads *t, double percent, bool *rare, struct prune_result *result)
{
    struct thread **order = calloc(t->list.count + 1, sizeof(struct thread *));
    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < t->list.count; i++)
        order[i] = &t->list.at[i];
    if (t->list.count)
        qsort(order, t->list.count, sizeof(struct thread *), by_process_and_weight);
    for (size_t i = 0, end; i < t->list.count; i = end) {
        uint64_t all = 0, reached = 0;
        for (end = i; end < t->list.count && order[end]->process == order[i]->process; end++)
            all += order[end]->weight;
        for (size_t k = i; k < end; k++) {
            bool enough = (double)reached >= percent / 100 * (double)all && (k > i || !all);
            rare[order[k] - t->list.at] = enough;
            result->kept += !enough;
            result->rare_weight += enough ? order[k]->weight : 0;
            reached += order[k]->weight;
        }
    }
    result->threads = t->list.count;
    free(order);
    return 0;
}

/* Nodes are made anew in their own place: none comes to stand behind where it was. */
static int fold(struct profile *p, const struct threads *t, const bool *rare, bool keep_threads)
{
    uint32_t frame = profile_named_frame(p, PRUNE_RARE, FRAME_TRUNCATED);
    uint32_t *moved = calloc(p->nodes.count, sizeof(*moved));
    size_t count = p->nodes.count;
    if (!moved || !frame) {
        free(moved);
        return -ENOMEM;
    }
    p->nodes.count = 1;
    profile_index_again(p);
    for (size_t i = 1; i < count; i++) {
        struct profile_node n = p->nodes.at[i];
        const struct thread *thread = t->of[i] ? &t->list.at[t->of[i] - 1] : NULL;
        if (thread && rare[thread - t->list.at])
            moved[i] = profile_child(p, moved[thread->process], frame);
        else if (thread && thread->node == i && !keep_threads)
            moved[i] = moved[n.parent];
        else
            moved[i] = profile_child(p, moved[n.parent], n.frame);
        profile_count(p, moved[i], n.count, n.weight);
    }
    array_foreach (&p->samples, s)
        s->node = moved[s->node];
    free(moved);
    p->serial = profile_next_serial();
    return 0;
}

/* ---- what it costs ---- */

static bool is_code(const struct profile *p, uint32_t frame)
{
    uint8_t kind = p->frames.at[frame].kind;
    return kind != FRAME_GROUP && kind != FRAME_TRUNCATED;
}

static int measure(const struct profile *p, const struct profile_function *before, size_t count,
                   struct prune_result *result)
{
    static const size_t TOPS[PRUNE_TOPS] = {5, 10, 20, 50};
    size_t after_count, measured = 0, next = 0;
    struct map own = {0};
    double sum = 0, largest = 0;
    struct profile_function *after = profile_functions(p, &after_count);
    bool failed = !after;
    for (size_t i = 0; !failed && i < after_count; i++) {
        uint64_t *at = map_put(&own, profile_function_key(p, after[i].frame), NULL);
        failed = !at;
        if (at)
            *at = after[i].self;
    }
    for (size_t i = 0; !failed && i < count && next < PRUNE_TOPS; i++) {
        if (!is_code(p, before[i].frame) || !before[i].self)
            continue;
        uint64_t *at = map_get(&own, profile_function_key(p, before[i].frame));
        double was = (double)before[i].self, error = 100 * fabs((at ? (double)*at : 0) - was) / was;
        sum += error;
        largest = fmax(largest, error);
        if (++measured == TOPS[next])
            result->errors[next++] = (struct prune_error){measured, sum / (double)measured, largest};
    }
    for (; next < PRUNE_TOPS; next++)
        result->errors[next] = (struct prune_error){measured, measured ? sum / (double)measured : 0, largest};
    map_done(&own);
    free(after);
    return failed ? -ENOMEM : 0;
}

int prune_threads(struct profile *p, double percent, bool keep_threads, struct prune_result *ret_result)
{
    struct prune_result result = {.nodes_before = p->nodes.count};
    struct threads threads = {0};
    size_t count;
    struct profile_function *before = profile_functions(p, &count);
    bool *rare = NULL;
    array_foreach (&p->nodes, n)
        result.weight += n->weight;
    int r = before ? find_threads(p, &threads) : -ENOMEM;
    if (r == 0) {
        rare = calloc(threads.list.count + 1, sizeof(*rare));
        r = rare ? choose(&threads, percent, rare, &result) : -ENOMEM;
    }
    if (r == 0)
        r = fold(p, &threads, rare, keep_threads);
    if (r == 0)
        r = measure(p, before, count, &result);
    free(before);
    free(rare);
    threads_done(&threads);
    if (r < 0)
        return r;
    result.nodes_after = p->nodes.count;
    *ret_result = result;
    return 0;
}
