/* What threads did in the kernel: calls, times off the CPU, disk requests, within bounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { PROGRAM = 10, WORKER = 11, READ = 0, FUTEX = 202, BLOCKED = 1, PREEMPTED = 0 };

static struct thread *worker(struct feed *feed)
{
    struct process *process = process_get(feed->analysis, PROGRAM);
    return thread_get(feed->analysis, process, WORKER);
}

static void begin(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, PROGRAM, 1, "program", US(1));
}

/* Kernel events come in a stream of the recorder's. */
static void off(struct feed *feed, uint64_t start_ns, uint64_t ready_ns, uint64_t end_ns, uint8_t reason)
{
    FEED(feed, sched_switch, 1, 1, end_ns, end_ns - start_ns, .pid = PROGRAM, .tid = WORKER,
         .runnable_ns = end_ns - ready_ns, .reason = reason, .call = FUTEX, .fd = -1, .waker_pid = PROGRAM,
         .waker_tid = PROGRAM, .woken_by = SONDE_woken_by_thread);
}

static void call(struct feed *feed, uint64_t start_ns, uint64_t end_ns, uint16_t number, int64_t result)
{
    FEED(feed, sys_call, 1, 1, end_ns, end_ns - start_ns, .pid = PROGRAM, .tid = WORKER, .call = number,
         .result = result, .fd = 7);
}

static void expect(struct feed *feed, uint64_t start_ns, uint64_t end_ns, uint64_t running_ns,
                   uint64_t runnable_ns, uint64_t blocked_ns)
{
    struct activity_times times;
    assert_true(activity_times(worker(feed), start_ns, end_ns, &times));
    assert_int_equal(times.running_ns, running_ns);
    assert_int_equal(times.runnable_ns, runnable_ns);
    assert_int_equal(times.blocked_ns, blocked_ns);
}

static void times_add_up(void **state)
{
    (void)state;
    struct feed feed;
    begin(&feed);
    off(&feed, US(100), US(150), US(160), BLOCKED);   /* blocked 50, runnable 10 */
    off(&feed, US(200), US(200), US(230), PREEMPTED); /* runnable 30 */
    off(&feed, US(300), US(400), US(400), BLOCKED);
    expect(&feed, US(0), US(500), US(310), US(40), US(150));
    expect(&feed, US(100), US(160), 0, US(10), US(50));
    expect(&feed, US(120), US(155), 0, US(5), US(30)); /* cut at both ends */
    expect(&feed, US(160), US(200), US(40), 0, 0);
    expect(&feed, US(210), US(350), US(70), US(20), US(50));
    expect(&feed, US(400), US(450), US(50), 0, 0); /* behind the last */
    expect(&feed, US(230), US(230), 0, 0, 0);
    feed_done(&feed);
}

/* Several times off, of which the sums are known; told when it has run for a while since. */
static void brief(struct feed *feed, uint64_t start_ns, uint64_t end_ns, uint64_t told_ns, uint64_t off_ns,
                  uint64_t runnable_ns)
{
    FEED(feed, sched_brief, 1, 1, told_ns, told_ns - start_ns, .pid = PROGRAM, .tid = WORKER,
         .off_ns = off_ns, .runnable_ns = runnable_ns, .since_ns = told_ns - end_ns, .count = 4);
}

static void brief_times_off_are_shared_out(void **state)
{
    (void)state;
    struct feed feed;
    size_t first;
    begin(&feed);
    off(&feed, US(100), US(150), US(160), BLOCKED);
    brief(&feed, US(200), US(400), US(900), US(100), US(40));
    brief(&feed, US(1000), US(1100), US(1100), US(60), 0);
    off(&feed, US(1200), US(1300), US(1300), BLOCKED);
    expect(&feed, US(200), US(400), US(100), US(40), US(60));
    expect(&feed, US(250), US(350), US(50), US(20), US(30)); /* half of it */
    expect(&feed, US(400), US(1000), US(600), 0, 0);         /* it ran, until it was told and after */
    expect(&feed, US(0), US(1300), US(980), US(50), US(270));
    assert_int_equal(activity_waits(worker(&feed), US(300), US(1250), &first), 3);
    assert_true(activity_wait_at(worker(&feed), first)->brief);
    assert_int_equal(activity_wait_at(worker(&feed), first)->call, SONDE_SYSCALL_NONE);
    assert_false(activity_wait_at(worker(&feed), first + 2)->brief);
    assert_int_equal(activity_calls(worker(&feed), US(150), US(1150), &first), 0);
    feed_done(&feed);
}

