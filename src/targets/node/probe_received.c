/* What streams have read, before it goes to JavaScript: messages in it (of WebSocket connections, of brokers)
 * are recorded with the callback that carries them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/delivery.h"
#include "probe/statement.h"
#include "probe/websocket.h"
#include "targets/node/probe.h"
#include "targets/node/probe_context.h"

/* EmitToJSStreamListener::OnStreamRead(ssize_t, const uv_buf_t &): what a stream has read goes to JavaScript,
 * of TLS in the clear. */
HOOK(void, node_stream_read, void *listener, long count, const struct buffer *buffer)
{
    struct probe_thread *self = probe_thread();
    struct descriptor *d = self && count > 0 && self->stream_fd >= 0 ? descriptor_get(self->stream_fd) : NULL;
    if (d)
        self->stream_bytes += (uint32_t)count;
    if (!d || (d->protocol != PROTOCOL_WEBSOCKET && !d->queue) ||
        (d->queue == READS_MIDWAY &&
         !queue_midway(self, self->stream_fd, d, false, buffer, 1, (uint64_t)count))) {
        sonde_orig_node_stream_read(listener, count, buffer);
        return;
    }
    struct websocket_seen seen = {0};
    if (d->queue == READS_PREPARED) {
        d->queue = 0;
        statement_answered((uint64_t)self->stream_fd << 32 | d->generation, buffer->base, (uint64_t)count);
        sonde_orig_node_stream_read(listener, count, buffer);
        return;
    }
    if (d->queue) {
        queue_read(self, d, buffer->base, (uint64_t)count);
        seen.messages = self->queue_pending;
    } else {
        websocket_bytes(&d->websocket[WEBSOCKET_IN], buffer->base, (uint64_t)count, &seen);
    }
    self->messages_pending = seen;
    sonde_orig_node_stream_read(listener, count, buffer);
    if (!probe_stale(self) && self->messages_pending.messages) { /* no JavaScript was called */
        websocket_tell(self);
        context_parsed(self, false);
    }
}

void websocket_tell(struct probe_thread *self)
{
    struct websocket_seen seen = self->messages_pending;
    struct descriptor *d = self->stream_fd >= 0 ? descriptor_get(self->stream_fd) : NULL;
    self->messages_pending.messages = 0;
    if (!d)
        return;
    if (self->queue_pending) {
        queue_tell(self);
        return;
    }
    bool server = d->websocket_server;
    RECORD(self, ws_message, 0, ticks(), .first = seen.first, .bytes = seen.bytes,
           .generation = self->stream_generation, .fd = self->stream_fd, .messages = seen.messages,
           .context = server ? context_new_shared(self, 0) : 0, .side = server ? 0 : 1, .sent = 0);
}
