/* Waits for locks: whose doing they are, by what is known of who held them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, HOLDER = 11, SECOND = 12, FUTEX = 202, WAITING = 6 };

static const char *const INTERNAL = "node::Start;handler (/srv/app.js:7:9);v8::internal::Heap::Collect;"
                                    "pthread_cond_wait;__futex_abstimed_wait_common";
static const char *const ASKED = "node::Start;handler (/srv/app.js:7:9);v8::internal::Builtin_AtomicsWait;"
                                 "pthread_cond_wait;__futex_abstimed_wait_common";
static const char *const EXITING = "node::Start;handler (/srv/app.js:7:9);exit "
                                   "(node:internal/process/per_thread:180:13);node::ReallyExit;exit;"
                                   "pthread_cond_wait;__futex_abstimed_wait_common";

static void off(struct feed *feed, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint8_t reason,
                uint32_t waker)
{
    FEED(feed, sched_switch, 1, 1, end_ns, end_ns - start_ns, .pid = API, .tid = tid, .reason = reason,
         .runnable_ns = reason == SONDE_off_reason_preempted ? end_ns - start_ns : 0, .call = FUTEX, .fd = -1,
         .waker_pid = waker ? API : 0, .waker_tid = waker, .woken_by = SONDE_woken_by_thread);
}

static void asked(struct feed *feed, uint64_t at)
{
    FEED_TEXT(feed, "/slow");
    FEED(feed, http_request, API, API, at + US(2), 0, .fd = 40, .generation = 1, .method = 1);
}

static void begin(struct feed *feed, uint64_t at)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_request(feed, API, 40, "/slow", MS(1), MS(2));
    asked(feed, at);
}

static void look(struct feed *feed, uint64_t since, uint64_t at, const char *stack)
{
    FEED_TEXT(feed, "handler");
    FEED_TEXT(feed, "/srv/app.js");
    FEED_TEXT(feed, "__futex_abstimed_wait_common");
    FEED_TEXT(feed, stack);
    FEED(feed, stall_sample, 1, 1, at, 0, .since_ns = since + US(1), .pid = API, .tid = API, .cause = WAITING,
         .line = 7, .column = 9);
}

static void end_of_turn(struct feed *feed, uint64_t at)
{
    FEED(feed, http_response, API, API, at + MS(149) + US(1), 0, .fd = 40, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(feed, stream_write, API, API, at + MS(149) + US(2), 0, .fd = 40, .generation = 1, .bytes = 10);
    FEED(feed, node_callback, API, API, at + MS(150), MS(150), .async_id = 5);
    FEED(feed, stream_io, API, API, at + MS(150) + US(1), MS(150), .fd = 40, .generation = 1, .events = 1);
    FEED(feed, uv_phase, API, API, at + MS(150) + US(2), MS(150) + US(5), .phase = 4);
}

/* A turn of 150 ms from MS(1000) on, in which looks see a futex, where the thread is off its CPU from off_ns
 * to back_ns. The first and the second lack_ms of it other threads of the process have no CPU. waker:
 * who ends it, 0 nobody that is known. */
static void turn_of_150_ms(struct feed *feed, const char *stack, uint64_t lack_ms, uint32_t waker,
                           uint64_t off_ns, uint64_t back_ns)
{
    uint64_t at = MS(1000);
    begin(feed, at);
    for (uint64_t k = 0; k < 6; k++)
        look(feed, at, at + MS(20) + US(100 * k), stack);
    if (lack_ms) {
        off(feed, HOLDER, at + MS(1), at + MS(25 + lack_ms), SONDE_off_reason_preempted, 0);
        off(feed, SECOND, at + MS(25 + lack_ms), at + MS(25 + 2 * lack_ms), SONDE_off_reason_preempted, 0);
    }
    off(feed, API, off_ns, back_ns, SONDE_off_reason_blocked, waker);
    end_of_turn(feed, at);
    feed_finish(feed);
}

static void wait_150_ms(struct feed *feed, const char *stack, uint64_t lack_ms, uint32_t waker)
{
    turn_of_150_ms(feed, stack, lack_ms, waker, MS(1001), MS(1149));
}

/* Looks that saw a lock do not outweigh the account, by which the thread was blocked for a moment only. */
static void the_account_saw_no_wait(void **state)
{
    struct feed feed;
    turn_of_150_ms(&feed, INTERNAL, 0, 0, MS(1010), MS(1030));
    assert_int_equal(feed.report.findings.count, 1);
    assert_int_equal(feed.report.findings.at[0]->severity, SEVERITY_INFO);
    feed_done(&feed);
}

static void a_holder_that_ran_is_to_blame(void **state)
{
    struct feed feed;
    wait_150_ms(&feed, INTERNAL, 0, HOLDER);
    assert_int_equal(feed_finding(&feed, FINDING_lock_wait)->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* Another thread of the process, which does not hold it, has no CPU meanwhile: that is no excuse. */
static void who_does_not_hold_it_is_no_excuse(void **state)
{
    struct feed feed;
    begin(&feed, MS(1000));
    for (uint64_t k = 0; k < 6; k++)
        look(&feed, MS(1000), MS(1020) + US(100 * k), ASKED);
    off(&feed, HOLDER, MS(1025), MS(1030), SONDE_off_reason_blocked, 0);
    off(&feed, SECOND, MS(1010), MS(1110), SONDE_off_reason_preempted, 0);
    off(&feed, API, MS(1001), MS(1149), SONDE_off_reason_blocked, HOLDER);
    end_of_turn(&feed, MS(1000));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_lock_wait);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "cpu_ns")->count, MS(148), MS(150));
    feed_done(&feed);
}

