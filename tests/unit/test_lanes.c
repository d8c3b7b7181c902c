/* Pools that are found from the order of events: requests that wait for a connection which others hold. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { DATABASE = 8, FIRST = 30, SECOND = 31, CONTEXT_FIRST = 5, CONTEXT_SECOND = 6 };
/* From so many requests on it is known that all of them wait (machine.c). */
enum { LACK_KNOWN = 4, EPOLL_WAIT = 232 };

static void begin_in(struct feed *feed, int32_t fd, uint32_t context, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1, .context = context);
}

static void ask_on(struct feed *feed, int32_t fd, uint32_t context, uint64_t at)
{
    FEED(feed, stream_write, API, API, at, 0, .fd = fd, .generation = 1, .bytes = 60, .context = context);
}

static void ask(struct feed *feed, uint32_t context, uint64_t at)
{
    ask_on(feed, DATABASE, context, at);
}

/* What was asked on that connection is answered: a turn of 90 us that ends then. */
static void answered_on(struct feed *feed, int32_t fd, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns, US(90), .async_id = 7);
    FEED(feed, stream_io, API, API, end_ns + US(10), US(110), .fd = fd, .generation = 1, .events = 1);
}

/* The database's answer is read, which the request of fd is answered with; then the other one asks, if at
 * all. */
static void database_answers(struct feed *feed, int32_t fd, uint32_t next, uint64_t at)
{
    if (fd)
        answer(feed, API, fd, at);
    if (next)
        ask(feed, next, at + US(5));
    answered_on(feed, DATABASE, at + US(10));
}

/* Rounds of two requests: the first holds the connection for 200 ms, from 20 ms before the second begins;
 * that one asks once it is free, or, when it is not told to wait, as late for a reason of its own. */
