/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, GATEWAY = 20 };

static struct thread *loop(struct feed *feed)
{
    return thread_get(feed->analysis, process_get(feed->analysis, API), API);
}

static void sched(struct feed *feed, uint64_t at, uint64_t run_ns, uint64_t wait_ns)
{
    FEED(feed, thread_sched, 1, 1, at, 0, .pid = API, .tid = API, .run_ns = run_ns, .wait_ns = wait_ns);
}

/* An interval's wait belongs to what the thread did in it. */
static void run_queue_delay_is_shared_out(void **state)
{
    struct feed feed;
    feed_init(&feed);
    sched(&feed, MS(0) + 1, 0, 0);
    stretch_active(loop(&feed), MS(10), MS(30)); /* all that was done until 100 */
    sched(&feed, MS(100), MS(5), MS(15));
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(10), MS(30)), MS(15));
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(10), MS(20)), MS(15) / 2);
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(40), MS(60)),
                     MS(15)); /* never more than there was */
    /* Never more than the stretch itself. */
    sched(&feed, MS(200), MS(5), MS(15 + 90));
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(110), MS(120)), MS(10));
    /* Before and after all samples nothing is known. */
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(300), MS(400)), 0);
    feed_done(&feed);
}

/* The kernel counts a wait when it is over: it may have begun before the previous sample. A young thread's
 * first sample tells when it began. */
static void long_waits_reach_back(void **state)
{
    struct feed feed;
    feed_init(&feed);
    sched(&feed, MS(3000), MS(2900), 0);
    sched(&feed, MS(3100), MS(2900), 0);
    sched(&feed, MS(3110), MS(2901), MS(90));
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(3030), MS(3110)), MS(80));
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(3000), MS(3020)), 0);
    feed_done(&feed);

    feed_init(&feed);
    sched(&feed, MS(3000), MS(10), MS(490));
    assert_int_equal(loop(&feed)->sched_count, 2);
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(2600), MS(2700)), MS(100));
    feed_done(&feed);
}

static void many_samples_are_no_trouble(void **state)
{
    struct feed feed;
    feed_init(&feed);
    for (uint64_t i = 1; i <= 1000; i++) {
        sched(&feed, MS(10 * i), MS(5 * i), MS(5 * i));
        stretch_active(loop(&feed), MS(10 * i), MS(10 * i + 10));
    }
    assert_int_equal(stretch_run_queue_ns(loop(&feed), MS(9900), MS(9950)), MS(25));
    feed_done(&feed);
}

static void request_begins(struct feed *feed, int32_t fd, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1);
    FEED(feed, node_callback, API, API, at + US(2), US(3), .async_id = 1000 + (uint64_t)fd);
    FEED(feed, stream_io, API, API, at + US(3), US(5), .fd = fd, .generation = 1, .events = 1);
}

static void stall_begins(struct feed *feed, const char *path, uint64_t start_ns)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, start_ns + US(2), 0, .fd = 99, .generation = 1, .method = 1);
}

static void stall_ends(struct feed *feed, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = 5);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = 99, .generation = 1, .events = 1);
}

static const struct victim *victim(struct feed *feed, const char *path)
{
    array_foreach (&feed->analysis->fault_list, fault)
        array_foreach (&(*fault)->victims, v)
            if (strcmp(v->path, path) == 0)
                return v;
    return NULL;
}

/* Who was in flight, who waited elsewhere, who came meanwhile (told by the caller's record), who came later.
 */
