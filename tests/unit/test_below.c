/* The kernel layer of a request: system calls below the callback or the pool operation that made them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, POOL_THREAD = 11, KIND_READ = 3, FSREQ = 1, CALL_READ = 0, CALL_WRITE = 1, FUTEX = 202 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, FSREQ, "FSREQCALLBACK", US(1));
}

static void call(struct feed *feed, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint16_t number)
{
    FEED(feed, sys_call, 1, 1, end_ns, end_ns - start_ns, .pid = API, .tid = tid, .call = number, .result = 5,
         .fd = 9);
}

/* A request whose callback submits one read of the pool and wakes it by a call of its own. */
static void submit(struct feed *feed, uint64_t at)
{
    FEED_TEXT(feed, "/a");
    FEED(feed, http_request, API, API, at + US(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(feed, node_async_init, API, API, at + US(2), 0, .async_id = 5001, .type = FSREQ);
    FEED(feed, uv_submit, API, API, at + US(3), 0, .request = 1, .kind = KIND_READ, .fd = -1);
    call(feed, API, at + US(3) + 100, at + US(4), FUTEX);
    FEED(feed, node_callback, API, API, at + US(5), US(5), .async_id = 1030);
    FEED(feed, stream_io, API, API, at + US(6), US(7), .fd = 30, .generation = 1, .events = 1);
}

/* What the pool's thread does in [start, end): calls before it, in it, and one that wakes it up after. */
static void run(struct feed *feed, uint64_t start_ns, uint64_t end_ns, int calls)
{
    call(feed, POOL_THREAD, start_ns - 500, start_ns - 200, FUTEX); /* within the slack, and not of it */
    for (int i = 0; i < calls; i++)
        call(feed, POOL_THREAD, start_ns + US(1 + 3 * (uint64_t)i), start_ns + US(2 + 3 * (uint64_t)i),
             CALL_READ);
    FEED(feed, sched_switch, 1, 1, end_ns - US(10), US(300), .pid = API, .tid = POOL_THREAD,
         .runnable_ns = US(100), .reason = 1, .call = CALL_READ);
    call(feed, POOL_THREAD, end_ns - US(400), end_ns - US(5), CALL_READ);
    FEED(feed, uv_run, API, POOL_THREAD, end_ns, end_ns - start_ns, .request = 1, .kind = KIND_READ);
    call(feed, POOL_THREAD, end_ns + US(2), end_ns + US(3), CALL_WRITE);
}

static void done(struct feed *feed, uint64_t at)
{
    FEED(feed, node_callback, API, API, at + US(2), US(1), .async_id = 5001);
    FEED(feed, uv_done, API, API, at + US(3), US(3), .request = 1, .kind = KIND_READ);
}

static size_t calls_below(const struct request *request, uint32_t parent)
{
    size_t count = 0;
    array_foreach (&request->spans, span)
        count += span->kind == VSPAN_syscall && span->parent == parent;
    return count;
}

static uint32_t index_of(const struct request *request, const struct vspan *span)
{
    return (uint32_t)(span - request->spans.at);
}

static void calls_stand_below_what_made_them(void **state)
{
    (void)state;
    struct feed feed;
    start(&feed);
    submit(&feed, MS(1));
    run(&feed, MS(2), MS(3), 3);
    done(&feed, MS(4));
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/a");
    const struct vspan *op = feed_span(request, VSPAN_pool), *callback = feed_span(request, VSPAN_callback);
    assert_int_equal(calls_below(request, index_of(request, op)), 4);
    assert_int_equal(calls_below(request, index_of(request, callback)), 1);
    array_foreach (&request->spans, span) {
        if (span->kind != VSPAN_syscall || span->parent != index_of(request, op))
            continue;
        assert_true(span->start_ns >= op->work_start_ns && span->end_ns <= op->work_end_ns);
        assert_string_equal(span->name, "read");
        assert_int_equal(span->layer, LAYER_kernel);
        assert_int_equal(span->result, 5);
        assert_int_equal(span->fd, 9);
        assert_int_equal(span->peer_tid, POOL_THREAD);
    }
    /* The thread was off its CPU within the last call. */
    assert_true(op->timed);
    assert_int_equal(op->spent.runnable_ns, US(100));
    assert_int_equal(op->spent.blocked_ns, US(200));
    assert_int_equal(op->spent.running_ns, US(700));
    feed_done(&feed);
}

/* Before the turn that submitted it was read: the calls wait for the span. */
static void calls_of_an_operation_that_ran_at_once(void **state)
{
    (void)state;
    struct feed feed;
    start(&feed);
    FEED_TEXT(&feed, "/a");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 30, .generation = 1, .method = 1);
    FEED(&feed, node_async_init, API, API, MS(1) + US(2), 0, .async_id = 5001, .type = FSREQ);
    FEED(&feed, uv_submit, API, API, MS(1) + US(3), 0, .request = 1, .kind = KIND_READ, .fd = -1);
    run(&feed, MS(2), MS(3), 2);
    FEED(&feed, node_callback, API, API, MS(5), MS(5), .async_id = 1030);
    FEED(&feed, stream_io, API, API, MS(5) + US(1), MS(5), .fd = 30, .generation = 1, .events = 1);
    done(&feed, MS(6));
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/a");
    assert_int_equal(calls_below(request, index_of(request, feed_span(request, VSPAN_pool))), 3);
    feed_done(&feed);
}

static void the_shortest_of_many_are_left_out_and_counted(void **state)
{
    (void)state;
    enum { MANY = 100, SHOWN = 32 };
    struct feed feed;
    start(&feed);
    submit(&feed, MS(1));
    run(&feed, MS(2), MS(3), MANY);
    done(&feed, MS(4));
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/a");
    const struct vspan *op = feed_span(request, VSPAN_pool);
    assert_int_equal(calls_below(request, index_of(request, op)), SHOWN);
    assert_int_equal(op->calls_left_out, MANY + 1 - SHOWN);
    uint64_t longest = 0, last_ns = 0;
    array_foreach (&request->spans, span)
        if (span->kind == VSPAN_syscall && span->parent == index_of(request, op)) {
            longest = MAX(longest, span->end_ns - span->start_ns);
            assert_true(span->start_ns > last_ns); /* in order of time */
            last_ns = span->start_ns;
        }
    assert_int_equal(longest, US(395));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_stand_below_what_made_them),
        cmocka_unit_test(calls_of_an_operation_that_ran_at_once),
        cmocka_unit_test(the_shortest_of_many_are_left_out_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
