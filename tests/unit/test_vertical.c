/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/vertical.h"

#include "feed.h"

enum { API = 10, POOL_THREAD = 11 };

static void feed_file_request(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, 1, "FSREQCALLBACK", US(1));
    FEED_TEXT(feed, "/files/7");
    FEED(feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(feed, node_async_init, API, API, MS(1) + US(10), 0, .async_id = 50, .type = 1);
    FEED(feed, uv_submit, API, API, MS(1) + US(11), 0, .request = 1, .kind = 3);
    FEED(feed, node_callback, API, API, MS(1) + US(100), US(101), .async_id = 40);
    FEED(feed, stream_io, API, API, MS(1) + US(110), US(115), .fd = 30, .generation = 1, .events = 1);
    FEED(feed, uv_run, API, POOL_THREAD, MS(6), MS(1), .request = 1, .kind = 3);
    FEED(feed, http_response, API, API, MS(7) + US(50), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(feed, stream_write, API, API, MS(7) + US(51), 0, .fd = 30, .generation = 1, .bytes = 10);
    FEED(feed, node_callback, API, API, MS(7) + US(60), US(60), .async_id = 50);
    FEED(feed, uv_done, API, API, MS(7) + US(61), US(61), .request = 1, .kind = 3);
    feed_finish(feed);
}

static void prints_the_tree(void **state)
{
    struct feed feed;
    feed_file_request(&feed);
    struct text text = {0};
    vertical_print(&text, feed_kept(&feed, "/files/7"), NULL, &prose_plain, 100, 0);
    const char *expected = "     after       took  layer  what\n"
                           "      0 ns    6.05 ms  http   GET /files/7 200  api\n"
                           "      0 ns     101 us  js       request handler\n"
                           "   11.0 us    5.99 ms  libuv    fs_read FSREQCALLBACK\n"
                           "   11.0 us    3.99 ms  libuv      waits for a pool thread\n"
                           "   4.00 ms    1.00 ms  libuv      runs on pool thread 11\n"
                           "   6.00 ms    60.0 us  js       completion\n";
    const char *path = strstr(text_get(&text), "critical path");
    assert_memory_equal(text_get(&text), expected, strlen(expected));
    assert_non_null(path);
    assert_non_null(strstr(path, "waits 3.99 ms for a pool thread (fs_read)"));
    assert_non_null(strstr(path, "1.06 ms at work (T), 4.99 ms of waiting"));
    text_done(&text);
    feed_done(&feed);
}

/* The longest spans stay, with what they stand under; lines fit. */
static void leaves_out_the_shortest(void **state)
{
    struct feed feed;
    feed_file_request(&feed);
    struct text text = {0};
    vertical_print(&text, feed_kept(&feed, "/files/7"), NULL, &prose_plain, 60, 3);
    assert_non_null(strstr(text_get(&text), "waits for"));
    assert_non_null(strstr(text_get(&text), "fs_read"));
    assert_null(strstr(text_get(&text), "request handler"));
    assert_non_null(strstr(text_get(&text), "3 shorter spans are not shown"));
    for (const char *line = text_get(&text); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 60);
    text_done(&text);
    feed_done(&feed);
}

/* What a handler had no CPU for is a wait of the path, not something that it ran for. */
static void a_thread_without_a_cpu_does_not_run(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED_TEXT(&feed, "/starved");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, sched_switch, 1, 1, MS(56), MS(50), .pid = API, .tid = API, .runnable_ns = MS(50),
         .reason = SONDE_off_reason_preempted, .fd = -1);
    FEED(&feed, http_response, API, API, MS(61), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(&feed, stream_write, API, API, MS(61), 0, .fd = 30, .generation = 1, .bytes = 10);
    FEED(&feed, node_callback, API, API, MS(62), MS(61), .async_id = 40);
    FEED(&feed, stream_io, API, API, MS(62) + US(5), MS(61) + US(10), .fd = 30, .generation = 1, .events = 1);
    feed_finish(&feed);
    struct text text = {0};
    vertical_print(&text, feed_kept(&feed, "/starved"), NULL, &prose_plain, 400, 0);
    const char *path =
        strstr(text_get(&text), "critical path: it runs for 10.0 ms (request handler), in between waits "
                                "50.0 ms for a CPU; 10.0 ms at work (T), 50.0 ms of waiting\n");
    if (!path)
        fail_msg("%s", text_get(&text));
    text_done(&text);
    feed_done(&feed);
}

/* Connecting is an operation, not whom something is exchanged with. */
static void operations_say_what_they_are(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_name(&feed, API, 5, "TCPCONNECTWRAP", US(3));
    FEED_TEXT(&feed, "/connects");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, node_async_init, API, API, MS(1) + US(10), 0, .async_id = 500, .type = 5);
    FEED(&feed, node_callback, API, API, MS(2), MS(1), .async_id = 40);
    FEED(&feed, stream_io, API, API, MS(2) + US(5), MS(1) + US(10), .fd = 30, .generation = 1, .events = 1);
    FEED(&feed, http_response, API, API, MS(61), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(&feed, stream_write, API, API, MS(61), 0, .fd = 30, .generation = 1, .bytes = 10);
    FEED(&feed, node_callback, API, API, MS(62), MS(2), .async_id = 500);
    feed_finish(&feed);
    struct text text = {0};
    vertical_print(&text, feed_kept(&feed, "/connects"), NULL, &prose_plain, 400, 0);
    if (!strstr(text_get(&text), "libuv    connecting\n"))
        fail_msg("%s", text_get(&text));
    text_done(&text);
    feed_done(&feed);
}

/* Many waits in one system call are one line of a short list: the longest. */
static void waits_in_one_call_are_one_line(void **state)
{
    enum { FUTEX = 202 };
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED_TEXT(&feed, "/collects");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    for (uint64_t i = 1; i <= 5; i++)
        FEED(&feed, sched_switch, 1, 1, MS(1 + 10 * i), MS(i), .pid = API, .tid = API,
             .reason = SONDE_off_reason_blocked, .call = FUTEX, .fd = -1);
    FEED(&feed, http_response, API, API, MS(60), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(&feed, stream_write, API, API, MS(60), 0, .fd = 30, .generation = 1, .bytes = 10);
    FEED(&feed, node_callback, API, API, MS(61), MS(60), .async_id = 40);
    FEED(&feed, stream_io, API, API, MS(61) + US(5), MS(60) + US(10), .fd = 30, .generation = 1, .events = 1);
    feed_finish(&feed);
    for (unsigned limit = 0; limit <= 20; limit += 20) {
        struct text text = {0};
        size_t count = 0;
        vertical_print(&text, feed_kept(&feed, "/collects"), NULL, &prose_plain, 100, limit);
        for (const char *at = text_get(&text); (at = strstr(at, "futex")); at++)
            count++;
        assert_int_equal(count, limit ? 1 : 5);
        assert_true(!limit || strstr(text_get(&text), "4 shorter spans are not shown"));
        text_done(&text);
    }
    feed_done(&feed);
}

static void feed_sample(struct feed *feed, uint32_t tid, uint64_t at_ns, const char *function)
{
    FEED_TEXT(feed, function);
    FEED_TEXT(feed, "outer;inner");
    FEED(feed, profile_sample, API, tid, at_ns, 0, .weight = MS(1), .pid = API, .tid = tid);
}

/* Samples are a span's when its thread took them while it was at work, whatever was read first. */
static void functions_of_the_span(void **state)
{
    struct feed feed;
    feed_file_request(&feed);
    feed.last_ns = 0;
    feed_sample(&feed, API, MS(1) - US(2), "before");
    feed_sample(&feed, API, MS(1) + US(20), "parse");
    feed_sample(&feed, POOL_THREAD, MS(1) + US(30), "waits");
    feed_sample(&feed, API, MS(1) + US(50), "render");
    feed_sample(&feed, API, MS(1) + US(60), "render");
    feed_sample(&feed, API, MS(1) + US(100), "after");
    feed_sample(&feed, POOL_THREAD, MS(5) + US(500), "read");
    feed_sample(&feed, API, MS(5) + US(500), "other");
    const struct profile *samples = analysis_samples(feed.analysis);
    struct text text = {0};
    vertical_print(&text, feed_kept(&feed, "/files/7"), samples, &prose_plain, 100, 0);
    assert_non_null(strstr(text_get(&text),
                           "request handler\n                                  functions: render 67 %, "
                           "parse 33 % of 3 samples\n"));
    assert_non_null(strstr(text_get(&text),
                           "runs on pool thread 11\n                                    functions: "
                           "read 100 % of 1 sample\n"));
    assert_null(strstr(text_get(&text), "other"));
    text_done(&text);
    json_t *request = vertical_json(feed_kept(&feed, "/files/7"), samples);
    json_t *callback = json_array_get(json_object_get(request, "spans"), 1);
    json_t *first = json_array_get(json_object_get(callback, "functions"), 0);
    assert_int_equal(json_integer_value(json_object_get(callback, "samples_count")), 3);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "render");
    assert_int_equal(json_integer_value(json_object_get(first, "samples_count")), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "sampled_ns")), MS(2));
    json_decref(request);
    feed_done(&feed);
}

