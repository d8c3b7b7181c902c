/* What all span stores share: rows of a query taken apart, and sketches from the bins that an engine sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/store.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static void takes_rows_apart(void **state)
{
    const char *values[3];
    char row[] = "{\"a\":\"plain\",\"b\":\"q\\u0022 \\\\ \\\"x\\u000a\",\"c\":\"3\"}";
    assert_int_equal(span_store_row(row, values, 3), 3);
    assert_string_equal(values[0], "plain");
    assert_string_equal(values[1], "q\" \\ \"x\n");
    assert_string_equal(values[2], "3");
    char cut[] = "{\"a\":\"pla";
    assert_int_equal(span_store_row(cut, values, 3), 0);
    char no_strings[] = "{\"a\":1}";
    assert_int_equal(span_store_row(no_strings, values, 3), 0);
    char nothing[] = "";
    assert_int_equal(span_store_row(nothing, values, 3), 0);
}

static const char *answer;

static int query(struct span_store *store, const char *sql, struct text *to, struct problem *problem)
{
    assert_string_equal(sql, "SELECT service,name, bin, count(*) AS n FROM spans GROUP BY service,name, bin "
                             "ORDER BY service,name, bin");
    text_add(to, answer);
    return 0;
}

static int list(void *context, const char *const *values, size_t count, const struct sketch *sketch)
{
    assert_int_equal(count, 2);
    text_addf(context, "%s/%s %llu %.0f;", values[0], values[1], (unsigned long long)sketch->count,
              sketch_quantile(sketch, 0.5));
    return 0;
}

static void sums_bins_into_sketches(void **state)
{
    static const struct span_store_operations operations = {.query = query};
    struct span_store store = {&operations};
    struct text got = {0};
    answer = "{\"service\":\"a\",\"name\":\"x\",\"bin\":\"5\",\"n\":\"3\"}\n"
             "{\"service\":\"a\",\"name\":\"x\",\"bin\":\"9\",\"n\":\"1\"}\n"
             "{\"service\":\"a\",\"name\":\"y\",\"bin\":\"9\",\"n\":\"2\"}\n";
    assert_int_equal(span_store_sketches(&store, "service,name", list, &got, NULL), 0);
    assert_string_equal(text_get(&got), "a/x 4 5;a/y 2 9;");
    text_clear(&got);
    answer = "{\"service\":\"a\",\"name\":\"x\",\"bin\":\"65535\",\"n\":\"3\"}\n";
    assert_int_equal(span_store_sketches(&store, "service,name", list, &got, NULL), -EBADMSG);
    assert_int_equal(span_store_sketches(&store, "service; DROP TABLE spans", list, &got, NULL), -EINVAL);
    text_done(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_rows_apart),
        cmocka_unit_test(sums_bins_into_sketches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