/* What the file says of itself need not be so. */
static void brief_times_that_cannot_be_are_cut(void **state)
{
    (void)state;
    struct feed feed;
    begin(&feed);
    off(&feed, US(100), US(150), US(160), BLOCKED);
    FEED(&feed, sched_brief, 1, 1, US(300), US(1000), .pid = PROGRAM, .tid = WORKER, .off_ns = US(1000),
         .runnable_ns = US(5000), .since_ns = US(50), .count = 4);
    FEED(&feed, sched_brief, 1, 1, US(400), US(50), .pid = PROGRAM, .tid = WORKER, .off_ns = US(10),
         .since_ns = UINT64_MAX, .count = 4);
    expect(&feed, US(160), US(250), 0, US(90), 0);
    expect(&feed, US(250), US(400), US(150), 0, 0);
    feed_done(&feed);
}

static void nothing_is_known_without_events(void **state)
{
    (void)state;
    struct feed feed;
    struct activity_times times;
    size_t first;
    begin(&feed);
    assert_false(activity_times(worker(&feed), US(1), US(2), &times));
    assert_int_equal(activity_calls(worker(&feed), US(1), US(2), &first), 0);
    assert_int_equal(activity_waits(worker(&feed), US(1), US(2), &first), 0);
    assert_int_equal(activity_disks(worker(&feed), US(1), US(2), &first), 0);
    feed_done(&feed);
}

static void calls_are_found_by_time(void **state)
{
    (void)state;
    struct feed feed;
    size_t first;
    begin(&feed);
    for (uint64_t i = 0; i < 100; i++)
        call(&feed, US(10 * i), US(10 * i + 4), i % 2 ? FUTEX : READ, i == 21 ? -11 : (int64_t)i);
    assert_int_equal(activity_calls(worker(&feed), US(200), US(230), &first), 3);
    const struct activity_call *c = activity_call_at(worker(&feed), first + 1);
    assert_int_equal(c->start_ns, US(210));
    assert_int_equal(c->end_ns, US(214));
    assert_int_equal(c->result, -11);
    assert_int_equal(c->fd, 7);
    assert_string_equal(activity_call_name(c->call), "futex");
    assert_int_equal(activity_calls(worker(&feed), US(201), US(213), &first), 0); /* neither lies in it */
    assert_int_equal(activity_calls(worker(&feed), 0, US(10000), &first), 100);
    feed_done(&feed);
}

static void old_times_are_forgotten_not_guessed(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct feed feed;
    struct activity_times times;
    size_t first;
    begin(&feed);
    for (uint64_t i = 1; i <= MANY; i++) {
        call(&feed, US(10 * i), US(10 * i + 1), READ, 0);
        off(&feed, US(10 * i + 2), US(10 * i + 4), US(10 * i + 5), BLOCKED);
    }
    assert_false(activity_times(worker(&feed), US(10), US(20), &times));
    expect(&feed, US(10 * (MANY - 1000)), US(10 * MANY), US(7000), US(1000), US(2000));
    size_t kept = activity_calls(worker(&feed), 0, US(20 * MANY), &first);
    assert_true(kept >= 1000 && kept < MANY / 2);
    assert_int_equal(activity_call_at(worker(&feed), first + kept - 1)->start_ns, US(10 * MANY));
    assert_int_equal(activity_waits(worker(&feed), US(10 * MANY - 10), US(10 * MANY), &first), 1);
    assert_int_equal(activity_wait_at(worker(&feed), first)->waker_tid, PROGRAM);
    feed_done(&feed);
}

static void the_sums_of_a_long_time_are_kept(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct feed feed;
    struct activity_times times;
    begin(&feed);
    for (uint64_t i = 1; i <= MANY; i++)
        off(&feed, US(10 * i + 2), US(10 * i + 4), US(10 * i + 5), BLOCKED);
    assert_true(activity_times(worker(&feed), US(20000), US(10 * MANY + 10), &times));
    uint64_t waits = MANY - 2000 + 1;
    assert_in_range(times.runnable_ns, US(waits - 32), US(waits + 32));
    assert_in_range(times.blocked_ns, US(2 * (waits - 32)), US(2 * (waits + 32)));
    feed_done(&feed);
}

