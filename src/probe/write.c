/* Bytes that go out through libuv streams: what protocol they are, where an HTTP message begins and how long
 * it will be, and which commands to a store begin in them (wire.h). Keys, values, bodies and query strings
 * are skipped over by their lengths and never recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/context.h"
#include "probe/headers.h"
#include "probe/delivery.h"
#include "probe/statement.h"
#include "probe/websocket.h"
#include "probe/wire.h"
#include "probe/wire_memcached.h"
#include "probe/wire_mysql.h"
#include "probe/wire_postgresql.h"
#include "probe/wire_queues.h"
#include "probe/wire_resp.h"

/* ---- HTTP ---- */

enum { SWITCHING_PROTOCOLS = 101 };

static bool same(const char *p, uint64_t n, const char *word, uint64_t length)
{
    if (n < length)
        return false;
    for (uint64_t i = 0; i < length; i++)
        if ((p[i] | 0x20) != (word[i] | 0x20))
            return false;
    return true;
}

static inline bool same_word(const char *p, const char *word)
{
    uint32_t a, b;
    __builtin_memcpy(&a, p, sizeof(a));
    __builtin_memcpy(&b, word, sizeof(b));
    return (a | 0x20202020) == (b | 0x20202020);
}

static const struct {
    char word[9];
    uint8_t length, method;
} METHODS[] = {{"GET ", 4, 1},    {"POST ", 5, 3},    {"PUT ", 4, 4},     {"HEAD ", 5, 2}, {"DELETE ", 7, 0},
               {"PATCH ", 6, 28}, {"OPTIONS ", 8, 6}, {"CONNECT ", 8, 5}, {"TRACE ", 6, 7}};

uint8_t http_method(const char *word, uint64_t length)
{
    for (unsigned i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++)
        if (length + 1 == METHODS[i].length && same(word, length, METHODS[i].word, length))
            return METHODS[i].method;
    return 255;
}

/* "GET /path?query HTTP/1.1": true when the bytes begin so; *context is whose they are. */
static bool client_request(struct probe_thread *self, int fd, struct descriptor *d, const char *p, uint64_t n,
                           uint64_t now, uint32_t *context)
{
    for (unsigned i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++) {
        uint64_t start = METHODS[i].length;
        if (n <= start || !same(p, n, METHODS[i].word, start) || p[0] != METHODS[i].word[0] ||
            p[start] == '{')
            continue; /* or NATS' CONNECT */
        uint64_t end = start;
        while (end < n && end - start < 255 && p[end] != ' ' && p[end] != '?' && p[end] > ' ')
            end++;
        d->protocol = PROTOCOL_HTTP_CLIENT;
        struct headers headers = {0};
        if (METHODS[i].method == SONDE_http_method_GET)
            headers_read(p, n, &headers);
        d->websocket_asked = headers.websocket;
        *context = context_current(self, fd);
        RECORD_TEXT(self, http_request, now, p + start, end - start, .generation = d->generation, .fd = fd,
                    .context = *context, .side = 1, .method = METHODS[i].method,
                    .path_length = (uint16_t)(end - start));
        return true;
    }
    return false;
}

/* "HTTP/1.1 200 ...": the status, and how the body's end will be known. */
static bool server_response(struct probe_thread *self, int fd, struct descriptor *d, const char *p,
                            uint64_t n, uint64_t now)
{
    if (n < 12 || p[0] != 'H' || !same_word(p, "HTTP") || !same_word(p + 3, "P/1."))
        return false;
    uint16_t status = 0;
    for (int i = 9; i < 12; i++)
        status = (uint16_t)(status * 10 + (p[i] - '0'));
    struct headers headers;
    headers_read(p, n, &headers);
    d->chunked = headers.chunked;
    d->protocol = PROTOCOL_HTTP_SERVER;
    if (status == SWITCHING_PROTOCOLS && headers.websocket)
        websocket_begins(d, true);
    int64_t content_length = headers.chunked ? -1 : headers.content_length;
    RECORD(self, http_response, 0, now, .content_length = content_length, .header_bytes = headers.bytes,
           .generation = d->generation, .fd = fd, .status = status, .side = 0);
    return true;
}

static bool ends_chunks(const struct buffer *buffers, unsigned count)
{
    static const char END[] = "0\r\n\r\n";
    /* The end may be spread over the last buffers: compare backwards. */
    unsigned i = count;
    uint64_t in_buffer = 0;
    for (int k = 4; k >= 0; k--) {
        while (in_buffer == 0) {
            if (i == 0)
                return false;
            in_buffer = buffers[--i].length;
        }
        if (buffers[i].base[--in_buffer] != END[k])
            return false;
    }
    return true;
}

/* ---- commands to a store ---- */

/* The first bytes on a connection: which of the wires they are. */
static WIRE_APART bool begins_commands(struct descriptor *d, const struct buffer *buffers, unsigned count,
                                       uint64_t length)
{
#define W(e, name, number, label)                                                    \
    {                                                                                \
        struct cursor cursor = {.buffers = buffers, .count = count, .left = length}; \
        if (wire_##name##_begins(&cursor)) {                                         \
            d->commands.wire = SONDE_wire_##name;                                    \
            return true;                                                             \
        }                                                                            \
    }
    SONDE_ENUM_wire(W, wire);
#undef W
    return false;
}

