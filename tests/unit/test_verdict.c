/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, REDIS = 20 };

/* Every finding that an analysis writes is complete: words, evidence from its kind's table, a way on. */
static void findings_are_complete(void **state)
{
    struct feed feed;
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.folder = "/tmp/trace";
    feed_init_with(&feed, options);
    feed_process(&feed, API, 1, "api", US(1));
    feed_process(&feed, REDIS, 2, "redis", US(1));
    feed_name(&feed, REDIS, 1, "config|set", US(1));
    feed_request(&feed, API, 40, "/slow", MS(1), MS(2));
    feed_request(&feed, API, 40, "/slow", MS(1000), MS(1100));
    FEED(&feed, redis_command, REDIS, REDIS, MS(1500), MS(20), .client_id = 3, .name = 1);
    FEED(&feed, redis_command, REDIS, REDIS, MS(1600), MS(30), .client_id = 4, .name = 1);
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 2);
    array_foreach (&feed.report.findings, f) {
        assert_int_equal((*f)->severity, SEVERITY_WARNING);
        assert_true(strlen((*f)->title) > 20 && strlen((*f)->detail) > 20 && strlen((*f)->remedy) > 20);
        assert_null(strchr((*f)->title, '\n'));
        assert_true((*f)->evidence.count >= 8);
        assert_true((*f)->from_ns && (*f)->to_ns > (*f)->from_ns);
    }
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(strstr(f->link, "sonde spans --request 10-2 /tmp/trace"));
    assert_string_equal(f->where.service, "api");
    /* Redis' callers are not traced: nobody is seen to suffer, and it is said. */
    f = feed_finding(&feed, FINDING_slow_command);
    assert_non_null(
        strstr(f->title, "CONFIG SET blocked redis 2 times, up to 30.0 ms each, 50.0 ms in total"));
    assert_non_null(strstr(f->detail, "not traced"));
    assert_int_equal(finding_get_evidence(f, "clients_count")->count, 2);
    feed_done(&feed);
}

static void healthy_run_has_none(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (uint64_t i = 0; i < 50; i++)
        feed_request(&feed, API, 40, "/quick", MS(10 + i * 10), MS(12 + i * 10));
    struct report *report = feed_finish(&feed);
    assert_int_equal(report->findings.count, 0);
    assert_non_null(strstr(report->nothing, "Every request"));
    feed_done(&feed);
}

static void thresholds_are_options(void **state)
{
    struct feed feed;
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.stall_ns = MS(1);
    feed_init_with(&feed, options);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/quick", MS(1), MS(1) + US(500));
    feed_request(&feed, API, 40, "/quick", MS(10), MS(12));
    feed_finish(&feed);
    assert_non_null(feed_finding(&feed, FINDING_event_loop_blocked));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_complete),
        cmocka_unit_test(healthy_run_has_none),
        cmocka_unit_test(thresholds_are_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
