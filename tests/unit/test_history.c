/* The whole history against a naive model, both stores; and what each call promises. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/history.h"

#include "naive_history.h"

#ifdef __SANITIZE_ADDRESS__
enum { SCALE = 1 };
#else
enum { SCALE = 6 };
#endif

static char path_of_test[256];

static struct history *create(enum history_store store, uint64_t start_ns, uint32_t segment_changes)
{
    struct problem problem = {0};
    struct history *h = NULL;
    struct history_options options = {
        .size = sizeof(options), .store = store, .start_ns = start_ns, .segment_changes = segment_changes};
    temporary_path(path_of_test, sizeof(path_of_test), "test-history");
    if (history_create(path_of_test, &options, &h, &problem) != 0)
        fail_msg("%s", problem.what);
    return h;
}

static struct history *reopen(void)
{
    struct problem problem = {0};
    struct history *h = NULL;
    if (history_open(path_of_test, &h, &problem) != 0)
        fail_msg("%s", problem.what);
    return h;
}

/* Random changes with queries in between, then closed, then opened again: every answer as the model's. */
static void property(enum history_store store, uint64_t seed, uint32_t attributes, uint32_t changes,
                     uint32_t segment_changes, uint32_t late_percent)
{
    struct naive naive;
    struct feed feed;
    struct problem problem = {0};
    uint64_t start_ns = seed % 2 ? 0 : 1234567890123456789ull, random = seed ^ 0xabcdef;
    struct history *h = create(store, start_ns, segment_changes);
    naive_init(&naive, attributes, start_ns);
    feed_init(&feed, seed, &naive, late_percent);
    add_attributes(h, attributes);
    for (uint32_t i = 0; i < changes; i++) {
        feed_change(&feed, h, &naive);
        if (i % (changes / 8) == changes / 16)
            check_everything(h, &naive, &random, 4);
        if (i == changes / 3)
            assert_int_equal(history_flush(h, &problem), 0);
    }
    naive.end_ns = naive.max_ns + 1 + seed % 3 * 1000;
    if (history_close(h, naive.end_ns, &problem) != 0)
        fail_msg("%s", problem.what);
    check_everything(h, &naive, &random, 10);
    history_free(h);
    h = reopen();
    struct history_info info;
    history_get_info(h, &info);
    assert_true(info.complete);
    assert_int_equal(info.start_ns, naive.start_ns);
    assert_int_equal(info.end_ns, naive.end_ns);
    assert_int_equal(info.attributes, attributes);
    check_everything(h, &naive, &random, 40);
    history_free(h);
    unlink(path_of_test);
    naive_done(&naive);
    free(feed.attribute_ns);
}

static void columns_answer_like_the_model(void **state)
{
    property(HISTORY_COLUMNS, 1, 20, 100000 * SCALE, 2000, 0);
    property(HISTORY_COLUMNS, 2, 100, 50000 * SCALE, 100, 0); /* many segments, two levels of groups */
    property(HISTORY_COLUMNS, 3, 1000, 50000 * SCALE, 3000, 0);
    property(HISTORY_COLUMNS, 4, 2, 20000 * SCALE, 5000, 0); /* blocks of many runs */
    property(HISTORY_COLUMNS, 5, 300, 3000, 1, 0);
    property(HISTORY_COLUMNS, 6, 50, 100000 * SCALE, 0, 0);
    property(HISTORY_COLUMNS, 7, 3000, 20000 * SCALE, 20000, 0);
}

static void columns_keep_late_changes(void **state)
{
    property(HISTORY_COLUMNS, 11, 20, 50000 * SCALE, 500, 30);
    property(HISTORY_COLUMNS, 12, 100, 50000 * SCALE, 100, 5);
    property(HISTORY_COLUMNS, 13, 500, 30000 * SCALE, 700, 100);
    property(HISTORY_COLUMNS, 14, 100, 20000, 7, 50);
    property(HISTORY_COLUMNS, 15, 5, 20000 * SCALE, 3000, 60);
}

static void tree_answers_like_the_model(void **state)
{
    property(HISTORY_TREE, 21, 20, 100000 * SCALE, 0, 0);
    property(HISTORY_TREE, 22, 1000, 50000 * SCALE, 0, 0);
    property(HISTORY_TREE, 23, 3000, 20000 * SCALE, 0, 0);
    property(HISTORY_TREE, 24, 100, 50000 * SCALE, 0, 30);
    property(HISTORY_TREE, 25, 2, 20000 * SCALE, 0, 100);
}

/* ---- What each call promises ---- */

static void each_store(void (*test)(enum history_store))
{
    test(HISTORY_COLUMNS);
    test(HISTORY_TREE);
}

