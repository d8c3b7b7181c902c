/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, REDIS = 20, CLIENT_ID = 3, OTHER_ID = 4, THIRD_ID = 5, GET = 1, KEYS = 2 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_process(feed, REDIS, 2, "redis", US(1));
    feed_name(feed, REDIS, GET, "get", US(1));
    feed_name(feed, REDIS, KEYS, "keys", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, 6379, US(2));
    feed_connection(feed, REDIS, 9, 1, CLIENT_ID, 6379, 50000, US(2));
    feed_connection(feed, API, 8, 1, 2, 50001, 6379, US(2));
    feed_connection(feed, REDIS, 10, 1, OTHER_ID, 6379, 50001, US(2));
}

/* A request on its own connection whose callback sends commands [first, first + count) over fd. */
static void request_with_commands(struct feed *feed, int32_t request_fd, const char *path, int32_t fd,
                                  uint64_t first, uint32_t count, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at + US(1), 0, .fd = request_fd, .generation = 1, .method = 1);
    FEED(feed, stream_write, API, API, at + US(5), 0, .fd = fd, .generation = 1, .bytes = 40,
         .messages = count, .first_message = first);
    FEED(feed, node_callback, API, API, at + US(8), US(8), .async_id = 1000 + (uint64_t)request_fd);
    FEED(feed, stream_io, API, API, at + US(9), US(10), .fd = request_fd, .generation = 1, .events = 1);
}

static void command(struct feed *feed, uint64_t client, uint64_t sequence, uint32_t name, uint64_t end,
                    uint64_t took)
{
    FEED(feed, redis_command, REDIS, REDIS, end, took, .client_id = client, .sequence = sequence,
         .name = name, .argument_count = 2, .bytes = 30);
}

static void reply(struct feed *feed, uint64_t client, uint64_t at)
{
    FEED(feed, redis_write_reply, REDIS, REDIS, at, US(1), .client_id = client, .bytes = -1);
}

static void read_back(struct feed *feed, int32_t fd, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

static void number_tells_which(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/a", 7, 1, 2, MS(1));
    request_with_commands(&feed, 31, "/b", 7, 3, 1, MS(2));
    command(&feed, CLIENT_ID, 1, GET, MS(3), US(10));
    command(&feed, CLIENT_ID, 2, KEYS, MS(3) + US(50), US(40));
    command(&feed, CLIENT_ID, 3, GET, MS(3) + US(70), US(10));
    reply(&feed, CLIENT_ID, MS(4));
    read_back(&feed, 7, MS(5), MS(5) + US(100));
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a"), *b = feed_kept(&feed, "/b");
    assert_int_equal(analysis_counts(feed.analysis)->joined, 3);
    assert_int_equal(analysis_counts(feed.analysis)->unjoined, 0);
    const struct vspan *second = &a->spans.at[a->spans.count - 1];
    assert_int_equal(second->kind, VSPAN_command);
    assert_string_equal(second->name, "KEYS");
    assert_int_equal(second->sequence, 2);
    assert_int_equal(second->work_start_ns, MS(3) + US(10));
    assert_int_equal(second->work_end_ns, MS(3) + US(50));
    assert_int_equal(second->end_ns, MS(5));
    assert_int_equal(second->argument_bytes, 30);
    assert_int_equal(second->known, KNOWN_PROVED);
    assert_string_equal(feed_span(b, VSPAN_command)->name, "GET");
    feed_done(&feed);
}

/* The sender's record comes after the command was executed and answered. */
static void server_may_be_faster(void **state)
{
    struct feed feed;
    start(&feed);
    command(&feed, CLIENT_ID, 1, GET, MS(1) + US(2), US(1));
    reply(&feed, CLIENT_ID, MS(1) + US(3));
    FEED_TEXT(&feed, "/a");
    FEED(&feed, http_request, API, API, MS(1) + US(4), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, stream_write, API, API, MS(1) + US(5), 0, .fd = 7, .generation = 1, .messages = 1,
         .first_message = 1);
    FEED(&feed, node_callback, API, API, MS(1) + US(8), US(7), .async_id = 5);
    read_back(&feed, 30, MS(1), MS(1) + US(9));
    read_back(&feed, 7, MS(2), MS(2) + US(5));
    feed_finish(&feed);
    const struct vspan *span = feed_span(feed_kept(&feed, "/a"), VSPAN_command);
    assert_string_equal(span->name, "GET");
    assert_int_equal(span->end_ns, MS(2));
    assert_int_equal(analysis_counts(feed.analysis)->joined, 1);
    assert_int_equal(analysis_counts(feed.analysis)->unjoined, 0);
    feed_done(&feed);
}

/* Without a number, or with one that was never sent, nothing is claimed. */
static void unproved_is_not_joined(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/a", 7, 5, 1, MS(1));
    command(&feed, CLIENT_ID, 0, GET, MS(2), US(1));
    command(&feed, CLIENT_ID, 4, GET, MS(2), US(1));
    command(&feed, CLIENT_ID, 6, GET, MS(2), US(1));
    command(&feed, 77, 5, GET, MS(2), US(1));
    command(&feed, OTHER_ID, 5, GET, MS(2), US(1));
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->joined, 0);
    assert_int_equal(analysis_counts(feed.analysis)->unjoined, 5);
    assert_int_equal(feed_span(feed_kept(&feed, "/a"), VSPAN_command)->work_end_ns, 0);
    feed_done(&feed);
}

