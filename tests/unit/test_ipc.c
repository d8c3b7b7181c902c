/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "analyze/folder.h"

enum { API = 10, CHILD = 11, UNIX = 1, WRITE_TYPE = 1 };

static void open_channel(struct feed *feed, int64_t pid, int32_t fd, uint64_t inode)
{
    FEED(feed, net_connection, pid, pid, US(3), 0, .generation = 1, .fd = fd, .inode = inode, .family = UNIX);
}

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    FEED_TEXT(feed, "child");
    FEED_TEXT(feed, "child");
    FEED(feed, process_start, 1, 1, US(1), 0, .pid = CHILD, .parent = API, .runtime = 1);
    feed_name(feed, API, WRITE_TYPE, "WRITEWRAP", US(2));
    /* Two pairs: 100 and 101, 102 and 103. */
    open_channel(feed, API, 20, 100);
    open_channel(feed, API, 21, 102);
    open_channel(feed, CHILD, 3, 101);
    open_channel(feed, CHILD, 4, 103);
}

static void begin(struct feed *feed, int32_t fd, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1);
}

static void answer(struct feed *feed, int32_t fd, uint64_t at)
{
    FEED(feed, http_response, API, API, at, 0, .fd = fd, .generation = 1, .status = 200, .header_bytes = 100,
         .content_length = 50);
    FEED(feed, stream_write, API, API, at, 0, .fd = fd, .generation = 1, .bytes = 150, .result = 150);
}

static void end_turn(struct feed *feed, int32_t fd, uint64_t async_id, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = async_id);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

/* A request that sends a message at once and is answered when the answer comes. */
static void ask(struct feed *feed, uint64_t at)
{
    begin(feed, 30, "/ping", at);
    FEED(feed, stream_write, API, API, at + US(50), 0, .fd = 21, .generation = 1, .bytes = 9, .result = 9);
    end_turn(feed, 30, 900, at - US(50), at + US(100));
}

static void hear(struct feed *feed, uint64_t at)
{
    answer(feed, 30, at);
    end_turn(feed, 21, 901, at - US(50), at + US(50));
}

static void ping(struct feed *feed, uint64_t at, uint64_t took_ns)
{
    ask(feed, at);
    hear(feed, at + took_ns);
}

static const struct finding *find(const struct report *report, enum finding_kind kind)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

static void late_answers_are_named_with_both_descriptors(void **state)
{
    struct feed feed;
    start(&feed);
    ping(&feed, MS(100), MS(1));
    for (unsigned i = 1; i < 5; i++)
        ping(&feed, MS(1000 * i), MS(200));
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_ipc_blocked);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "channel")->text,
                        "descriptor 21, to child (process 11) on its descriptor 4");
    assert_string_equal(finding_get_evidence(f, "waits_for")->text, "answer");
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 4);
    assert_int_equal(f->affected_count, 4);
    json_t *channels = analysis_channels_json(feed.analysis);
    assert_int_equal(json_array_size(channels), 1);
    const json_t *channel = json_array_get(channels, 0);
    assert_int_equal(json_integer_value(json_object_get(channel, "answers_count")), 5);
    assert_int_equal(json_integer_value(json_object_get(channel, "to_process")), CHILD);
    json_decref(channels);
    feed_done(&feed);
}

/* A child that has just been forked takes its time. */
static void the_first_answer_is_not_held_against_anyone(void **state)
{
    struct feed feed;
    start(&feed);
    ping(&feed, MS(100), MS(600));
    for (unsigned i = 1; i < 5; i++)
        ping(&feed, MS(1000 * i), MS(1));
    assert_int_equal(feed_finish(&feed)->findings.count, 0);
    feed_done(&feed);
}

/* Answers that take 200 ms each, for so much of which the child has no CPU. */
static const struct report *without_cpu(struct feed *feed, uint64_t queued_ns)
{
    start(feed);
    FEED(feed, thread_sched, 0, 0, MS(10), 0, .run_ns = MS(1), .pid = CHILD, .tid = CHILD);
    ping(feed, MS(100), MS(1));
    for (unsigned i = 1; i < 5; i++) {
        ask(feed, MS(1000 * i));
        FEED(feed, thread_sched, 0, 0, MS(1000 * i + 199), 0, .run_ns = MS(1 + i), .wait_ns = queued_ns * i,
             .pid = CHILD, .tid = CHILD);
        hear(feed, MS(1000 * i + 200));
    }
    return feed_finish(feed);
}

