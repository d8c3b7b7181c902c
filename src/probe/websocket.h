/* WebSocket connections: how many messages pass (websocket.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WEBSOCKET_H
#define PROBE_WEBSOCKET_H

#include "probe/probe.h"

/* The connection was upgraded; server: this end is. */
void websocket_begins(struct descriptor *d, bool server);

/* Follows the frames of one direction; adds what ended in these bytes to seen. */
void websocket_bytes(struct websocket *w, const char *bytes, uint64_t length, struct websocket_seen *seen);

/* Records the messages that end in what is written. */
void websocket_written(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                       unsigned count, uint64_t accepted, uint64_t now, uint32_t context);

#endif
