/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "faults/faults.h"

enum { API = 10, REGEXP = 1 };

/* What a report said, of the kind that is asked for. */
struct said {
    enum finding_kind kind;
    bool there;
    uint64_t to_ns, cost_ns;
    enum finding_severity severity;
    char first_affected[32], role[16];
    uint64_t unfinished, count;
    int status;
};

static int take(void *context, struct analysis *analysis, struct report *report)
{
    struct said *said = context;
    said->unfinished = analysis_counts(analysis)->unfinished;
    (void)analysis_endpoints(analysis, &said->count);
    array_foreach (&report->findings, place) {
        const struct finding *f = *place;
        if (f->kind != said->kind)
            continue;
        said->there = true;
        said->to_ns = f->to_ns;
        said->cost_ns = f->cost_ns;
        said->severity = f->severity;
        if (f->affected.count) {
            snprintf(said->first_affected, sizeof(said->first_affected), "%s", f->affected.at[0].path);
            snprintf(said->role, sizeof(said->role), "%s", f->affected.at[0].role);
        }
    }
    return said->status;
}

static struct said so_far(struct feed *feed, enum analysis_open open, enum finding_kind kind)
{
    struct said said = {.kind = kind};
    assert_int_equal(analysis_so_far(feed->analysis, open, take, &said), 0);
    return said;
}

static void look(struct feed *feed, uint64_t at, uint64_t since_ns)
{
    FEED_TEXT(feed, "match");
    FEED_TEXT(feed, "/srv/app.js");
    FEED_TEXT(feed, "/^(a+)+$/");
    FEED_TEXT(feed, "a;b");
    FEED(feed, stall_sample, 1, 1, at, 0, .since_ns = since_ns, .pid = API, .tid = API, .cause = REGEXP,
         .line = 7, .column = 3);
}

static void request_begins(struct feed *feed, const char *path, uint64_t at_ns)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at_ns, 0, .fd = 40, .generation = 1, .method = 1);
}

static void callback_ends(struct feed *feed, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = 5);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = 40, .generation = 1, .events = 1);
}

/* A callback that hangs is a finding before it returns, and the same one when it has. */
static void a_callback_that_has_not_returned(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/stuck", MS(1), MS(2));
    request_begins(&feed, "/stuck", MS(10));
    assert_false(so_far(&feed, OPEN_JUDGED, FINDING_blocking_regexp).there);
    for (uint64_t i = 0; i < 5; i++)
        look(&feed, MS(40 + 60 * i), MS(10) - US(2));
    struct said now = so_far(&feed, OPEN_JUDGED, FINDING_blocking_regexp);
    assert_true(now.there);
    assert_int_equal(now.to_ns, UINT64_MAX);
    assert_int_equal(now.severity, SEVERITY_CRITICAL);
    assert_string_equal(now.first_affected, "/stuck");
    assert_string_equal(now.role, "ran it");
    assert_int_equal(now.cost_ns, MS(270) + US(2));
    assert_false(so_far(&feed, OPEN_LEFT_OUT, FINDING_blocking_regexp).there); /* how it ends comes later */

    callback_ends(&feed, MS(10) - US(2), MS(400));
    now = so_far(&feed, OPEN_JUDGED, FINDING_blocking_regexp); /* not judged for good yet */
    assert_true(now.there);
    assert_int_equal(now.to_ns, MS(400));
    assert_int_equal(feed.analysis->fault_list.count, 0);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_blocking_regexp);
    assert_int_equal(f->to_ns, MS(400));
    assert_int_equal(f->affected_count, 1);
    assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 1);
    feed_done(&feed);
}

/* A request that waits is charged as far as it has come; halfway through a trace nobody knows whether it
 * ends. */
static void requests_that_are_open(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/ended", MS(1), MS(2));
    request_begins(&feed, "/open", MS(3));
    struct said now = so_far(&feed, OPEN_LEFT_OUT, FINDING_blocking_regexp);
    assert_int_equal(now.unfinished, 0);
    assert_int_equal(now.count, 1);
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->unfinished, 1);
    feed_done(&feed);
}

/* Connects that no request asked for are charged once, however often a report is made. */
static void what_is_charged_with_nobody(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/x", MS(1), MS(2));
    for (uint64_t i = 1; i <= 20; i++)
        FEED(&feed, tcp_connect, 1, 1, MS(10 * i), US(50), .pid = API, .tid = API, .peer_port = 6379,
             .result = (uint64_t)-111);
    for (int i = 0; i < 3; i++)
        assert_true(so_far(&feed, OPEN_JUDGED, FINDING_failed_calls).there);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_failed_calls);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "failed_count")->count, 20);
    feed_done(&feed);
}

/* What use() returns is what the caller gets, and the analysis goes on. */
static void whoever_uses_it_may_fail(void **state)
{
    struct feed feed;
    struct said said = {.status = -ECANCELED};
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    assert_int_equal(analysis_so_far(feed.analysis, OPEN_JUDGED, take, &said), -ECANCELED);
    assert_false(feed.analysis->so_far);
    feed_request(&feed, API, 40, "/x", MS(1), MS(2));
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->requests, 1);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_that_has_not_returned),
        cmocka_unit_test(requests_that_are_open),
        cmocka_unit_test(what_is_charged_with_nobody),
        cmocka_unit_test(whoever_uses_it_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