static const struct report *rounds_in(struct feed *feed, bool held, uint32_t asks_in)
{
    start(feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        begin_in(feed, FIRST, CONTEXT_FIRST + (uint32_t)i * 10, "/slow", at);
        ask(feed, CONTEXT_FIRST + (uint32_t)i * 10, at + US(50));
        end_turn(feed, API, FIRST, at - US(50), at + US(100));
        begin_in(feed, SECOND, CONTEXT_SECOND + (uint32_t)i * 10, "/quick", at + MS(20));
        end_turn(feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
        uint64_t free_ns = at + (held ? MS(200) : MS(40));
        database_answers(feed, FIRST, held ? asks_in + (uint32_t)i * 10 : 0, free_ns);
        if (!held) {
            ask(feed, CONTEXT_SECOND + (uint32_t)i * 10, at + MS(200));
            FEED(feed, node_callback, API, API, at + MS(200) + US(10), US(90), .async_id = 8);
        }
        database_answers(feed, SECOND, 0, at + MS(203));
    }
    return feed_finish(feed);
}

static const struct report *rounds(struct feed *feed, bool held)
{
    return rounds_in(feed, held, CONTEXT_SECOND);
}

static const struct finding *find(const struct report *report, enum finding_kind kind)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

static void waits_for_a_connection_that_is_held(void **state)
{
    struct feed feed;
    const struct finding *f = find(rounds(&feed, true), FINDING_connection_pool_starved);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_int_equal(finding_get_evidence(f, "lanes_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 5);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(179), 5 * MS(181));
    assert_string_equal(finding_get_evidence(f, "held_by")->text, "GET /slow");
    array_foreach (&f->affected, victim)
        assert_string_equal(victim->route, "/quick");
    assert_null(find(&feed.report, FINDING_unexplained_wait));
    const struct request *request = feed_kept(&feed, "/quick");
    assert_non_null(request);
    assert_int_equal(path_dominant(request)->class, PATH_FREE);
    assert_string_equal(path_dominant(request)->name, "127.0.0.1:3306");
    feed_done(&feed);
}

/* The pool sends what the second asks in the first one's context. */
static void handed_on_in_the_wrong_context(void **state)
{
    struct feed feed;
    const struct finding *f = find(rounds_in(&feed, true, CONTEXT_FIRST), FINDING_connection_pool_starved);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_int_equal(finding_get_evidence(f, "lanes_count")->count, 1);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(179), 5 * MS(181));
    array_foreach (&f->affected, victim)
        assert_string_equal(victim->route, "/quick");
    assert_null(find(&feed.report, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* In a transaction: what is asked between its first and its last call is not known to be the request's. */
static void what_nobody_is_known_to_hold_is_not_waited_for(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        uint32_t context = CONTEXT_FIRST + (uint32_t)i * 10;
        begin_in(&feed, FIRST, context, "/slow", at);
        ask(&feed, context, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        database_answers(&feed, 0, 900 + (uint32_t)i, at + MS(1)); /* nobody's */
        database_answers(&feed, 0, context, at + MS(200));
        database_answers(&feed, FIRST, 0, at + MS(203));
    }
    const struct report *report = feed_finish(&feed);
    assert_null(find(report, FINDING_connection_pool_starved));
    assert_non_null(find(report, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* Nothing shows whose the calls are, and no other request is there: the first may be its own as well as the
 * second, in whose answer's callback it is answered. It waited for that answer, and for no connection. */
static void what_may_be_its_own_is_no_pool(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        begin_in(&feed, FIRST, CONTEXT_FIRST + (uint32_t)i * 10, "/slow", at);
        ask(&feed, SONDE_CONTEXT_LOST, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND + (uint32_t)i * 10, "/other", at + MS(10));
        end_turn(&feed, API, SECOND, at + MS(10) - US(50), at + MS(10) + US(100));
        database_answers(&feed, 0, SONDE_CONTEXT_LOST, at + MS(90));
        database_answers(&feed, FIRST, 0, at + MS(190));
        answer(&feed, API, SECOND, at + MS(191));
        FEED(&feed, node_callback, API, API, at + MS(191) + US(20), US(50), .async_id = 8);
    }
    const struct report *report = feed_finish(&feed);
    assert_null(find(report, FINDING_connection_pool_starved));
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(99), 5 * MS(100));
    feed_done(&feed);
}

/* Nothing shows whose the calls are, and both begin after both requests have come. But the first request is
 * answered with the first call's answer: that one was not, or not only, the second one's. */
static void what_another_is_answered_with_was_held_for_that(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        begin_in(&feed, FIRST, CONTEXT_FIRST + (uint32_t)i * 10, "/first", at);
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND + (uint32_t)i * 10, "/second", at + MS(1));
        ask(&feed, SONDE_CONTEXT_LOST, at + MS(1) + US(50));
        end_turn(&feed, API, SECOND, at + MS(1) - US(50), at + MS(1) + US(100));
        database_answers(&feed, FIRST, SONDE_CONTEXT_LOST, at + MS(150));
        database_answers(&feed, SECOND, 0, at + MS(300));
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_connection_pool_starved);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 5);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(148), 5 * MS(149));
    f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(298), 5 * MS(300));
    feed_done(&feed);
}

/* A program that makes two calls at a time has three connections for them, since one is given back a little
 * after the next call has begun. Rounds of three requests; the third's call begins when the first one's has
 * ended, late_ns later. Another call in between: with it three are made at once. */
static const struct report *limited_rounds(struct feed *feed, uint64_t late_ns, bool another)
{
    static const int32_t CONNECTIONS[] = {DATABASE, 12, 13};
    start(feed);
    feed_connection(feed, API, 12, 1, 1, 50002, 3306, US(3));
    feed_connection(feed, API, 13, 1, 1, 50003, 3306, US(4));
    feed_connection(feed, API, 14, 1, 1, 50004, 3306, US(5));
    for (uint32_t i = 1; i < 8; i++) {
        uint64_t at = MS(1000 * i), ends = at + MS(200), goes_on = ends + late_ns;
        int32_t requests[] = {FIRST, SECOND, 32}, on[3];
        for (uint32_t k = 0; k < 3; k++)
            on[k] = CONNECTIONS[(i + k) % 3];
        for (uint32_t k = 0; k < 3; k++) {
            uint64_t begins = at + MS(k == 2 ? 20 : k);
            begin_in(feed, requests[k], i * 10 + k, k == 2 ? "/quick" : "/slow", begins);
            if (k < 2)
                ask_on(feed, on[k], i * 10 + k, begins + US(50));
            end_turn(feed, API, requests[k], begins - US(50), begins + US(100));
        }
        if (another)
            ask_on(feed, 14, 500 + i, at + MS(199));
        answer(feed, API, FIRST, ends);
        if (late_ns < US(20))
            ask_on(feed, on[2], i * 10 + 2, goes_on);
        answered_on(feed, on[0], ends + US(90));
        answer(feed, API, SECOND, ends + MS(1));
        answered_on(feed, on[1], ends + MS(1) + US(90));
        if (another)
            answered_on(feed, 14, ends + MS(2));
        if (late_ns >= US(20)) {
            ask_on(feed, on[2], i * 10 + 2, goes_on);
            FEED(feed, node_callback, API, API, goes_on + US(10), US(90), .async_id = 8);
        }
        answer(feed, API, 32, goes_on + MS(100));
        answered_on(feed, on[2], goes_on + MS(100) + US(90));
    }
    return feed_finish(feed);
}

static void waits_for_one_of_the_calls_that_are_made_at_once(void **state)
{
    struct feed feed;
    const struct finding *f = find(limited_rounds(&feed, US(5), false), FINDING_connection_pool_starved);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "lanes_count")->count, 2);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 5); /* the first two show it */
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(179), 5 * MS(181));
    assert_string_equal(finding_get_evidence(f, "held_by")->text, "GET /slow");
    assert_non_null(strstr(f->title, "one of 2 calls to 127.0.0.1:3306 at a time"));
    array_foreach (&f->affected, victim)
        assert_string_equal(victim->route, "/quick");
    f = find(&feed.report, FINDING_unexplained_wait);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 2);
    feed_done(&feed);
}

