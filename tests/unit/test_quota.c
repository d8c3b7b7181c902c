/* CPU quotas: what the kernel's files say, and stretches that stood still because one was used up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/quota.h"

#include "feed_services.h"

static void counts_of_both_versions(void **state)
{
    struct quota_counts counts = {0};
    assert_true(quota_parse_stat(
        "usage_usec 10\nuser_usec 5\nnr_periods 20\nnr_throttled 3\nthrottled_usec 250\n", &counts));
    assert_int_equal(counts.throttled_ns, 250000);
    assert_int_equal(counts.periods, 20);
    assert_int_equal(counts.throttled_periods, 3);
    assert_true(quota_parse_stat("nr_periods 1\nnr_throttled 1\nthrottled_time 70\nnr_bursts 0\n", &counts));
    assert_int_equal(counts.throttled_ns, 250070);
    assert_int_equal(counts.periods, 21);
    assert_false(quota_parse_stat("usage_usec 10\n", &counts));
    assert_false(quota_parse_stat("", &counts));
}

static void group(const char *text, const char *path, bool version_1)
{
    char found[QUOTA_PATH_BYTES];
    bool is_1 = !version_1;
    assert_int_equal(quota_parse_group(text, text + strlen(text), found, &is_1), path != NULL);
    if (path) {
        assert_string_equal(found, path);
        assert_int_equal(is_1, version_1);
    }
}

static void groups_of_both_versions(void **state)
{
    group("0::/kubepods/pod1/c1\n", "/kubepods/pod1/c1", false);
    group("4:memory:/m\n3:cpu,cpuacct:/docker/1\n0::/x\n", "/docker/1", true);
    group("3:cpuset:/a\n2:cpuacct:/b\n1:cpu:/c\n0::/\n", "/c", true);
    group("3:cpuset:/a\n0::/d\n", "/d", false);
    group("0::/../outside\n", NULL, false);
    group("1:cpu:/below/..\n0::/x\n", NULL, false);
    char line[QUOTA_PATH_BYTES + 8];
    snprintf(line, sizeof(line), "0::/%0*d\n", QUOTA_PATH_BYTES - 1, 0);
    group(line, NULL, false); /* longer than any that is looked for */
    group("nothing\n", NULL, false);
    group("", NULL, false);
}

static void quota(struct feed *feed, uint64_t throttled_ns, uint64_t periods, uint64_t at)
{
    FEED(feed, cgroup_cpu, 0, 0, at, 0, .throttled_ns = throttled_ns, .periods = periods,
         .throttled_periods = periods, .quota_us = 20000, .period_us = 100000, .pid = API);
}

/* A callback that took 300 ms, of which the thread ran for 30. */
static void stands(struct feed *feed, uint64_t throttled_ns)
{
    start(feed);
    FEED(feed, thread_sched, 0, 0, MS(10), 0, .run_ns = MS(1), .wait_ns = 0, .pid = API, .tid = API);
    quota(feed, 0, 0, MS(10));
    begin(feed, API, 30, "/a", MS(100));
    answer(feed, API, 30, MS(400) - US(50));
    end_turn(feed, API, 30, MS(100) - US(50), MS(400));
    quota(feed, throttled_ns, 3, MS(401));
    FEED(feed, thread_sched, 0, 0, MS(402), 0, .run_ns = MS(31), .wait_ns = MS(270), .pid = API, .tid = API);
    feed_finish(feed);
}

static void a_quota_is_told_from_a_busy_machine(void **state)
{
    struct feed feed;
    stands(&feed, MS(265));
    const struct finding *f = feed_finding(&feed, FINDING_cpu_throttled);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_float_equal(finding_get_evidence(f, "quota_cpus")->real, 0.2, 1e-9);
    assert_int_equal(finding_get_evidence(f, "throttled_ns")->count, MS(265));
    assert_int_equal(finding_get_evidence(f, "throttled_periods_count")->count, 3);
    assert_int_equal(f->affected_count, 1);
    assert_null(feed_finding(&feed, FINDING_run_queue_wait));
    assert_null(feed_finding(&feed, FINDING_event_loop_blocked));
    feed_done(&feed);

    stands(&feed, 0);
    assert_null(feed_finding(&feed, FINDING_cpu_throttled));
    assert_non_null(feed_finding(&feed, FINDING_run_queue_wait));
    feed_done(&feed);
}

/* A file is read by the pool; the loop, which polls, is to go on 1 ms later, and has no CPU for as long as
 * said.
 */
