/* The hooks in Node's HTTP/2: what nghttp2 calls back for each frame, and what Node asks of it. Each stream
 * is a request. Of the headers only :method, :path without its query, :status and grpc-status are looked at.
 *
 * Layouts are those of nghttp2's public structures, which are part of its stable ABI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe.h"
#include "targets/node/probe_context.h"

/* struct nghttp2_frame begins with struct nghttp2_frame_hd. */
struct frame {
    size_t length;
    int32_t stream;
    uint8_t type, flags, reserved;
};
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FLAG_END_STREAM = 1 };

/* struct nghttp2_nv */
struct header {
    const char *name, *value;
    size_t name_length, value_length;
    uint8_t flags;
};

/* struct nghttp2_vec */
struct bytes {
    const char *base;
    size_t length;
};

static bool is(const char *text, size_t length, const char *word, size_t word_length)
{
    if (length != word_length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != word[i])
            return false;
    return true;
}
#define IS(text, length, word) is(text, length, word, sizeof(word) - 1)

static uint16_t status_of(const char *text, size_t length)
{
    uint16_t status = 0;
    for (size_t i = 0; i < length && i < 3; i++)
        status = (uint16_t)(status * 10 + (text[i] - '0'));
    return status;
}

/* grpc-status and 1; 0: these are no gRPC call's headers. It comes behind the answer's content, or with the
 * headers of an answer that has none. */
static uint8_t grpc_of(const char *text, size_t length)
{
    return length && length <= 2 && text[0] >= '0' && text[0] <= '9' ? (uint8_t)(status_of(text, length) + 1)
                                                                     : 0;
}

static uint16_t path_length(const char *path, size_t length, size_t most)
{
    uint16_t n = 0;
    while (n < length && n < most && path[n] != '?')
        n++;
    return n;
}

/* ---- what comes ---- */

/* Node makes the stream and its resource inside. */
HOOK(int, h2_begin, void *session, const struct frame *frame, void *data)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_h2_begin(session, frame, data);
    self->http2 =
        (struct probe_http2){.session = (uintptr_t)session, .stream = frame->stream, .beginning = 1};
    self->path_parser = 0;
    self->path_length = 0;
    int result = sonde_orig_h2_begin(session, frame, data);
    if (!probe_stale(self))
        self->http2.beginning = 0;
    return result;
}

static void take_header(struct probe_thread *self, struct bytes name, struct bytes value)
{
    struct probe_http2 *h = &self->http2;
    if (IS(name.base, name.length, ":method")) {
        h->method = http_method(value.base, value.length);
        h->asked = 1;
    } else if (IS(name.base, name.length, ":status")) {
        h->status = status_of(value.base, value.length);
    } else if (IS(name.base, name.length, "grpc-status")) {
        h->grpc = grpc_of(value.base, value.length);
    } else if (IS(name.base, name.length, ":path")) {
        self->path_parser = h->session;
        self->path_length = path_length(value.base, value.length, sizeof(self->path));
        copy_bytes(self->path, value.base, self->path_length);
    }
}

HOOK(int, h2_header, void *session, const struct frame *frame, void *name, void *value, uint8_t flags,
     void *data)
{
    struct probe_thread *self = probe_thread();
    if (self && sonde_config.node.h2_rcbuf && self->http2.session == (uintptr_t)session &&
        self->http2.stream == frame->stream) {
        struct bytes (*bytes_of)(void *) = (struct bytes(*)(void *))(uintptr_t)sonde_config.node.h2_rcbuf;
        struct bytes key = bytes_of(name);
        if (key.length && (key.base[0] == ':' || IS(key.base, key.length, "grpc-status")))
            take_header(self, key, bytes_of(value));
    }
    return sonde_orig_h2_header(session, frame, name, value, flags, data);
}

/* A whole frame. The callback that carries a request to JavaScript is inside. */
HOOK(int, h2_frame, void *session, const struct frame *frame, void *data)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_h2_frame(session, frame, data);
    int32_t stream = frame->stream;
    struct descriptor *d = self->stream_fd >= 0 ? descriptor_get(self->stream_fd) : NULL;
    if (d)
        http2_on(self, (uintptr_t)session, self->stream_fd, d, ticks());
    struct probe_http2 *h = &self->http2;
    bool headers =
        frame->type == FRAME_HEADERS && h->session == (uintptr_t)session && h->stream == frame->stream;
    if (headers && h->status)
        RECORD(self, http_response, 0, ticks(), .parser = (uintptr_t)session, .content_length = -1,
               .generation = self->stream_generation, .fd = self->stream_fd, .stream = (uint32_t)stream,
               .status = h->status, .side = 1);
    if (headers && h->grpc)
        RECORD(self, http_grpc, 0, ticks(), .session = (uintptr_t)session, .stream = (uint32_t)stream,
               .status = (uint8_t)(h->grpc - 1), .side = 1);
    if (frame->flags & FLAG_END_STREAM && (frame->type == FRAME_DATA || (headers && h->status)))
        RECORD(self, http_end, 0, ticks(), .parser = (uintptr_t)session,
               .generation = self->stream_generation, .fd = self->stream_fd, .stream = (uint32_t)stream,
               .side = 1);
    bool asked = headers && h->asked;
    if (headers) { /* what JavaScript does inside may bring others */
        h->asked = 0;
        h->status = 0;
        h->grpc = 0;
    }
    self->request_pending = asked;
    self->request_stream = asked ? (uint32_t)stream : 0;
    self->request_parser = (uintptr_t)session;
    int result = sonde_orig_h2_frame(session, frame, data);
    if (probe_stale(self))
        return result;
    if (asked && self->request_pending) { /* no JavaScript was called */
        tell_request(self, ticks());
        context_parsed(self, false);
    }
    self->request_stream = 0;
    return result;
}

