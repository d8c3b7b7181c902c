/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, POOL_THREAD = 11, KIND_READ = 3, KIND_WORK = 64, FSREQ = 1, PBKDF2 = 2 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, FSREQ, "FSREQCALLBACK", US(1));
    feed_name(feed, API, PBKDF2, "PBKDF2REQUEST", US(1));
}

/* A request whose callback submits one operation. */
static void submit(struct feed *feed, int32_t fd, const char *path, uint64_t key, uint8_t kind, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at + US(1), 0, .fd = fd, .generation = 1, .method = 1);
    FEED(feed, node_async_init, API, API, at + US(2), 0, .async_id = 5000 + key,
         .type = kind == KIND_WORK ? PBKDF2 : FSREQ);
    FEED(feed, uv_submit, API, API, at + US(3), 0, .request = key, .kind = kind, .fd = -1);
    FEED(feed, node_callback, API, API, at + US(5), US(5), .async_id = 1000 + (uint64_t)fd);
    FEED(feed, stream_io, API, API, at + US(6), US(7), .fd = fd, .generation = 1, .events = 1);
}

static void run(struct feed *feed, int64_t thread, uint64_t key, uint8_t kind, uint64_t start_ns,
                uint64_t end_ns)
{
    FEED(feed, uv_run, API, thread, end_ns, end_ns - start_ns, .request = key, .kind = kind);
}

static void done(struct feed *feed, uint64_t key, uint8_t kind, uint64_t at)
{
    FEED(feed, node_callback, API, API, at + US(2), US(1), .async_id = 5000 + key);
    FEED(feed, uv_done, API, API, at + US(3), US(3), .request = key, .kind = kind);
}

static void operation_has_its_times(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 30, "/a", 1, KIND_READ, MS(1));
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(2), MS(3));
    done(&feed, 1, KIND_READ, MS(4));
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/a");
    const struct vspan *op = feed_span(request, VSPAN_pool);
    assert_string_equal(op->name, "fs_read");
    assert_string_equal(op->detail, "FSREQCALLBACK");
    assert_int_equal(op->start_ns, MS(1) + US(3));
    assert_int_equal(op->work_start_ns, MS(2));
    assert_int_equal(op->work_end_ns, MS(3));
    assert_int_equal(op->end_ns, MS(4));
    assert_int_equal(op->known, KNOWN_PROVED);
    assert_int_equal(op->peer_tid, POOL_THREAD);
    /* The completion's callback continues it. */
    const struct vspan *last = &request->spans.at[request->spans.count - 1];
    assert_int_equal(last->kind, VSPAN_callback);
    assert_int_equal(last->start_ns, MS(4) + US(1));
    assert_ptr_equal(&request->spans.at[last->cause], op);
    feed_done(&feed);
}

/* The callback of a compression's step submits the next step with the same key. */
static void submitted_again_by_its_completion(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 30, "/a", 1, KIND_WORK, MS(1));
    run(&feed, POOL_THREAD, 1, KIND_WORK, MS(2), MS(10));
    FEED(&feed, uv_submit, API, API, MS(11) + US(1), 0, .request = 1, .kind = KIND_WORK, .fd = -1);
    run(&feed, POOL_THREAD, 1, KIND_WORK, MS(11) + US(2), MS(11) + US(4));
    FEED(&feed, node_callback, API, API, MS(11) + US(5), US(4), .async_id = 5001);
    FEED(&feed, uv_done, API, API, MS(11) + US(6), US(6), .request = 1, .kind = KIND_WORK);
    done(&feed, 1, KIND_WORK, MS(20));
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/a");
    const struct vspan *ops[2] = {0};
    size_t count = 0;
    array_foreach (&request->spans, span)
        if (span->kind == VSPAN_pool && count < 2)
            ops[count++] = span;
    assert_int_equal(count, 2);
    assert_int_equal(ops[0]->work_end_ns, MS(10));
    assert_int_equal(ops[0]->end_ns, MS(11));
    assert_int_equal(ops[1]->start_ns, MS(11) + US(1));
    assert_int_equal(ops[1]->work_end_ns, MS(11) + US(4));
    assert_int_equal(ops[1]->end_ns, MS(20));
    assert_string_equal(ops[0]->detail, "PBKDF2REQUEST");
    assert_string_equal(ops[1]->detail, "PBKDF2REQUEST");
    feed_done(&feed);
}

