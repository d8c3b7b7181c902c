/* What all span stores share: rows of a query taken apart, and sketches from the bins that an engine sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

#define LIBRARY SOURCE_ROOT "/tests/system/node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so"

/* More than it may keep in memory: what is written is forgotten there, and read again when it is asked for.
 */
static void forgets_what_it_has_written(void **state)
{
    enum { SPANS = 800000, COMMIT = 122880, VALUE = 160 };
    char folder[TEST_PATH], path[TEST_PATH + 20], value[VALUE + 1] = "";
    struct span_store *store;
    struct problem problem = {0};
    struct text row = {0};
    setenv("SONDE_DUCKDB", LIBRARY, false);
    assert_non_null(mkdtemp(test_path(folder)));
    snprintf(path, sizeof(path), "%s/spans.duckdb", folder);
    int r = duckdb_store_open(path, &store, &problem);
    if (r == -ENOENT) {
        rmdir(folder);
        skip(); /* the library is not here */
    }
    assert_int_equal(r, 0);
    uint64_t random = 1;
    for (uint64_t i = 0; i < SPANS; i++) {
        struct span_attribute attribute = {SLICE("what"), {value, VALUE}};
        struct span_resource resource = {.service = SLICE("shop")};
        for (size_t k = 0; k < VALUE; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            value[k] = (char)('!' + 1 + (random >> 33) % 57);
        }
        struct span span = {.trace_low = i,
                            .id = i + 1,
                            .end_ns = i,
                            .name = SLICE("buy"),
                            .resource = &resource,
                            .attributes = &attribute,
                            .attribute_count = 1};
        assert_int_equal(store->operations->append(store, &span), 0);
        if ((i + 1) % COMMIT == 0)
            assert_int_equal(store->operations->commit(store, (struct journal_position){1, i}, &problem), 0);
    }
    assert_int_equal(store->operations->commit(store, (struct journal_position){1, SPANS}, &problem), 0);
    assert_int_equal(store->operations->query(
                         store, "SELECT sum(memory_usage_bytes) AS b FROM duckdb_memory()", &row, &problem),
                     0);
    unsigned long long bytes = 0;
    assert_int_equal(sscanf(text_get(&row), "{\"b\":\"%llu\"}", &bytes), 1);
    assert_in_range(bytes, 0, 100 << 20);
    text_clear(&row);
    assert_int_equal(store->operations->query(store,
                                              "SELECT count(*) AS n, current_setting('memory_limit') AS m, "
                                              "max(length(attributes)) AS l FROM spans",
                                              &row, &problem),
                     0);
    assert_non_null(strstr(text_get(&row), "\"n\":\"800000\""));
    assert_non_null(strstr(text_get(&row), "MiB\"")); /* 1 GB: while it is asked */
    text_done(&row);
    span_store_close(store);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_rows_apart),
        cmocka_unit_test(sums_bins_into_sketches),
        cmocka_unit_test(forgets_what_it_has_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