static void victims_lose_what_they_could_have_used(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_process(&feed, GATEWAY, 1, "gateway", US(1));
    feed_connection(&feed, GATEWAY, 7, 1, 1, 50000, 8080, US(2));
    feed_connection(&feed, API, 50, 1, 2, 8080, 50000, US(2));
    feed_connection(&feed, API, 60, 1, 9, 50002, 3306, US(2));
    feed_request(&feed, API, 40, "/warm", MS(1), MS(2)); /* this endpoint is not new any more */
    feed_request(&feed, API, 40, "/culprit", MS(3), MS(4));
    request_begins(&feed, 41, "/in-flight", MS(100));
    /* /elsewhere waits for a database that answers only later. */
    FEED_TEXT(&feed, "/elsewhere");
    FEED(&feed, http_request, API, API, MS(110), 0, .fd = 42, .generation = 1, .method = 1);
    FEED(&feed, stream_write, API, API, MS(110) + US(1), 0, .fd = 60, .generation = 1, .bytes = 99);
    FEED(&feed, node_callback, API, API, MS(110) + US(2), US(3), .async_id = 77);
    FEED(&feed, stream_io, API, API, MS(110) + US(3), US(5), .fd = 42, .generation = 1, .events = 1);
    stall_begins(&feed, "/culprit", MS(200));
    FEED_TEXT(&feed, "/front");
    FEED(&feed, http_request, GATEWAY, GATEWAY, MS(249), 0, .fd = 3, .generation = 1, .method = 1);
    FEED_TEXT(&feed, "/meanwhile");
    FEED(&feed, http_request, GATEWAY, GATEWAY, MS(250), 0, .fd = 7, .generation = 1, .method = 1, .side = 1);
    FEED(&feed, node_callback, GATEWAY, GATEWAY, MS(251), MS(3), .async_id = 1);
    FEED(&feed, stream_io, GATEWAY, GATEWAY, MS(252), MS(5), .fd = 3, .generation = 1, .events = 1);
    stall_ends(&feed, MS(200), MS(400));
    request_begins(&feed, 50, "/meanwhile", MS(400) + US(100));
    FEED(&feed, uv_phase, API, API, MS(401), MS(300), .phase = 4);
    request_begins(&feed, 43, "/arrived", MS(401) + US(50));
    FEED(&feed, uv_phase, API, API, MS(402), US(990), .phase = 4);
    request_begins(&feed, 44, "/later", MS(500));
    feed_finish(&feed);

    assert_int_equal(victim(&feed, "/culprit")->role, VICTIM_CAUSED);
    assert_int_equal(victim(&feed, "/culprit")->delay_ns, MS(200));
    assert_int_equal(victim(&feed, "/in-flight")->delay_ns, MS(200));
    assert_null(victim(&feed, "/elsewhere"));
    assert_int_equal(victim(&feed, "/meanwhile")->delay_ns, MS(150));
    assert_int_equal(victim(&feed, "/front")->role, VICTIM_UPSTREAM);
    assert_int_equal(victim(&feed, "/arrived")->delay_ns, 0);
    assert_null(victim(&feed, "/later"));
    assert_null(victim(&feed, "/warm"));
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_int_equal(f->cost_ns, MS(200) + MS(200) + MS(150)); /* upstream lost the same time, not more */
    feed_done(&feed);
}

/* The server that the requests ask is in the same process: while its loop is blocked they wait for that, and
 * not for a peer that answers late. */
static void a_process_that_asks_itself(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_connection(&feed, API, 60, 1, 9, 50002, 1883, US(2));
    feed_connection(&feed, API, 61, 1, 10, 1883, 50002, US(3));
    for (uint64_t i = 1; i <= 3; i++) {
        uint64_t at = MS(1000 * i);
        int32_t fd = 40;
        FEED_TEXT(&feed, "/order");
        FEED(&feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1);
        FEED(&feed, stream_write, API, API, at + US(1), 0, .fd = 60, .generation = 1, .bytes = 9);
        FEED(&feed, node_callback, API, API, at + US(2), US(3), .async_id = 77);
        FEED(&feed, stream_io, API, API, at + US(3), US(5), .fd = fd, .generation = 1, .events = 1);
        FEED(&feed, node_callback, API, API, at + MS(201), MS(200), .async_id = 5);
        FEED(&feed, stream_io, API, API, at + MS(201) + US(1), MS(200) + US(2), .fd = 61, .generation = 1,
             .events = 1);
        FEED(&feed, uv_phase, API, API, at + MS(201) + US(2), MS(200) + US(4), .phase = 4);
        FEED(&feed, http_response, API, API, at + MS(203), 0, .fd = fd, .generation = 1, .status = 200,
             .header_bytes = 10);
        FEED(&feed, stream_write, API, API, at + MS(203), 0, .fd = fd, .generation = 1, .bytes = 10);
        FEED(&feed, node_callback, API, API, at + MS(204), MS(2), .async_id = 6);
        FEED(&feed, stream_io, API, API, at + MS(204) + US(1), MS(2) + US(2), .fd = 60, .generation = 1,
             .events = 1);
        FEED(&feed, uv_phase, API, API, at + MS(204) + US(2), MS(2) + US(4), .phase = 4);
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(f->affected_count, 3);
    assert_null(feed_finding(&feed, FINDING_slow_peer));
    feed_done(&feed);
}

/* The sampler's looks belong to the stretch in which their callback began. */
static void looks_belong_to_their_callback(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (int i = 0; i < 5; i++) {
        FEED_TEXT(&feed, "match");
        FEED_TEXT(&feed, "/srv/app.js");
        FEED_TEXT(&feed, "/^(a+)+$/");
        FEED_TEXT(&feed, "a;b");
        FEED(&feed, stall_sample, 1, 1, MS(230 + 10 * (uint64_t)i), 0, .since_ns = MS(200), .pid = API,
             .tid = API, .cause = 1, .line = 7, .column = 3);
    }
    feed_request(&feed, API, 40, "/x", MS(300), MS(301)); /* a turn that was not looked into */
    assert_int_equal(loop(&feed)->looks.count, 1);
    stall_begins(&feed, "/culprit", MS(302));
    stall_ends(&feed, MS(302), MS(600));
    assert_int_equal(loop(&feed)->looks.count, 0);
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_blocking_regexp)); /* they began in another callback */
    feed_done(&feed);
}