static void being_stopped_is_not_its_own_time(void **state)
{
    (void)state;
    enum { RECORDER = 1, DEBUGGER = 77, STOPPED = SONDE_off_reason_stopped };
    struct feed feed;
    begin(&feed);
    FEED(&feed, sched_switch, RECORDER, RECORDER, US(200), US(100), .pid = PROGRAM, .tid = WORKER,
         .reason = STOPPED, .waker_pid = RECORDER, .runnable_ns = US(5));
    FEED(&feed, sched_switch, RECORDER, RECORDER, US(400), US(100), .pid = PROGRAM, .tid = WORKER,
         .reason = STOPPED, .waker_pid = DEBUGGER, .runnable_ns = US(5));
    expect(&feed, US(100), US(400), US(100), US(10), US(190));
    assert_int_equal(activity_net_ns(worker(&feed), US(100), US(200)), 0);
    assert_int_equal(activity_net_ns(worker(&feed), US(300), US(400)), 0);
    feed_done(&feed);
}

static void who_waits_for_a_thread_without_a_processor_waits_for_the_machine(void **state)
{
    (void)state;
    enum { HOLDER = 12, OTHER = 13, MPROTECT = 10 };
    struct feed feed;
    begin(&feed);
    /* The holder ran 2 ms, had no CPU for 5 and ran 3 until it woke the other. */
    FEED(&feed, sched_switch, 1, 1, US(8000), US(5000), .pid = PROGRAM, .tid = HOLDER,
         .runnable_ns = US(5000));
    FEED(&feed, sched_switch, 1, 1, US(11000), US(10000), .pid = PROGRAM, .tid = WORKER, .reason = BLOCKED,
         .call = FUTEX, .waker_pid = PROGRAM, .waker_tid = HOLDER);
    assert_int_equal(activity_net_ns(worker(&feed), US(1000), US(11000)), US(5000));
    /* Whoever had the lock on the memory map. */
    FEED(&feed, sched_switch, 1, 1, US(30000), US(9000), .pid = PROGRAM, .tid = WORKER,
         .reason = SONDE_off_reason_uninterruptible, .call = MPROTECT, .waker_pid = OTHER,
         .waker_tid = OTHER);
    assert_int_equal(activity_net_ns(worker(&feed), US(20000), US(30000)), US(1000));
    feed_done(&feed);
}

/* A look stops the thread for a moment in the middle of such a wait, which its call then goes on with. */
static void wait_in_pieces(bool with_brief)
{
    enum { HOLDER = 12, LOOKER = 900, SHORT = 70 };
    struct feed feed;
    begin(&feed);
    for (uint64_t i = 0; i < SHORT; i++) /* marks of old waits stand between */
        off(&feed, US(10 * i + 10), US(10 * i + 15), US(10 * i + 15), BLOCKED);
    FEED(&feed, sched_switch, 1, 1, US(8000), US(6000), .pid = PROGRAM, .tid = WORKER, .reason = BLOCKED,
         .call = FUTEX, .waker_pid = LOOKER, .waker_tid = LOOKER);
    FEED(&feed, sched_switch, 1, 1, US(8030), US(20), .pid = PROGRAM, .tid = WORKER,
         .reason = SONDE_off_reason_stopped, .call = FUTEX, .waker_pid = LOOKER, .waker_tid = LOOKER);
    if (with_brief) /* a piece that is too short for a record of its own */
        brief(&feed, US(8031), US(8033), US(8033), US(2), 0);
    FEED(&feed, sched_switch, 1, 1, US(11000), US(9000), .pid = PROGRAM, .tid = HOLDER,
         .runnable_ns = US(9000));
    FEED(&feed, sched_switch, 1, 1, US(12040), US(4000), .pid = PROGRAM, .tid = WORKER, .reason = BLOCKED,
         .call = FUTEX, .waker_pid = PROGRAM, .waker_tid = HOLDER);
    off(&feed, US(12100), US(12101), US(12102), BLOCKED);
    /* Of 6000, 20 and 4000 us the holder ran in the last 1040. */
    struct activity_times times;
    assert_true(activity_times(worker(&feed), US(2000), US(12040), &times));
    assert_int_equal(times.blocked_ns, US(10020) + (with_brief ? US(2) : 0));
    assert_int_equal(times.held_ns, US(10020 - 1040));
    feed_done(&feed);
}

