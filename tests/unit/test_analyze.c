/* SPDX-License-Identifier: Apache-2.0 */
#include "model/analysis.h"

#include "feed.h"

static void empty_trace_says_why(void **state)
{
    struct feed feed;
    feed_init(&feed);
    assert_non_null(strstr(feed_finish(&feed)->nothing, "no events"));
    feed_done(&feed);

    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", US(1));
    assert_non_null(strstr(feed_finish(&feed)->nothing, "put some load"));
    assert_int_equal(analysis_counts(feed.analysis)->of_targets, 1);
    feed_done(&feed);

    /* Nobody can put load on a program that has ended. */
    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", MS(1));
    FEED(&feed, process_exit, 1, 1, MS(251), 0, .pid = 10, .status = 1 << 8);
    const char *nothing = feed_finish(&feed)->nothing;
    assert_non_null(strstr(nothing, "api (process 10) ended with status 1 250 ms after it began"));
    feed_done(&feed);

    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", MS(1));
    FEED(&feed, process_exit, 1, 1, MS(251), 0, .pid = 10, .status = 9);
    assert_non_null(strstr(feed_finish(&feed)->nothing, "was killed by SIGKILL"));
    feed_done(&feed);

    feed_init(&feed);
    feed_process(&feed, 10, 0, "sh", US(1));
    assert_non_null(strstr(feed_finish(&feed)->nothing, "No Node.js, Redis or Memcached process"));
    feed_done(&feed);

    /* Nothing is said of what was not there. */
    feed_init(&feed);
    feed_process(&feed, 10, SONDE_runtime_memcached, "memcached", US(1));
    assert_non_null(strstr(feed_finish(&feed)->nothing, "Only Memcached was traced"));
    assert_null(strstr(feed.report.nothing, "Redis"));
    feed_done(&feed);
}

static void losses_are_told_by_reason(void **state)
{
    struct feed feed;
    feed_init(&feed);
    FEED(&feed, loss, 1, 1, US(1), 0, .count = 3, .pid = 10, .reason = 0);
    FEED(&feed, loss, 1, 1, US(2), 0, .count = 4, .pid = 11, .reason = 0);
    FEED(&feed, loss, 1, 1, US(2), 0, .count = 1, .pid = 11, .reason = 200);
    struct report *report = feed_finish(&feed);
    assert_int_equal(report->losses.count, 2);
    assert_string_equal(report->losses.at[0].reason, "ring-full");
    assert_int_equal(report->losses.at[0].count, 7);
    feed_done(&feed);
}

/* A process number that is used again is another process: what the first left open is unfinished. */
static void process_numbers_are_used_again(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, 10, 1, "first", US(1));
    FEED_TEXT(&feed, "/left");
    FEED(&feed, http_request, 10, 10, US(10), 0, .fd = 5, .generation = 1, .method = 1);
    feed_process(&feed, 10, 1, "second", MS(10));
    feed_request(&feed, 10, 5, "/right", MS(11), MS(12));
    feed_finish(&feed);
    assert_string_equal(feed_kept(&feed, "/left")->service, "first");
    assert_int_equal(feed_kept(&feed, "/left")->state, REQUEST_UNFINISHED);
    assert_string_equal(feed_kept(&feed, "/right")->service, "second");
    assert_int_equal(feed_kept(&feed, "/right")->state, REQUEST_FINISHED);
    feed_done(&feed);
}

/* Unknown and foreign events, and ones without any field, are taken without harm. */
static void strange_events_do_no_harm(void **state)
{
    struct feed feed;
    feed_init(&feed);
    struct value values[64] = {0};
    for (uint64_t present = 0; present < 2; present++)
        for (unsigned id = 0; id <= SONDE_EVENT_COUNT + 1u; id++) {
            struct event event = {.time_ns = US(id),
                                  .id = (uint16_t)id,
                                  .pid = 1,
                                  .tid = 1,
                                  .values = values,
                                  .present = present ? UINT64_MAX : 0};
            for (size_t i = 0; i < ARRAY_SIZE(values); i++)
                values[i] = (struct value){0};
            assert_int_equal(analysis_event(feed.analysis, &event), 0);
        }
    uint64_t begin = US(SONDE_EVENT_COUNT + 10u);
    feed_process(&feed, 10, SONDE_runtime_node, "api", begin);
    feed_request(&feed, 10, 5, "/after", begin + MS(1), begin + MS(3));
    struct report *report = feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/after");
    assert_string_equal(request->service, "api");
    assert_int_equal(request->state, REQUEST_FINISHED);
    assert_int_equal(report->findings.count, 0); /* nothing is concluded from what makes no sense */
    assert_int_equal(report->losses.count, 0);
    assert_int_equal(analysis_counts(feed.analysis)->of_targets, 1);
    feed_done(&feed);
}

/* Memory follows the requests in flight, not the length of the trace. */
static void keeps_only_what_is_in_flight(void **state)
{
    struct feed feed;
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.keep_slowest = 2;
    options.keep_per_endpoint = 2;
    feed_init_with(&feed, options);
    feed_process(&feed, 10, 1, "api", US(1));
    for (uint64_t i = 0; i < 20000; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/users/%d", (int)i);
        uint64_t at = MS(1 + i);
        FEED(&feed, node_async_init, 10, 10, at, 0, .async_id = 100000 + i, .trigger_id = 1);
        feed_request(&feed, 10, (int)(5 + i % 7), path, at, at + US(500));
    }
    struct analysis *a = feed.analysis;
    struct thread *thread = thread_get(a, process_get(a, 10), 10);
    assert_true(a->requests.count <= 4);
    assert_int_equal(thread->open.count, 0);
    assert_true(thread->items.capacity < 100);
    assert_true(thread->async.count < 10);
    feed_finish(&feed);
    size_t count;
    const struct endpoint *endpoints = analysis_endpoints(a, &count);
    assert_int_equal(count, 1);
    assert_string_equal(endpoints[0].route, "/users/:id");
    assert_int_equal(endpoints[0].count, 20000);
    feed_done(&feed);
}

/* The recorder left families of the probe's events out from there on. */
static void nothing_is_concluded_from_incomplete_events(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", US(1));
    FEED_TEXT(&feed, "/before");
    FEED(&feed, http_request, 10, 10, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED_TEXT(&feed, "scheduling");
    FEED(&feed, budget, 1, 1, MS(2), 0, .incomplete = 0);
    FEED_TEXT(&feed, "/meanwhile");
    FEED(&feed, http_request, 10, 10, MS(3), 0, .fd = 31, .generation = 1, .method = 1);
    FEED_TEXT(&feed, "callbacks");
    FEED(&feed, budget, 1, 1, MS(4), 0, .incomplete = 1);
    FEED_TEXT(&feed, "/behind");
    FEED(&feed, http_request, 10, 10, MS(5), 0, .fd = 32, .generation = 1, .method = 1);
    FEED(&feed, node_callback, 10, 10, MS(900), MS(800), .async_id = 1);
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->requests, 2);
    assert_int_equal(analysis_counts(feed.analysis)->last_ns, MS(4));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_concluded_from_incomplete_events),
        cmocka_unit_test(empty_trace_says_why),
        cmocka_unit_test(losses_are_told_by_reason),
        cmocka_unit_test(process_numbers_are_used_again),
        cmocka_unit_test(strange_events_do_no_harm),
        cmocka_unit_test(keeps_only_what_is_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
