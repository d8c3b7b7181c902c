/* See grpc_session.h. HTTP/2 itself is nghttp2's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/grpc_session.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES 5
#define WINDOW      (1 << 20) /* bytes that may be under way, of a stream and of all */
#define WORDS_MAX   256       /* of grpc-message, before it is escaped */

struct grpc_session {
    nghttp2_session *http;
    struct grpc_limits limits;
    void (*take)(void *context, struct grpc_call *call);
    void *context;
    unsigned calls; /* that were taken and are not answered */
    struct stream *streams;
};

/* One that is open. */
struct stream {
    struct stream *next, **self; /* in the session's list */
    struct grpc_call *call;      /* while its message arrives */
    bool is_grpc, is_post, unknown_encoding, answered;
    char *answer; /* framed */
    size_t answer_length, answer_at;
};

/* ---- calls ---- */

void grpc_call_free(struct grpc_call *call)
{
    if (!call)
        return;
    __atomic_sub_fetch(call->held, call->capacity, __ATOMIC_RELAXED);
    free(call->framed);
    free(call);
}

static void stream_free(struct stream *s)
{
    if (!s)
        return;
    if (s->self)
        *s->self = s->next;
    if (s->next)
        s->next->self = s->self;
    grpc_call_free(s->call);
    free(s->answer);
    free(s);
}

static void list_stream(struct grpc_session *session, struct stream *s)
{
    s->next = session->streams;
    s->self = &session->streams;
    if (s->next)
        s->next->self = &s->next;
    session->streams = s;
}

/* Room for `more` bytes of the message; GRPC_OK or why there is none. */
static enum grpc_status reserve(struct grpc_session *session, struct grpc_call *call, size_t more)
{
    size_t most = session->limits.message_max + FRAME_BYTES;
    if (more > most - call->length)
        return GRPC_RESOURCE_EXHAUSTED;
    size_t need = call->length + more;
    if (need <= call->capacity)
        return GRPC_OK;
    size_t capacity = MIN(MAX(need, call->capacity * 2), most), added = capacity - call->capacity;
    if (__atomic_add_fetch(call->held, added, __ATOMIC_RELAXED) > session->limits.held_max) {
        __atomic_sub_fetch(call->held, added, __ATOMIC_RELAXED);
        return GRPC_UNAVAILABLE;
    }
    char *grown = realloc(call->framed, capacity);
    if (!grown) {
        __atomic_sub_fetch(call->held, added, __ATOMIC_RELAXED);
        return GRPC_UNAVAILABLE;
    }
    call->framed = grown;
    call->capacity = capacity;
    return GRPC_OK;
}

/* Whether what came is one message, whole. */
static bool unframe(struct grpc_call *call)
{
    const uint8_t *at = (const uint8_t *)call->framed;
    if (call->length < FRAME_BYTES || at[0] > 1)
        return false;
    uint32_t length = (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
    if (length != call->length - FRAME_BYTES || (at[0] && !call->gzip))
        return false;
    call->gzip = at[0];
    call->message = at + FRAME_BYTES;
    call->length = length;
    return true;
}

/* ---- answers ---- */

/* What is no printable ASCII, and the percent sign, as %XX. */
static void escape(const char *words, char *to, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; words[i] && i < WORDS_MAX && n + 4 <= room; i++) {
        unsigned char c = (unsigned char)words[i];
        if (c >= 0x20 && c < 0x7f && c != '%')
            to[n++] = (char)c;
        else
            n += (size_t)snprintf(to + n, room - n, "%%%02X", c);
    }
    to[n] = '\0';
}

#define HEADER(header, text)                                                                \
    (nghttp2_nv)                                                                            \
    {                                                                                       \
        .name = (uint8_t *)(header), .value = (uint8_t *)(text), .namelen = strlen(header), \
        .valuelen = strlen(text)                                                            \
    }