/* More were made at once, or it went on when no call had just ended: it waited for something else. */
static void what_is_not_limited_did_not_wait_for_a_call(void **state)
{
    struct feed feed;
    assert_null(find(limited_rounds(&feed, US(5), true), FINDING_connection_pool_starved));
    assert_non_null(find(&feed.report, FINDING_unexplained_wait));
    feed_done(&feed);
    assert_null(find(limited_rounds(&feed, MS(30), false), FINDING_connection_pool_starved));
    assert_non_null(find(&feed.report, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* The connection was free: what it waited for is not known, and that is said. */
static void waits_beside_a_free_connection_are_not_explained_by_it(void **state)
{
    struct feed feed;
    const struct report *report = rounds(&feed, false);
    assert_null(find(report, FINDING_connection_pool_starved));
    const struct finding *f = find(report, FINDING_unexplained_wait);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, 5);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(179), 5 * MS(181));
    assert_null(finding_get_evidence(f, "busy_peer"));
    feed_done(&feed);
}

/* The loop had no CPU for most of the time: it could not hand the connection on. */
static void waits_of_a_starved_loop_are_the_machines(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        begin_in(&feed, FIRST, CONTEXT_FIRST + (uint32_t)i * 10, "/slow", at);
        ask(&feed, CONTEXT_FIRST + (uint32_t)i * 10, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND + (uint32_t)i * 10, "/quick", at + MS(20));
        end_turn(&feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
        FEED(&feed, sched_switch, 1, 1, at + MS(199), MS(175), .pid = API, .tid = API, .runnable_ns = MS(175),
             .reason = SONDE_off_reason_preempted);
        database_answers(&feed, FIRST, CONTEXT_SECOND + (uint32_t)i * 10, at + MS(200));
        database_answers(&feed, SECOND, 0, at + MS(203));
    }
    const struct finding *f = find(feed_finish(&feed), FINDING_connection_pool_starved);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "run_queue_ns")->count, 5 * MS(175));
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 5 * MS(178), 5 * MS(181));
    assert_int_equal(f->severity, SEVERITY_INFO);
    feed_done(&feed);
}

