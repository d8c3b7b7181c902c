/* Bytes that go out through libuv streams: what protocol they are, where an HTTP message begins and how long
 * it will be, and how many Redis commands begin in them. Keys, values, bodies and query strings are skipped
 * over by their lengths and never recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/context.h"
#include "probe/headers.h"
#include "probe/node.h"

/* Reads the bytes of several buffers as one string. */
struct cursor {
    const struct buffer *buffers;
    unsigned count, index;
    uint64_t offset; /* in the buffer at index */
    uint64_t left;   /* bytes still to be read, at most what was accepted */
};

static bool at_least_one(struct cursor *c)
{
    while (c->index < c->count && c->offset >= c->buffers[c->index].length) {
        c->offset = 0;
        c->index++;
    }
    return c->left && c->index < c->count;
}

static char next_byte(struct cursor *c)
{
    c->left--;
    return c->buffers[c->index].base[c->offset++];
}

static void skip_bytes(struct cursor *c, uint64_t *n)
{
    while (*n && at_least_one(c)) {
        uint64_t here = c->buffers[c->index].length - c->offset;
        here = here < *n ? here : *n;
        here = here < c->left ? here : c->left;
        c->offset += here;
        c->left -= here;
        *n -= here;
    }
}

/* ---- RESP: *<arguments>\r\n ($<length>\r\n<bytes>\r\n){arguments} ---- */

enum {
    RESP_START,
    RESP_COUNT,
    RESP_COUNT_END,
    RESP_DOLLAR,
    RESP_LENGTH,
    RESP_LENGTH_END,
    RESP_BYTES,
    RESP_LOST
};

/* A number of at most nine digits and the end of its line, at p[*at]; false when there is none, or not all of
 * it. */
static inline bool number_line(const char *p, uint64_t n, uint64_t *at, uint64_t *ret_number)
{
    enum { DIGITS_MAX = 9 };
    uint64_t i = *at, number = 0, last = i + DIGITS_MAX;
    for (; i < n && i < last && p[i] >= '0' && p[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(p[i] - '0');
    if (i == *at || i + 2 > n || p[i] != '\r' || p[i + 1] != '\n')
        return false;
    *at = i + 2;
    *ret_number = number;
    return true;
}

/* Most writes are whole commands in one buffer: how many p begins with; *ret_bytes is their length. What is
 * left is read byte by byte. */
static uint32_t whole_commands(const char *p, uint64_t n, uint64_t *ret_bytes)
{
    uint32_t count = 0;
    *ret_bytes = 0;
    for (uint64_t at = 0, items, length; at < n && p[at] == '*'; count++, *ret_bytes = at) {
        at++;
        if (!number_line(p, n, &at, &items) || !items)
            break;
        for (; items; items--) {
            if (at >= n || p[at++] != '$' || !number_line(p, n, &at, &length) || n - at < length + 2)
                return count;
            at += length + 2;
        }
    }
    return count;
}

/* Follows the commands; returns how many began. An unexpected byte (an inline command, another protocol) ends
 * the counting on this connection for good: a join that cannot be proved is not made. */
static uint32_t count_commands(struct descriptor *d, struct cursor *c)
{
    uint32_t begun = 0;
    while (d->resp_state != RESP_LOST && at_least_one(c)) {
        if (d->resp_state == RESP_BYTES) {
            skip_bytes(c, &d->resp_skip);
            if (d->resp_skip)
                break;
            d->resp_state = d->resp_items ? RESP_DOLLAR : RESP_START;
            continue;
        }
        if (d->resp_state == RESP_START) {
            uint64_t here = c->buffers[c->index].length - c->offset, whole;
            begun += whole_commands(c->buffers[c->index].base + c->offset, here < c->left ? here : c->left,
                                    &whole);
            c->offset += whole;
            c->left -= whole;
            if (!at_least_one(c))
                break;
        }
        char b = next_byte(c);
        switch (d->resp_state) {
        case RESP_START:
            d->resp_state = b == '*' ? RESP_COUNT : RESP_LOST;
            d->resp_value = 0;
            begun += b == '*';
            break;
        case RESP_COUNT:
        case RESP_LENGTH:
            if (b >= '0' && b <= '9' && d->resp_value < (1ull << 40))
                d->resp_value = d->resp_value * 10 + (uint64_t)(b - '0');
            else
                d->resp_state = b != '\r' ? RESP_LOST : d->resp_state + 1;
            break;
        case RESP_COUNT_END:
            d->resp_items = d->resp_value;
            d->resp_state = b == '\n' && d->resp_items ? RESP_DOLLAR : RESP_LOST;
            break;
        case RESP_DOLLAR:
            d->resp_state = b == '$' ? RESP_LENGTH : RESP_LOST;
            d->resp_value = 0;
            break;
        case RESP_LENGTH_END:
            d->resp_skip = d->resp_value + 2;
            d->resp_items--;
            d->resp_state = b == '\n' ? RESP_BYTES : RESP_LOST;
            break;
        }
    }
    return begun;
}

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
        if (n <= start || !same(p, n, METHODS[i].word, start) || p[0] != METHODS[i].word[0])
            continue;
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

/* A RESP command begins "*<digit>". */
static bool begins_command(const struct buffer *buffers, unsigned count, uint64_t length)
{
    struct cursor cursor = {.buffers = buffers, .count = count, .left = length};
    if (!at_least_one(&cursor) || next_byte(&cursor) != '*' || !at_least_one(&cursor))
        return false;
    char digit = next_byte(&cursor);
    return digit >= '1' && digit <= '9';
}

/* An HTTP message's first line and headers stand in one buffer. */
static void recognise(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                      unsigned count, uint64_t length, uint64_t now, uint32_t *context)
{
    unsigned first = 0;
    while (first < count && !buffers[first].length)
        first++;
    if (first == count || d->protocol >= PROTOCOL_RESP)
        return;
    const char *p = buffers[first].base;
    uint64_t n = buffers[first].length;
    if (server_response(self, fd, d, p, n, now) || client_request(self, fd, d, p, n, now, context))
        return;
    if (d->protocol == PROTOCOL_UNKNOWN)
        d->protocol = begins_command(buffers, count, length) ? PROTOCOL_RESP : PROTOCOL_OTHER;
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
    if (d->protocol == PROTOCOL_RESP) {
        struct cursor cursor = {.buffers = buffers, .count = count, .left = accepted};
        messages = count_commands(d, &cursor);
        if (messages && d->resp_state != RESP_LOST && !d->unnumbered)
            first_message = d->resp_number + 1;
        d->resp_number += messages;
    }
    /* A response goes out on the connection that its request came from: that needs no asking. */
    bool websocket = d->protocol == PROTOCOL_WEBSOCKET && !before_upgrade;
    if (!context && (messages || d->protocol == PROTOCOL_OTHER || websocket))
        context = context_current(self, fd);
    if (websocket && accepted)
        websocket_written(self, fd, d, buffers, count, accepted, now, context);
    RECORD(self, uv_write, 0, now, .bytes = accepted, .result = result, .first_message = first_message,
           .generation = d->generation, .fd = fd, .messages = messages, .context = context,
           .last_chunk = d->chunked && accepted && ends_chunks(buffers, count));
}
