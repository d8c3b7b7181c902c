/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/tsp_view.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/macro.h"
#include "test.h"

static void numbers_fit_fifteen_characters(void **state)
{
    static const double NUMBERS[] = {0,
                                     1,
                                     -1,
                                     0.1,
                                     1.0 / 3,
                                     -1.0 / 3,
                                     1e15,
                                     -1e15,
                                     1e14,
                                     123456789012345,
                                     DBL_MAX,
                                     -DBL_MAX,
                                     DBL_MIN,
                                     -DBL_MIN,
                                     9.3e18,
                                     -9.3e18,
                                     1234567.890123456};
    for (size_t i = 0; i < ARRAY_SIZE(NUMBERS); i++) {
        struct text text = {0};
        tsp_add_number(&text, NUMBERS[i]);
        double back = strtod(text_get(&text), NULL);
        assert_true(text.length > 0 && text.length <= 15);
        assert_true(fabs(back - NUMBERS[i]) <= fabs(NUMBERS[i]) * 1e-7);
        text_done(&text);
    }
    struct text none = {0};
    tsp_add_number(&none, NAN);
    tsp_add_number(&none, INFINITY);
    assert_string_equal(text_get(&none), "nullnull");
    text_done(&none);
}

/* Three rows in two groups. */
static const struct source_row ROWS[] = {{.group = "a"}, {.group = "a"}, {.group = "b"}};

static void ids_are_distinct(void **state)
{
    const struct tsp_view view = {.rows = ROWS, .row_count = ARRAY_SIZE(ROWS)};
    size_t first = 0;
    assert_int_equal(tsp_group_id(&view, 0, &first), 4);
    assert_int_equal(tsp_group_id(&view, 1, &first), 4);
    assert_int_equal(tsp_group_id(&view, 2, &first), 6);
    assert_int_equal(first, 2);
    assert_int_equal(tsp_root_id(&view), 7);
    assert_int_equal(tsp_row_id(2), 3);
}

static void items_are_rows_once(void **state)
{
    struct tsp_view view = {.rows = ROWS, .row_count = ARRAY_SIZE(ROWS)};
    size_t *rows, count;
    json_t *parameters = json_loads("{\"requested_items\":[3,1,3,0,-1,4,1.0,\"2\",9e99]}", 0, NULL);
    assert_int_equal(tsp_items(&view, parameters, &rows, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(rows[0], 2);
    assert_int_equal(rows[1], 0);
    free(rows);
    json_decref(parameters);
    assert_int_equal(tsp_items(&view, NULL, &rows, &count), -EINVAL);
    assert_non_null(strstr(view.problem.what, "requested_items"));
}

static struct tsp_range taken(const char *text)
{
    struct tsp_view view = {.start_ns = 100, .end_ns = 200};
    struct tsp_range range;
    json_t *parameters = json_loads(text, 0, NULL);
    assert_int_equal(tsp_range(&view, parameters, &range), 0);
    json_decref(parameters);
    return range;
}

static void ranges_lie_within(void **state)
{
    struct tsp_range range = taken("{\"requested_timerange\":{\"start\":-5,\"end\":150.7,\"nbTimes\":1e9}}");
    assert_int_equal(range.from_ns, 100);
    assert_int_equal(range.to_ns, 150);
    assert_int_equal(range.columns, TSP_COLUMNS_MAX);
    tsp_range_limit(&range, 1u << 20);
    assert_int_equal(range.columns, TSP_CELLS_MAX >> 20);
    tsp_range_limit(&range, (size_t)1 << 40);
    assert_int_equal(range.columns, 1);
    range = taken("{\"requested_timerange\":{\"start\":190,\"end\":110,\"nbTimes\":-3}}");
    assert_int_equal(range.from_ns, 190);
    assert_int_equal(range.to_ns, 190);
    assert_int_equal(range.columns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_fit_fifteen_characters), cmocka_unit_test(ids_are_distinct),
        cmocka_unit_test(items_are_rows_once), cmocka_unit_test(ranges_lie_within)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
