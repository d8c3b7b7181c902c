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

/* ---- how much is read says which answers are whole ---- */

enum { PART = 65536 };

static void sends(struct feed *feed, uint64_t number, uint64_t at_ns)
{
    FEED(feed, stream_write, API, API, at_ns, 0, .fd = 7, .generation = 1, .bytes = 9, .messages = 1,
         .first_message = number, .operation = GET, .wire = SONDE_wire_memcached);
}

static void executes(struct feed *feed, uint64_t number, uint32_t commands, uint64_t answers, uint64_t at_ns)
{
    FEED(feed, memcached_command, CACHE, WORKER, at_ns, US(30), .fd = 9, .generation = 1, .name = GET,
         .commands = commands, .keys = commands, .hits = commands, .together = commands, .bytes = 9,
         .reply_bytes = answers, .first_number = number);
}

/* Parts of a read, each with a callback of 10 us, one a millisecond; the event ends with the last. */
static void reads(struct feed *feed, uint64_t first_ns, uint64_t bytes)
{
    uint64_t parts = (bytes + PART - 1) / PART, end_ns = first_ns;
    for (uint64_t i = 0; i < parts; i++) {
        end_ns = first_ns + MS(i) + US(10);
        FEED(feed, node_callback, API, API, end_ns, US(10), .async_id = 7);
    }
    FEED(feed, stream_io, API, API, end_ns + US(1), end_ns + US(2) - first_ns, .fd = 7, .generation = 1,
         .events = 1, .bytes = (uint32_t)bytes);
}

/* A request sends commands of these numbers. */
static void asks_on(struct feed *feed, uint64_t numbers)
{
    FEED_TEXT(feed, "/a");
    FEED(feed, http_request, API, API, MS(1) + US(1), 0, .fd = 30, .generation = 1, .method = 1);
    for (uint64_t number = 1; number <= numbers; number++)
        sends(feed, number, MS(1) + US(4 + number));
    FEED(feed, node_callback, API, API, MS(1) + US(20), US(20), .async_id = 5);
    FEED(feed, stream_io, API, API, MS(1) + US(21), US(22), .fd = 30, .generation = 1, .events = 1);
}

static void asks(struct feed *feed, uint64_t numbers)
{
    start(feed);
    asks_on(feed, numbers);
}

static uint64_t end_of(struct feed *feed, uint64_t number)
{
    const struct request *a = feed_kept(feed, "/a");
    array_foreach (&a->spans, span)
        if (span->kind == VSPAN_command && span->sequence == number)
            return span->end_ns;
    fail_msg("command %d has no span", (int)number);
    return 0;
}

/* Three answers of 200,000, 5 and 100,000 bytes, all of them written before the first part is read. */
static void several_large_answers(struct feed *feed)
{
    asks(feed, 3);
    executes(feed, 1, 1, 200000, MS(2));
    executes(feed, 2, 1, 5, MS(2) + US(50));
    executes(feed, 3, 1, 100000, MS(2) + US(100));
    reads(feed, MS(10), 2 * PART);
}

static void an_answer_ends_with_its_last_byte(void **state)
{
    struct feed feed;
    several_large_answers(&feed);
    reads(&feed, MS(20), 300005 - 2 * PART);
    feed_finish(&feed);
    assert_int_equal(end_of(&feed, 1), MS(21)); /* its last byte is the 68,928th of the second read */
    assert_int_equal(end_of(&feed, 2), MS(21));
    assert_int_equal(end_of(&feed, 3), MS(22));
    feed_done(&feed);
}

/* Commands that were executed together share their answers' bytes. */
static void commands_executed_together_end_one_after_the_other(void **state)
{
    struct feed feed;
    asks(&feed, 2);
    executes(&feed, 1, 2, 4 * PART, MS(2));
    reads(&feed, MS(10), 4 * PART);
    feed_finish(&feed);
    assert_int_equal(end_of(&feed, 1), MS(11));
    assert_int_equal(end_of(&feed, 2), MS(13));
    feed_done(&feed);
}

