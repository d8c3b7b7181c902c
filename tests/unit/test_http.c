/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, GATEWAY = 20 };

static void get(struct feed *feed, int64_t pid, int32_t fd, uint8_t side, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, pid, pid, at, 0, .fd = fd, .generation = 1, .method = 1, .side = side);
}

static void response(struct feed *feed, int32_t fd, uint16_t status, uint64_t headers, int64_t content,
                     uint64_t at)
{
    FEED(feed, http_response, API, API, at, 0, .fd = fd, .generation = 1, .status = status,
         .header_bytes = headers, .content_length = content);
}

static void bytes(struct feed *feed, int32_t fd, uint64_t count, uint8_t last_chunk, uint64_t at)
{
    FEED(feed, stream_write, API, API, at, 0, .fd = fd, .generation = 1, .bytes = count,
         .last_chunk = last_chunk);
}

static void turn(struct feed *feed, int32_t fd, uint64_t start, uint64_t end)
{
    FEED(feed, stream_io, API, API, end, end - start, .fd = fd, .generation = 1, .events = 1);
}

static void assert_answered(struct feed *feed, const char *path, uint16_t status, uint64_t end_ns)
{
    const struct request *request = feed_kept(feed, path);
    if (!request)
        fail_msg("%s was not kept", path);
    assert_int_equal(request->state, REQUEST_FINISHED);
    assert_int_equal(request->status, status);
    assert_int_equal(request->end_ns, end_ns);
}

/* The response is complete with its last byte, over several writes. */
static void ends_with_its_content(void **state)
{
    struct feed feed;
    feed_init(&feed);
    get(&feed, API, 5, 0, "/a", US(10));
    response(&feed, 5, 200, 100, 900, US(20));
    bytes(&feed, 5, 100, 0, US(20));
    turn(&feed, 5, US(9), US(25));
    bytes(&feed, 5, 899, 0, US(30));
    bytes(&feed, 5, 1, 0, US(40));
    turn(&feed, 5, US(29), US(45));
    feed_finish(&feed);
    assert_answered(&feed, "/a", 200, US(40));
    assert_int_equal(feed_kept(&feed, "/a")->response_ns, US(20));
    feed_done(&feed);
}

static void ends_with_the_last_chunk(void **state)
{
    struct feed feed;
    feed_init(&feed);
    get(&feed, API, 5, 0, "/a", US(10));
    response(&feed, 5, 200, 100, -1, US(20));
    bytes(&feed, 5, 5000, 0, US(20));
    bytes(&feed, 5, 5, 1, US(30));
    turn(&feed, 5, US(9), US(35));
    feed_finish(&feed);
    assert_answered(&feed, "/a", 200, US(30));
    feed_done(&feed);
}

/* Responses that have no body whatever their headers say, and an informational one before the real one. */
static void ends_with_the_header(void **state)
{
    struct feed feed;
    feed_init(&feed);
    get(&feed, API, 5, 0, "/none", US(10));
    response(&feed, 5, 100, 20, -1, US(15));
    bytes(&feed, 5, 20, 0, US(15));
    response(&feed, 5, 204, 80, -1, US(20));
    bytes(&feed, 5, 80, 0, US(21));
    turn(&feed, 5, US(9), US(25));
    FEED_TEXT(&feed, "/head");
    FEED(&feed, http_request, API, API, US(30), 0, .fd = 5, .generation = 1, .method = 2);
    response(&feed, 5, 200, 80, 5000, US(40));
    bytes(&feed, 5, 80, 0, US(41));
    turn(&feed, 5, US(29), US(45));
    feed_finish(&feed);
    assert_answered(&feed, "/none", 204, US(21));
    assert_answered(&feed, "/head", 200, US(41));
    feed_done(&feed);
}

/* Pipelined requests are answered in order. A response of unknown length ends where the next one begins, or
 * with the connection. */
static void answers_come_in_order(void **state)
{
    struct feed feed;
    feed_init(&feed);
    get(&feed, API, 5, 0, "/1", US(10));
    get(&feed, API, 5, 0, "/2", US(11));
    get(&feed, API, 5, 0, "/3", US(12));
    turn(&feed, 5, US(9), US(13));
    response(&feed, 5, 201, 100, 10, US(20));
    bytes(&feed, 5, 110, 0, US(21));
    response(&feed, 5, 202, 100, -1, US(30));
    bytes(&feed, 5, 400, 0, US(31));
    response(&feed, 5, 203, 100, -1, US(40));
    bytes(&feed, 5, 500, 0, US(41));
    FEED(&feed, stream_close, API, API, US(50), 0, .fd = 5, .generation = 1);
    turn(&feed, 5, US(19), US(55));
    feed_finish(&feed);
    assert_answered(&feed, "/1", 201, US(21));
    assert_answered(&feed, "/2", 202, US(31));
    assert_answered(&feed, "/3", 203, US(41));
    feed_done(&feed);
}