static void polls_without_cpu(struct feed *feed, uint64_t throttled_ns, uint64_t runnable_ns)
{
    enum { FILE_READ = 0x1000, EPOLL_WAIT = 232 };
    start(feed);
    FEED(feed, thread_sched, 0, 0, MS(10), 0, .run_ns = MS(1), .wait_ns = 0, .pid = API, .tid = API);
    quota(feed, 0, 0, MS(10));
    uint64_t at = MS(100), ready = at + MS(1), goes_on = ready + runnable_ns;
    begin(feed, API, 30, "/a", at);
    FEED(feed, uv_submit, API, API, at + US(20), 0, .request = FILE_READ, .kind = SONDE_uv_kind_fs_read);
    end_turn(feed, API, 30, at - US(50), at + US(100));
    FEED(feed, uv_run, API, API + 2, ready, US(800), .request = FILE_READ, .kind = SONDE_uv_kind_fs_read);
    FEED(feed, sched_switch, 1, 1, goes_on, goes_on - at - US(200), .pid = API, .tid = API,
         .runnable_ns = runnable_ns, .reason = SONDE_off_reason_blocked, .call = EPOLL_WAIT, .fd = 3);
    answer(feed, API, 30, goes_on + US(60));
    FEED(feed, node_callback, API, API, goes_on + US(100), US(90), .async_id = 77);
    FEED(feed, uv_done, API, API, goes_on + US(110), US(100), .request = FILE_READ,
         .kind = SONDE_uv_kind_fs_read);
    quota(feed, throttled_ns, 1, goes_on + MS(1));
    FEED(feed, thread_sched, 0, 0, goes_on + MS(2), 0, .run_ns = MS(2), .wait_ns = runnable_ns, .pid = API,
         .tid = API);
    feed_finish(feed);
}

/* No callback ran meanwhile, but the request waited as well. */
static void a_loop_that_polls_is_kept_from_going_on(void **state)
{
    struct feed feed;
    polls_without_cpu(&feed, MS(80), MS(80));
    const struct finding *f = feed_finding(&feed, FINDING_cpu_throttled);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "throttled_ns")->count, MS(79), MS(80));
    assert_int_equal(f->affected_count, 1);
    assert_in_range(f->affected.at[0].delay_ns, MS(79), MS(80));
    assert_null(feed_finding(&feed, FINDING_run_queue_wait));
    feed_done(&feed);

    polls_without_cpu(&feed, 0, MS(80));
    assert_null(feed_finding(&feed, FINDING_cpu_throttled));
    f = feed_finding(&feed, FINDING_run_queue_wait);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(79), MS(80));
    assert_int_equal(f->affected_count, 1);
    feed_done(&feed);

    polls_without_cpu(&feed, 0, MS(40)); /* less than is told */
    assert_null(feed_finding(&feed, FINDING_run_queue_wait));
    feed_done(&feed);
}

/* The counts are of all CPUs: no thread stood still for longer than it waited. */
static void no_more_than_the_thread_waited(void **state)
{
    struct feed feed;
    stands(&feed, MS(900));
    const struct finding *f = feed_finding(&feed, FINDING_cpu_throttled);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "throttled_ns")->count, MS(260), MS(275));
    feed_done(&feed);
}

/* Of what a thread stood without a CPU, the quota took a part, and other programs the rest. */
static void the_machine_is_blamed_for_the_rest_only(void **state)
{
    struct feed feed;
    stands(&feed, MS(90));
    const struct finding *f = feed_finding(&feed, FINDING_cpu_throttled);
    assert_int_equal(finding_get_evidence(f, "throttled_ns")->count, MS(90));
    f = feed_finding(&feed, FINDING_run_queue_wait);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(170), MS(185));
    feed_done(&feed);

    stands(&feed, MS(235)); /* what is left is too little to be told */
    assert_null(feed_finding(&feed, FINDING_run_queue_wait));
    feed_done(&feed);
}

/* What is counted late is of one of two callbacks, or partly of each: not twice. */
static void a_time_is_charged_once(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 0, 0, MS(10), 0, .run_ns = MS(1), .wait_ns = 0, .pid = API, .tid = API);
    quota(&feed, 0, 0, MS(10));
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t at = MS(100) + MS(310) * i;
        begin(&feed, API, 30, "/a", at);
        if (i)
            quota(&feed, MS(250), 3, at + MS(40));
        answer(&feed, API, 30, at + MS(300) - US(50));
        end_turn(&feed, API, 30, at - US(50), at + MS(300));
        FEED(&feed, thread_sched, 0, 0, at + MS(302), 0, .run_ns = MS(31) + MS(30) * i,
             .wait_ns = MS(270) * (i + 1), .pid = API, .tid = API);
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_cpu_throttled);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "throttled_ns")->count, MS(250));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_both_versions),
        cmocka_unit_test(groups_of_both_versions),
        cmocka_unit_test(a_quota_is_told_from_a_busy_machine),
        cmocka_unit_test(a_loop_that_polls_is_kept_from_going_on),
        cmocka_unit_test(no_more_than_the_thread_waited),
        cmocka_unit_test(the_machine_is_blamed_for_the_rest_only),
        cmocka_unit_test(a_time_is_charged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
