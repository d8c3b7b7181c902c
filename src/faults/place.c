/* The place of a long stretch: not the leaf in which one sample found it, but the innermost function of the
 * application that nearly all samples have in common, with what it called. A function that builds objects and
 * then encodes them is one place with two variants. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"

/* A function has the stretch when so many of the samples were in it, in tenths. */
enum { COMMON_TENTHS = 7, ALONE_TENTHS = 9, VARIANTS_MAX = 6, LOOKED_AT_MAX = 256 };

static bool same_function(const struct stack_frame *x, const struct stack_frame *y)
{
    return x->function == y->function && x->script == y->script;
}

static uint64_t weight_of(const struct look *const *looks, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += looks[i]->count;
    return sum;
}

/* Of samples that have a frame at that depth, those of the function that most of them are in, moved to the
 * front. */
static size_t most_at(const struct look **looks, size_t count, uint32_t depth)
{
    const struct stack_frame *most = NULL;
    uint64_t most_weight = 0;
    for (size_t i = 0; i < count; i++) {
        if (looks[i]->stack->count <= depth)
            continue;
        const struct stack_frame *frame = &looks[i]->stack->frames[depth];
        uint64_t weight = 0;
        for (size_t k = 0; k < count; k++)
            if (looks[k]->stack->count > depth && same_function(frame, &looks[k]->stack->frames[depth]))
                weight += looks[k]->count;
        if (weight > most_weight)
            most_weight = weight, most = frame;
    }
    size_t kept = 0;
    for (size_t i = 0; most && i < count; i++)
        if (looks[i]->stack->count > depth && same_function(most, &looks[i]->stack->frames[depth])) {
            const struct look *look = looks[i];
            looks[i] = looks[kept];
            looks[kept++] = look;
        }
    return kept;
}

/* The line of the function at that depth at which most samples saw it. */
static const struct stack_frame *line_of(const struct look *const *looks, size_t count, uint32_t depth)
{
    const struct stack_frame *most = NULL;
    uint64_t most_weight = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stack_frame *frame = &looks[i]->stack->frames[depth];
        uint64_t weight = 0;
        for (size_t k = 0; k < count; k++)
            weight += looks[k]->stack->frames[depth].line == frame->line ? looks[k]->count : 0;
        if (weight > most_weight)
            most_weight = weight, most = frame;
    }
    return most;
}

static bool is_before(const struct stack_frame *x, const struct stack_frame *y)
{
    return x->line < y->line || (x->line == y->line && x->column < y->column);
}

/* Where a function without a name, as for sort() or map(), is written: in the function that passes it on,
 * which is the one whose call comes last in the file before it. That one need not have called it itself: it
 * may have been given to a helper. -1: it has a name, or was written elsewhere. */
static int written_in(const struct look_stack *stack, uint32_t depth)
{
    const struct stack_frame *frame = &stack->frames[depth];
    int found = -1;
    if (frame->function[0] && frame->function[0] != '(')
        return -1;
    for (uint32_t i = depth; i-- > 0;) {
        const struct stack_frame *outer = &stack->frames[i];
        if (outer->script == frame->script && !is_before(frame, outer) &&
            (found < 0 || is_before(&stack->frames[found], outer)))
            found = (int)i;
    }
    return found;
}

/* The frame below that at depth which is none of its parts; count: there is none. */
static uint32_t below_parts(const struct look_stack *stack, uint32_t depth)
{
    uint32_t below = depth + 1;
    while (below < stack->count && written_in(stack, below) >= (int)depth)
        below++;
    return below;
}

struct variant {
    const char *name; /* "" for the function's own work */
    bool foreign;     /* not of the application */
    uint64_t weight;
};

static size_t variants_of(const struct look *const *looks, size_t count, uint32_t depth,
                          struct variant *ret_list)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct look_stack *stack = looks[i]->stack;
        uint32_t below = below_parts(stack, depth);
        bool own = below < stack->count;
        bool hidden = below == stack->gap; /* behind what was left out */
        const char *name = !own ? stack->called : hidden ? NULL : stack->frames[below].function;
        if (!name && hidden)
            continue;
        name = name ? name : "";
        size_t at = 0;
        while (at < found && strcmp(ret_list[at].name, name) != 0)
            at++;
        if (at == VARIANTS_MAX)
            continue;
        if (at == found)
            ret_list[found++] = (struct variant){.name = name, .foreign = !own && *name};
        ret_list[at].weight += looks[i]->count;
    }
    for (size_t i = 1; i < found; i++)
        for (size_t k = i; k > 0 && ret_list[k].weight > ret_list[k - 1].weight; k--) {
            struct variant other = ret_list[k];
            ret_list[k] = ret_list[k - 1];
            ret_list[k - 1] = other;
        }
    return found;
}

