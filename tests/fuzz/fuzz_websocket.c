/* The reader of WebSocket frames in the probe: however the bytes are cut, the same messages, and what is no
 * frame ends it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/websocket.h"

/* What websocket.c names of the probe beside its reader. */
struct sonde_config sonde_config;
struct probe_live probe_live;
struct sonde_shared *probe_shared;
struct probe_large probe_large;
__thread struct probe_self probe_self = {.attachment = PROBE_UNCLAIMED};

struct probe_thread *probe_thread_claim(void)
{
    return NULL;
}

struct descriptor *descriptor_get(int fd)
{
    return NULL;
}

/* All of it, in pieces of at most `most` bytes; in memory of each piece's size, so that a byte beyond it is
 * noticed. */
static struct websocket read_all(const uint8_t *bytes, size_t size, size_t most, uint8_t masked,
                                 struct websocket_seen *ret_sum)
{
    struct websocket w = {.masked = masked};
    *ret_sum = (struct websocket_seen){0};
    for (size_t at = 0; at < size;) {
        size_t piece = most < size - at ? most : size - at;
        char *copy = malloc(piece);
        if (!copy)
            abort();
        memcpy(copy, bytes + at, piece);
        struct websocket_seen seen = {0};
        websocket_bytes(&w, copy, piece, &seen);
        if (seen.messages && seen.first != ret_sum->messages + 1)
            abort();
        ret_sum->messages += seen.messages;
        ret_sum->bytes += seen.bytes;
        at += piece;
        free(copy);
    }
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint8_t masked = data[0] & 0x80;
    size_t most = 1 + data[1] % 16;
    struct websocket_seen whole, pieces;
    struct websocket a = read_all(data + 2, size - 2, size, masked, &whole);
    struct websocket b = read_all(data + 2, size - 2, most, masked, &pieces);
    if (whole.messages != pieces.messages || whole.bytes != pieces.bytes || a.lost != b.lost ||
        a.messages != b.messages || (!a.lost && (a.left != b.left || a.have != b.have)))
        abort();
    if (whole.bytes > size || whole.messages > size)
        abort();
    return 0;
}