/* Four hashes hold the pool; a read waits behind one of them. */
static void starved_by_hashes(void **state)
{
    struct feed feed;
    start(&feed);
    for (int i = 0; i < 4; i++)
        submit(&feed, 40 + i, "/login", 100 + (uint64_t)i, KIND_WORK, MS(1 + (uint64_t)i));
    submit(&feed, 30, "/file", 1, KIND_READ, MS(10));
    for (int i = 0; i < 4; i++)
        run(&feed, POOL_THREAD + i, 100 + (uint64_t)i, KIND_WORK, MS(2 + (uint64_t)i), MS(200 + (uint64_t)i));
    run(&feed, POOL_THREAD + 3, 1, KIND_READ, MS(203) + US(10), MS(203) + US(20));
    done(&feed, 1, KIND_READ, MS(204));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_thread_pool_starved);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(finding_get_evidence(f, "operations_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "waited_ns")->count, MS(193) + US(7));
    assert_string_equal(finding_get_evidence(f, "occupied_by")->text,
                        "PBKDF2REQUEST submitted by GET /login");
    assert_int_equal(finding_get_evidence(f, "pool_threads_count")->count, 4);
    assert_true(finding_get_evidence(f, "occupied_share")->real > 0.99);
    assert_int_equal(f->affected_count, 1);
    assert_string_equal(f->affected.at[0].path, "/file");
    feed_done(&feed);
}

/* Whose the hashes are is not known this time, but it is of another one of the same kind. */
static void submitter_is_known_from_elsewhere(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 40, "/login", 100, KIND_WORK, MS(1));
    run(&feed, POOL_THREAD, 100, KIND_WORK, MS(2), MS(3));
    done(&feed, 100, KIND_WORK, MS(4));
    FEED(&feed, node_async_init, API, API, MS(9), 0, .async_id = 7777, .type = PBKDF2);
    FEED(&feed, uv_submit, API, API, MS(9) + US(1), 0, .request = 101, .kind = KIND_WORK, .fd = -1);
    FEED(&feed, node_callback, API, API, MS(9) + US(3), US(5), .async_id = 2);
    FEED(&feed, uv_phase, API, API, MS(9) + US(4), US(7), .phase = 0);
    submit(&feed, 30, "/file", 1, KIND_READ, MS(10));
    run(&feed, POOL_THREAD, 101, KIND_WORK, MS(9) + US(100), MS(200));
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(200) + US(10), MS(200) + US(20));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_thread_pool_starved);
    assert_string_equal(finding_get_evidence(f, "occupied_by")->text,
                        "PBKDF2REQUEST, which GET /login submits");
    feed_done(&feed);
}

/* A thread that had nothing to do was woken late: that is no starvation. */
static void late_wake_up_is_no_starvation(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 30, "/a", 1, KIND_READ, MS(1));
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(2), MS(3));
    submit(&feed, 31, "/b", 2, KIND_READ, MS(50));
    run(&feed, POOL_THREAD, 2, KIND_READ, MS(150), MS(151));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    feed_done(&feed);
}

/* Operations queue up behind a thread that sleeps on: when it wakes, it takes one after the other. */
static void late_thread_is_no_starvation(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 30, "/a", 1, KIND_READ, MS(1));
    submit(&feed, 31, "/b", 2, KIND_READ, MS(2));
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(100), MS(100) + US(10));
    run(&feed, POOL_THREAD, 2, KIND_READ, MS(100) + US(11), MS(100) + US(20));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    feed_done(&feed);
}

/* The pool thread was held, but by the machine: it was ready to run all the time. */
static void load_is_no_starvation(void **state)
{
    struct feed feed;
    start(&feed);
    submit(&feed, 30, "/a", 1, KIND_READ, MS(1));
    submit(&feed, 31, "/b", 2, KIND_READ, MS(2));
    FEED(&feed, thread_sched, 1, 1, MS(3), 0, .pid = API, .tid = POOL_THREAD, .run_ns = 0, .wait_ns = 0);
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(3), MS(100));
    run(&feed, POOL_THREAD, 2, KIND_READ, MS(100), MS(101));
    FEED(&feed, thread_sched, 1, 1, MS(102), 0, .pid = API, .tid = POOL_THREAD, .run_ns = MS(3),
         .wait_ns = MS(95));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    assert_int_equal(feed_finding(&feed, FINDING_run_queue_wait)->severity, SEVERITY_INFO);
    feed_done(&feed);
}

/* Several operations stand behind a thread without a CPU: they wait for the same time, of which its own
 * counter is the measure. */