static WIRE_APART uint32_t other_commands_begun(struct probe_thread *self, struct descriptor *d,
                                                struct cursor *cursor, uint32_t *operation)
{
    uint32_t begun = 0;
    switch (d->commands.wire) {
#define W(e, name, number, label)                                                  \
    case SONDE_wire_##name:                                                        \
        if (SONDE_wire_##name != SONDE_wire_resp) /* which commands_begun() has */ \
            begun = wire_##name##_follow(self, &d->commands, cursor, operation);   \
        break;
        SONDE_ENUM_wire(W, wire);
#undef W
    }
    if (d->commands.lost && !begun && !d->commands.number) /* it is encrypted, or something else */
        d->protocol = PROTOCOL_OTHER;
    return begun;
}

/* The same where the statements are asked for. */
static WIRE_APART uint32_t statements_begun(struct probe_thread *self, struct descriptor *d,
                                            struct cursor *cursor, uint32_t *operation, uint64_t now)
{
    struct statements s;
    uint64_t connection = (uint64_t)(d - descriptors) << 32 | d->generation;
    statements_begin(&s, connection);
    self->statements = &s;
    uint32_t begun = other_commands_begun(self, d, cursor, operation);
    statements_text_end(self, &s, false);
    self->statements = NULL;
    if (s.prepares)
        d->queue = statement_awaits(connection, s.prepares, d->queue == READS_PREPARED) ? READS_PREPARED : 0;
    for (uint32_t i = 0; i < s.count && !d->commands.lost; i++)
        RECORD(self, sql_statement, 0, now, .number = d->commands.number + s.at[i].nth,
               .generation = d->generation, .fd = (int32_t)(d - descriptors), .statement = s.at[i].name);
    return begun;
}

static uint32_t commands_begun(struct probe_thread *self, struct descriptor *d, struct cursor *cursor,
                               uint32_t *operation, uint64_t now)
{
    if (d->commands.wire == SONDE_wire_resp)
        return wire_resp_follow(self, &d->commands, cursor, operation);
    return sonde_config.statements ? statements_begun(self, d, cursor, operation, now)
                                   : other_commands_begun(self, d, cursor, operation);
}

/* An HTTP message's first line and headers stand in one buffer. */
static void recognise(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                      unsigned count, uint64_t length, uint64_t now, uint32_t *context)
{
    unsigned first = 0;
    while (first < count && !buffers[first].length)
        first++;
    if (first == count || d->protocol >= PROTOCOL_COMMANDS) {
        if (UNLIKELY(d->queue == READS_MIDWAY))
            (void)queue_midway(self, fd, d, true, buffers, count, length);
        return;
    }
    const char *p = buffers[first].base;
    uint64_t n = buffers[first].length;
    if (server_response(self, fd, d, p, n, now) || client_request(self, fd, d, p, n, now, context))
        return;
    if (d->protocol == PROTOCOL_UNKNOWN)
        d->protocol = begins_commands(d, buffers, count, length) ? PROTOCOL_COMMANDS : PROTOCOL_OTHER;
    if (d->queue == READS_MIDWAY && d->protocol == PROTOCOL_OTHER) {
        (void)queue_midway(self, fd, d, true, buffers, count, length);
    } else if (d->protocol == PROTOCOL_COMMANDS) {
        d->queue = 0;
        if (d->commands.wire >= SONDE_wire_amqp)
            queue_begins(self, fd, d);
    }
}

void write_seen(struct probe_thread *self, int fd, uint64_t handle, const struct buffer *buffers,
                unsigned count, uint64_t accepted, int64_t result, uint64_t now)
{
    struct descriptor *d = descriptor_use(self, fd, handle);
    if (!d)
        return;
    uint32_t context = 0;
    bool before_upgrade = d->protocol != PROTOCOL_WEBSOCKET;
    if (self->http2_sent)
        http2_on(self, self->http2_sent, fd, d, now);
    if (accepted)
        recognise(self, fd, d, buffers, count, accepted, now, &context);
    uint32_t messages = 0;
    uint64_t first_message = 0;
    uint32_t operation = 0;
    uint8_t wire = 0;
    if (d->protocol == PROTOCOL_COMMANDS) {
        struct cursor cursor = {.buffers = buffers, .count = count, .left = accepted};
        messages = commands_begun(self, d, &cursor, &operation, now);
        if (messages && !d->commands.lost && !d->unnumbered)
            first_message = d->commands.number + 1;
        d->commands.number += messages;
        wire = d->commands.wire;
        if (UNLIKELY(wire >= SONDE_wire_amqp || d->commands.streams)) {
            d->commands.streams = 0;
            queue_written(self, fd, d, buffers, count, accepted, now);
        }
    }
    /* A response goes out on the connection that its request came from: that needs no asking. */
    bool websocket = d->protocol == PROTOCOL_WEBSOCKET && !before_upgrade;
    if (!context && (messages || d->protocol == PROTOCOL_OTHER || websocket))
        context = context_current(self, fd);
    if (websocket && accepted)
        websocket_written(self, fd, d, buffers, count, accepted, now, context);
    RECORD(self, stream_write, 0, now, .bytes = accepted, .result = result, .first_message = first_message,
           .generation = d->generation, .fd = fd, .messages = messages, .context = context,
           .operation = operation, .wire = wire,
           .last_chunk = d->chunked && accepted && ends_chunks(buffers, count));
}
