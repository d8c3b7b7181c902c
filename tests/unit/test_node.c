/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, REDIS = 20, GET = 1 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_process(feed, REDIS, 2, "redis", US(1));
    feed_name(feed, REDIS, GET, "get", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, 6379, US(2));
    feed_connection(feed, REDIS, 9, 1, 3, 6379, 50000, US(2));
}

static void request(struct feed *feed, int32_t fd, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1);
}

static void send_command(struct feed *feed, uint64_t number, uint64_t at)
{
    FEED(feed, stream_write, API, API, at, 0, .fd = 7, .generation = 1, .bytes = 30, .messages = 1,
         .first_message = number);
}

static void end_turn(struct feed *feed, int32_t fd, uint64_t async_id, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = async_id);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

static void executed(struct feed *feed, uint64_t number, uint64_t at)
{
    FEED(feed, redis_command, REDIS, REDIS, at, US(1), .client_id = 3, .sequence = number, .name = GET);
}

static void replied(struct feed *feed, uint64_t at)
{
    FEED(feed, redis_write_reply, REDIS, REDIS, at, US(1), .client_id = 3);
}

static void answer(struct feed *feed, int32_t fd, uint64_t at)
{
    FEED(feed, http_response, API, API, at, 0, .fd = fd, .generation = 1, .status = 200, .header_bytes = 10);
    FEED(feed, stream_write, API, API, at + US(1), 0, .fd = fd, .generation = 1, .bytes = 10);
}

/* The callback of a resource that was made in a request's callback is the request's, and so on. */
static void resources_pass_on_their_request(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", US(100));
    FEED(&feed, node_async_init, API, API, US(101), 0, .async_id = 501);
    end_turn(&feed, 30, 400, US(98), US(110));
    FEED(&feed, node_async_init, API, API, US(202), 0, .async_id = 502);
    FEED(&feed, node_callback, API, API, US(205), US(5), .async_id = 501);
    FEED(&feed, uv_phase, API, API, US(206), US(8), .phase = 5);
    send_command(&feed, 1, US(302));
    FEED(&feed, node_callback, API, API, US(305), US(5), .async_id = 502);
    FEED(&feed, node_callback, API, API, US(308), US(1), .async_id = 503); /* nobody's */
    FEED(&feed, uv_phase, API, API, US(309), US(11), .phase = 5);
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    assert_int_equal(a->spans.count, 1 + 3 + 1);
    assert_int_equal(feed_span(a, VSPAN_command)->known, KNOWN_PROVED);
    assert_int_equal(analysis_counts(feed.analysis)->proved, 1);
    feed_done(&feed);
}

/* What an await continues is found by whose answer the callback brings, as long as no other request could go
 * on in it; it may be whoever waits for what this one has. */
static void one_answer_tells_whose_callback(void **state)
{
    for (int others = 0; others < 2; others++) {
        struct feed feed;
        start(&feed);
        request(&feed, 30, "/a", US(100));
        send_command(&feed, 1, US(103));
        end_turn(&feed, 30, 400, US(98), US(110));
        executed(&feed, 1, US(120));
        replied(&feed, US(122));
        if (others) {
            request(&feed, 31, "/b", US(130));
            send_command(&feed, 2, US(133));
            end_turn(&feed, 31, 401, US(128), US(140));
        }
        /* The first reply only: the second command is still on its way. */
        send_command(&feed, 3 - !others, US(152));
        end_turn(&feed, 7, 300, US(150), US(160));
        feed_finish(&feed);
        const struct request *a = feed_kept(&feed, "/a");
        const struct vspan *last = &a->spans.at[a->spans.count - 1];
        const struct vspan *callback = others ? last : &a->spans.at[last->parent];
        assert_string_equal(callback->name, "Redis reply");
        assert_int_equal(a->spans.at[callback->cause].sequence, 1);
        assert_int_equal(a->spans.at[callback->cause].end_ns, US(150));
        assert_int_equal(analysis_counts(feed.analysis)->inferred, !others);
        assert_int_equal(analysis_counts(feed.analysis)->ambiguous, others);
        if (!others) {
            assert_int_equal(last->kind, VSPAN_command);
            assert_int_equal(last->sequence, 2);
            assert_int_equal(last->known, KNOWN_INFERRED);
        }
        feed_done(&feed);
    }
}