static void slow_command_and_who_queued(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/slow", 7, 1, 1, MS(1));
    request_with_commands(&feed, 31, "/quick", 8, 1, 1, MS(21));
    FEED(&feed, redis_command, REDIS, REDIS, MS(30), MS(2), .client_id = CLIENT_ID, .name = GET, .depth = 1);
    FEED(&feed, redis_command, REDIS, REDIS, MS(50), MS(9), .client_id = CLIENT_ID, .name = GET, .depth = 1);
    command(&feed, CLIENT_ID, 1, KEYS, MS(101), MS(99));
    command(&feed, OTHER_ID, 1, GET, MS(101) + US(50), US(10));
    command(&feed, OTHER_ID, 2, GET, MS(400), US(10)); /* sent later: it did not wait */
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_slow_command);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "command")->text, "KEYS");
    assert_int_equal(finding_get_evidence(f, "worst_ns")->count, MS(99));
    assert_int_equal(finding_get_evidence(f, "queued_commands_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "queued_ns")->count, MS(80) - US(5));
    assert_string_equal(finding_get_evidence(f, "inner_command")->text, "GET");
    assert_int_equal(finding_get_evidence(f, "inner_calls_count")->count, 2);
    assert_int_equal(f->affected_count, 2);
    assert_string_equal(f->affected.at[0].path, "/slow");
    assert_string_equal(f->affected.at[0].role, "ran it");
    assert_string_equal(f->affected.at[1].path, "/quick");
    assert_int_equal(f->affected.at[1].delay_ns, MS(80) - US(5));
    assert_int_equal(f->cost_ns, MS(99) + MS(80) - US(5));
    assert_non_null(strstr(f->detail, "sent by api"));
    feed_done(&feed);
}

/* What was executed just before is answered only after the slow command, since replies are written at the end
 * of the server's iteration; what was answered before it has lost nothing, although nobody has read the
 * answer. */
static void executed_before_and_answered_after(void **state)
{
    struct feed feed;
    start(&feed);
    feed_connection(&feed, API, 11, 1, 3, 50002, 6379, US(2));
    feed_connection(&feed, REDIS, 12, 1, THIRD_ID, 6379, 50002, US(2));
    request_with_commands(&feed, 28, "/blocks", 11, 1, 1,
                          US(100)); /* such as BLPOP: executed, and no reply yet */
    command(&feed, THIRD_ID, 1, GET, US(300), US(10));
    request_with_commands(&feed, 29, "/answered", 8, 1, 1, MS(1));
    command(&feed, OTHER_ID, 1, GET, MS(2), US(10));
    reply(&feed, OTHER_ID, MS(2) + US(20));
    request_with_commands(&feed, 31, "/quick", 8, 2, 1, MS(3));
    request_with_commands(&feed, 30, "/slow", 7, 1, 1, MS(4));
    command(&feed, OTHER_ID, 2, GET, MS(5), US(10));
    command(&feed, CLIENT_ID, 1, KEYS, MS(105), MS(100));
    reply(&feed, CLIENT_ID, MS(105) + US(10));
    reply(&feed, OTHER_ID, MS(105) + US(20));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_slow_command);
    assert_int_equal(f->affected_count, 2);
    array_foreach (&f->affected, one) {
        bool slow = strcmp(one->path, "/slow") == 0;
        assert_string_equal(one->path, slow ? "/slow" : "/quick");
        assert_string_equal(one->role, slow ? "ran it" : "waited");
        assert_int_equal(one->delay_ns, MS(100));
    }
    feed_done(&feed);
}

