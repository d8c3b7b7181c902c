/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, OTHER = 11, PARSE = 0, STRINGIFY = 1 };

static const struct finding *find(const struct report *report, enum finding_kind kind)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

/* A request of took_ns in one callback of a process, encode_ns of it in a call that encodes. */
static void encoding_request(struct feed *feed, int64_t pid, uint8_t what, const char *path, uint64_t at,
                             uint64_t took_ns, uint64_t encode_ns, uint64_t bytes)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, pid, pid, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
    FEED(feed, v8_encode, pid, pid, at + US(500) + encode_ns, encode_ns, .what = what, .bytes = bytes);
    FEED(feed, http_response, pid, pid, at + took_ns - US(20), 0, .fd = 7, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(feed, stream_write, pid, pid, at + took_ns - US(19), 0, .fd = 7, .generation = 1, .bytes = 150);
    FEED(feed, node_callback, pid, pid, at + took_ns - US(10), took_ns - US(15), .async_id = 9);
    FEED(feed, stream_io, pid, pid, at + took_ns, took_ns, .fd = 7, .generation = 1, .events = 1);
}

/* count such requests. */
static void requests(struct feed *feed, unsigned count, uint64_t took_ns, uint64_t encode_ns, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++)
        encoding_request(feed, API, STRINGIFY, "/files", MS(100 + 1000 * i), took_ns, encode_ns, bytes);
}

static struct report *run(struct feed *feed, unsigned count, uint64_t took_ns, uint64_t encode_ns)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    requests(feed, count, took_ns, encode_ns, 2000000);
    return feed_finish(feed);
}

static void many_calls_are_serialisation(void **state)
{
    struct feed feed;
    const struct report *report = run(&feed, 30, MS(24), MS(20));
    const struct finding *f = find(report, FINDING_serialisation);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_int_equal(f->cost_ns, 30 * MS(20));
    assert_int_equal(f->affected_count, 30);
    assert_string_equal(f->affected.at[0].role, "ran it");
    assert_string_equal(finding_get_evidence(f, "called")->text, "JSON.stringify");
    assert_int_equal(finding_get_evidence(f, "hurts_from_bytes")->count, 2000000);
    assert_int_equal(finding_get_evidence(f, "worst_ns")->count, MS(20));
    const struct vspan *span = feed_span(feed_kept(&feed, "/files"), VSPAN_encode);
    assert_int_equal(span->argument_bytes, 2000000);
    feed_done(&feed);
}

/* Callbacks of 900 ms in which the thread had no CPU for 870: the share is of the rest. */
static void waits_for_a_cpu_are_no_work(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (unsigned i = 0; i < 30; i++) {
        uint64_t at = MS(100 + 1000 * i);
        FEED_TEXT(&feed, "/files");
        FEED(&feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
        FEED(&feed, v8_encode, API, API, at + MS(11), MS(10), .what = STRINGIFY, .bytes = 2000000);
        FEED(&feed, http_response, API, API, at + MS(12), 0, .fd = 7, .generation = 1, .status = 200,
             .header_bytes = 100, .content_length = 50);
        FEED(&feed, stream_write, API, API, at + MS(13), 0, .fd = 7, .generation = 1, .bytes = 150);
        FEED(&feed, sched_switch, 1, 1, at + MS(890), MS(870), .pid = API, .tid = API,
             .runnable_ns = MS(870));
        FEED(&feed, node_callback, API, API, at + MS(899), MS(899) - US(5), .async_id = 9);
        FEED(&feed, stream_io, API, API, at + MS(900), MS(900), .fd = 7, .generation = 1, .events = 1);
    }
    const struct finding *f = find(feed_finish(&feed), FINDING_serialisation);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "active_ns")->count, 30 * MS(29), 30 * MS(31));
    feed_done(&feed);
}

/* A call for 100 KB in which the thread waited for 300 ms, for the collector's threads: one for 2 MB is the
 * longest. */
