/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/path_words.h"
#include "feed_services.h"

static uint64_t class_ns(const struct request *request, enum path_class class, const char *service)
{
    uint64_t sum = 0;
    array_foreach (&request->path_steps, s)
        if (s->class == class && (!service || (s->service && strcmp(s->service, service) == 0)))
            sum += s->end_ns - s->start_ns;
    return sum;
}

/* The steps cover the request and do not overlap. */
static void assert_covered(const struct request *request)
{
    uint64_t at = request->start_ns;
    array_foreach (&request->path_steps, s) {
        assert_int_equal(s->start_ns, at);
        assert_true(s->end_ns > s->start_ns);
        at = s->end_ns;
    }
    assert_int_equal(at, request->end_ns);
}

static void pool_work_is_queue_run_and_loop(void **state)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/file", MS(1));
    FEED(&feed, uv_submit, API, API, MS(2), 0, .request = 99, .kind = 3);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    FEED(&feed, uv_run, API, API + 1, MS(60), MS(40), .request = 99, .kind = 3);
    answer(&feed, API, 30, MS(71));
    FEED(&feed, node_callback, API, API, MS(72), MS(2) - US(10), .async_id = 5);
    FEED(&feed, uv_done, API, API, MS(72), MS(2), .request = 99, .kind = 3);
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/file");
    assert_covered(r);
    assert_int_equal(class_ns(r, PATH_POOL_QUEUE, NULL), MS(18));
    assert_int_equal(class_ns(r, PATH_POOL, NULL), MS(40));
    assert_in_range(class_ns(r, PATH_LOOP, NULL), MS(10), MS(10) + US(20));
    assert_int_equal(path_dominant(r)->class, PATH_POOL);
    assert_string_equal(path_dominant(r)->name, "fs_read");
    feed_done(&feed);
}

/* The thread that takes the operation in the end has no CPU for a while, with what it does before. */
static void who_waits_for_a_pool_thread_may_wait_for_a_cpu(void **state)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/file", MS(1));
    FEED(&feed, uv_submit, API, API, MS(2), 0, .request = 99, .kind = 3);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    FEED(&feed, sched_switch, 1, 1, MS(17), MS(12), .pid = API, .tid = API + 1, .runnable_ns = MS(12),
         .fd = -1, .call = SONDE_SYSCALL_NONE, .reason = SONDE_off_reason_preempted);
    FEED(&feed, uv_run, API, API + 1, MS(60), MS(40), .request = 99, .kind = 3);
    answer(&feed, API, 30, MS(71));
    FEED(&feed, node_callback, API, API, MS(72), MS(2) - US(10), .async_id = 5);
    FEED(&feed, uv_done, API, API, MS(72), MS(2), .request = 99, .kind = 3);
    feed_finish(&feed);
    uint64_t no_cpu_ns = 0, loop_ns;
    array_foreach (&feed_kept(&feed, "/file")->path_steps, s)
        no_cpu_ns += s->class == PATH_POOL_QUEUE ? path_step_no_cpu(s, &loop_ns) : 0;
    assert_int_equal(no_cpu_ns, MS(12));
    feed_done(&feed);
}

/* What lies before more steps than are followed is not said to be anything. */
static void a_path_of_very_many_steps_is_followed_for_a_while(void **state)
{
    enum { OPERATIONS = 200 };
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/zip", MS(1));
    uint64_t at = MS(2);
    FEED(&feed, uv_submit, API, API, at, 0, .request = 99, .kind = 3);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    for (int i = 0; i < OPERATIONS; i++, at += MS(10)) {
        FEED(&feed, uv_run, API, API + 1, at + MS(6), MS(5), .request = 99, .kind = 3);
        if (i + 1 < OPERATIONS)
            FEED(&feed, uv_submit, API, API, at + MS(10), 0, .request = 99, .kind = 3);
        else
            answer(&feed, API, 30, at + MS(10));
        FEED(&feed, node_callback, API, API, at + MS(10) + US(20), US(40), .async_id = 5);
        FEED(&feed, uv_done, API, API, at + MS(10) + US(30), US(60), .request = 99, .kind = 3);
    }
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/zip");
    assert_covered(r);
    assert_true(class_ns(r, PATH_POOL, NULL) >= 100 * MS(5));
    assert_true(class_ns(r, PATH_CUT, NULL) >= MS(500));
    assert_true(class_ns(r, PATH_RUN, NULL) < MS(20));
    assert_int_equal(r->path_steps.at[0].class, PATH_CUT);
    assert_int_equal(path_followed_ns(r), r->end_ns - r->path_steps.at[1].start_ns);
    feed_done(&feed);
}

