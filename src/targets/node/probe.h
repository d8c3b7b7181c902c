/* What the hooks in Node share (probe*.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_H
#define TARGETS_NODE_PROBE_H

#include "probe/probe.h"

#define READ(type, p, at) (*(const type *)((const char *)(p) + (at)))

/* A callback scope begins on this thread: opens its span. The ids may still be unknown (0). */
HOT void callback_begin(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id);

/* The ids of the scope that was opened last, once they are known. */
void callback_known(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id);

/* The request that waits for its callback is recorded. */
HOT void tell_request(struct probe_thread *self, uint64_t now);

/* Records the messages that wait for their callback. */
void websocket_tell(struct probe_thread *self);

/* The characters of a flat one-byte V8 string behind a handle, or NULL. */
const char *v8_text(const uint64_t *handle, uint32_t *ret_length);

/* The number of an internalised V8 string behind a handle, 0 when it cannot be read: not the newest one's. */
uint32_t v8_name_other(struct probe_thread *self, const uint64_t *handle);

static inline uint32_t v8_name(struct probe_thread *self, const uint64_t *handle)
{
    if (LIKELY(handle && self->named_string && *handle == self->named_string))
        return self->named_number;
    return v8_name_other(self, handle);
}

#endif