static struct history_interval query(struct history *h, uint32_t quark, uint64_t t)
{
    struct problem problem = {0};
    struct history_interval s = {0};
    if (history_query(h, quark, t, &s, &problem) != 0)
        fail_msg("%s", problem.what);
    return s;
}

static void check_stack(enum history_store store)
{
    struct problem problem = {0};
    struct history *h = create(store, 100, 0);
    uint32_t stack, one, two;
    struct history_value value = history_int(7);
    assert_int_equal(history_add_path(h, "Thread/Calls", &stack, &problem), 0);
    assert_int_equal(history_pop(h, 105, stack, &value, &problem), 0);
    assert_int_equal(value.type, HISTORY_NULL);
    assert_int_equal(history_push(h, 110, stack, history_string("main"), &problem), 0);
    assert_int_equal(history_push(h, 120, stack, history_string("read"), &problem), 0);
    assert_int_equal(history_pop(h, 130, stack, &value, &problem), 0);
    assert_string_equal(value.string, "read");
    assert_int_equal(history_push(h, 140, stack, history_string("write"), &problem), 0);
    assert_int_equal(history_pop(h, 150, stack, &value, &problem), 0);
    assert_int_equal(history_pop(h, 160, stack, &value, &problem), 0);
    assert_string_equal(value.string, "main");
    assert_int_equal(history_pop(h, 139, stack, &value, &problem), 0); /* empty: nothing to do at any time */
    assert_int_equal(history_find(h, stack, "1", &one), 0);
    assert_int_equal(history_find(h, stack, "2", &two), 0);
    assert_int_equal(history_find(h, stack, "3", &two), -ENOENT);
    assert_int_equal(history_close(h, 200, &problem), 0);
    assert_int_equal(query(h, stack, 109).value.type, HISTORY_NULL);
    assert_int_equal(query(h, stack, 110).value.integer, 1);
    assert_int_equal(query(h, stack, 125).value.integer, 2);
    assert_int_equal(query(h, stack, 135).value.integer, 1);
    assert_int_equal(query(h, stack, 165).value.type, HISTORY_NULL);
    struct history_interval s = query(h, one, 150);
    assert_string_equal(s.value.string, "main");
    assert_int_equal(s.start_ns, 110);
    assert_int_equal(s.end_ns, 160);
    assert_string_equal(query(h, two, 129).value.string, "read");
    assert_int_equal(query(h, two, 130).value.type, HISTORY_NULL);
    assert_string_equal(query(h, two, 140).value.string, "write");
    history_free(h);
}

static void stacks(void **state)
{
    each_store(check_stack);
    struct problem problem = {0};
    struct history *h = create(HISTORY_COLUMNS, 0, 0);
    uint32_t quark;
    assert_int_equal(history_add_path(h, "no stack", &quark, &problem), 0);
    assert_int_equal(history_modify(h, 1, quark, history_string("x"), &problem), 0);
    assert_int_equal(history_push(h, 2, quark, history_int(1), &problem), -EINVAL);
    assert_int_equal(history_pop(h, 2, quark, NULL, &problem), -EINVAL);
    assert_int_equal(history_modify(h, 3, quark, history_int(5), &problem), 0);
    assert_int_equal(history_pop(h, 4, quark, NULL, &problem), -EINVAL); /* it never had five children */
    history_free(h);
}

static void check_remove(enum history_store store)
{
    struct problem problem = {0};
    struct history *h = create(store, 0, 0);
    uint32_t process, thread, operation, other;
    assert_int_equal(history_add_path(h, "P/1", &process, &problem), 0);
    assert_int_equal(history_add_path(h, "P/1/T/2", &thread, &problem), 0);
    assert_int_equal(history_add_path(h, "P/1/T/2/Op", &operation, &problem), 0);
    assert_int_equal(history_add_path(h, "P/2", &other, &problem), 0);
    assert_int_equal(history_modify(h, 10, process, history_int(1), &problem), 0);
    assert_int_equal(history_modify(h, 50, operation, history_int(1), &problem), 0);
    assert_int_equal(history_modify(h, 20, other, history_int(1), &problem), 0);
    assert_int_equal(history_remove(h, 40, process, &problem), -EINVAL); /* operation changed at 50 */
    assert_non_null(strstr(problem.what, "P/1/T/2/Op"));
    assert_int_equal(history_remove(h, 60, process, &problem), 0);
    assert_int_equal(history_remove(h, 5, process, &problem), 0); /* all null already */
    assert_int_equal(history_close(h, 100, &problem), 0);
    assert_int_equal(query(h, process, 59).value.integer, 1);
    assert_int_equal(query(h, process, 60).value.type, HISTORY_NULL);
    assert_int_equal(query(h, operation, 59).value.integer, 1);
    assert_int_equal(query(h, operation, 60).value.type, HISTORY_NULL);
    assert_int_equal(query(h, thread, 99).start_ns, 0);
    assert_int_equal(query(h, other, 99).value.integer, 1);
    history_free(h);
}