/* The other service's own path is part of the caller's, also when its turn goes on after its answer. */
static void follow_service(uint64_t ends_ns)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/a", MS(1));
    FEED_TEXT(&feed, "/stock");
    FEED(&feed, http_request, API, API, MS(2), 0, .fd = 7, .generation = 1, .side = 1, .method = 1);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    begin(&feed, STOCK, 9, "/stock", MS(12)); /* read 10 ms late */
    FEED(&feed, uv_submit, STOCK, STOCK, MS(13), 0, .request = 99, .kind = 65);
    end_turn(&feed, STOCK, 9, MS(12) - US(50), MS(14));
    FEED(&feed, uv_run, STOCK, STOCK + 1, MS(113), MS(100), .request = 99, .kind = 65);
    answer(&feed, STOCK, 9, MS(114));
    if (ends_ns == MS(115)) {
        FEED(&feed, node_callback, STOCK, STOCK, ends_ns, ends_ns - MS(114), .async_id = 5);
        FEED(&feed, uv_done, STOCK, STOCK, ends_ns, ends_ns - MS(113), .request = 99, .kind = 65);
    }
    FEED(&feed, http_response, API, API, MS(116), 0, .fd = 7, .generation = 1, .status = 200, .side = 1);
    FEED(&feed, http_end, API, API, MS(116), 0, .fd = 7, .generation = 1, .side = 1);
    answer(&feed, API, 30, MS(117));
    end_turn(&feed, API, 7, MS(116) - US(50), MS(118));
    if (ends_ns > MS(118)) {
        FEED(&feed, node_callback, STOCK, STOCK, ends_ns, ends_ns - MS(114), .async_id = 5);
        FEED(&feed, uv_done, STOCK, STOCK, ends_ns, ends_ns - MS(113), .request = 99, .kind = 65);
    }
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/a");
    assert_covered(r);
    assert_int_equal(class_ns(r, PATH_QUEUE, "stock"), MS(10));
    assert_int_equal(class_ns(r, PATH_POOL, "stock"), MS(100));
    assert_int_equal(path_dominant(r)->class, PATH_POOL);
    assert_string_equal(path_dominant(r)->service, "stock");
    feed_done(&feed);
}

static void a_traced_service_is_followed(void **state)
{
    follow_service(MS(115));
    follow_service(MS(190));
}

/* An untraced peer is known by its socket only; that the own loop was busy when the answer came is not its
 * doing. */
static void an_opaque_peer_is_not_blamed_for_the_own_loop(void **state)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/db", MS(1));
    FEED(&feed, stream_write, API, API, MS(2), 0, .fd = 8, .generation = 1, .bytes = 60);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    end_turn(&feed, API, 40, MS(60), MS(102)); /* somebody else's turn, below a stall */
    answer(&feed, API, 30, MS(103));
    FEED(&feed, node_callback, API, API, MS(104), MS(2) - US(10), .async_id = 7);
    FEED(&feed, stream_io, API, API, MS(104), MS(2), .fd = 8, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/db");
    assert_covered(r);
    assert_in_range(class_ns(r, PATH_LOOP, NULL), MS(42), MS(42) + US(20));
    assert_int_equal(class_ns(r, PATH_PEER, NULL), MS(58));
    feed_done(&feed);
}

