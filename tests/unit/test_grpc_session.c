/* gRPC over HTTP/2, against a client session of nghttp2: whole messages come out whatever the pieces they
 * come in; what is no message is refused with the status that gRPC has for it; nothing of a stream is left
 * behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/grpc_session.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define CALLS_MAX 4

/* What a client sent on its last stream and what it was answered. */
struct wire {
    nghttp2_session *client;
    struct grpc_session *server;
    size_t held;
    struct grpc_call *taken[16];
    size_t taken_count;
    char status[8], words[128], http[8];
    char body[256];
    size_t body_length;
    size_t piece; /* bytes that are handed over at once */
};

struct upload {
    const char *bytes;
    size_t length, at;
    bool unfinished; /* more would come */
};

static void take(void *context, struct grpc_call *call)
{
    struct wire *w = context;
    w->taken[w->taken_count++] = call;
}

static int on_header(nghttp2_session *client, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    struct wire *w = context;
    struct {
        const char *name;
        char *to;
        size_t room;
    } wanted[] = {{"grpc-status", w->status, sizeof(w->status)},
                  {"grpc-message", w->words, sizeof(w->words)},
                  {":status", w->http, sizeof(w->http)}};
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (name_length == strlen(wanted[i].name) && memcmp(name, wanted[i].name, name_length) == 0)
            snprintf(wanted[i].to, wanted[i].room, "%.*s", (int)value_length, value);
    return 0;
}

static int on_data(nghttp2_session *client, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
                   void *context)
{
    struct wire *w = context;
    assert_true(w->body_length + length <= sizeof(w->body));
    memcpy(w->body + w->body_length, bytes, length);
    w->body_length += length;
    return 0;
}

