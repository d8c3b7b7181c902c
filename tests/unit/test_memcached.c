/* A Memcached server's commands and the calls of its clients that are traced. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, CACHE = 20, WORKER = 21, GET = 1, CACHE_PORT = 11211 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, SONDE_runtime_node, "api", US(1));
    feed_process(feed, CACHE, SONDE_runtime_memcached, "memcached:11211", US(1));
    feed_name(feed, API, GET, "get", US(1));
    feed_name(feed, CACHE, GET, "get", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, CACHE_PORT, US(2));
    feed_connection(feed, CACHE, 9, 1, 3, CACHE_PORT, 50000, US(2));
}

/* A request whose callback sends two commands, which are executed together and answered. */
static const struct request *two_commands(struct feed *feed, uint64_t first_sent, uint64_t first_executed)
{
    start(feed);
    FEED_TEXT(feed, "/a");
    FEED(feed, http_request, API, API, MS(1) + US(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(feed, stream_write, API, API, MS(1) + US(5), 0, .fd = 7, .generation = 1, .bytes = 14, .messages = 2,
         .first_message = first_sent, .operation = GET, .wire = SONDE_wire_memcached);
    FEED(feed, node_callback, API, API, MS(1) + US(8), US(8), .async_id = 5);
    FEED(feed, stream_io, API, API, MS(1) + US(9), US(10), .fd = 30, .generation = 1, .events = 1);
    FEED(feed, memcached_command, CACHE, WORKER, MS(2), US(30), .fd = 9, .generation = 1, .name = GET,
         .commands = 2, .keys = 2, .hits = 1, .together = 2, .bytes = 14, .first_number = first_executed);
    FEED(feed, stream_io, API, API, MS(4), US(100), .fd = 7, .generation = 1, .events = 1);
    feed_finish(feed);
    return feed_kept(feed, "/a");
}

static void number_tells_which(void **state)
{
    struct feed feed;
    const struct request *a = two_commands(&feed, 1, 1);
    const struct vspan *second = &a->spans.at[a->spans.count - 1], *first = second - 1;
    assert_int_equal(analysis_counts(feed.analysis)->joined, 2);
    assert_string_equal(layer_name(first), "memcached");
    assert_string_equal(first->name, "get");
    for (const struct vspan *span = first; span <= second; span++) {
        assert_int_equal(span->work_start_ns, MS(2) - US(30));
        assert_int_equal(span->work_end_ns, MS(2));
        assert_int_equal(span->peer_pid, CACHE);
        assert_int_equal(span->peer_tid, WORKER);
        assert_int_equal(span->end_ns, MS(4) - US(100));
    }
    feed_done(&feed);
}

/* The server was attached to when the connection was open, or the client was: nothing is joined, and the
 * calls end as those to a server that is not traced. */
static void without_numbers_calls_end_all_the_same(void **state)
{
    const uint64_t numbers[][2] = {{1, 0}, {0, 1}, {0, 0}};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        struct feed feed;
        const struct request *a = two_commands(&feed, numbers[i][0], numbers[i][1]);
        const struct vspan *second = &a->spans.at[a->spans.count - 1];
        assert_int_equal(analysis_counts(feed.analysis)->joined, 0);
        assert_int_equal(second->kind, VSPAN_command);
        assert_int_equal(second->work_end_ns, 0);
        assert_int_equal(second->end_ns, MS(4) - US(100));
        feed_done(&feed);
    }
}

/* How much of an answer its client took at once is not told: what is read without another command's answer is
 * its rest. */
static void a_large_answer_arrives_in_parts(void **state)
{
    struct feed feed;
    start(&feed);
    FEED_TEXT(&feed, "/a");
    FEED(&feed, http_request, API, API, MS(1) + US(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, stream_write, API, API, MS(1) + US(5), 0, .fd = 7, .generation = 1, .bytes = 14,
         .messages = 1, .first_message = 1, .operation = GET, .wire = SONDE_wire_memcached);
    FEED(&feed, node_callback, API, API, MS(1) + US(8), US(8), .async_id = 5);
    FEED(&feed, stream_io, API, API, MS(1) + US(9), US(10), .fd = 30, .generation = 1, .events = 1);
    FEED(&feed, memcached_command, CACHE, WORKER, MS(2), US(30), .fd = 9, .generation = 1, .name = GET,
         .commands = 1, .keys = 1, .hits = 1, .together = 1, .bytes = 14, .first_number = 1);
    for (uint64_t t = 4; t < 12; t += 2)
        FEED(&feed, stream_io, API, API, MS(t), US(100), .fd = 7, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    assert_int_equal(feed_span(a, VSPAN_command)->end_ns, MS(10) - US(100));
    feed_done(&feed);
}

/* One event of the stream reads several parts, each with a callback: the answer is there with the last one,
 * or with the one that sends the next command. */
static void parts_of_one_read(void **state)
{
    for (int next = 0; next < 2; next++) {
        struct feed feed;
        start(&feed);
        FEED_TEXT(&feed, "/a");
        FEED(&feed, http_request, API, API, MS(1) + US(1), 0, .fd = 30, .generation = 1, .method = 1);
        FEED(&feed, stream_write, API, API, MS(1) + US(5), 0, .fd = 7, .generation = 1, .bytes = 14,
             .messages = 1, .first_message = 1, .operation = GET, .wire = SONDE_wire_memcached);
        FEED(&feed, node_callback, API, API, MS(1) + US(8), US(8), .async_id = 5);
        FEED(&feed, stream_io, API, API, MS(1) + US(9), US(10), .fd = 30, .generation = 1, .events = 1);
        FEED(&feed, memcached_command, CACHE, WORKER, MS(2), US(30), .fd = 9, .generation = 1, .name = GET,
             .commands = 1, .keys = 1, .hits = 1, .together = 1, .bytes = 14, .first_number = 1);
        FEED(&feed, node_callback, API, API, MS(4), US(300), .async_id = 7);
        if (next)
            FEED(&feed, stream_write, API, API, MS(5) - US(100), 0, .fd = 7, .generation = 1, .bytes = 14,
                 .messages = 1, .first_message = 2, .operation = GET, .wire = SONDE_wire_memcached);
        FEED(&feed, node_callback, API, API, MS(5), US(300), .async_id = 7);
        FEED(&feed, node_callback, API, API, MS(6), US(300), .async_id = 7);
        FEED(&feed, stream_io, API, API, MS(6) + US(10), MS(3), .fd = 7, .generation = 1, .events = 1);
        feed_finish(&feed);
        const struct vspan *get = feed_span(feed_kept(&feed, "/a"), VSPAN_command);
        assert_int_equal(get->end_ns, (next ? MS(5) : MS(6)) - US(300));
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_tells_which),
        cmocka_unit_test(without_numbers_calls_end_all_the_same),
        cmocka_unit_test(a_large_answer_arrives_in_parts),
        cmocka_unit_test(parts_of_one_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