static void json_has_the_states(void **state)
{
    struct feed feed;
    feed_file_request(&feed);
    json_t *request = vertical_json(feed_kept(&feed, "/files/7"), NULL);
    assert_string_equal(json_string_value(json_object_get(request, "route")), "/files/:id");
    assert_int_equal(json_integer_value(json_object_get(request, "status")), 200);
    assert_int_equal(json_integer_value(json_object_get(request, "latency_ns")), MS(6) + US(51));
    json_t *spans = json_object_get(request, "spans");
    assert_int_equal(json_array_size(spans), 4);
    json_t *op = json_array_get(spans, 2);
    assert_string_equal(json_string_value(json_object_get(op, "layer")), "libuv");
    assert_string_equal(json_string_value(json_object_get(op, "known")), "proved");
    assert_int_equal(json_integer_value(json_object_get(op, "work_ns")), MS(1));
    assert_int_equal(json_integer_value(json_object_get(op, "parent")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, 3), "continues")), 2);
    json_decref(request);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_the_tree),
        cmocka_unit_test(leaves_out_the_shortest),
        cmocka_unit_test(a_thread_without_a_cpu_does_not_run),
        cmocka_unit_test(operations_say_what_they_are),
        cmocka_unit_test(waits_in_one_call_are_one_line),
        cmocka_unit_test(functions_of_the_span),
        cmocka_unit_test(json_has_the_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