static ssize_t read_upload(nghttp2_session *client, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                           nghttp2_data_source *source, void *context)
{
    struct upload *u = source->ptr;
    size_t n = MIN(room, u->length - u->at);
    if (n == 0 && u->unfinished)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(to, u->bytes + u->at, n);
    u->at += n;
    if (u->at == u->length && !u->unfinished)
        *flags = NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void wire_init(struct wire *w, size_t message_max, size_t held_max)
{
    nghttp2_session_callbacks *callbacks;
    *w = (struct wire){.piece = SIZE_MAX};
    struct grpc_limits limits = {message_max, held_max, &w->held, CALLS_MAX};
    assert_int_equal(grpc_session_new(&limits, take, w, &w->server), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    assert_int_equal(nghttp2_session_client_new(&w->client, callbacks, w), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(w->client, NGHTTP2_FLAG_NONE, NULL, 0);
}

/* Carries bytes both ways until neither side has any. */
static void exchange(struct wire *w)
{
    const uint8_t *bytes;
    ssize_t n;
    bool any = true;
    while (any) {
        any = false;
        while ((n = nghttp2_session_mem_send(w->client, &bytes)) > 0) {
            any = true;
            for (size_t at = 0; at < (size_t)n; at += MIN(w->piece, (size_t)n - at))
                assert_int_equal(grpc_session_receive(w->server, bytes + at, MIN(w->piece, (size_t)n - at)),
                                 0);
        }
        while ((n = grpc_session_send(w->server, &bytes)) > 0) {
            any = true;
            assert_true(nghttp2_session_mem_recv(w->client, bytes, (size_t)n) == n);
        }
    }
}

#define HEADER(header, text)                                                                       \
    {                                                                                              \
        (uint8_t *)(header), (uint8_t *)(text), strlen(header), strlen(text), NGHTTP2_NV_FLAG_NONE \
    }

static int32_t send_call(struct wire *w, const char *type, const char *encoding, struct upload *upload)
{
    nghttp2_nv headers[] = {HEADER(":method", "POST"),        HEADER(":scheme", "http"),
                            HEADER(":path", "/a.B/C"),        HEADER(":authority", "localhost"),
                            HEADER("content-type", type),     HEADER("authorization", "Bearer x"),
                            HEADER("grpc-encoding", encoding)};
    nghttp2_data_provider provider = {.source.ptr = upload, .read_callback = read_upload};
    w->status[0] = w->words[0] = w->http[0] = '\0';
    w->body_length = 0;
    int32_t id = nghttp2_submit_request(w->client, NULL, headers, ARRAY_SIZE(headers), &provider, NULL);
    assert_true(id > 0);
    exchange(w);
    return id;
}

static void wire_done(struct wire *w)
{
    for (size_t i = 0; i < w->taken_count; i++)
        grpc_call_free(w->taken[i]);
    grpc_session_free(w->server);
    nghttp2_session_del(w->client);
    assert_int_equal(w->held, 0);
}

static const char HELLO[] = "\0\0\0\0\5hello";
#define HELLO_LENGTH (sizeof(HELLO) - 1)

static void a_message_comes_whole(void **state)
{
    for (size_t piece = 1; piece < 40; piece += 6) {
        struct wire w;
        wire_init(&w, 100, 1000);
        w.piece = piece;
        struct upload upload = {HELLO, HELLO_LENGTH, 0, false};
        int32_t id = send_call(&w, "application/grpc+proto", "identity", &upload);
        assert_int_equal(w.taken_count, 1);
        struct grpc_call *call = w.taken[0];
        assert_string_equal(call->path, "/a.B/C");
        assert_string_equal(call->authorization, "Bearer x");
        assert_true(call->stream == id && !call->gzip && call->length == 5);
        assert_memory_equal(call->message, "hello", 5);
        grpc_session_answer(w.server, id, GRPC_OK, NULL, "yes", 3);
        exchange(&w);
        assert_string_equal(w.status, "0");
        assert_true(w.body_length == 8 && memcmp(w.body, "\0\0\0\0\3yes", 8) == 0);
        wire_done(&w);
    }
}

static void check_refused(const char *bytes, size_t length, const char *encoding, const char *status)
{
    struct wire w;
    struct upload upload = {bytes, length, 0, false};
    wire_init(&w, 8, 10);
    send_call(&w, "application/grpc", encoding, &upload);
    assert_int_equal(w.taken_count, 0);
    assert_string_equal(w.status, status);
    assert_true(w.words[0] != '\0');
    wire_done(&w);
}

static void what_is_no_message_is_refused(void **state)
{
    check_refused("", 0, "identity", "13");
    check_refused("\0\0\0", 3, "identity", "13");
    check_refused("\0\0\0\0\4hello", 10, "identity", "13"); /* more than it says */
    check_refused("\0\0\0\0\6hello", 10, "identity", "13");
    check_refused("\2\0\0\0\5hello", 10, "identity", "13");
    check_refused("\1\0\0\0\5hello", 10, "identity", "13"); /* compressed, but it does not say how */
    check_refused("\0\0\0\0\5hello", 10, "br", "12");
    check_refused("\0\0\0\0\11too large", 14, "identity", "8");
    check_refused("\0\0\0\0\6hello!", 11, "identity", "14"); /* more than may be held */
}

static void what_is_no_grpc_is_told_so(void **state)
{
    struct wire w;
    struct upload upload = {HELLO, HELLO_LENGTH, 0, false};
    wire_init(&w, 100, 1000);
    send_call(&w, "application/json", "identity", &upload);
    assert_string_equal(w.http, "415");
    assert_int_equal(w.taken_count, 0);
    wire_done(&w);
    wire_init(&w, 100, 1000);
    assert_true(grpc_session_receive(w.server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n", 30) < 0);
    wire_done(&w);
}

static void errors_have_their_words(void **state)
{
    struct wire w;
    struct upload upload = {HELLO, HELLO_LENGTH, 0, false};
    wire_init(&w, 100, 1000);
    int32_t id = send_call(&w, "application/grpc", "gzip", &upload);
    assert_false(w.taken[0]->gzip); /* it might have been compressed, and was not */
    grpc_session_answer(w.server, id, GRPC_INVALID_ARGUMENT, "100 % wrong\n", NULL, 0);
    exchange(&w);
    assert_string_equal(w.status, "3");
    assert_string_equal(w.words, "100 %25 wrong%0A");
    wire_done(&w);
}

/* Calls are answered in any order; no more than the limit are taken at once. */
static void calls_are_limited(void **state)
{
    struct wire w;
    struct upload uploads[CALLS_MAX];
    int32_t ids[CALLS_MAX];
    wire_init(&w, 100, 1000);
    for (int i = 0; i < CALLS_MAX; i++) {
        uploads[i] = (struct upload){HELLO, HELLO_LENGTH, 0, false};
        ids[i] = send_call(&w, "application/grpc", "identity", &uploads[i]);
    }
    assert_int_equal(w.taken_count, CALLS_MAX);
    /* The client gives one up: its stream is free, but its call is still handled. */
    nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE, ids[1], NGHTTP2_CANCEL);
    struct upload more = {HELLO, HELLO_LENGTH, 0, false};
    send_call(&w, "application/grpc", "identity", &more);
    assert_string_equal(w.status, "14");
    grpc_session_answer(w.server, ids[1], GRPC_OK, NULL, NULL, 0);
    for (int i = CALLS_MAX - 1; i >= 0; i--)
        if (i != 1)
            grpc_session_answer(w.server, ids[i], GRPC_OK, NULL, NULL, 0);
    exchange(&w);
    assert_string_equal(w.status, "0");
    more.at = 0;
    send_call(&w, "application/grpc", "identity", &more);
    assert_int_equal(w.taken_count, CALLS_MAX + 1);
    wire_done(&w);
}

static void nothing_is_left_of_what_was_not_finished(void **state)
{
    struct wire w;
    struct upload upload = {HELLO, 7, 0, true};
    wire_init(&w, 100, 1000);
    int32_t id = send_call(&w, "application/grpc", "identity", &upload);
    assert_true(w.held > 0);
    nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    exchange(&w);
    assert_int_equal(w.held, 0);
    send_call(&w, "application/grpc", "identity", &(struct upload){HELLO, 7, 0, true});
    assert_true(w.held > 0);
    wire_done(&w); /* with a stream that is open */
}

static void it_ends_when_asked_to(void **state)
{
    struct wire w;
    wire_init(&w, 100, 1000);
    exchange(&w);
    assert_false(grpc_session_is_over(w.server));
    grpc_session_end(w.server);
    exchange(&w);
    assert_true(grpc_session_is_over(w.server));
    wire_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_comes_whole),
                                       cmocka_unit_test(what_is_no_message_is_refused),
                                       cmocka_unit_test(what_is_no_grpc_is_told_so),
                                       cmocka_unit_test(errors_have_their_words),
                                       cmocka_unit_test(calls_are_limited),
                                       cmocka_unit_test(nothing_is_left_of_what_was_not_finished),
                                       cmocka_unit_test(it_ends_when_asked_to)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
