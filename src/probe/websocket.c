/* WebSocket frames, both ways: how many messages begin and end in the bytes that pass, from the frames'
 * headers alone. Payloads are skipped over by their lengths and never looked at.
 *
 * RFC 6455, 5.2: byte 0: FIN 1 bit, reserved 3, opcode 4; byte 1: MASK 1 bit, length 7 (126: the next 2 bytes
 * tell it, 127: the next 8, big endian); the mask, 4 bytes, from clients only; the payload. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/websocket.h"

enum { FIN = 0x80, OPCODE = 0x0f, MASKED = 0x80, LENGTH_2 = 126, LENGTH_8 = 127 };
enum { CONTINUATION, TEXT, BINARY, CLOSE = 8, PONG = 10 };

static uint32_t header_size(uint8_t second)
{
    uint8_t length = second & 0x7f;
    return 2 + (length == LENGTH_2 ? 2 : length == LENGTH_8 ? 8 : 0) + (second & MASKED ? 4 : 0);
}

static uint64_t payload_size(const uint8_t *header)
{
    uint8_t length = header[1] & 0x7f;
    uint32_t bytes = length == LENGTH_2 ? 2 : length == LENGTH_8 ? 8 : 0;
    uint64_t size = bytes ? 0 : length;
    for (uint32_t i = 0; i < bytes; i++)
        size = size << 8 | header[2 + i];
    return size;
}

static bool is_data(const uint8_t *header)
{
    return (header[0] & OPCODE) <= BINARY;
}

static void header_complete(struct websocket *w)
{
    uint8_t opcode = w->header[0] & OPCODE;
    w->left = payload_size(w->header);
    if ((opcode > BINARY && (opcode < CLOSE || opcode > PONG)) || w->left >> 62)
        w->lost = 1;
}

static void frame_complete(struct websocket *w, struct websocket_seen *seen)
{
    if (is_data(w->header) && w->header[0] & FIN) {
        if (!seen->messages++)
            seen->first = w->messages + 1;
        w->messages++;
    }
    w->have = 0;
}

void websocket_bytes(struct websocket *w, const char *bytes, uint64_t length, struct websocket_seen *seen)
{
    for (uint64_t i = 0; i < length && !w->lost;) {
        if (w->have < 2 || w->have < header_size(w->header[1])) {
            w->header[w->have++] = (uint8_t)bytes[i++];
            if (w->have == 2 && (w->header[1] & MASKED) != w->masked)
                w->lost = 1;
            if (w->have < 2 || w->have < header_size(w->header[1]))
                continue;
            header_complete(w);
            if (w->lost)
                return;
        }
        uint64_t here = length - i < w->left ? length - i : w->left;
        w->left -= here;
        i += here;
        if (is_data(w->header))
            seen->bytes += here;
        if (!w->left && !w->lost)
            frame_complete(w, seen);
    }
}

void websocket_begins(struct descriptor *d, bool server)
{
    d->protocol = PROTOCOL_WEBSOCKET;
    d->websocket[WEBSOCKET_IN] = (struct websocket){.masked = server ? MASKED : 0};
    d->websocket[WEBSOCKET_OUT] = (struct websocket){.masked = server ? 0 : MASKED};
    d->websocket_server = server;
}

void websocket_written(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                       unsigned count, uint64_t accepted, uint64_t now, uint32_t context)
{
    struct websocket_seen seen = {0};
    for (unsigned i = 0; i < count && accepted; i++) {
        uint64_t here = buffers[i].length < accepted ? buffers[i].length : accepted;
        websocket_bytes(&d->websocket[WEBSOCKET_OUT], buffers[i].base, here, &seen);
        accepted -= here;
    }
    if (seen.messages)
        RECORD(self, ws_message, 0, now, .first = seen.first, .bytes = seen.bytes,
               .generation = d->generation, .fd = fd, .messages = seen.messages, .context = context,
               .side = d->websocket_server ? 0 : 1, .sent = 1);
}
