/* See samples.h. Stacks are kept as a trie; when that is full, their innermost functions only. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/samples.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum {
    SAMPLES_MAX = 1 << 20, /* 32 MB: an hour and a half of two busy CPUs at the usual rate */
    NODES_MAX = 1 << 19,   /* 25 MB */
    DEPTH_MAX = 2048,
};

static bool take_end(size_t *length, const char *at, const char *end)
{
    size_t n = strlen(end);
    if (*length <= n || memcmp(at + *length - n, end, n) != 0)
        return false;
    *length -= n;
    return true;
}

/* The node of a stack as folded text has it: "process;frame;...;frame", generated and kernel code marked. */
static uint32_t stack_node(struct profile *p, const struct value *stack, const struct value *function)
{
    const char *at = stack->s, *end = at + stack->length;
    uint32_t node = 0;
    bool room = p->nodes.count + DEPTH_MAX < NODES_MAX;
    for (const char *next; room && at < end; at = next + 1) {
        next = memchr(at, ';', (size_t)(end - at));
        if (!next) /* the function itself, whose plain name is known */
            break;
        size_t length = (size_t)(next - at);
        struct profile_frame frame = {.kind = node == 0 ? FRAME_GROUP : FRAME_NATIVE};
        if (take_end(&length, at, "_[j]"))
            frame.kind = FRAME_GENERATED;
        else if (take_end(&length, at, "_[k]"))
            frame.kind = FRAME_KERNEL;
        frame.name = profile_string_n(p, at, length);
        node = profile_child(p, node, profile_add_frame(p, &frame));
    }
    const struct profile_frame last = {
        .name = profile_string_n(p, function->length ? function->s : "", function->length)};
    return profile_child(p, node, profile_add_frame(p, &last));
}

void samples_event(struct analysis *a, const struct event *e)
{
    if (!a->samples && profile_new(&a->samples) < 0) {
        a->failed = true;
        return;
    }
    struct profile *p = a->samples;
    if (!HAS(e, profile_sample_function) || !HAS(e, profile_sample_stack))
        return;
    if (p->samples.count == SAMPLES_MAX) {
        a->losses.count[SONDE_loss_reason_profile_samples_unread]++;
        return;
    }
    const struct profile_sample sample = {.time_ns = e->time_ns,
                                          .weight = U(e, profile_sample_weight),
                                          .pid = (uint32_t)U(e, profile_sample_pid),
                                          .tid = (uint32_t)U(e, profile_sample_tid),
                                          .node = stack_node(p, &e->values[FIELD_profile_sample_stack],
                                                             &e->values[FIELD_profile_sample_function])};
    p->sample_limit = SAMPLES_MAX;
    profile_keep(p, &sample);
    profile_count(p, sample.node, 1, sample.weight);
    a->failed |= p->failed;
}

const struct profile *analysis_samples(struct analysis *a)
{
    if (a->samples && a->samples->samples.count > a->samples_sorted) {
        qsort(a->samples->samples.at, a->samples->samples.count, sizeof(struct profile_sample),
              profile_by_thread_and_time);
        a->samples_sorted = a->samples->samples.count;
    }
    return a->samples;
}

static int heaviest_first(const void *x, const void *y)
{
    const struct ran_function *a = x, *b = y;
    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return (a->depth > b->depth) - (a->depth < b->depth);
}

static uint32_t name_of(const struct profile *p, uint32_t node)
{
    return p->frames.at[p->nodes.at[node].frame].name;
}

static unsigned depth_of(const struct profile *p, uint32_t node)
{
    unsigned depth = 0;
    for (; node; node = p->nodes.at[node].parent)
        depth++;
    return depth;
}

/* The innermost node that both lie at or below. */
static uint32_t common_node(const struct profile *p, uint32_t a, uint32_t b)
{
    for (unsigned x = depth_of(p, a), y = depth_of(p, b); a != b;) {
        if (x >= y) {
            a = p->nodes.at[a].parent;
            x--;
        } else {
            b = p->nodes.at[b].parent;
            y--;
        }
    }
    return a;
}