/* A job sends KEYS for no request that is known; requests share its connection and stand behind it. The job's
 * own next command is nobody's. */
static void nobodys_command_and_who_queued(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, stream_write, API, API, MS(1), 0, .fd = 7, .generation = 1, .bytes = 40, .messages = 2,
         .first_message = 1);
    request_with_commands(&feed, 31, "/quick", 7, 3, 1, MS(21));
    command(&feed, CLIENT_ID, 1, KEYS, MS(101), MS(99));
    command(&feed, CLIENT_ID, 2, GET, MS(101) + US(50), US(10));
    command(&feed, CLIENT_ID, 3, GET, MS(101) + US(70), US(10));
    reply(&feed, CLIENT_ID, MS(101) + US(90));
    read_back(&feed, 7, MS(102), MS(102) + US(100));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_slow_command);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(f->affected_count, 1);
    assert_string_equal(f->affected.at[0].path, "/quick");
    assert_string_equal(f->affected.at[0].role, "waited");
    assert_int_equal(f->affected.at[0].delay_ns, MS(80) - US(5));
    assert_int_equal(finding_get_evidence(f, "queued_commands_count")->count, 1);
    feed_done(&feed);
}

/* Fifty requests in flight over one pipelined connection, descriptors and ports used again: every command is
 * its own request's. */
static void fifty_in_flight(void **state)
{
    struct feed feed;
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.keep_slowest = 1000;
    feed_init_with(&feed, options);
    feed_process(&feed, API, 1, "api", US(1));
    feed_process(&feed, REDIS, 2, "redis", US(1));
    feed_name(&feed, REDIS, GET, "get", US(1));
    for (uint32_t round = 1; round <= 4; round++) {
        uint64_t base = MS(100) * round;
        feed_connection(&feed, API, 7, round, round, 50000, 6379, base);
        feed_connection(&feed, REDIS, 9, round, round, 6379, 50000, base);
        for (uint32_t i = 0; i < 50; i++) {
            char path[32];
            uint64_t at = base + US(100) + US(20) * i;
            snprintf(path, sizeof(path), "/r%u/%u", round, i);
            FEED_TEXT(&feed, path);
            FEED(&feed, http_request, API, API, at, 0, .fd = 100 + (int)i, .generation = round, .method = 1);
            FEED(&feed, stream_write, API, API, at + US(2), 0, .fd = 7, .generation = round, .bytes = 100 + i,
                 .messages = 1, .first_message = i + 1);
            FEED(&feed, node_callback, API, API, at + US(3), US(3), .async_id = round * 1000 + i);
            FEED(&feed, stream_io, API, API, at + US(4), US(5), .fd = 100 + (int)i, .generation = round,
                 .events = 1);
        }
        for (uint32_t i = 0; i < 50; i++)
            FEED(&feed, redis_command, REDIS, REDIS, base + MS(10) + US(i), 500, .client_id = round,
                 .sequence = i + 1, .name = GET, .bytes = 90 + i);
        FEED(&feed, stream_close, API, API, base + MS(50), 0, .fd = 7, .generation = round);
        FEED(&feed, redis_free_client, REDIS, REDIS, base + MS(51), 0, .client_id = round, .fd = 9);
    }
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->joined, 200);
    assert_int_equal(analysis_counts(feed.analysis)->unjoined, 0);
    assert_int_equal(analysis_counts(feed.analysis)->proved, 200);
    for (uint32_t round = 1; round <= 4; round++)
        for (uint32_t i = 0; i < 50; i++) {
            char path[32];
            snprintf(path, sizeof(path), "/r%u/%u", round, i);
            const struct vspan *span = feed_span(feed_kept(&feed, path), VSPAN_command);
            assert_int_equal(span->written_bytes, 100 + i);
            assert_int_equal(span->argument_bytes, 90 + i);
            assert_int_equal(span->client_id, round);
        }
    feed_done(&feed);
}

