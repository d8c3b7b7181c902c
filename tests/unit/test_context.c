/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, REDIS = 20, GET = 1 };

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_process(feed, REDIS, 2, "redis", US(1));
    feed_name(feed, REDIS, GET, "get", US(1));
    feed_name(feed, API, 2, "WRITEWRAP", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, 6379, US(2));
    feed_connection(feed, REDIS, 9, 1, 3, 6379, 50000, US(2));
}

static void request(struct feed *feed, int32_t fd, const char *path, uint32_t context, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1, .context = context);
}

static void send_command(struct feed *feed, uint64_t number, uint32_t context, uint64_t at)
{
    FEED(feed, stream_write, API, API, at, 0, .fd = 7, .generation = 1, .bytes = 30, .messages = 1,
         .first_message = number, .context = context);
}

static void end_turn(struct feed *feed, int32_t fd, uint64_t async_id, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = async_id);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

static void answer(struct feed *feed, int32_t fd, uint64_t at)
{
    FEED(feed, http_response, API, API, at, 0, .fd = fd, .generation = 1, .status = 200, .header_bytes = 40,
         .content_length = 0);
    FEED(feed, stream_write, API, API, at, 0, .fd = fd, .generation = 1, .bytes = 40);
}

static void worked(struct feed *feed, uint64_t number, uint64_t at)
{
    FEED(feed, redis_command, REDIS, REDIS, at, US(1), .client_id = 3, .sequence = number, .name = GET);
}

static void executed(struct feed *feed, uint64_t number, uint64_t at)
{
    worked(feed, number, at);
    FEED(feed, redis_write_reply, REDIS, REDIS, at + US(1), US(1), .client_id = 3);
}

/* Two requests with a command each; then a turn that brings both replies. */
static void two_in_flight(struct feed *feed)
{
    start(feed);
    request(feed, 30, "/a", 2, US(100));
    send_command(feed, 1, 2, US(103));
    end_turn(feed, 30, 400, US(98), US(110));
    request(feed, 31, "/b", 3, US(112));
    send_command(feed, 2, 3, US(113));
    end_turn(feed, 31, 401, US(111), US(115));
    executed(feed, 1, US(120));
    executed(feed, 2, US(125));
}

static uint64_t last_command(struct feed *feed, const char *path, uint8_t *ret_known)
{
    const struct request *r = feed_kept(feed, path);
    for (size_t i = r->spans.count; i-- > 0;)
        if (r->spans.at[i].kind == VSPAN_command) {
            *ret_known = r->spans.at[i].known;
            return r->spans.at[i].sequence;
        }
    return 0;
}

/* What asynchronous ids cannot tell apart, the contexts do, in whatever order the code goes on. */
static void commands_follow_their_context(void **state)
{
    struct feed feed;
    uint8_t known;
    two_in_flight(&feed);
    send_command(&feed, 3, 3, US(152));
    send_command(&feed, 4, 2, US(153));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    assert_int_equal(last_command(&feed, "/a", &known), 4);
    assert_int_equal(known, KNOWN_PROVED);
    assert_int_equal(last_command(&feed, "/b", &known), 3);
    assert_int_equal(known, KNOWN_PROVED);
    const struct analysis_counts *c = analysis_counts(feed.analysis);
    assert_int_equal(c->proved, 4);
    assert_int_equal(c->told, 2);
    assert_int_equal(c->ambiguous, 0);
    feed_done(&feed);
}