static void look(struct feed *feed, uint64_t told_ns, uint64_t since_ns, bool brief)
{
    FEED_TEXT(feed, "read");
    FEED_TEXT(feed, "/srv/app.js");
    FEED_TEXT(feed, "fs sync");
    FEED_TEXT(feed, "");
    FEED(feed, stall_sample, 1, 1, told_ns, 0, .since_ns = since_ns, .pid = API, .tid = API,
         .cause = SONDE_stall_cause_builtin, .line = 7, .column = 3, .brief = brief);
}

/* A timer that blocks the loop serves no request, and when those came that are read afterwards is not known:
 * once it may be the moment before, again and again it is not. */
static enum finding_severity severity_of_timers(unsigned times)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/warm", MS(1), MS(2));
    for (unsigned i = 1; i <= times; i++) {
        uint64_t at = MS(3000 * i);
        stall_ends(&feed, at, at + MS(1500));
        FEED(&feed, uv_phase, API, API, at + MS(1500) + US(40), US(30), .phase = 4);
        feed_request(&feed, API, 43, "/arrived", at + MS(1500) + US(50), at + MS(1500) + US(150));
        FEED(&feed, uv_phase, API, API, at + MS(1501), US(990), .phase = 4);
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(f->cost_ns, 0);
    assert_int_equal(finding_get_evidence(f, "late_count")->count, times);
    assert_int_equal(finding_get_evidence(f, "late_most_ns")->count, times * MS(1500));
    enum finding_severity severity = f->severity;
    feed_done(&feed);
    return severity;
}

static void who_comes_at_an_unknown_time_waits_all_the_same(void **state)
{
    assert_int_equal(severity_of_timers(1), SEVERITY_INFO);
    assert_int_equal(severity_of_timers(3), SEVERITY_WARNING);
}

/* A thread stops when its system call returns, and naming its frames takes a while: a sample may be reported
 * after the callback into which it fell has ended, whichever kind it is. */
static void samples_that_come_late_belong_to_their_callback(void **state)
{
    for (int brief = 0; brief <= 1; brief++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        feed_request(&feed, API, 40, "/culprit", MS(1), MS(2)); /* this endpoint is not new any more */
        for (uint64_t at = MS(100); at <= MS(400); at += MS(100)) {
            stall_begins(&feed, "/culprit", at);
            stall_ends(&feed, at, at + MS(60));
            look(&feed, at + MS(62), brief ? at + MS(13) : at, brief);
            look(&feed, at + MS(70), at + MS(65), true); /* between two callbacks */
        }
        stall_begins(&feed, "/culprit", MS(3000));
        stall_ends(&feed, MS(3000), MS(3001));
        FEED(&feed, thread_sched, 1, 1, MS(3002), 0, .pid = API, .tid = API, .run_ns = 1, .wait_ns = 1);
        look(&feed, MS(3010), MS(300), true); /* so late that the callback was judged */
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_non_null(f);
        assert_string_equal(f->where.function, "read");
        assert_string_equal(f->where.file, "/srv/app.js");
        assert_int_equal(f->where.line, 7);
        assert_int_equal(finding_get_evidence(f, "samples_count")->count, 4);
        assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 4);
        feed_done(&feed);
    }
}

/* A report that names no place says why. */
static void a_stall_without_a_sample_is_told_as_one(void **state)
{
    static const char *const WORDS[] = {" No sample saw where in the code it was.",
                                        " No sample saw where in the code it was; the machine was busy."};
    for (int way = 0; way < 3; way++) { /* on an idle machine, on a busy one, with a sample */
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        feed_request(&feed, API, 40, "/culprit", MS(1), MS(2));
        sched(&feed, MS(90), MS(80), 0);
        for (uint64_t at = MS(100), i = 1; i <= 4; at += MS(100), i++) {
            uint64_t waited_ns = way == 1 ? i * MS(8) : 0;
            stall_begins(&feed, "/culprit", at);
            if (way == 2)
                look(&feed, at + MS(30), at, false);
            stall_ends(&feed, at, at + MS(60));
            sched(&feed, at + MS(61), MS(80) + i * MS(60) - waited_ns, waited_ns);
        }
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_non_null(f);
        for (int k = 0; k < 2; k++)
            assert_int_equal(strstr(f->detail, WORDS[k]) != NULL, k == way);
        assert_int_equal(f->where.file != NULL, way == 2);
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_queue_delay_is_shared_out),
        cmocka_unit_test(long_waits_reach_back),
        cmocka_unit_test(many_samples_are_no_trouble),
        cmocka_unit_test(victims_lose_what_they_could_have_used),
        cmocka_unit_test(a_process_that_asks_itself),
        cmocka_unit_test(looks_belong_to_their_callback),
        cmocka_unit_test(who_comes_at_an_unknown_time_waits_all_the_same),
        cmocka_unit_test(samples_that_come_late_belong_to_their_callback),
        cmocka_unit_test(a_stall_without_a_sample_is_told_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
