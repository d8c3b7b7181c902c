/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { GATEWAY = 10, SERVICE = 11, STREAM_TYPE = 1 };
static const uint64_t CLIENT = 0x1000, SERVER = 0x2000;

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, GATEWAY, 1, "gateway", US(1));
    feed_process(feed, SERVICE, 1, "service", US(1));
    feed_name(feed, SERVICE, STREAM_TYPE, "HTTP2STREAM", US(2));
    feed_connection(feed, GATEWAY, 5, 1, 1, 40000, 3000, US(3));
    feed_connection(feed, GATEWAY, 20, 1, 3, 8080, 41000, US(3));
    feed_connection(feed, SERVICE, 6, 1, 2, 3000, 40000, US(4));
    FEED(feed, http_session, GATEWAY, GATEWAY, US(5), 0, .session = CLIENT, .generation = 1, .fd = 5);
    FEED(feed, http_session, SERVICE, SERVICE, US(6), 0, .session = SERVER, .generation = 1, .fd = 6);
}

/* A request to the gateway, in whose callback a stream is sent. */
static void ask(struct feed *feed, int32_t fd, const char *path, uint32_t stream, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, GATEWAY, GATEWAY, at, 0, .fd = fd, .generation = 1, .method = 1);
    FEED_TEXT(feed, path);
    FEED(feed, http_request, GATEWAY, GATEWAY, at + US(10), 0, .parser = CLIENT, .fd = -1, .stream = stream,
         .side = 1, .method = 1);
    FEED(feed, node_callback, GATEWAY, GATEWAY, at + US(20), US(30), .async_id = 100 + stream);
    FEED(feed, stream_io, GATEWAY, GATEWAY, at + US(21), US(40), .fd = fd, .generation = 1, .events = 1);
}

static void receive(struct feed *feed, const char *path, uint32_t stream, uint64_t at)
{
    FEED(feed, node_async_init, SERVICE, SERVICE, at, 0, .async_id = 1000 + stream, .type = STREAM_TYPE);
    FEED_TEXT(feed, path);
    FEED(feed, http_request, SERVICE, SERVICE, at + US(2), 0, .parser = SERVER, .resource = 1000 + stream,
         .fd = 6, .generation = 1, .stream = stream, .method = 1);
    FEED(feed, node_callback, SERVICE, SERVICE, at + US(5), US(4), .async_id = 50);
}

static void respond(struct feed *feed, uint32_t stream, uint16_t status, uint64_t at)
{
    FEED(feed, http_response, SERVICE, SERVICE, at, 0, .parser = SERVER, .fd = -1, .stream = stream,
         .status = status);
    FEED(feed, http_end, SERVICE, SERVICE, at + US(1), 0, .parser = SERVER, .fd = -1, .stream = stream);
    FEED(feed, uv_phase, SERVICE, SERVICE, at + US(5), US(10), .phase = 0);
}

/* Two streams at a time, answered in the other order; the second's data come in the turn of the first. */
static void streams_on_one_connection_are_told_apart(void **state)
{
    struct feed feed;
    start(&feed);
    ask(&feed, 20, "/one", 1, MS(1));
    feed_connection(&feed, GATEWAY, 21, 1, 4, 8080, 41001, MS(2) - US(50));
    ask(&feed, 21, "/two", 3, MS(2));
    receive(&feed, "/one", 1, MS(3));
    receive(&feed, "/two", 3, MS(3) + US(10));
    /* Data of the first stream: its own callback, which opens a file. */
    FEED(&feed, uv_submit, SERVICE, SERVICE, MS(3) + US(22), 0, .request = 7, .fd = -1, .kind = 1);
    FEED(&feed, node_callback, SERVICE, SERVICE, MS(3) + US(24), US(3), .async_id = 1001);
    FEED(&feed, stream_io, SERVICE, SERVICE, MS(3) + US(30), US(40), .fd = 6, .generation = 1, .events = 1);
    respond(&feed, 3, 404, MS(10));
    respond(&feed, 1, 200, MS(20));
    const uint32_t order[] = {3, 1};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = MS(21) + MS(i);
        FEED(&feed, http_response, GATEWAY, GATEWAY, at, 0, .parser = CLIENT, .fd = 5, .generation = 1,
             .stream = order[i], .status = 200, .side = 1);
        FEED(&feed, http_end, GATEWAY, GATEWAY, at + US(1), 0, .parser = CLIENT, .fd = 5, .generation = 1,
             .stream = order[i], .side = 1);
        FEED(&feed, http_response, GATEWAY, GATEWAY, at + US(5), 0, .fd = order[i] == 1 ? 20 : 21,
             .generation = 1, .status = 200, .header_bytes = 100, .content_length = 0);
        FEED(&feed, stream_write, GATEWAY, GATEWAY, at + US(6), 0, .fd = order[i] == 1 ? 20 : 21,
             .generation = 1, .bytes = 100, .result = 100);
        FEED(&feed, node_callback, GATEWAY, GATEWAY, at + US(8), US(6), .async_id = 60);
        FEED(&feed, stream_io, GATEWAY, GATEWAY, at + US(9), US(10), .fd = 5, .generation = 1, .events = 1);
    }
    feed_finish(&feed);
    size_t count;
    const struct request *const *requests = analysis_requests(feed.analysis, &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        const struct request *r = requests[i];
        bool one = strcmp(r->path, "/one") == 0;
        assert_int_equal(r->state, REQUEST_FINISHED);
        if (r->pid == SERVICE) {
            assert_int_equal(r->status, one ? 200 : 404);
            assert_int_equal(r->stream, one ? 1 : 3);
            assert_int_equal(feed_span(r, VSPAN_pool) != NULL, one);
            continue;
        }
        const struct vspan *call = feed_span(r, VSPAN_http);
        assert_non_null(call);
        assert_non_null(call->child);
        assert_string_equal(call->child->path, r->path);
        assert_string_equal(call->peer, "127.0.0.1:3000");
        assert_int_equal(call->end_ns, one ? MS(22) + US(1) : MS(21) + US(1));
    }
    feed_done(&feed);
}

