/* Requests that waited for nothing that was seen: what is left of the wait when the event loop's own account
 * is subtracted, and what is known of that time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { EPOLL_WAIT = 232, FUTEX = 202, CLIENT = 30, ROUNDS = 5 };

static const struct finding *unexplained(const struct report *report)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == FINDING_unexplained_wait)
            return *f;
    return NULL;
}

static void blocked(struct feed *feed, uint64_t start_ns, uint64_t end_ns, uint16_t call)
{
    FEED(feed, sched_switch, 1, 1, end_ns, end_ns - start_ns, .pid = API, .tid = API,
         .reason = SONDE_off_reason_blocked, .call = call, .fd = call == EPOLL_WAIT ? 3 : -1);
}

/* A callback of nobody's, blocked in a lock but for 20 us at both ends. */
static void blocked_callback(struct feed *feed, uint64_t start_ns, uint64_t end_ns)
{
    blocked(feed, start_ns + US(20), end_ns - US(20), FUTEX);
    FEED(feed, node_callback, API, API, end_ns - US(10), end_ns - start_ns - US(15), .async_id = 0);
    FEED(feed, uv_phase, API, API, end_ns, end_ns - start_ns, .phase = SONDE_uv_phase_check);
}

/* Rounds of a request that takes 200 ms and starts nothing that is seen. Meanwhile the loop sleeps, but for
 * callbacks that together take so long. */
static const struct report *rounds(struct feed *feed, unsigned callbacks, uint64_t callbacks_ns)
{
    uint64_t each_ns = callbacks_ns / callbacks, slept_ns = US(1);
    start(feed);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        uint64_t at = MS(1000 * (uint64_t)i), begins = at + MS(10);
        blocked(feed, slept_ns, at - US(50), EPOLL_WAIT);
        begin(feed, API, CLIENT, "/sum", at);
        end_turn(feed, API, CLIENT, at - US(50), at + US(100));
        blocked(feed, at + US(100), begins, EPOLL_WAIT);
        for (unsigned k = 0; k < callbacks; k++)
            blocked_callback(feed, begins + k * each_ns, begins + (k + 1) * each_ns);
        blocked(feed, begins + callbacks_ns, at + MS(200), EPOLL_WAIT);
        answer(feed, API, CLIENT, at + MS(200) + US(20));
        FEED(feed, node_callback, API, API, at + MS(200) + US(50), US(45), .async_id = 8);
        slept_ns = at + MS(200) + US(50);
    }
    return feed_finish(feed);
}

/* The loop was blocked for most of the time, which another finding tells; the rest is not told by any. */
static void what_a_stall_leaves_is_not_seen(void **state)
{
    struct feed feed;
    const struct finding *f = unexplained(rounds(&feed, 1, MS(120)));
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, ROUNDS);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, ROUNDS * MS(79), ROUNDS * MS(80));
    feed_done(&feed);
}

static void what_a_stall_leaves_of_it_may_be_too_little(void **state)
{
    struct feed feed;
    assert_null(unexplained(rounds(&feed, 1, MS(160))));
    feed_done(&feed);
}

/* Many callbacks in which the loop was blocked: more than are kept. */
static void nothing_of_many_callbacks_is_left(void **state)
{
    struct feed feed;
    const struct finding *f = unexplained(rounds(&feed, LONG_TURNS + 8, MS(100)));
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, ROUNDS * MS(99), ROUNDS * MS(101));
    feed_done(&feed);
}

/* Two requests, and an operation of the pool that is started in a callback of nobody who is known. */
static const struct report *with_work(struct feed *feed, uint64_t works_ns)
{
    enum { OTHER = 31, POOL_THREAD = 20, STATEMENT = 1, WORK = 0x1000 };
    start(feed);
    feed_name(feed, API, STATEMENT, "store.Statement", US(5));
    for (unsigned i = 1; i <= ROUNDS; i++) {
        uint64_t at = MS(1000 * (uint64_t)i), ends = at + MS(200);
        begin(feed, API, CLIENT, "/sum", at);
        end_turn(feed, API, CLIENT, at - US(50), at + US(100));
        begin(feed, API, OTHER, "/other", at + US(200));
        end_turn(feed, API, OTHER, at + US(150), at + US(300));
        FEED(feed, node_async_init, API, API, at + MS(1), 0, .async_id = 5000 + i, .type = STATEMENT);
        FEED(feed, uv_submit, API, API, at + MS(1) + US(1), 0, .request = WORK, .kind = SONDE_uv_kind_work,
             .fd = -1);
        FEED(feed, node_callback, API, API, at + MS(1) + US(50), US(55), .async_id = 0);
        FEED(feed, uv_phase, API, API, at + MS(1) + US(60), US(70), .phase = SONDE_uv_phase_check);
        FEED(feed, uv_run, API, POOL_THREAD, at + MS(2) + works_ns, works_ns, .request = WORK,
             .kind = SONDE_uv_kind_work);
        FEED(feed, uv_done, API, API, at + MS(3) + works_ns, US(10), .request = WORK,
             .kind = SONDE_uv_kind_work);
        answer(feed, API, CLIENT, ends);
        FEED(feed, node_callback, API, API, ends + US(50), US(55), .async_id = 8);
        answer(feed, API, OTHER, ends + MS(1));
        FEED(feed, node_callback, API, API, ends + MS(1) + US(50), US(55), .async_id = 8);
    }
    return feed_finish(feed);
}

static void what_was_worked_on_for_one_of_several_is_named(void **state)
{
    struct feed feed;
    const struct finding *f = unexplained(with_work(&feed, MS(180)));
    assert_non_null(f);
    assert_string_equal(finding_get_evidence(f, "work")->text, "store.Statement");
    assert_non_null(strstr(f->detail, "store.Statement"));
    feed_done(&feed);
    f = unexplained(with_work(&feed, MS(30)));
    assert_non_null(f);
    assert_null(finding_get_evidence(f, "work"));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_stall_leaves_is_not_seen),
        cmocka_unit_test(what_a_stall_leaves_of_it_may_be_too_little),
        cmocka_unit_test(nothing_of_many_callbacks_is_left),
        cmocka_unit_test(what_was_worked_on_for_one_of_several_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