/* A reply that the client takes in parts has arrived with its last part; what the loop does with each is done
 * for that command. */
static void a_large_reply_arrives_in_parts(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/a", 7, 1, 1, MS(1));
    command(&feed, CLIENT_ID, 1, KEYS, MS(3), US(10));
    reply(&feed, CLIENT_ID, MS(4));
    read_back(&feed, 7, MS(5), MS(6));
    for (uint64_t t = 7; t < 20; t += 2) {
        FEED(&feed, redis_write_reply, REDIS, REDIS, MS(t), US(1), .client_id = CLIENT_ID, .bytes = -1,
             .waited = 1);
        FEED(&feed, node_callback, API, API, MS(t + 1) + US(900), US(800), .async_id = 7);
        read_back(&feed, 7, MS(t + 1), MS(t + 2));
    }
    read_back(&feed, 7, MS(30), MS(31)); /* something else, later */
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    const struct vspan *span = feed_span(a, VSPAN_command);
    assert_int_equal(span->end_ns, MS(20));
    unsigned parts = 0;
    array_foreach (&a->spans, s)
        parts += s->kind == VSPAN_callback && s->start_ns > MS(7);
    assert_int_equal(parts, 7);
    feed_done(&feed);
}

/* It is no part of the command before it, also when it was written whole before any of it was read. */
static void a_large_reply_is_not_that_of_the_command_before(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/a", 7, 1, 1, MS(1));
    command(&feed, CLIENT_ID, 1, GET, MS(3), US(10));
    reply(&feed, CLIENT_ID, MS(4));
    FEED(&feed, stream_write, API, API, MS(5) + US(10), 0, .fd = 7, .generation = 1, .bytes = 40,
         .messages = 1, .first_message = 2);
    FEED(&feed, node_callback, API, API, MS(6) - US(10), MS(1) - US(20), .async_id = 1030);
    read_back(&feed, 7, MS(5), MS(6));
    command(&feed, CLIENT_ID, 2, KEYS, MS(7), US(10));
    reply(&feed, CLIENT_ID, MS(8));
    FEED(&feed, redis_write_reply, REDIS, REDIS, MS(9), US(1), .client_id = CLIENT_ID, .bytes = -1,
         .waited = 1);
    read_back(&feed, 7, MS(20), MS(21));
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    assert_int_equal(feed_span(a, VSPAN_command)->end_ns, MS(5));
    feed_done(&feed);
}

