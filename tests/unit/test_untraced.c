/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/untraced.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static struct untraced untraced;

static int tear_down(void **state)
{
    untraced_done(&untraced);
    return 0;
}

static void each_is_listed_with_its_reason(void **state)
{
    assert_int_equal(untraced_add(&untraced, "node", 7, "it ended"), 1);
    assert_int_equal(untraced_add(&untraced, "redis", 8, "no memory"), 1);
    assert_int_equal(untraced_add(&untraced, "node", 9, "it ended"), 2);
    json_t *array = untraced_array(&untraced);
    assert_int_equal(json_array_size(array), 3);
    assert_string_equal(json_string_value(json_array_get(array, 0)), "node (7): it ended");
    assert_string_equal(json_string_value(json_array_get(array, 1)), "redis (8): no memory");
    assert_string_equal(json_string_value(json_array_get(array, 2)), "node (9): it ended");
    json_decref(array);
}

static void of_many_the_first_are_listed_and_all_are_counted(void **state)
{
    for (int i = 0; i < 3 * UNTRACED_NAMED; i++)
        assert_int_equal(untraced_add(&untraced, "x", i, "it ended"), i + 1);
    assert_int_equal(untraced_add(&untraced, "y", 1, "another"), 1);
    assert_int_equal(untraced.count, 3 * UNTRACED_NAMED + 1);
    json_t *array = untraced_array(&untraced);
    assert_int_equal(json_array_size(array), UNTRACED_NAMED + 2);
    assert_string_equal(json_string_value(json_array_get(array, UNTRACED_NAMED)), "y (1): another");
    assert_string_equal(json_string_value(json_array_get(array, UNTRACED_NAMED + 1)), "40 more: it ended");
    json_decref(array);
}

static void reasons_beyond_bounds_share_one(void **state)
{
    char why[32];
    for (int i = 0; i < 2 * UNTRACED_REASONS; i++) {
        snprintf(why, sizeof(why), "process %d", i);
        assert_true(untraced_add(&untraced, "x", i, why) > 0);
    }
    assert_int_equal(untraced.count, 2 * UNTRACED_REASONS);
    assert_int_equal(untraced.reasons.count, UNTRACED_REASONS);
    assert_int_equal(untraced.lines.count, UNTRACED_REASONS - 1 + UNTRACED_NAMED);
    json_t *array = untraced_array(&untraced);
    assert_string_equal(json_string_value(json_array_get(array, json_array_size(array) - 1)),
                        "181 more: various reasons");
    json_decref(array);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, tear_down)
    const struct CMUnitTest tests[] = {T(each_is_listed_with_its_reason),
                                       T(of_many_the_first_are_listed_and_all_are_counted),
                                       T(reasons_beyond_bounds_share_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