/* "makeOrders 52 %, JSON.stringify 46 %"; NULL when one thing is nearly all. */
static const char *say_variants(struct analysis *a, const struct variant *list, size_t count, uint64_t all)
{
    struct text text = {0};
    if (!count || list[0].weight * 10 >= all * ALONE_TENTHS)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        unsigned percent = (unsigned)(100 * list[i].weight / all);
        if (percent >= 5)
            text_addf(&text, "%s%s %u %%", text.length ? ", " : "",
                      *list[i].name ? list[i].name : "the function itself", percent);
    }
    const char *said = intern_string(a, text_get(&text));
    text_done(&text);
    return said;
}

/* Of few samples, one may have seen something else. */
static bool is_common(uint64_t weight, uint64_t all)
{
    return weight * 10 >= all * COMMON_TENTHS || (weight >= 2 && all - weight <= 1);
}

/* The innermost function that nearly all of the samples are in; a part of it is no function of its own,
 * unless it was called by another one of the application. *count: those in it, at the list's beginning. */
static uint32_t innermost(const struct look **list, size_t *count)
{
    uint64_t all = weight_of(list, *count);
    uint32_t depth = 0, place = 0, part_of[STACK_FRAMES_MAX] = {0};
    size_t inner = *count, kept;
    while ((kept = most_at(list, inner, depth + 1)) && is_common(weight_of(list, kept), all)) {
        inner = kept;
        depth++;
        int outer = written_in(list[0]->stack, depth);
        if (outer < 0 || part_of[outer] != place)
            *count = inner, place = depth;
        part_of[depth] = place;
    }
    return place;
}

bool place_common(struct analysis *a, const struct look *looks, size_t count, struct look *ret_place)
{
    const struct look *list[LOOKED_AT_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count && n < LOOKED_AT_MAX; i++)
        if (looks[i].stack && looks[i].stack->count)
            list[n++] = &looks[i];
    if (!n || !(n = most_at(list, n, 0)))
        return false;
    uint32_t depth = innermost(list, &n);
    struct variant variants[VARIANTS_MAX];
    const struct stack_frame *frame = line_of(list, n, depth);
    size_t called = variants_of(list, n, depth, variants);
    uint64_t agree = weight_of(list, n);
    bool alone = called && variants[0].foreign && variants[0].weight * 10 >= agree * COMMON_TENTHS;
    ret_place->function = frame->function;
    ret_place->script = frame->script;
    ret_place->line = frame->line;
    ret_place->column = frame->column;
    ret_place->called = alone ? variants[0].name : NULL;
    ret_place->variants = say_variants(a, variants, called, agree);
    ret_place->count = (uint32_t)MIN(agree, (uint64_t)UINT32_MAX);
    return true;
}

bool place_has_leaf(const struct look *looks, size_t count, const char *detail)
{
    uint64_t all = 0, same = 0;
    for (size_t i = 0; i < count; i++) {
        all += looks[i].count;
        same += looks[i].detail == detail ? looks[i].count : 0;
    }
    return same * 2 > all;
}

const char *place_called(const struct look *place)
{
    if (place->called && place->cause != SONDE_stall_cause_gc)
        return place->called;
    bool several = place->variants && place->cause != SONDE_stall_cause_builtin;
    return place->cause == SONDE_stall_cause_gc || several ? NULL : place->detail;
}

bool look_synchronous(const struct look *look)
{
    return look->cause == SONDE_stall_cause_waiting || (look->called && strstr(look->called, "Sync")) ||
           (look->cause == SONDE_stall_cause_builtin && look->detail && strstr(look->detail, "sync"));
}

bool look_encodes(const struct look *place)
{
    const char *name, *seen = place->cause == SONDE_stall_cause_builtin ? place->detail : NULL;
    for (unsigned i = 0; (name = event_label(SONDE_MEANING_encoding, i)) != NULL; i++)
        if ((seen && strcmp(name, seen) == 0) || (place->called && strcmp(name, place->called) == 0))
            return true;
    return false;
}