static void closed_without_answer(void **state)
{
    struct feed feed;
    feed_init(&feed);
    get(&feed, API, 5, 0, "/gone", US(10));
    turn(&feed, 5, US(9), US(13));
    FEED(&feed, stream_close, API, API, US(50), 0, .fd = 5, .generation = 1);
    turn(&feed, 5, US(49), US(55));
    get(&feed, API, 6, 0, "/open", US(60));
    feed_finish(&feed);
    assert_int_equal(feed_kept(&feed, "/gone")->state, REQUEST_ABORTED);
    assert_int_equal(feed_kept(&feed, "/open")->state, REQUEST_UNFINISHED);
    feed_done(&feed);
}

/* The request another service received hangs below the call, whichever record came first; the next call on
 * the same connection has its own. */
static void calls_are_joined(void **state)
{
    for (int early = 0; early < 2; early++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        feed_process(&feed, GATEWAY, 1, "gateway", US(1));
        feed_connection(&feed, GATEWAY, 7, 1, 1, 50000, 8080, US(2));
        feed_connection(&feed, API, 5, 1, 2, 8080, 50000, US(2));
        get(&feed, GATEWAY, 3, 0, "/front", US(100));
        if (!early)
            get(&feed, GATEWAY, 7, 1, "/back/1", US(110));
        get(&feed, API, 5, 0, "/back/1", US(111));
        if (early)
            get(&feed, GATEWAY, 7, 1, "/back/1", US(112));
        FEED(&feed, node_callback, GATEWAY, GATEWAY, US(115), US(20), .async_id = 9);
        FEED(&feed, stream_io, GATEWAY, GATEWAY, US(116), US(22), .fd = 3, .generation = 1, .events = 1);
        response(&feed, 5, 200, 100, 0, US(120));
        bytes(&feed, 5, 100, 0, US(121));
        turn(&feed, 5, US(110), US(122));
        FEED(&feed, http_response, GATEWAY, GATEWAY, US(130), 0, .fd = 7, .generation = 1, .status = 200,
             .side = 1);
        FEED(&feed, http_end, GATEWAY, GATEWAY, US(131), 0, .fd = 7, .generation = 1, .side = 1);
        FEED(&feed, stream_io, GATEWAY, GATEWAY, US(132), US(3), .fd = 7, .generation = 1, .events = 1);
        get(&feed, GATEWAY, 7, 1, "/back/2", US(140));
        get(&feed, API, 5, 0, "/back/2", US(141));
        feed_finish(&feed);
        const struct request *front = feed_kept(&feed, "/front");
        const struct vspan *call = feed_span(front, VSPAN_http);
        assert_non_null(call);
        assert_string_equal(call->name, "GET /back/:id");
        assert_int_equal(call->end_ns, US(131));
        assert_int_equal(call->known, KNOWN_PROVED);
        assert_non_null(call->child);
        assert_string_equal(call->child->path, "/back/1");
        assert_ptr_equal(call->child->caller, front);
        assert_true(call->start_ns <= call->child->start_ns);
        assert_int_equal(analysis_counts(feed.analysis)->http_joined, 2);
        feed_done(&feed);
    }
}

/* A peer that listens on a port of the range of clients: who speaks first asks. The other way round, and
 * where others came to the same port, it is a server. */
static void who_speaks_first_asks(void **state)
{
    static const struct {
        bool read_first, another;
        int exchanges;
    } CASES[] = {{false, false, 1}, {true, false, 0}, {false, true, 0}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        feed_connection(&feed, API, 7, 1, 70, 45001, 46365, US(2));
        if (CASES[i].another)
            feed_connection(&feed, API, 8, 1, 80, 45001, 47000, US(3));
        if (CASES[i].read_first)
            turn(&feed, 7, US(3), US(5));
        get(&feed, API, 5, 0, "/a", US(10));
        bytes(&feed, 7, 9, 0, US(20));
        FEED(&feed, node_callback, API, API, US(25), US(15), .async_id = 1000);
        turn(&feed, 5, US(9), US(26));
        turn(&feed, 7, US(200), US(205));
        get(&feed, API, 6, 0, "/b", US(210));
        feed_finish(&feed);
        const struct request *request = feed_kept(&feed, "/a");
        int exchanges = 0;
        array_foreach (&request->spans, span)
            exchanges += span->kind == VSPAN_other;
        assert_int_equal(exchanges, CASES[i].exchanges);
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_its_content), cmocka_unit_test(ends_with_the_last_chunk),
        cmocka_unit_test(ends_with_the_header),  cmocka_unit_test(answers_come_in_order),
        cmocka_unit_test(closed_without_answer), cmocka_unit_test(calls_are_joined),
        cmocka_unit_test(who_speaks_first_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