/* Both directions are closed, or it was reset. */
HOOK(int, h2_close, void *session, int32_t stream, uint32_t error, void *data)
{
    struct probe_thread *self = probe_thread();
    if (self)
        RECORD(self, http_end, 0, ticks(), .parser = (uintptr_t)session, .fd = -1, .stream = (uint32_t)stream,
               .error = error, .side = 0);
    return sonde_orig_h2_close(session, stream, error, data);
}

/* ---- what goes ---- */

/* uint8_t Http2Session::SendPendingData(): collects frames, then writes them to whatever is below. */
HOOK(uint8_t, h2_send, void *object)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_h2_send(object);
    uint32_t outer = self->http2_sending;
    uint64_t outer_session = self->http2_sent;
    self->http2_sending = 1;
    self->http2_sent = 0;
    uint8_t result = sonde_orig_h2_send(object);
    if (!probe_stale(self)) {
        self->http2_sending = outer;
        self->http2_sent = outer_session;
    }
    return result;
}

HOOK(int, h2_sent, void *session, const struct frame *frame, void *data)
{
    struct probe_thread *self = probe_thread();
    if (self && self->http2_sending)
        self->http2_sent = (uintptr_t)session;
    return sonde_orig_h2_sent(session, frame, data);
}

static void request_sent(struct probe_thread *self, const void *session, int32_t stream,
                         const struct header *headers, size_t count, uint64_t now)
{
    const char *path = "";
    uint16_t length = 0;
    uint8_t method = http_method("", 0);
    for (size_t i = 0; i < count && headers[i].name_length && headers[i].name[0] == ':'; i++) {
        const struct header *h = &headers[i];
        if (IS(h->name, h->name_length, ":method")) {
            method = http_method(h->value, h->value_length);
        } else if (IS(h->name, h->name_length, ":path")) {
            path = h->value;
            length = path_length(path, h->value_length, 255);
        }
    }
    uint32_t context = context_current(self, -1);
    RECORD_TEXT(self, http_request, now, path, length, .parser = (uintptr_t)session, .fd = -1,
                .context = context, .stream = (uint32_t)stream, .side = 1, .method = method,
                .path_length = length);
}

#define SUBMIT_REQUEST(name)                                                                             \
    HOOK(int32_t, name, void *session, const void *priority, const struct header *headers, size_t count, \
         const void *provider, void *data)                                                               \
    {                                                                                                    \
        struct probe_thread *self = probe_thread();                                                      \
        uint64_t now = ticks();                                                                          \
        int32_t stream = sonde_orig_##name(session, priority, headers, count, provider, data);           \
        if (self && stream > 0)                                                                          \
            request_sent(self, session, stream, headers, count, now);                                    \
        return stream;                                                                                   \
    }
SUBMIT_REQUEST(h2_submit_request)
SUBMIT_REQUEST(h2_submit_request2)

static void grpc_sent(struct probe_thread *self, const void *session, int32_t stream,
                      const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t grpc = IS(headers[i].name, headers[i].name_length, "grpc-status")
                           ? grpc_of(headers[i].value, headers[i].value_length)
                           : 0;
        if (grpc)
            RECORD(self, http_grpc, 0, ticks(), .session = (uintptr_t)session, .stream = (uint32_t)stream,
                   .status = (uint8_t)(grpc - 1), .side = 0);
    }
}

HOOK(int, h2_submit_trailer, void *session, int32_t stream, const struct header *headers, size_t count)
{
    struct probe_thread *self = probe_thread();
    if (self)
        grpc_sent(self, session, stream, headers, count);
    return sonde_orig_h2_submit_trailer(session, stream, headers, count);
}

static void response_sent(struct probe_thread *self, const void *session, int32_t stream,
                          const struct header *headers, size_t count)
{
    uint16_t status = 0;
    if (count && IS(headers[0].name, headers[0].name_length, ":status"))
        status = status_of(headers[0].value, headers[0].value_length);
    RECORD(self, http_response, 0, ticks(), .parser = (uintptr_t)session, .content_length = -1, .fd = -1,
           .stream = (uint32_t)stream, .status = status, .side = 0);
    grpc_sent(self, session, stream, headers, count);
}

#define SUBMIT_RESPONSE(name)                                                                  \
    HOOK(int, name, void *session, int32_t stream, const struct header *headers, size_t count, \
         const void *provider)                                                                 \
    {                                                                                          \
        struct probe_thread *self = probe_thread();                                            \
        if (self)                                                                              \
            response_sent(self, session, stream, headers, count);                              \
        return sonde_orig_##name(session, stream, headers, count, provider);                   \
    }
SUBMIT_RESPONSE(h2_submit_response)
SUBMIT_RESPONSE(h2_submit_response2)