/* A reply that Redis keeps until its append-only file is on the disk is not late for the caller's loop. */
static void what_holds_a_reply_up_is_the_stores(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/a", 7, 1, 1, MS(1));
    command(&feed, CLIENT_ID, 1, GET, MS(3), US(10));
    reply(&feed, CLIENT_ID, MS(70));
    FEED(&feed, http_response, API, API, MS(72), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(&feed, stream_write, API, API, MS(72), 0, .fd = 30, .generation = 1, .bytes = 150);
    FEED(&feed, node_callback, API, API, MS(73), MS(2), .async_id = 7);
    read_back(&feed, 7, MS(71) - US(10), MS(73) + US(1));
    feed_finish(&feed);
    uint64_t of[PATH_CLASSES] = {0};
    array_foreach (&feed_kept(&feed, "/a")->path_steps, s)
        of[s->class] += s->end_ns - s->start_ns;
    assert_in_range(of[PATH_QUEUE], MS(67), MS(69));
    assert_in_range(of[PATH_LOOP], US(900), MS(1) + US(10));
    feed_done(&feed);
}

/* Whom the command before was of is no answer once a connection was opened or closed. */
static void connections_come_and_go_between_commands(void **state)
{
    enum { LATE_ID = 5 };
    struct feed feed;
    start(&feed);
    command(&feed, LATE_ID, 0, GET, MS(1), US(10));
    feed_connection(&feed, API, 11, 1, 3, 50002, 6379, MS(1) + US(1));
    feed_connection(&feed, REDIS, 12, 1, LATE_ID, 6379, 50002, MS(1) + US(1));
    request_with_commands(&feed, 30, "/a", 11, 1, 1, MS(2));
    command(&feed, LATE_ID, 1, GET, MS(3), US(10));
    reply(&feed, LATE_ID, MS(4));
    read_back(&feed, 11, MS(5), MS(5) + US(100));
    assert_int_equal(analysis_counts(feed.analysis)->joined, 1);
    FEED(&feed, stream_close, API, API, MS(6), 0, .fd = 11, .generation = 1);
    FEED(&feed, redis_free_client, REDIS, REDIS, MS(6), 0, .client_id = LATE_ID, .fd = 12);
    command(&feed, LATE_ID, 2, GET, MS(7), US(10));
    feed_connection(&feed, API, 11, 2, 4, 50003, 6379, MS(8));
    feed_connection(&feed, REDIS, 12, 2, 6, 6379, 50003, MS(8));
    command(&feed, LATE_ID, 3, GET, MS(9), US(10));
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->joined, 1);
    feed_done(&feed);
}

/* Both were attached to after the connections had been opened: nothing is numbered, but what was sent after
 * the last answer there is not answered while the server executes something else. It is no slow peer then. */
static void without_numbers_who_waited_is_known(void **state)
{
    struct feed feed;
    start(&feed);
    request_with_commands(&feed, 30, "/slow", 7, 0, 1, MS(1));
    request_with_commands(&feed, 32, "/answered", 8, 0, 1, MS(1) + US(20));
    command(&feed, OTHER_ID, 0, GET, MS(2) - US(10), US(10));
    reply(&feed, OTHER_ID, MS(2));
    request_with_commands(&feed, 31, "/quick", 7, 0, 1, MS(21));
    command(&feed, CLIENT_ID, 0, KEYS, MS(101), MS(99));
    reply(&feed, CLIENT_ID, MS(101) + US(20));
    for (int32_t fd = 30; fd <= 31; fd++) {
        FEED(&feed, http_response, API, API, MS(102) + US(fd), 0, .fd = fd, .generation = 1, .status = 200,
             .header_bytes = 10);
        FEED(&feed, stream_write, API, API, MS(102) + US(fd), 0, .fd = fd, .generation = 1, .bytes = 10);
    }
    FEED(&feed, node_callback, API, API, MS(102) + US(45), US(48), .async_id = 5);
    read_back(&feed, 7, MS(102) - US(5), MS(102) + US(50));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_slow_command);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(finding_get_evidence(f, "queued_commands_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "queued_ns")->count, MS(80) - US(5));
    assert_int_equal(f->affected_count, 2);
    assert_string_equal(f->affected.at[0].path, "/slow");
    assert_int_equal(f->affected.at[0].delay_ns, MS(99));
    assert_string_equal(f->affected.at[1].path, "/quick");
    assert_null(feed_finding(&feed, FINDING_slow_peer));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_tells_which),
        cmocka_unit_test(server_may_be_faster),
        cmocka_unit_test(unproved_is_not_joined),
        cmocka_unit_test(slow_command_and_who_queued),
        cmocka_unit_test(executed_before_and_answered_after),
        cmocka_unit_test(nobodys_command_and_who_queued),
        cmocka_unit_test(without_numbers_who_waited_is_known),
        cmocka_unit_test(fifty_in_flight),
        cmocka_unit_test(a_large_reply_arrives_in_parts),
        cmocka_unit_test(a_large_reply_is_not_that_of_the_command_before),
        cmocka_unit_test(what_holds_a_reply_up_is_the_stores),
        cmocka_unit_test(connections_come_and_go_between_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