/* A machine without an idle CPU, on which the program itself waits for one for up to 40 ms. A dozen requests
 * of an endpoint, of which every fourth (often: each) waits 160 ms for the only connection. */
static enum finding_severity severity_of_waits(bool full, bool often)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 1; i < 13; i++) {
        uint64_t at = MS(1000 * i), free_ns = at + (often || i % 4 == 0 ? MS(180) : MS(22));
        FEED(&feed, machine_cpu, 0, 0, at - MS(10), 0, .idlest_ns = full ? 0 : MS(900), .cpus = 2);
        begin_in(&feed, FIRST, CONTEXT_FIRST + i * 10, "/slow", at);
        ask(&feed, CONTEXT_FIRST + i * 10, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND + i * 10, "/quick", at + MS(20));
        end_turn(&feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
        database_answers(&feed, FIRST, CONTEXT_SECOND + i * 10, free_ns);
        database_answers(&feed, SECOND, 0, free_ns + MS(3));
        FEED(&feed, sched_switch, 1, 1, free_ns + MS(100), MS(45), .pid = API, .tid = API,
             .runnable_ns = MS(40), .reason = SONDE_off_reason_blocked, .call = EPOLL_WAIT, .fd = 3);
    }
    const struct finding *f = find(feed_finish(&feed), FINDING_connection_pool_starved);
    assert_non_null(f);
    const struct finding_evidence *excused = finding_get_evidence(f, "excused_count");
    uint64_t waits = finding_get_evidence(f, "waits_count")->count;
    assert_int_equal(waits, often ? 12 : 3);
    if (!full)
        assert_null(excused);
    else if (often)
        assert_true(!excused || excused->count < LACK_KNOWN);
    else {
        assert_non_null(excused);
        assert_int_equal(excused->count, waits);
    }
    enum finding_severity severity = f->severity;
    feed_done(&feed);
    return severity;
}

/* Where a peer lacks CPUs, requests wait for connections now and then; where nearly all do, they are too few.
 */
static void a_pool_is_not_too_small_where_the_peer_lacks_a_cpu(void **state)
{
    assert_int_equal(severity_of_waits(false, false), SEVERITY_WARNING);
    assert_int_equal(severity_of_waits(true, false), SEVERITY_INFO);
    assert_int_equal(severity_of_waits(true, true), SEVERITY_WARNING);
}

/* The connection was idle for 61 ms between two uses. Where the loop had no CPU to hand it on, those who
 * waited did so for the connection; where the loop slept, they did not. */
