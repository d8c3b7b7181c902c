/* What the hooks in Node share (probe*.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_H
#define TARGETS_NODE_PROBE_H

#include "probe/probe.h"

/* A callback scope begins on this thread: opens its span. ids may still be unknown (0). */
HOT void callback_begin(struct probe_thread *self, uint64_t scope, uint64_t async_id);

/* It ends; async ids as read from the scope, 0 when unknown. Does nothing for a scope that is not open any
 * more; callback is where callback_find() had it. */
HOT void callback_end(struct probe_thread *self, struct probe_callback *callback, uint64_t scope,
                      uint64_t async_id, uint64_t trigger_id);

/* The innermost open callback of this thread, or NULL. */
HOT struct probe_callback *callback_find(struct probe_thread *self, uint64_t scope);

/* The request that waits for its callback is recorded. */
HOT void tell_request(struct probe_thread *self, uint64_t now);

/* Records the messages that wait for their callback. */
void websocket_tell(struct probe_thread *self);

/* The characters of a flat one-byte V8 string behind a handle, or NULL. */
const char *v8_text(const uint64_t *handle, uint32_t *ret_length);

/* The number of an internalised V8 string behind a handle, 0 when it cannot be read. */
uint32_t v8_name(struct probe_thread *self, const uint64_t *handle);

#endif