static void waits_within_a_call_are_no_encoding(void **state)
{
    struct feed feed;
    uint64_t at = MS(40000);
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    requests(&feed, 30, MS(24), MS(20), 2000000);
    FEED_TEXT(&feed, "/files");
    FEED(&feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
    FEED(&feed, sched_switch, 1, 1, at + MS(305), MS(300), .pid = API, .tid = API);
    FEED(&feed, v8_encode, API, API, at + MS(311), MS(310), .what = STRINGIFY, .bytes = 100000);
    FEED(&feed, http_response, API, API, at + MS(312), 0, .fd = 7, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(&feed, stream_write, API, API, at + MS(313), 0, .fd = 7, .generation = 1, .bytes = 150);
    FEED(&feed, node_callback, API, API, at + MS(319), MS(319) - US(5), .async_id = 9);
    FEED(&feed, stream_io, API, API, at + MS(320), MS(320), .fd = 7, .generation = 1, .events = 1);
    const struct finding *f = find(feed_finish(&feed), FINDING_serialisation);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "worst_bytes")->count, 2000000);
    assert_in_range(finding_get_evidence(f, "encoding_ns")->count, 30 * MS(20), 30 * MS(20) + MS(12));
    feed_done(&feed);
}

static void short_calls_are_none(void **state)
{
    struct feed feed;
    assert_int_equal(run(&feed, 100, MS(3), US(300))->findings.count, 0);
    feed_done(&feed);
}

static void a_share_that_is_small_is_none(void **state)
{
    struct feed feed;
    assert_int_equal(run(&feed, 100, MS(40), MS(3))->findings.count, 0);
    feed_done(&feed);
}

/* Few calls that are long each are stalls, and named as that. */
static void few_long_calls_are_stalls(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 6, "/files", MS(10), MS(11));
    requests(&feed, 3, MS(204), MS(200), 20000000);
    const struct report *report = feed_finish(&feed);
    assert_null(find(report, FINDING_serialisation));
    const struct finding *f = find(report, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_string_equal(finding_get_evidence(f, "called")->text, "JSON.stringify");
    feed_done(&feed);
}

/* Two processes of one service, such as the two ends of a connection: one makes text of objects, the other
 * objects of text. Each is named, with the requests that it slowed down. Several that do the same are named
 * once. */
static void processes_of_one_service(void **state)
{
    for (int same = 0; same < 2; same++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "app", US(1));
        feed_process(&feed, OTHER, 1, "app", US(2));
        for (unsigned i = 0; i < 30; i++) {
            uint64_t at = MS(100 + 1000 * i);
            encoding_request(&feed, API, STRINGIFY, "/files", at, MS(24), MS(20), 2000000);
            encoding_request(&feed, OTHER, same ? STRINGIFY : PARSE, "/read", at + MS(500), MS(14), MS(10),
                             1000000);
        }
        const struct report *report = feed_finish(&feed);
        assert_int_equal(report->findings.count, same ? 1 : 2);
        const struct finding *f = report->findings.at[0];
        assert_int_equal(f->where.process, API);
        assert_string_equal(finding_get_evidence(f, "called")->text, "JSON.stringify");
        assert_int_equal(finding_get_evidence(f, "encoding_ns")->count, 30 * MS(20));
        assert_int_equal(f->affected_count, same ? 60 : 30);
        assert_int_equal(f->cost_ns, 30 * MS(20) + (same ? 30 * MS(10) : 0));
        if (!same) {
            f = report->findings.at[1];
            assert_int_equal(f->kind, FINDING_serialisation);
            assert_int_equal(f->where.process, OTHER);
            assert_string_equal(finding_get_evidence(f, "called")->text, "JSON.parse");
            assert_int_equal(f->affected_count, 30);
            assert_string_equal(f->affected.at[0].path, "/read");
            assert_int_equal(f->cost_ns, 30 * MS(10));
        }
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_calls_are_serialisation),
        cmocka_unit_test(waits_for_a_cpu_are_no_work),
        cmocka_unit_test(waits_within_a_call_are_no_encoding),
        cmocka_unit_test(short_calls_are_none),
        cmocka_unit_test(a_share_that_is_small_is_none),
        cmocka_unit_test(few_long_calls_are_stalls),
        cmocka_unit_test(processes_of_one_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