static void removing_a_process(void **state)
{
    each_store(check_remove);
}

static int stop_at_second(void *context, const struct history_interval *s)
{
    return ++*(int *)context == 2 ? 42 : 0;
}

static void check_mistakes(enum history_store store)
{
    struct problem problem = {0};
    struct history_interval s;
    struct history *h = create(store, 1000, 0);
    uint32_t quark, found, none = 12345;
    assert_int_equal(history_add_path(h, "a//b", &quark, &problem), -EINVAL);
    assert_int_equal(history_add_path(h, "", &quark, &problem), -EINVAL);
    assert_int_equal(history_add(h, 77, "x", &quark, &problem), -EINVAL);
    assert_int_equal(history_add_path(h, "a/b", &quark, &problem), 0);
    assert_int_equal(history_find_path(h, "a/c", &found), -ENOENT);
    assert_int_equal(history_modify(h, 999, quark, history_int(1), &problem), -ERANGE);
    assert_int_equal(history_modify(h, UINT64_MAX, quark, history_int(1), &problem), -ERANGE);
    assert_int_equal(history_modify(h, 2000, none, history_int(1), &problem), -EINVAL);
    assert_int_equal(history_modify(h, 2000, quark, history_string(NULL), &problem), -EINVAL);
    assert_int_equal(history_modify(h, 2000, quark, history_int(1), &problem), 0);
    assert_int_equal(history_modify(h, 1999, quark, history_int(2), &problem), -EINVAL);
    assert_non_null(strstr(problem.what, "'a/b' changed at 2000 ns already, then at 1999"));
    assert_int_equal(history_modify(h, 3000, quark, history_int(1), &problem), 0); /* no change */
    assert_int_equal(query(h, quark, 3500).start_ns, 2000);
    assert_int_equal(history_modify(h, 4000, quark, history_int(3), &problem), 0);
    assert_int_equal(history_modify(h, 4000, quark, history_int(4), &problem), 0); /* the last value wins */
    assert_int_equal(query(h, quark, 4000).value.integer, 4);
    assert_int_equal(query(h, quark, 4000).end_ns, HISTORY_ONGOING);
    assert_int_equal(history_query(h, quark, 999, &s, &problem), -ERANGE);
    assert_int_equal(history_query(h, none, 1000, &s, &problem), -EINVAL);
    assert_int_equal(history_close(h, 17, &problem), 0); /* raised behind the latest change */
    assert_int_equal(history_ongoing(h, quark, &s), 0);
    assert_int_equal(s.end_ns, 4001);
    assert_int_equal(s.value.integer, 4);
    assert_int_equal(history_query(h, quark, 4001, &s, &problem), -ERANGE);
    assert_int_equal(history_modify(h, 5000, quark, history_int(1), &problem), -EINVAL);
    assert_int_equal(history_add_path(h, "c", &quark, &problem), -EINVAL);
    assert_int_equal(history_close(h, 9000, &problem), -EINVAL);
    int calls = 0;
    assert_int_equal(history_query_range(h, quark, 1000, 4001, stop_at_second, &calls, &problem), 42);
    calls = 0;
    assert_int_equal(history_query_2d(h, &quark, 1, 1000, 4001, 3001, stop_at_second, &calls, &problem), 42);
    assert_int_equal(history_query_2d(h, &none, 1, 1000, 4001, 10, stop_at_second, &calls, &problem),
                     -EINVAL);
    assert_int_equal(history_query_2d(h, &quark, 1, 1000, 4001, 0, stop_at_second, &calls, &problem),
                     -EINVAL);
    assert_int_equal(history_query_range(h, quark, 2000, 2000, stop_at_second, &calls, &problem), -EINVAL);
    assert_int_equal(history_query_range(h, quark, 2000, 4002, stop_at_second, &calls, &problem), -ERANGE);
    history_free(h);
}

static void mistakes_are_refused(void **state)
{
    each_store(check_mistakes);
}