static void a_thread_lacks_a_processor_once(void **state)
{
    struct feed feed;
    start(&feed);
    for (int i = 0; i < 4; i++)
        submit(&feed, 30 + i, "/a", 1 + (uint64_t)i, KIND_READ, MS(1) + US(100 * (uint64_t)i));
    FEED(&feed, thread_sched, 1, 1, MS(3), 0, .pid = API, .tid = POOL_THREAD, .run_ns = 0, .wait_ns = 0);
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(3), MS(100));
    for (int i = 1; i < 4; i++)
        run(&feed, POOL_THREAD, 1 + (uint64_t)i, KIND_READ, MS(100 + (uint64_t)i),
            MS(100 + (uint64_t)i) + US(900));
    FEED(&feed, thread_sched, 1, 1, MS(105), 0, .pid = API, .tid = POOL_THREAD, .run_ns = MS(3),
         .wait_ns = MS(95));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    const struct finding *f = feed_finding(&feed, FINDING_run_queue_wait);
    assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 3);
    assert_true(finding_get_evidence(f, "waited_ns")->count < MS(100)); /* not three times as much */
    assert_true(finding_get_evidence(f, "cpu_ns")->count <= MS(10));
    feed_done(&feed);
}

/* An operation that is over before the callback that asked for it: its request could have gone on at once,
 * and waits for whoever blocks the loop. */
static void done_before_its_callback_ends(void **state)
{
    struct feed feed;
    start(&feed);
    feed_request(&feed, API, 31, "/stall", MS(1), MS(2)); /* this endpoint is not new any more */
    FEED_TEXT(&feed, "/file");
    FEED(&feed, http_request, API, API, MS(100), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, node_async_init, API, API, MS(100) + US(1), 0, .async_id = 5001, .type = FSREQ);
    FEED(&feed, uv_submit, API, API, MS(100) + US(2), 0, .request = 1, .kind = KIND_READ, .fd = -1);
    run(&feed, POOL_THREAD, 1, KIND_READ, MS(100) + US(20), MS(100) + US(40));
    FEED(&feed, node_callback, API, API, MS(100) + US(90), US(95), .async_id = 1030);
    /* Another callback for the same message, which is not the operation's. */
    FEED(&feed, node_callback, API, API, MS(100) + US(94), US(3), .async_id = 1030);
    FEED(&feed, stream_io, API, API, MS(100) + US(95), US(110), .fd = 30, .generation = 1, .events = 1);
    FEED_TEXT(&feed, "/stall");
    FEED(&feed, http_request, API, API, MS(110) + US(2), 0, .fd = 31, .generation = 1, .method = 1);
    FEED(&feed, node_callback, API, API, MS(310) - US(1), MS(200) - US(2), .async_id = 1031);
    FEED(&feed, stream_io, API, API, MS(310), MS(200), .fd = 31, .generation = 1, .events = 1);
    done(&feed, 1, KIND_READ, MS(311));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    uint64_t delay_ns = 0;
    array_foreach (&f->affected, victim)
        delay_ns += strcmp(victim->path, "/file") == 0 ? victim->delay_ns : 0;
    assert_int_equal(delay_ns, MS(200));
    feed_done(&feed);
}

/* The synchronous API runs on the loop's own thread. */
static void synchronous_calls_are_no_pool_work(void **state)
{
    struct feed feed;
    start(&feed);
    FEED_TEXT(&feed, "/sync");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    run(&feed, API, 77, KIND_READ, MS(2), MS(3));
    run(&feed, API, 77, KIND_READ, MS(4), MS(6));
    FEED(&feed, node_callback, API, API, MS(8), MS(8), .async_id = 5);
    FEED(&feed, stream_io, API, API, MS(9), MS(9), .fd = 30, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct vspan *sync = feed_span(feed_kept(&feed, "/sync"), VSPAN_sync);
    assert_non_null(sync);
    assert_int_equal(sync->times, 2);
    assert_int_equal(sync->work_end_ns - sync->work_start_ns, MS(3));
    assert_int_equal(sync->end_ns, MS(6));
    assert_null(feed_span(feed_kept(&feed, "/sync"), VSPAN_pool));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operation_has_its_times),
        cmocka_unit_test(submitted_again_by_its_completion),
        cmocka_unit_test(starved_by_hashes),
        cmocka_unit_test(submitter_is_known_from_elsewhere),
        cmocka_unit_test(late_wake_up_is_no_starvation),
        cmocka_unit_test(late_thread_is_no_starvation),
        cmocka_unit_test(load_is_no_starvation),
        cmocka_unit_test(a_thread_lacks_a_processor_once),
        cmocka_unit_test(done_before_its_callback_ends),
        cmocka_unit_test(synchronous_calls_are_no_pool_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
