/* Stacks that are deeper than what is kept of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static void push(struct v8_stack *stack, unsigned pc)
{
    char name[16];
    snprintf(name, sizeof(name), "f%u", pc);
    *v8_stack_push(stack) = (struct v8_frame){.pc = pc, .name = strdup(name)};
}

static struct v8_stack *pushed(size_t count)
{
    struct v8_stack *stack = malloc(sizeof(*stack));
    v8_stack_init(stack);
    for (size_t i = 0; i < count; i++)
        push(stack, (unsigned)i);
    return stack;
}

static void end(struct v8_stack *stack)
{
    v8_stack_done(stack);
    free(stack);
}

static void what_fits_is_kept(void **state)
{
    struct v8_stack *stack = pushed(V8_FRAMES_MAX);
    assert_int_equal(stack->count, V8_FRAMES_MAX);
    assert_int_equal(stack->gap, 0);
    assert_int_equal(stack->left_out, 0);
    for (size_t i = 0; i < stack->count; i++)
        assert_int_equal(stack->frames[i].pc, i);
    end(stack);
}

static void of_more_both_ends_are_kept(void **state)
{
    enum { COUNT = V8_FRAMES_MAX + 700, HALF = V8_FRAMES_MAX / 2 };
    struct v8_stack *stack = pushed(COUNT);
    assert_int_equal(stack->count, V8_FRAMES_MAX);
    assert_int_equal(stack->gap, HALF);
    assert_int_equal(stack->left_out, 700);
    for (size_t i = 0; i < HALF; i++) {
        assert_int_equal(stack->frames[i].pc, i);
        assert_int_equal(stack->frames[HALF + i].pc, COUNT - HALF + i);
    }
    end(stack);
}

/* One that was copied with a gap already, more of it within the gap than outside. */
static void a_gap_moves_to_the_middle(void **state)
{
    enum { INNER = V8_FRAMES_MAX - 10, HALF = V8_FRAMES_MAX / 2 };
    struct v8_stack *stack = pushed(INNER);
    stack->gap = stack->count;
    for (unsigned i = 0; i < HALF; i++)
        push(stack, 10000 + i);
    assert_int_equal(stack->count, V8_FRAMES_MAX);
    assert_int_equal(stack->gap, HALF);
    assert_int_equal(stack->frames[HALF - 1].pc, HALF - 1);
    assert_int_equal(stack->frames[HALF].pc, 10000);
    end(stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_kept),
        cmocka_unit_test(of_more_both_ends_are_kept),
        cmocka_unit_test(a_gap_moves_to_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