static void is_handed_on_when_the_loop_has_a_cpu(void **state)
{
    enum { THIRD = 32, CONTEXT_THIRD = 7 };
    for (int starved = 0; starved < 2; starved++) {
        struct feed feed;
        start(&feed);
        for (uint64_t i = 1; i < 6; i++) {
            uint64_t at = MS(1000 * i), ran_out_ns = MS(61);
            uint32_t round = (uint32_t)i * 10;
            begin_in(&feed, FIRST, CONTEXT_FIRST + round, "/slow", at);
            ask(&feed, CONTEXT_FIRST + round, at + US(50));
            end_turn(&feed, API, FIRST, at - US(50), at + US(100));
            begin_in(&feed, SECOND, CONTEXT_SECOND + round, "/quick", at + MS(20));
            end_turn(&feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
            begin_in(&feed, THIRD, CONTEXT_THIRD + round, "/slow", at + MS(30));
            end_turn(&feed, API, THIRD, at + MS(30) - US(50), at + MS(30) + US(100));
            database_answers(&feed, FIRST, 0, at + MS(200));
            FEED(&feed, sched_switch, 1, 1, at + MS(262), ran_out_ns, .pid = API, .tid = API,
                 .runnable_ns = starved ? ran_out_ns : 0,
                 .reason = starved ? SONDE_off_reason_preempted : SONDE_off_reason_blocked);
            ask(&feed, CONTEXT_THIRD + round, at + MS(262) + US(50));
            FEED(&feed, node_callback, API, API, at + MS(262) + US(60), US(50), .async_id = 8);
            database_answers(&feed, THIRD, CONTEXT_SECOND + round, at + MS(320));
            database_answers(&feed, SECOND, 0, at + MS(323));
        }
        /* Later it had no CPU for all but 4 ms of the wait: that is what was waited for. */
        uint64_t at = MS(9000);
        begin_in(&feed, FIRST, CONTEXT_FIRST, "/slow", at);
        ask(&feed, CONTEXT_FIRST, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND, "/quick", at + MS(20));
        end_turn(&feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
        database_answers(&feed, FIRST, 0, at + MS(22));
        FEED(&feed, sched_switch, 1, 1, at + MS(83), MS(60), .pid = API, .tid = API, .runnable_ns = MS(60),
             .reason = SONDE_off_reason_preempted);
        ask(&feed, CONTEXT_SECOND, at + MS(83) + US(50));
        FEED(&feed, node_callback, API, API, at + MS(83) + US(60), US(50), .async_id = 8);
        database_answers(&feed, SECOND, 0, at + MS(85));
        const struct finding *f = find(feed_finish(&feed), FINDING_connection_pool_starved);
        if (!starved) {
            assert_null(f);
        } else {
            assert_non_null(f);
            assert_int_equal(finding_get_evidence(f, "waits_count")->count, 10);
            assert_int_equal(finding_get_evidence(f, "run_queue_ns")->count, 10 * MS(61));
            assert_null(find(&feed.report, FINDING_unexplained_wait));
        }
        feed_done(&feed);
    }
}

/* A protocol that is not known, of which requests send theirs at any time: the second one had sent when it is
 * answered behind the third one's, and waited for no connection. */
static void a_connection_that_serves_several_at_once_is_no_pool(void **state)
{
    enum { THIRD = 32, CONTEXT_THIRD = 7 };
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i < 6; i++) {
        uint64_t at = MS(1000 * i);
        uint32_t round = (uint32_t)i * 10;
        begin_in(&feed, FIRST, CONTEXT_FIRST + round, "/a", at);
        ask(&feed, CONTEXT_FIRST + round, at + US(50));
        end_turn(&feed, API, FIRST, at - US(50), at + US(100));
        begin_in(&feed, SECOND, CONTEXT_SECOND + round, "/b", at + MS(20));
        ask(&feed, CONTEXT_SECOND + round, at + MS(20) + US(50));
        end_turn(&feed, API, SECOND, at + MS(20) - US(50), at + MS(20) + US(100));
        database_answers(&feed, FIRST, 0, at + MS(100));
        begin_in(&feed, THIRD, CONTEXT_THIRD + round, "/c", at + MS(102));
        ask(&feed, CONTEXT_THIRD + round, at + MS(102) + US(50));
        end_turn(&feed, API, THIRD, at + MS(102) - US(50), at + MS(102) + US(100));
        database_answers(&feed, SECOND, 0, at + MS(200));
        database_answers(&feed, THIRD, 0, at + MS(300));
    }
    assert_null(find(feed_finish(&feed), FINDING_connection_pool_starved));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_a_connection_that_is_held),
        cmocka_unit_test(handed_on_in_the_wrong_context),
        cmocka_unit_test(what_nobody_is_known_to_hold_is_not_waited_for),
        cmocka_unit_test(waits_of_a_starved_loop_are_the_machines),
        cmocka_unit_test(a_pool_is_not_too_small_where_the_peer_lacks_a_cpu),
        cmocka_unit_test(is_handed_on_when_the_loop_has_a_cpu),
        cmocka_unit_test(a_connection_that_serves_several_at_once_is_no_pool),
        cmocka_unit_test(what_may_be_its_own_is_no_pool),
        cmocka_unit_test(what_another_is_answered_with_was_held_for_that),
        cmocka_unit_test(waits_for_one_of_the_calls_that_are_made_at_once),
        cmocka_unit_test(what_is_not_limited_did_not_wait_for_a_call),
        cmocka_unit_test(waits_beside_a_free_connection_are_not_explained_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