static void an_end_without_a_cpu_is_not_late(void **state)
{
    struct feed feed;
    assert_null(find(without_cpu(&feed, MS(190)), FINDING_ipc_blocked));
    feed_done(&feed);
}

static void of_a_late_answer_the_part_without_a_cpu_is_not_counted(void **state)
{
    struct feed feed;
    const struct finding *f = find(without_cpu(&feed, MS(100)), FINDING_ipc_blocked);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 4 * MS(99), 4 * MS(101));
    feed_done(&feed);
}

/* Two ask, the child answers both while the loop stands, and one read takes both answers. */
static void answers_that_are_read_at_once_belong_to_all_who_asked(void **state)
{
    struct feed feed;
    start(&feed);
    ping(&feed, MS(100), MS(1));
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = MS(1000 + i);
        begin(&feed, 30 + (int32_t)i, i ? "/b" : "/a", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 21, .generation = 1, .bytes = 9,
             .result = 9);
        end_turn(&feed, 30 + (int32_t)i, 900, at - US(50), at + US(100));
    }
    for (unsigned i = 0; i < 2; i++) {
        FEED(&feed, stream_write, CHILD, CHILD, MS(1200 + i), 0, .fd = 4, .generation = 1, .bytes = 9,
             .result = 9);
        FEED(&feed, node_callback, CHILD, CHILD, MS(1200 + i) + US(10), US(20), .async_id = 70);
        FEED(&feed, uv_phase, CHILD, CHILD, MS(1200 + i) + US(20), US(40), .phase = 1);
    }
    answer(&feed, 30, MS(1300));
    answer(&feed, 31, MS(1300) + US(10));
    end_turn(&feed, 21, 901, MS(1300) - US(50), MS(1300) + US(50));
    feed_finish(&feed);
    for (unsigned i = 0; i < 2; i++) {
        const struct vspan *span = feed_span(feed_kept(&feed, i ? "/b" : "/a"), VSPAN_ipc);
        assert_in_range(span->end_ns - span->start_ns, MS(298), MS(301));
    }
    feed_done(&feed);
}

static void a_full_pipe_is_named(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = MS(1000 * (i + 1));
        begin(&feed, 30, "/pipe", at);
        FEED(&feed, node_async_init, API, API, at + US(10), 0, .async_id = 500 + i, .type = WRITE_TYPE);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 20, .generation = 1, .bytes = 700000,
             .result = 0);
        end_turn(&feed, 30, 900, at - US(50), at + US(100));
        answer(&feed, 30, at + MS(300));
        FEED(&feed, node_callback, API, API, at + MS(300) + US(40), US(80), .async_id = 500 + i);
        FEED(&feed, stream_io, API, API, at + MS(300) + US(50), US(100), .fd = 20, .generation = 1,
             .events = 4);
    }
    const struct finding *f = find(feed_finish(&feed), FINDING_ipc_blocked);
    assert_non_null(f);
    assert_string_equal(finding_get_evidence(f, "waits_for")->text, "reader");
    assert_string_equal(finding_get_evidence(f, "channel")->text,
                        "descriptor 20, to child (process 11) on its descriptor 3");
    feed_done(&feed);
}

/* A request that only tells another process something did not wait for it. */
static void telling_is_not_waiting(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        begin(&feed, 30, "/log", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 21, .generation = 1, .bytes = 9,
             .result = 9);
        end_turn(&feed, 30, 900, at - US(50), at + US(100));
        answer(&feed, 30, at + MS(200));
        FEED(&feed, node_callback, API, API, at + MS(201), MS(2), .async_id = 7);
        FEED(&feed, uv_phase, API, API, at + MS(201), MS(2), .phase = 0);
    }
    /* Nobody is blamed; that they waited for something else is said. */
    const struct report *report = feed_finish(&feed);
    assert_int_equal(report->findings.count, 1);
    assert_int_equal(report->findings.at[0]->kind, FINDING_unexplained_wait);
    assert_int_equal(report->findings.at[0]->severity, SEVERITY_INFO);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_answers_are_named_with_both_descriptors),
        cmocka_unit_test(the_first_answer_is_not_held_against_anyone),
        cmocka_unit_test(an_end_without_a_cpu_is_not_late),
        cmocka_unit_test(of_a_late_answer_the_part_without_a_cpu_is_not_counted),
        cmocka_unit_test(answers_that_are_read_at_once_belong_to_all_who_asked),
        cmocka_unit_test(a_full_pipe_is_named),
        cmocka_unit_test(telling_is_not_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