static void check_empty(enum history_store store)
{
    struct problem problem = {0};
    struct history_info info;
    struct history_interval s;
    struct history *h = create(store, 5, 0);
    assert_int_equal(history_query_full(h, 5, &s, &problem), 0);
    assert_int_equal(history_close(h, 0, &problem), 0);
    history_free(h);
    h = reopen();
    history_get_info(h, &info);
    assert_int_equal(info.attributes, 0);
    assert_int_equal(info.end_ns, 6);
    assert_int_equal(info.store, store);
    assert_true(info.complete);
    history_free(h);

    h = create(store, 5, 0); /* attributes, but no change */
    add_attributes(h, 100);
    assert_int_equal(history_close(h, 50, &problem), 0);
    history_free(h);
    h = reopen();
    assert_int_equal(history_count(h), 100);
    s = query(h, 99, 7);
    assert_int_equal(s.start_ns, 5);
    assert_int_equal(s.end_ns, 50);
    assert_int_equal(s.value.type, HISTORY_NULL);
    history_free(h);
}

static void nothing_is_a_history_too(void **state)
{
    each_store(check_empty);
}

/* All values survive a file, to the bit. */
static void check_values(enum history_store store)
{
    double nan_with_payload;
    memcpy(&nan_with_payload, &(uint64_t){0x7ff8dead0000beefull}, 8);
    const struct history_value values[] = {
        history_int(0),        history_int(INT64_MIN), history_int(INT64_MAX),
        history_int(-1),       history_int(INT32_MIN), history_int((int64_t)INT32_MAX + 1),
        history_double(0.0),   history_double(-0.0),   history_double(nan_with_payload),
        history_double(1e308), history_string(""),     history_string("a string\twith\nbytes \x01\xff"),
        history_null(),
    };
    enum { N = sizeof(values) / sizeof(*values) };
    struct problem problem = {0};
    struct history *h = create(store, 0, 0);
    uint32_t quark;
    assert_int_equal(history_add_path(h, "v", &quark, &problem), 0);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(history_modify(h, 10 + i, quark, values[i], &problem), 0);
    assert_int_equal(history_close(h, 100, &problem), 0);
    history_free(h);
    h = reopen();
    for (unsigned i = 0; i < N; i++) {
        struct history_interval s = query(h, quark, 10 + i);
        assert_int_equal(s.start_ns, 10 + i);
        assert_true(history_value_equal(s.value, values[i]));
    }
    history_free(h);
}

static void values_keep_every_bit(void **state)
{
    each_store(check_values);
}

/* The first and the last nanosecond there is, and distances that do not fit 63 bits. */
static void check_far_times(enum history_store store)
{
    const uint64_t times[] = {0, 1, 1ull << 62, 1ull << 63, UINT64_MAX - 3, UINT64_MAX - 2};
    enum { N = sizeof(times) / sizeof(*times) };
    for (uint32_t segment = 1; segment <= 1000; segment *= 10) {
        struct problem problem = {0};
        struct naive naive;
        struct history *h = create(store, 0, segment);
        naive_init(&naive, 40, 0);
        add_attributes(h, 40);
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t q = 0; q < 40; q += 1 + i) {
                assert_int_equal(history_modify(h, times[i], q, history_int(i + q), &problem), 0);
                naive_modify(&naive, times[i], q, history_int(i + q));
            }
        /* One attribute is late by nearly everything. */
        assert_int_equal(history_modify(h, 5, 37, history_int(7), &problem), 0);
        naive_modify(&naive, 5, 37, history_int(7));
        assert_int_equal(history_close(h, UINT64_MAX - 1, &problem), 0);
        naive.end_ns = UINT64_MAX - 1;
        history_free(h);
        h = reopen();
        uint64_t random = 4;
        check_everything(h, &naive, &random, 30);
        for (uint32_t i = 0; i < N; i++)
            check_full(h, &naive, times[i]);
        history_free(h);
        naive_done(&naive);
    }
}

static void far_times(void **state)
{
    each_store(check_far_times);
}

static void a_missing_file_is_named(void **state)
{
    struct problem problem = {0};
    struct history *h = NULL;
    assert_int_equal(history_open("/nonexistent/x.history", &h, &problem), -ENOENT);
    assert_non_null(strstr(problem.what, "/nonexistent/x.history"));
    assert_int_equal(history_create("/nonexistent/x.history", NULL, &h, &problem), -ENOENT);
    assert_int_equal(history_open("/dev/null", &h, &problem), -EBADMSG);
    assert_null(h);
}

static int remove_file(void **state)
{
    unlink(path_of_test);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_answer_like_the_model),
        cmocka_unit_test(columns_keep_late_changes),
        cmocka_unit_test(tree_answers_like_the_model),
        cmocka_unit_test(stacks),
        cmocka_unit_test(removing_a_process),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(nothing_is_a_history_too),
        cmocka_unit_test(values_keep_every_bit),
        cmocka_unit_test(far_times),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