/* Where it was lost, one command and one answer would say a lot, and wrongly. */
static void what_is_lost_is_ambiguous(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", 2, US(100));
    send_command(&feed, 1, 2, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    executed(&feed, 1, US(120));
    send_command(&feed, 2, SONDE_CONTEXT_LOST, US(152));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    uint8_t known;
    assert_int_equal(last_command(&feed, "/a", &known), 1);
    const struct analysis_counts *c = analysis_counts(feed.analysis);
    assert_int_equal(c->proved, 1);
    assert_int_equal(c->inferred, 0);
    assert_int_equal(c->ambiguous, 1);
    feed_done(&feed);
}

/* A W3C trace context is the request's whose number it carries. */
static void trace_ids_are_the_requests(void **state)
{
    struct feed feed;
    start(&feed);
    request(&feed, 30, "/a", 2, US(100));
    FEED(&feed, http_trace, API, API, US(101), 0, .trace_high = 0x4bf92f3577b34da6,
         .trace_low = 0xa3ce929d0e0e4736, .parent = 0x00f067aa0ba902b7, .context = 2);
    FEED(&feed, http_trace, API, API, US(102), 0, .trace_high = 1, .trace_low = 1, .parent = 1, .context = 9);
    answer(&feed, 30, US(104));
    end_turn(&feed, 30, 400, US(98), US(110));
    feed_finish(&feed);
    assert_int_equal(feed_kept(&feed, "/a")->trace_high, 0x4bf92f3577b34da6);
    assert_int_equal(feed_kept(&feed, "/a")->trace_parent, 0x00f067aa0ba902b7);
    feed_done(&feed);
}

/* A number that no request has, or whose request is answered, gives nothing to anybody. */
static void foreign_numbers_prove_nothing(void **state)
{
    struct feed feed;
    uint8_t known;
    two_in_flight(&feed);
    send_command(&feed, 3, 99, US(152));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    assert_int_equal(last_command(&feed, "/a", &known), 1);
    assert_int_equal(last_command(&feed, "/b", &known), 2);
    assert_int_equal(analysis_counts(feed.analysis)->outside, 1);
    feed_done(&feed);
}

/* What stood in a stream's buffer is written when the write before it is done, in the context of that one. */
static void buffered_writes_are_ambiguous(void **state)
{
    struct feed feed;
    uint8_t known;
    two_in_flight(&feed);
    FEED(&feed, node_async_init, API, API, US(130), 0, .async_id = 700, .trigger_id = 1, .type = 2);
    FEED(&feed, uv_phase, API, API, US(131), US(1), .phase = 4);
    send_command(&feed, 3, 2, US(152));
    end_turn(&feed, 7, 700, US(150), US(160));
    feed_finish(&feed);
    assert_int_equal(last_command(&feed, "/a", &known), 1);
    assert_int_equal(analysis_counts(feed.analysis)->ambiguous, 1);
    feed_done(&feed);
}

/* A queue of the program's own: a's code sends for b. That b is answered when only a's command is shows it.
 */
static void contradicted_contexts_prove_nothing(void **state)
{
    struct feed feed;
    uint8_t known;
    start(&feed);
    request(&feed, 30, "/a", 2, US(100));
    send_command(&feed, 1, 2, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    request(&feed, 31, "/b", 3, US(112));
    end_turn(&feed, 31, 401, US(111), US(115));
    executed(&feed, 1, US(120));
    send_command(&feed, 2, 2, US(152)); /* b's, from the queue */
    answer(&feed, 30, US(154));
    end_turn(&feed, 7, 300, US(150), US(160));
    executed(&feed, 2, US(170));
    answer(&feed, 31, US(184));
    end_turn(&feed, 7, 300, US(180), US(190));
    feed_finish(&feed);
    assert_int_equal(last_command(&feed, "/a", &known), 2);
    assert_int_equal(known, KNOWN_AMBIGUOUS);
    const struct analysis_counts *c = analysis_counts(feed.analysis);
    assert_int_equal(c->handovers, 1);
    assert_int_equal(c->proved, 1); /* sent in a's own callback */
    assert_int_equal(c->ambiguous, 1);
    assert_int_equal(c->told, 0);
    feed_done(&feed);
}

/* Without a handover nothing is doubted: each is answered when its own command is. */
static void answers_that_fit_are_no_contradiction(void **state)
{
    struct feed feed;
    two_in_flight(&feed);
    answer(&feed, 31, US(152));
    answer(&feed, 30, US(153));
    end_turn(&feed, 7, 300, US(150), US(160));
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->handovers, 0);
    assert_int_equal(analysis_counts(feed.analysis)->proved, 2);
    feed_done(&feed);
}

/* Redis lost its CPU between its write and the note of it: the replies were read meanwhile, and are no
 * part of what the next read brings. */
static void replies_read_before_they_are_noted(void **state)
{
    struct feed feed;
    uint8_t known;
    start(&feed);
    request(&feed, 30, "/a", 2, US(100));
    send_command(&feed, 1, 2, US(103));
    end_turn(&feed, 30, 400, US(98), US(110));
    executed(&feed, 1, US(120));
    send_command(&feed, 2, 2, US(133));
    send_command(&feed, 3, 2, US(134));
    end_turn(&feed, 7, 300, US(130), US(140));
    worked(&feed, 2, US(150));
    worked(&feed, 3, US(155));
    answer(&feed, 30, US(165));
    end_turn(&feed, 7, 300, US(160), US(170));
    FEED(&feed, redis_write_reply, REDIS, REDIS, US(200), US(44), .client_id = 3);
    request(&feed, 31, "/b", 3, US(300));
    send_command(&feed, 4, 3, US(303));
    end_turn(&feed, 31, 401, US(298), US(310));
    worked(&feed, 4, US(320));
    send_command(&feed, 5, 3, US(335)); /* its own command's answer came */
    end_turn(&feed, 7, 300, US(330), US(340));
    FEED(&feed, redis_write_reply, REDIS, REDIS, US(350), US(25), .client_id = 3);
    executed(&feed, 5, US(360));
    answer(&feed, 31, US(375));
    end_turn(&feed, 7, 300, US(370), US(380));
    feed_finish(&feed);
    assert_int_equal(analysis_counts(feed.analysis)->handovers, 0);
    assert_int_equal(last_command(&feed, "/b", &known), 5);
    assert_int_equal(known, KNOWN_PROVED);
    feed_done(&feed);
}

/* The write of b's second reply returns when the read of both has begun. b goes on in that turn, so the reply
 * was read there, and the next read brings a's third only, whose write is recorded late. */
static void a_reply_written_as_the_read_begins_was_read(void **state)
{
    struct feed feed;
    two_in_flight(&feed);
    send_command(&feed, 3, 2, US(152));
    send_command(&feed, 4, 3, US(153));
    end_turn(&feed, 7, 300, US(150), US(160));
    executed(&feed, 3, US(170));
    worked(&feed, 4, US(176));
    FEED(&feed, redis_write_reply, REDIS, REDIS, US(181), US(4), .client_id = 3);
    send_command(&feed, 5, 2, US(184));
    send_command(&feed, 6, 3, US(185));
    end_turn(&feed, 7, 300, US(180), US(190));
    worked(&feed, 5, US(195));
    answer(&feed, 30, US(204));
    end_turn(&feed, 7, 300, US(200), US(210));
    FEED(&feed, redis_write_reply, REDIS, REDIS, US(215), US(19), .client_id = 3);
    executed(&feed, 6, US(220));
    answer(&feed, 31, US(234));
    end_turn(&feed, 7, 300, US(230), US(240));
    feed_finish(&feed);
    const struct analysis_counts *c = analysis_counts(feed.analysis);
    assert_int_equal(c->handovers, 0);
    assert_int_equal(c->ambiguous, 0);
    assert_int_equal(c->proved, 6);
    const struct request *b = feed_kept(&feed, "/b");
    for (size_t i = 0; i < b->spans.count; i++)
        if (b->spans.at[i].kind == VSPAN_command && b->spans.at[i].sequence == 4)
            assert_int_equal(b->spans.at[i].end_ns, US(180));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_is_ambiguous),
        cmocka_unit_test(commands_follow_their_context),
        cmocka_unit_test(trace_ids_are_the_requests),
        cmocka_unit_test(foreign_numbers_prove_nothing),
        cmocka_unit_test(buffered_writes_are_ambiguous),
        cmocka_unit_test(contradicted_contexts_prove_nothing),
        cmocka_unit_test(answers_that_fit_are_no_contradiction),
        cmocka_unit_test(a_reply_written_as_the_read_begins_was_read),
        cmocka_unit_test(replies_read_before_they_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