/* But what the loop does not find when it polls has not come yet. */
static void an_answer_that_a_poll_did_not_find_came_after_it(void **state)
{
    enum { POLL = 4 };
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/db", MS(1));
    FEED(&feed, stream_write, API, API, MS(2), 0, .fd = 8, .generation = 1, .bytes = 60);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    FEED(&feed, uv_phase, API, API, MS(4), MS(4), .phase = POLL, .timeout_ms = -1);
    end_turn(&feed, API, 40, MS(60), MS(102));
    FEED(&feed, uv_phase, API, API, MS(103), MS(50), .phase = POLL, .timeout_ms = -1);
    FEED(&feed, uv_phase, API, API, MS(105), MS(1), .phase = POLL, .timeout_ms = -1);
    answer(&feed, API, 30, MS(108));
    FEED(&feed, node_callback, API, API, MS(109), MS(2) - US(10), .async_id = 7);
    FEED(&feed, stream_io, API, API, MS(109), MS(2), .fd = 8, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/db");
    assert_covered(r);
    assert_in_range(class_ns(r, PATH_LOOP, NULL), 0, US(20));
    assert_in_range(class_ns(r, PATH_PEER, NULL), MS(105) - US(20), MS(105));
    feed_done(&feed);
}

/* Nothing is known of what a timer continues. */
/* Nothing is answered before it was asked: the loop was busy with this request itself before that. */
static void what_was_asked_within_a_busy_stretch_does_not_hide_what_was_before(void **state)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/two", MS(1));
    FEED(&feed, stream_write, API, API, MS(2), 0, .fd = 8, .generation = 1, .bytes = 60);
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    /* The first is answered at 60 ms, and at 100 the second is sent: in one turn of 45 ms. */
    FEED(&feed, stream_write, API, API, MS(100), 0, .fd = 8, .generation = 1, .bytes = 60);
    FEED(&feed, node_callback, API, API, MS(105) - US(10), MS(45) - US(20), .async_id = 7);
    FEED(&feed, stream_io, API, API, MS(105), MS(45), .fd = 8, .generation = 1, .events = 1);
    answer(&feed, API, 30, MS(107));
    FEED(&feed, node_callback, API, API, MS(108) - US(10), MS(2) - US(20), .async_id = 7);
    FEED(&feed, stream_io, API, API, MS(108), MS(2), .fd = 8, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/two");
    assert_covered(r);
    assert_in_range(class_ns(r, PATH_LOOP, NULL), 0, MS(6) + US(50));
    assert_in_range(class_ns(r, PATH_PEER, NULL), MS(57), MS(64));
    assert_int_equal(class_ns(r, PATH_OTHER, NULL), 0);
    feed_done(&feed);
}

static void a_timer_is_something_unseen(void **state)
{
    struct feed feed;
    start(&feed);
    begin(&feed, API, 30, "/later", MS(1));
    end_turn(&feed, API, 30, MS(1) - US(50), MS(3));
    answer(&feed, API, 30, MS(201));
    FEED(&feed, node_callback, API, API, MS(202), MS(2), .async_id = 7);
    FEED(&feed, uv_phase, API, API, MS(202), MS(2), .phase = 0);
    feed_finish(&feed);
    const struct request *r = feed_kept(&feed, "/later");
    assert_covered(r);
    assert_int_equal(path_dominant(r)->class, PATH_OTHER);
    assert_true(class_ns(r, PATH_OTHER, NULL) >= MS(197));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_work_is_queue_run_and_loop),
        cmocka_unit_test(who_waits_for_a_pool_thread_may_wait_for_a_cpu),
        cmocka_unit_test(a_path_of_very_many_steps_is_followed_for_a_while),
        cmocka_unit_test(a_traced_service_is_followed),
        cmocka_unit_test(an_opaque_peer_is_not_blamed_for_the_own_loop),
        cmocka_unit_test(an_answer_that_a_poll_did_not_find_came_after_it),
        cmocka_unit_test(what_was_asked_within_a_busy_stretch_does_not_hide_what_was_before),
        cmocka_unit_test(a_timer_is_something_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
