/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10 };

static struct thread *loop(struct feed *feed)
{
    return thread_get(feed->analysis, process_get(feed->analysis, API), API);
}

/* Records arrive inside out; the tree is the nesting in time. */
static void puts_spans_together(void **state)
{
    struct feed feed;
    feed_init(&feed);
    FEED(&feed, node_async_init, API, API, US(12), 0, .async_id = 1);
    FEED(&feed, v8_gc, API, API, US(15), US(2), .type = 1);
    FEED(&feed, node_callback, API, API, US(20), US(9), .async_id = 2);
    FEED(&feed, node_callback, API, API, US(30), US(5), .async_id = 3);
    struct thread *thread = loop(&feed);
    assert_int_equal(thread->roots.count, 2);
    const struct item *first = &thread->items.at[thread->roots.at[0]];
    assert_int_equal(first->id, 2);
    assert_int_equal(first->low, 0);
    const struct item *init = &thread->items.at[first->first_child];
    assert_int_equal(init->event, SONDE_EVENT_node_async_init);
    assert_int_equal(thread->items.at[init->next].event, SONDE_EVENT_v8_gc);
    assert_int_equal(thread->items.at[init->next].next, UINT32_MAX);
    /* The phase around them ends: the turn is read and forgotten. */
    FEED(&feed, uv_phase, API, API, US(40), US(35), .phase = 0);
    assert_int_equal(thread->roots.count, 0);
    assert_int_equal(thread->items.count, 0);
    feed_done(&feed);
}

/* A span that begins at the same nanosecond as what is inside it still contains it. */
static void equal_times_nest_by_arrival(void **state)
{
    struct feed feed;
    feed_init(&feed);
    FEED(&feed, node_async_init, API, API, US(10), 0, .async_id = 1);
    FEED(&feed, node_callback, API, API, US(10), 0, .async_id = 2);
    FEED(&feed, node_callback, API, API, US(12), US(2), .async_id = 3);
    struct thread *thread = loop(&feed);
    assert_int_equal(thread->roots.count, 1);
    assert_int_equal(thread->items.at[thread->roots.at[0]].id, 3);
    feed_done(&feed);
}

/* Spans that had not ended are told by the recorder; what is inside belongs to them. */
static void open_spans_end_with_the_trace(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED_TEXT(&feed, "/stuck");
    FEED(&feed, http_request, API, API, MS(10), 0, .fd = 5, .generation = 1, .method = 1);
    FEED(&feed, open_span, 1, 1, MS(1500), 0, .since_ns = MS(9), .pid = API, .tid = API, .depth = 1,
         .event = SONDE_EVENT_stream_io, .argument = 5, .final = 1);
    FEED(&feed, open_span, 1, 1, MS(1500), 0, .since_ns = MS(10) - US(1), .pid = API, .tid = API, .depth = 2,
         .event = SONDE_EVENT_node_callback, .argument = 7, .final = 1);
    FEED(&feed, open_span, 1, 1, MS(1500), 0, .since_ns = MS(8), .pid = API, .tid = API, .depth = 0,
         .event = SONDE_EVENT_uv_phase, .argument = 4, .final = 1);
    FEED(&feed, process_exit, 1, 1, MS(1510), 0, .pid = API, .status = 9);
    FEED(&feed, process_exit, 1, 1, MS(1900), 0, .pid = 999);
    feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/stuck");
    assert_int_equal(request->state, REQUEST_UNFINISHED);
    assert_int_equal(request->end_ns, MS(1510)); /* the process's end, not the trace's */
    const struct vspan *callback = feed_span(request, VSPAN_callback);
    assert_non_null(callback);
    assert_int_equal(callback->end_ns, 0);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_CRITICAL);
    assert_int_equal(f->to_ns, UINT64_MAX);
    assert_string_equal(f->affected.at[0].path, "/stuck");
    feed_done(&feed);
}

static void look(struct feed *feed, uint64_t at, uint64_t since_ns, uint8_t brief)
{
    FEED_TEXT(feed, "match");
    FEED_TEXT(feed, "/srv/app.js");
    FEED_TEXT(feed, "/^(a+)+$/");
    FEED_TEXT(feed, "a;b");
    FEED(feed, stall_sample, 1, 1, at, 0, .since_ns = since_ns, .pid = API, .tid = API, .cause = 1, .line = 7,
         .column = 3, .brief = brief);
}

/* The recorder was killed: only its looks tell that a callback was open, and since when. A brief look only
 * knows when it was taken. */
static void looks_are_left_when_the_recorder_dies(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    feed_request(&feed, API, 40, "/before", MS(5), MS(6));
    FEED_TEXT(&feed, "/stuck");
    FEED(&feed, http_request, API, API, MS(10), 0, .fd = 5, .generation = 1, .method = 1);
    look(&feed, MS(15), MS(15), 1);
    for (uint64_t i = 0; i < 5; i++)
        look(&feed, MS(40 + 60 * i), MS(10) - US(1), 0);
    look(&feed, MS(300), MS(300), 1);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_blocking_regexp);
    assert_non_null(f);
    assert_int_equal(f->to_ns, UINT64_MAX);
    assert_string_equal(f->affected.at[0].path, "/stuck");
    feed_done(&feed);
}

/* Nested beyond all reason, and an endless main script: memory stays bounded. */
static void endless_turns_are_cut(void **state)
{
    struct feed feed;
    feed_init(&feed);
    for (uint64_t i = 0; i < 500000; i++)
        FEED(&feed, node_callback, API, API, US(2 + i), 500, .async_id = i);
    assert_true(loop(&feed)->items.count <= 400001);
    feed_finish(&feed);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_spans_together),
        cmocka_unit_test(equal_times_nest_by_arrival),
        cmocka_unit_test(open_spans_end_with_the_trace),
        cmocka_unit_test(looks_are_left_when_the_recorder_dies),
        cmocka_unit_test(endless_turns_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