static void on_an_idle_machine_nobody_need_be_known(void **state)
{
    struct feed feed;
    wait_150_ms(&feed, INTERNAL, 0, 0);
    assert_int_equal(feed_finding(&feed, FINDING_lock_wait)->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* Nobody knows who held it; one thread after the other had no CPU all the while. */
static void those_who_may_have_held_it_had_no_processor(void **state)
{
    struct feed feed;
    wait_150_ms(&feed, INTERNAL, 60, 0);
    assert_int_equal(feed.report.findings.count, 1);
    assert_int_equal(feed.report.findings.at[0]->kind, FINDING_run_queue_wait);
    feed_done(&feed);
}

/* A collection waits for threads of V8's own, which have no CPU: that is the machine's doing, whether or not
 * a sample saw it. Where they have one, collecting takes as long as that. */
static void who_collects_may_have_no_processor(void **state)
{
    for (int lack = 0; lack < 2; lack++) {
        struct feed feed;
        for (uint64_t at = MS(1000); at < MS(4000); at += MS(1000)) {
            if (at == MS(1000))
                begin(&feed, at);
            else
                asked(&feed, at);
            if (lack) {
                off(&feed, HOLDER, at + MS(6), at + MS(80), SONDE_off_reason_preempted, 0);
                off(&feed, SECOND, at + MS(80), at + MS(144), SONDE_off_reason_preempted, 0);
            }
            off(&feed, API, at + MS(6), at + MS(144), SONDE_off_reason_blocked, 0);
            FEED(&feed, v8_gc, API, API, at + MS(145), MS(140), .type = 4);
            end_of_turn(&feed, at);
        }
        feed_finish(&feed);
        bool warned = false;
        array_foreach (&feed.report.findings, place)
            warned |= (*place)->severity != SEVERITY_INFO;
        assert_int_equal(warned, !lack);
        feed_done(&feed);
    }
}

/* For a part of the time at least: nobody can tell, and that is what is said. */
static void an_unknown_holder_may_have_had_none(void **state)
{
    struct feed feed;
    wait_150_ms(&feed, INTERNAL, 12, 0);
    const struct finding *f = feed_finding(&feed, FINDING_lock_wait);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_non_null(strstr(f->detail, "held what it waited for is not known"));
    feed_done(&feed);
}

/* The application asked to wait: that is what is told, whoever wakes it. */
static void who_asks_to_wait_waits(void **state)
{
    struct feed feed;
    wait_150_ms(&feed, ASKED, 12, 0);
    assert_int_equal(feed_finding(&feed, FINDING_lock_wait)->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* A process that was told to end waits for its threads, and was killed since it took too long on a busy
 * machine. One that waits for a lock while it serves is stuck. */
static void a_process_that_ends_is_not_stuck(void **state)
{
    for (int exits = 0; exits < 2; exits++) {
        struct feed feed;
        begin(&feed, MS(1000));
        for (uint64_t k = 0; k < 6; k++)
            look(&feed, MS(1000), MS(1020 + 300 * k), exits ? EXITING : INTERNAL);
        FEED(&feed, open_span, 1, 1, MS(2600), 0, .since_ns = MS(1000), .pid = API, .tid = API,
             .event = SONDE_EVENT_node_callback, .final = 1);
        FEED(&feed, process_exit, 1, 1, MS(2601), 0, .pid = API, .status = 9);
        feed_finish(&feed);
        if (exits)
            assert_int_equal(feed.report.findings.count, 0);
        else
            assert_int_equal(feed_finding(&feed, FINDING_lock_wait)->severity, SEVERITY_CRITICAL);
        feed_done(&feed);
    }
}

/* It was open for 1.24 s when the process ended, and had no CPU for most of that. */
static void what_had_no_processor_is_not_stuck(void **state)
{
    for (int lacks = 0; lacks < 2; lacks++) {
        struct feed feed;
        begin(&feed, MS(1000));
        if (lacks)
            off(&feed, API, MS(1010), MS(1900), SONDE_off_reason_preempted, 0);
        else
            off(&feed, API, MS(1899), MS(1900), SONDE_off_reason_preempted, 0);
        FEED(&feed, open_span, 1, 1, MS(2240), 0, .since_ns = MS(1000), .pid = API, .tid = API,
             .event = SONDE_EVENT_node_callback, .final = 1);
        FEED(&feed, process_exit, 1, 1, MS(2241), 0, .pid = API, .status = 9);
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_int_equal(f != NULL, !lacks);
        if (f)
            assert_int_equal(f->severity, SEVERITY_CRITICAL);
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_holder_that_ran_is_to_blame),
        cmocka_unit_test(the_account_saw_no_wait),
        cmocka_unit_test(who_does_not_hold_it_is_no_excuse),
        cmocka_unit_test(on_an_idle_machine_nobody_need_be_known),
        cmocka_unit_test(those_who_may_have_held_it_had_no_processor),
        cmocka_unit_test(who_collects_may_have_no_processor),
        cmocka_unit_test(an_unknown_holder_may_have_had_none),
        cmocka_unit_test(who_asks_to_wait_waits),
        cmocka_unit_test(a_process_that_ends_is_not_stuck),
        cmocka_unit_test(what_had_no_processor_is_not_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