static ssize_t read_answer(nghttp2_session *http, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                           nghttp2_data_source *source, void *context)
{
    struct stream *s = source->ptr;
    size_t n = MIN(room, s->answer_length - s->answer_at);
    memcpy(to, s->answer + s->answer_at, n);
    s->answer_at += n;
    if (s->answer_at == s->answer_length) {
        nghttp2_nv trailer = HEADER("grpc-status", "0");
        *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(http, id, &trailer, 1) < 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

static int submit_message(struct grpc_session *session, int32_t id, struct stream *s, const void *message,
                          size_t length)
{
    nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = read_answer};
    s->answer = malloc(FRAME_BYTES + length);
    if (!s->answer)
        return -ENOMEM;
    uint8_t head[FRAME_BYTES] = {0, (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                                 (uint8_t)length};
    memcpy(s->answer, head, sizeof(head));
    if (length)
        memcpy(s->answer + FRAME_BYTES, message, length);
    s->answer_length = FRAME_BYTES + length;
    return nghttp2_submit_response(session->http, id, headers, ARRAY_SIZE(headers), &provider);
}

/* Headers that are trailers at once. */
static int submit_refusal(struct grpc_session *session, int32_t id, enum grpc_status status,
                          const char *words)
{
    char number[8], message[3 * WORDS_MAX + 4];
    snprintf(number, sizeof(number), "%d", (int)status);
    escape(words ? words : "", message, sizeof(message));
    nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc"),
                            HEADER("grpc-status", number), HEADER("grpc-message", message),
                            HEADER("grpc-accept-encoding", "identity,gzip")};
    return nghttp2_submit_response(session->http, id, headers, ARRAY_SIZE(headers), NULL);
}

static void answer(struct grpc_session *session, int32_t id, struct stream *s, enum grpc_status status,
                   const char *words, const void *message, size_t length)
{
    if (s->answered)
        return;
    s->answered = true;
    int r = status == GRPC_OK ? submit_message(session, id, s, message, length)
                              : submit_refusal(session, id, status, words);
    if (r < 0)
        nghttp2_submit_rst_stream(session->http, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
}

static void refuse(struct grpc_session *session, int32_t id, struct stream *s, enum grpc_status status)
{
    grpc_call_free(s->call);
    s->call = NULL;
    answer(session, id, s, status,
           status == GRPC_RESOURCE_EXHAUSTED ? "the message is too large"
           : status == GRPC_UNAVAILABLE      ? "too much is being received; try again"
           : status == GRPC_UNIMPLEMENTED    ? "only gzip, or no compression, is understood"
                                             : "not one whole message of gRPC",
           NULL, 0);
}

void grpc_session_answer(struct grpc_session *session, int32_t stream, enum grpc_status status,
                         const char *words, const void *message, size_t length)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session->http, stream);
    session->calls--;
    if (s)
        answer(session, stream, s, status, words, message, length);
}

/* ---- what arrives ---- */