/* A callback sends the next command, and its answer is among what the same event of the stream reads. */
static void an_answer_within_the_event_that_asked_for_it(void **state)
{
    struct feed feed;
    asks(&feed, 1);
    executes(&feed, 1, 1, PART, MS(2));
    sends(&feed, 2, MS(10) + US(5));
    FEED(&feed, node_callback, API, API, MS(10) + US(10), US(10), .async_id = 7);
    executes(&feed, 2, 1, PART, MS(12));
    FEED(&feed, node_callback, API, API, MS(13) + US(10), US(10), .async_id = 7);
    FEED(&feed, stream_io, API, API, MS(13) + US(11), MS(3) + US(12), .fd = 7, .generation = 1, .events = 1,
         .bytes = 2 * PART);
    feed_finish(&feed);
    assert_int_equal(end_of(&feed, 1), MS(10));
    assert_int_equal(end_of(&feed, 2), MS(13));
    feed_done(&feed);
}

/* Where events were lost, or the numbers contradict each other, they prove nothing: answers end as they do in
 * a recording that has no bytes. */
static void what_is_lost_proves_nothing(void **state)
{
    for (int contradicts = 0; contradicts < 2; contradicts++) {
        struct feed feed;
        several_large_answers(&feed);
        if (contradicts)
            reads(&feed, MS(15), 10 * PART); /* more than all answers */
        else
            FEED(&feed, loss, 0, 0, MS(15), 0, .count = 1, .pid = API, .reason = SONDE_loss_reason_ring_full);
        reads(&feed, MS(40), PART);
        feed_finish(&feed);
        assert_int_equal(end_of(&feed, 1), (contradicts ? MS(15) : MS(40)) - US(1));
        assert_int_equal(end_of(&feed, 3), MS(40) - US(1));
        feed_done(&feed);
    }
}

/* Behind a loss, a read that has as many bytes as the answers that it ends shows where the next ones begin.
 */
static void bytes_count_again_behind_a_loss(void **state)
{
    struct feed feed;
    asks(&feed, 5);
    executes(&feed, 1, 1, 5, MS(2));
    FEED(&feed, loss, 0, 0, MS(3), 0, .count = 1, .pid = API, .reason = SONDE_loss_reason_ring_full);
    reads(&feed, MS(4), 4); /* as if nothing were known of bytes: ends the first */
    executes(&feed, 2, 1, 7, MS(6));
    reads(&feed, MS(7), 3); /* ends the second too soon */
    executes(&feed, 3, 1, 9, MS(8));
    reads(&feed, MS(9), 4 + 9); /* not what the third has alone */
    executes(&feed, 4, 1, 11, MS(10));
    reads(&feed, MS(11), 11);
    executes(&feed, 5, 1, 3 * PART, MS(12));
    reads(&feed, MS(13), PART);
    reads(&feed, MS(20), 2 * PART);
    feed_finish(&feed);
    assert_int_equal(end_of(&feed, 2), MS(7) - US(1));
    assert_int_equal(end_of(&feed, 5), MS(21));
    feed_done(&feed);
}

/* A server's end of a connection is seen only when it reads. */
static void the_first_command_comes_before_its_server_is_seen(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, SONDE_runtime_node, "api", US(1));
    feed_process(&feed, CACHE, SONDE_runtime_memcached, "memcached:11211", US(1));
    feed_name(&feed, API, GET, "get", US(1));
    feed_name(&feed, CACHE, GET, "get", US(1));
    feed_connection(&feed, API, 7, 1, 1, 50000, CACHE_PORT, US(2));
    asks_on(&feed, 1);
    feed_connection(&feed, CACHE, 9, 1, 3, CACHE_PORT, 50000, MS(2));
    executes(&feed, 1, 1, 3 * PART, MS(2));
    reads(&feed, MS(10), PART);
    reads(&feed, MS(20), 2 * PART);
    feed_finish(&feed);
    assert_int_equal(end_of(&feed, 1), MS(21));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_tells_which),
        cmocka_unit_test(without_numbers_calls_end_all_the_same),
        cmocka_unit_test(a_large_answer_arrives_in_parts),
        cmocka_unit_test(parts_of_one_read),
        cmocka_unit_test(an_answer_ends_with_its_last_byte),
        cmocka_unit_test(commands_executed_together_end_one_after_the_other),
        cmocka_unit_test(an_answer_within_the_event_that_asked_for_it),
        cmocka_unit_test(what_is_lost_proves_nothing),
        cmocka_unit_test(bytes_count_again_behind_a_loss),
        cmocka_unit_test(the_first_command_comes_before_its_server_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