/* Redis notes its write after the reader has read: what it had executed by then tells. */
static void reply_may_be_read_before_it_is_noted(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", US(100));
    send_command(&feed, 1, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    request(&feed, 31, "/b", US(112));
    send_command(&feed, 2, US(113));
    end_turn(&feed, 31, 401, US(111), US(115));
    executed(&feed, 1, US(121));
    send_command(&feed, 3, US(124));
    end_turn(&feed, 7, 300, US(122), US(130));
    replied(&feed, US(131));
    executed(&feed, 2, US(140));
    replied(&feed, US(142));
    send_command(&feed, 4, US(152));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a"), *b = feed_kept(&feed, "/b");
    const struct vspan *in_a = &a->spans.at[a->spans.count - 1], *in_b = &b->spans.at[b->spans.count - 1];
    assert_string_equal(in_a->name, "Redis reply");
    assert_int_equal(a->spans.at[in_a->cause].sequence, 1);
    assert_string_equal(in_b->name, "Redis reply");
    assert_int_equal(b->spans.at[in_b->cause].sequence, 2);
    assert_int_equal(analysis_counts(feed.analysis)->ambiguous, 2);
    feed_done(&feed);
}

/* Two requests' replies in one callback: what it starts could be either's, and is not given to any. */
static void two_answers_are_ambiguous(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", US(100));
    send_command(&feed, 1, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    request(&feed, 31, "/b", US(130));
    send_command(&feed, 2, US(133));
    end_turn(&feed, 31, 401, US(128), US(140));
    executed(&feed, 1, US(141));
    executed(&feed, 2, US(142));
    replied(&feed, US(144));
    send_command(&feed, 3, US(152));
    /* It answers one of them: that much is certain. */
    FEED(&feed, http_response, API, API, US(155), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(&feed, stream_write, API, API, US(156), 0, .fd = 30, .generation = 1, .bytes = 10);
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    const struct analysis_counts *counts = analysis_counts(feed.analysis);
    assert_int_equal(counts->ambiguous, 1);
    assert_int_equal(counts->inferred, 0);
    const struct request *a = feed_kept(&feed, "/a"), *b = feed_kept(&feed, "/b");
    assert_int_equal(a->ambiguous, 1);
    assert_int_equal(b->ambiguous, 1);
    for (uint32_t i = 0; i < a->spans.count; i++)
        assert_int_not_equal(a->spans.at[i].sequence, 3);
    assert_int_equal(a->end_ns, US(156));
    const struct vspan *last = &a->spans.at[a->spans.count - 1];
    assert_true(last->shared);
    assert_int_equal(b->spans.count, 3);
    feed_done(&feed);
}

/* What was ambiguous when it began is known when it ends: the callback that its answer continues in answers
 * the only request that there has been since. With another, that one may have waited for its end only. */
static void answer_tells_in_hindsight(void **state)
{
    for (int others = 0; others < 2; others++) {
        struct feed feed;
        start(&feed);
        if (others) {
            request(&feed, 32, "/c", US(90));
            end_turn(&feed, 32, 402, US(88), US(95));
        }
        request(&feed, 30, "/a", US(100));
        end_turn(&feed, 30, 400, US(98), US(110));
        FEED(&feed, stream_write, API, API, US(152), 0, .fd = 7, .generation = 1, .bytes = 30, .messages = 1,
             .first_message = 1, .context = SONDE_CONTEXT_LOST);
        FEED(&feed, node_callback, API, API, US(158), US(6), .async_id = 9);
        FEED(&feed, uv_phase, API, API, US(159), US(8), .phase = 1);
        executed(&feed, 1, US(161));
        replied(&feed, US(162));
        answer(&feed, 30, US(175));
        end_turn(&feed, 7, 300, US(170), US(180));
        request(&feed, 31, "/b", US(183));
        FEED(&feed, uv_submit, API, API, US(184), 0, .request = 77, .kind = 64,
             .context = SONDE_CONTEXT_LOST);
        end_turn(&feed, 31, 401, US(181), US(186));
        FEED(&feed, uv_run, API, API + 1, US(190), US(2), .request = 77, .kind = 64);
        answer(&feed, 31, US(195));
        FEED(&feed, node_callback, API, API, US(198), US(6), .async_id = 9);
        FEED(&feed, uv_done, API, API, US(199), US(8), .request = 77, .kind = 64);
        feed_finish(&feed);
        const struct analysis_counts *counts = analysis_counts(feed.analysis);
        assert_int_equal(counts->ambiguous, others ? 2 : 0);
        assert_int_equal(counts->inferred, others ? 0 : 2);
        const struct request *a = feed_kept(&feed, "/a"), *b = feed_kept(&feed, "/b");
        const struct vspan *command = feed_span(a, VSPAN_command), *op = feed_span(b, VSPAN_pool);
        assert_int_equal(command != NULL, !others);
        assert_int_equal(op != NULL, !others);
        if (!others) {
            assert_int_equal(command->known, KNOWN_INFERRED);
            assert_int_equal(op->known, KNOWN_INFERRED);
        }
        assert_int_equal(a->ambiguous, 0);
        feed_done(&feed);
    }
}

/* The connection of a pool was made in one request's callback; its callbacks are not that request's for ever.
 */
static void pooled_connection_is_nobodys(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/first", US(100));
    FEED(&feed, node_async_init, API, API, US(101), 0, .async_id = 300); /* the socket */
    send_command(&feed, 1, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    request(&feed, 31, "/second", US(120));
    send_command(&feed, 2, US(123));
    end_turn(&feed, 31, 401, US(118), US(126));
    executed(&feed, 1, US(127));
    replied(&feed, US(128));
    answer(&feed, 30, US(135));
    end_turn(&feed, 7, 300, US(130), US(140));
    executed(&feed, 2, US(141));
    replied(&feed, US(142));
    send_command(&feed, 3, US(152));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    const struct request *second = feed_kept(&feed, "/second");
    assert_int_equal(second->spans.at[second->spans.count - 1].sequence, 3);
    feed_done(&feed);
}

/* An agent sends a queued request when another one's connection is free: what asked for it is older than this
 * turn, so it is not this callback's. */
static void queued_call_is_not_the_callbacks(void **state)
{
    for (int queued = 0; queued < 2; queued++) {
        struct feed feed;
        start(&feed);
        feed_name(&feed, API, 2, "HTTPCLIENTREQUEST", US(3));
        feed_connection(&feed, API, 8, 1, 5, 50005, 8080, US(3));
        request(&feed, 30, "/a", US(100));
        FEED(&feed, node_async_init, API, API, US(101), 0, .async_id = 500, .trigger_id = 499, .type = 2);
        FEED_TEXT(&feed, "/back");
        FEED(&feed, http_request, API, API, US(103), 0, .fd = 8, .generation = 1, .side = 1, .method = 1);
        end_turn(&feed, 30, 400, US(98), US(110));
        FEED(&feed, http_response, API, API, US(201), 0, .fd = 8, .generation = 1, .side = 1, .status = 200);
        FEED(&feed, http_end, API, API, US(202), 0, .fd = 8, .generation = 1, .side = 1);
        FEED(&feed, node_async_init, API, API, US(203), 0, .async_id = 510, .trigger_id = queued ? 450 : 509,
             .type = 2);
        FEED_TEXT(&feed, "/back");
        FEED(&feed, http_request, API, API, US(204), 0, .fd = 8, .generation = 1, .side = 1, .method = 1);
        end_turn(&feed, 8, 500, US(200), US(210));
        feed_finish(&feed);
        const struct request *a = feed_kept(&feed, "/a");
        unsigned calls = 0;
        array_foreach (&a->spans, span)
            calls += span->kind == VSPAN_http;
        assert_int_equal(calls, queued ? 1 : 2);
        assert_int_equal(analysis_counts(feed.analysis)->ambiguous, queued);
        assert_int_equal(analysis_counts(feed.analysis)->proved, queued ? 1 : 2);
        feed_done(&feed);
    }
}

/* A child process waited for inside the callback: its own loop's turns come in between. */
static void request_around_a_nested_loop(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/sync", MS(10));
    FEED(&feed, stream_io, API, API, MS(20), US(5), .fd = 44, .generation = 1, .events = 1);
    FEED(&feed, uv_phase, API, API, MS(21), MS(5), .phase = 4);
    send_command(&feed, 1, MS(22));
    end_turn(&feed, 30, 400, MS(9), MS(23));
    feed_finish(&feed);
    const struct request *sync = feed_kept(&feed, "/sync");
    assert_int_equal(feed_span(sync, VSPAN_callback)->start_ns, MS(9) + US(1));
    assert_int_equal(feed_span(sync, VSPAN_command)->sequence, 1);
    feed_done(&feed);
}

/* Collections and synchronous calls hang below the callback they hit. */
static void collections_are_charged(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", US(100));
    FEED(&feed, v8_gc, API, API, US(160), US(50), .type = 1);
    FEED(&feed, v8_regexp, API, API, US(170), US(2));
    end_turn(&feed, 30, 400, US(98), US(200));
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    assert_int_equal(feed_span(a, VSPAN_callback)->gc_ns, US(50));
    assert_string_equal(feed_span(a, VSPAN_gc)->detail, "scavenge");
    assert_null(feed_span(a, VSPAN_regexp)); /* too short to show */
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources_pass_on_their_request),
        cmocka_unit_test(one_answer_tells_whose_callback),
        cmocka_unit_test(two_answers_are_ambiguous),
        cmocka_unit_test(reply_may_be_read_before_it_is_noted),
        cmocka_unit_test(pooled_connection_is_nobodys),
        cmocka_unit_test(answer_tells_in_hindsight),
        cmocka_unit_test(queued_call_is_not_the_callbacks),
        cmocka_unit_test(request_around_a_nested_loop),
        cmocka_unit_test(collections_are_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