static void a_wait_in_pieces_is_one(void **state)
{
    (void)state;
    wait_in_pieces(false);
    wait_in_pieces(true);
}

static void disk_requests(void **state)
{
    (void)state;
    struct feed feed;
    size_t first;
    begin(&feed);
    FEED(&feed, block_io, 1, 1, US(90), US(40), .pid = PROGRAM, .tid = WORKER, .bytes = 4096, .queued_ns = 77,
         .operation = 1);
    assert_int_equal(activity_disks(worker(&feed), US(80), US(100), &first), 1);
    const struct activity_disk *disk = activity_disk_at(worker(&feed), first);
    assert_int_equal(disk->start_ns, US(50));
    assert_int_equal(disk->bytes, 4096);
    assert_int_equal(disk->queued_ns, 77);
    assert_int_equal(activity_disks(worker(&feed), US(10), US(50), &first), 0);
    feed_done(&feed);
}

static void threads_of_unknown_processes_are_not_made(void **state)
{
    (void)state;
    struct feed feed;
    begin(&feed);
    FEED(&feed, sys_call, 1, 1, US(5), US(1), .pid = 999, .tid = 999, .call = READ);
    assert_null(map_get(&feed.analysis->processes, 999));
    feed_done(&feed);
}

/* Where calls are not recorded, a thread's time off its CPU in one stands for it. */
static void waits_stand_for_calls(void **state)
{
    (void)state;
    struct feed feed;
    begin(&feed);
    off(&feed, US(100), US(150), US(160), BLOCKED);
    size_t first;
    assert_int_equal(activity_calls(worker(&feed), US(50), US(500), &first), 1);
    const struct activity_call *part = activity_call_at(worker(&feed), first);
    assert_int_equal(part->start_ns, US(100));
    assert_int_equal(part->end_ns, US(160));
    assert_int_equal(part->call, FUTEX);
    assert_true(part->result == ACTIVITY_RESULT_UNKNOWN);
    call(&feed, US(200), US(300), READ, 5);
    off(&feed, US(400), US(450), US(460), BLOCKED); /* from here on each call is told of */
    assert_int_equal(activity_calls(worker(&feed), US(50), US(500), &first), 1);
    assert_int_equal(activity_call_at(worker(&feed), first)->result, 5);
    feed_done(&feed);
}

/* Somebody has chosen another level: what was before and what is behind are known apart, and not together. */
static void another_level_begins_anew(void **state)
{
    (void)state;
    struct feed feed;
    struct activity_times times;
    begin(&feed);
    off(&feed, US(100), US(150), US(160), BLOCKED);
    FEED(&feed, level, 1, 1, US(200), 0, .level = 1);
    assert_false(activity_times(worker(&feed), US(210), US(220), &times)); /* it may have no waits */
    off(&feed, US(300), US(350), US(360), BLOCKED);
    expect(&feed, US(300), US(360), 0, US(10), US(50));
    assert_false(activity_times(worker(&feed), US(150), US(360), &times));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(brief_times_off_are_shared_out),
        cmocka_unit_test(brief_times_that_cannot_be_are_cut),
        cmocka_unit_test(nothing_is_known_without_events),
        cmocka_unit_test(calls_are_found_by_time),
        cmocka_unit_test(old_times_are_forgotten_not_guessed),
        cmocka_unit_test(the_sums_of_a_long_time_are_kept),
        cmocka_unit_test(being_stopped_is_not_its_own_time),
        cmocka_unit_test(who_waits_for_a_thread_without_a_processor_waits_for_the_machine),
        cmocka_unit_test(a_wait_in_pieces_is_one),
        cmocka_unit_test(disk_requests),
        cmocka_unit_test(threads_of_unknown_processes_are_not_made),
        cmocka_unit_test(waits_stand_for_calls),
        cmocka_unit_test(another_level_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