static int on_begin_headers(nghttp2_session *http, const nghttp2_frame *frame, void *context)
{
    struct grpc_session *session = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct stream *s = calloc(1, sizeof(*s));
    struct grpc_call *call = s ? calloc(1, sizeof(*call)) : NULL;
    if (!call) {
        free(s);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    }
    call->stream = frame->hd.stream_id;
    call->held = session->limits.held;
    s->call = call;
    if (nghttp2_session_set_stream_user_data(http, frame->hd.stream_id, s) < 0) {
        stream_free(s);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    list_stream(session, s);
    return 0;
}

static bool is_text(const uint8_t *bytes, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

/* "" when it does not fit. */
static void copy_text(char *to, size_t room, const uint8_t *bytes, size_t length)
{
    if (length >= room || memchr(bytes, 0, length))
        length = 0;
    memcpy(to, bytes, length);
    to[length] = '\0';
}

static int on_header(nghttp2_session *http, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    static const char type[] = "application/grpc";
    struct stream *s = nghttp2_session_get_stream_user_data(http, frame->hd.stream_id);
    if (!s || !s->call)
        return 0;
    if (is_text(name, name_length, ":path"))
        copy_text(s->call->path, sizeof(s->call->path), value, value_length);
    else if (is_text(name, name_length, ":method"))
        s->is_post = is_text(value, value_length, "POST");
    else if (is_text(name, name_length, "authorization"))
        copy_text(s->call->authorization, sizeof(s->call->authorization), value, value_length);
    else if (is_text(name, name_length, "content-type"))
        s->is_grpc = value_length >= sizeof(type) - 1 && memcmp(value, type, sizeof(type) - 1) == 0;
    else if (is_text(name, name_length, "grpc-encoding")) {
        s->call->gzip = is_text(value, value_length, "gzip");
        s->unknown_encoding = !s->call->gzip && !is_text(value, value_length, "identity");
    }
    return 0;
}

static int on_data(nghttp2_session *http, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
                   void *context)
{
    struct grpc_session *session = context;
    struct stream *s = nghttp2_session_get_stream_user_data(http, id);
    if (!s || !s->call)
        return 0; /* answered already */
    enum grpc_status status = reserve(session, s->call, length);
    if (status != GRPC_OK) {
        refuse(session, id, s, status);
        return 0;
    }
    memcpy(s->call->framed + s->call->length, bytes, length);
    s->call->length += length;
    return 0;
}

/* What is no gRPC is told so in HTTP's own words. */
static void refuse_plain(nghttp2_session *http, int32_t id, struct stream *s)
{
    nghttp2_nv header = HEADER(":status", "415");
    grpc_call_free(s->call);
    s->call = NULL;
    s->answered = true;
    nghttp2_submit_response(http, id, &header, 1, NULL);
}

static int on_frame(nghttp2_session *http, const nghttp2_frame *frame, void *context)
{
    struct grpc_session *session = context;
    bool is_request = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!is_request || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    int32_t id = frame->hd.stream_id;
    struct stream *s = nghttp2_session_get_stream_user_data(http, id);
    if (!s || !s->call)
        return 0;
    if (!s->is_grpc || !s->is_post)
        refuse_plain(http, id, s);
    else if (s->unknown_encoding)
        refuse(session, id, s, GRPC_UNIMPLEMENTED);
    else if (!unframe(s->call))
        refuse(session, id, s, GRPC_INTERNAL);
    else if (session->calls >= session->limits.calls_max)
        refuse(session, id, s, GRPC_UNAVAILABLE);
    else {
        struct grpc_call *call = s->call;
        s->call = NULL;
        session->calls++;
        session->take(session->context, call);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *http, int32_t id, uint32_t error, void *context)
{
    stream_free(nghttp2_session_get_stream_user_data(http, id));
    nghttp2_session_set_stream_user_data(http, id, NULL);
    return 0;
}

/* ---- the session ---- */

static int make_http(struct grpc_session *session)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) < 0)
        return -ENOMEM;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    int r = nghttp2_session_server_new(&session->http, callbacks, session);
    nghttp2_session_callbacks_del(callbacks);
    return r < 0 ? -ENOMEM : 0;
}

int grpc_session_new(const struct grpc_limits *limits, void (*take)(void *, struct grpc_call *),
                     void *context, struct grpc_session **ret_session)
{
    struct grpc_session *session = calloc(1, sizeof(*session));
    if (!session)
        return -ENOMEM;
    session->limits = *limits;
    session->take = take;
    session->context = context;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->calls_max},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
                                         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16384}};
    int r = make_http(session);
    if (r == 0 &&
        (nghttp2_submit_settings(session->http, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) < 0 ||
         nghttp2_session_set_local_window_size(session->http, NGHTTP2_FLAG_NONE, 0, WINDOW) < 0))
        r = -ENOMEM;
    if (r < 0) {
        grpc_session_free(session);
        return r;
    }
    *ret_session = session;
    return 0;
}

int grpc_session_receive(struct grpc_session *session, const void *bytes, size_t length)
{
    ssize_t r = nghttp2_session_mem_recv(session->http, bytes, length);
    return r < 0 ? r == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO : 0;
}

ssize_t grpc_session_send(struct grpc_session *session, const uint8_t **ret_bytes)
{
    ssize_t n = nghttp2_session_mem_send(session->http, ret_bytes);
    return n < 0 ? -ENOMEM : n;
}

void grpc_session_end(struct grpc_session *session)
{
    nghttp2_session_terminate_session(session->http, NGHTTP2_NO_ERROR);
}

bool grpc_session_is_over(struct grpc_session *session)
{
    return !nghttp2_session_want_read(session->http) && !nghttp2_session_want_write(session->http);
}

void grpc_session_free(struct grpc_session *session)
{
    if (!session)
        return;
    while (session->streams)
        stream_free(session->streams);
    nghttp2_session_del(session->http);
    free(session);
}