/* gRPC: HTTP says 200 of every call; how it ended is said behind the content. */
static void grpc_calls_have_their_own_status(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(100 * (i + 1));
        uint32_t stream = 2 * i + 1;
        uint8_t status = i == 3 ? 5 : i ? 14 : 0; /* not found is no error of the server's */
        ask(&feed, 20, "/shop.Stock/Get", stream, at);
        receive(&feed, "/shop.Stock/Get", stream, at + MS(1));
        FEED(&feed, stream_io, SERVICE, SERVICE, at + MS(1) + US(30), US(40), .fd = 6, .generation = 1,
             .events = 1);
        FEED(&feed, http_grpc, SERVICE, SERVICE, at + MS(2), 0, .session = SERVER, .stream = stream,
             .status = status);
        respond(&feed, stream, 200, at + MS(2) + US(1));
        FEED(&feed, http_response, GATEWAY, GATEWAY, at + MS(3), 0, .parser = CLIENT, .fd = 5,
             .generation = 1, .stream = stream, .status = 200, .side = 1);
        FEED(&feed, http_grpc, GATEWAY, GATEWAY, at + MS(3) + US(1), 0, .session = CLIENT, .stream = stream,
             .status = status, .side = 1);
        FEED(&feed, http_end, GATEWAY, GATEWAY, at + MS(3) + US(2), 0, .parser = CLIENT, .fd = 5,
             .generation = 1, .stream = stream, .side = 1);
        FEED(&feed, http_response, GATEWAY, GATEWAY, at + MS(3) + US(5), 0, .fd = 20, .generation = 1,
             .status = status ? 502 : 200, .header_bytes = 100, .content_length = 0);
        FEED(&feed, stream_write, GATEWAY, GATEWAY, at + MS(3) + US(6), 0, .fd = 20, .generation = 1,
             .bytes = 100, .result = 100);
        FEED(&feed, node_callback, GATEWAY, GATEWAY, at + MS(3) + US(8), US(7), .async_id = 60);
        FEED(&feed, stream_io, GATEWAY, GATEWAY, at + MS(3) + US(9), US(10), .fd = 5, .generation = 1,
             .events = 1);
    }
    feed_finish(&feed);
    size_t errors = 0;
    array_foreach (&feed.report.findings, place) {
        const struct finding *f = *place;
        if (f->kind != FINDING_server_errors || strcmp(f->where.service, "service") != 0)
            continue;
        errors++;
        assert_string_equal(finding_get_evidence(f, "status")->text, "UNAVAILABLE (gRPC status 14)");
        assert_int_equal(finding_get_evidence(f, "errors_count")->count, 2);
        assert_int_equal(finding_get_evidence(f, "requests_count")->count, 4);
        assert_int_equal(f->affected_count, 4); /* with the gateway's, which passed it on */
    }
    assert_int_equal(errors, 1);
    feed_done(&feed);
}

static void a_closed_connection_ends_its_streams(void **state)
{
    struct feed feed;
    start(&feed);
    receive(&feed, "/lost", 1, MS(3));
    FEED(&feed, stream_io, SERVICE, SERVICE, MS(3) + US(30), US(40), .fd = 6, .generation = 1, .events = 1);
    FEED(&feed, stream_close, SERVICE, SERVICE, MS(9), 0, .fd = 6, .generation = 1);
    /* The session's memory is used again, by another connection: its stream 1 is another request. */
    feed_connection(&feed, SERVICE, 6, 2, 9, 3000, 42000, MS(10));
    FEED(&feed, http_session, SERVICE, SERVICE, MS(10), 0, .session = SERVER, .generation = 2, .fd = 6);
    receive(&feed, "/next", 1, MS(11));
    respond(&feed, 1, 200, MS(12));
    feed_finish(&feed);
    assert_int_equal(feed_kept(&feed, "/lost")->state, REQUEST_ABORTED);
    assert_int_equal(feed_kept(&feed, "/lost")->end_ns, MS(9));
    assert_int_equal(feed_kept(&feed, "/next")->state, REQUEST_FINISHED);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_on_one_connection_are_told_apart),
        cmocka_unit_test(grpc_calls_have_their_own_status),
        cmocka_unit_test(a_closed_connection_ends_its_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