/* What is counted of one function, made when it is new; NULL without memory. */
static struct ran_function *function_named(ran_functions *list, struct map *index, const struct profile *p,
                                           uint32_t name)
{
    bool added;
    uint64_t *place = map_put(index, (uint64_t)name + 1, &added);
    if (!place)
        return NULL;
    if (added) {
        *place = list->count;
        if (array_add(list, (struct ran_function){.name = profile_text(p, name)}) < 0) {
            map_remove(index, (uint64_t)name + 1);
            return NULL;
        }
    }
    return &list->at[*place];
}

static void add_sample(struct ran *ran, struct map *index, const struct profile *p,
                       const struct profile_sample *sample)
{
    struct ran_function *f = function_named(&ran->functions, index, p, name_of(p, sample->node));
    if (!f)
        return;
    f->count++;
    f->weight += sample->weight;
    ran->count++;
    ran->weight += sample->weight;
}

static bool is_listed(const struct profile *p, uint32_t node, bool generated)
{
    uint8_t kind = p->frames.at[p->nodes.at[node].frame].kind;
    return kind != FRAME_GROUP && (!generated || kind == FRAME_GENERATED);
}

/* The functions between those that all samples have in common (of which only the innermost is shown) and the
 * ones that ran. Where a runtime generates code, only generated code is the program's; the rest is not shown.
 */
static void add_callers(struct ran *ran, const struct profile *p, const struct profile_sample *samples,
                        size_t count)
{
    uint32_t top = p->nodes.at[samples[0].node].parent;
    bool generated = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t parent = p->nodes.at[samples[i].node].parent;
        top = common_node(p, top, parent);
        for (uint32_t up = parent; up && !generated; up = p->nodes.at[up].parent)
            generated = p->frames.at[p->nodes.at[up].frame].kind == FRAME_GENERATED;
    }
    while (top && !is_listed(p, top, generated))
        top = p->nodes.at[top].parent;
    struct map index = {0};
    for (size_t i = 0; i < count; i++)
        for (uint32_t up = p->nodes.at[samples[i].node].parent; up; up = p->nodes.at[up].parent) {
            struct ran_function *f =
                is_listed(p, up, generated) ? function_named(&ran->callers, &index, p, name_of(p, up)) : NULL;
            if (f && f->last != i + 1) { /* a recursive one is there once */
                f->last = i + 1;
                f->count++;
                f->weight += samples[i].weight;
            }
            if (f && !f->depth)
                f->depth = depth_of(p, up);
            if (up == top)
                break;
        }
    map_done(&index);
}

void ran_find(const struct profile *p, int64_t pid, int64_t tid, uint64_t start_ns, uint64_t end_ns,
              struct ran *ret_ran)
{
    *ret_ran = (struct ran){0};
    if (!p)
        return;
    const struct profile_sample first = {.time_ns = start_ns, .pid = (uint32_t)pid, .tid = (uint32_t)tid};
    size_t low = 0, high = p->samples.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (profile_by_thread_and_time(&p->samples.at[middle], &first) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct map index = {0};
    const struct profile_sample *samples = p->samples.at + low, *s = samples;
    for (; low < p->samples.count && s->pid == first.pid && s->tid == first.tid && s->time_ns < end_ns;
         low++, s++)
        add_sample(ret_ran, &index, p, s);
    map_done(&index);
    if (s > samples)
        add_callers(ret_ran, p, samples, (size_t)(s - samples));
    if (ret_ran->functions.count)
        qsort(ret_ran->functions.at, ret_ran->functions.count, sizeof(*ret_ran->functions.at),
              heaviest_first);
    if (ret_ran->callers.count)
        qsort(ret_ran->callers.at, ret_ran->callers.count, sizeof(*ret_ran->callers.at), heaviest_first);
}

void ran_done(struct ran *ran)
{
    array_done(&ran->functions);
    array_done(&ran->callers);
}
