/* The hooks in Node's message ports: worker_threads, MessageChannel. Who posts is seen in
 * MessagePort::PostMessage(), to whom by the handle that it wakes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe.h"
#include "targets/node/probe_context.h"

/* Maybe<bool> MessagePort::PostMessage(Environment *, Local<Context>, Local<Value>, const TransferList &) */
HOOK(uint64_t, port_post, void *port, void *env, void *context, void *value, void *transfer)
{
    struct probe_thread *self = probe_thread();
    if (!self || sonde_config.node.port_handle == SONDE_NO_OFFSET)
        return sonde_orig_port_post(port, env, context, value, transfer);
    uint32_t whose = context_current(self, -1);
    uint64_t outer = self->port_posting, outer_target = self->port_target;
    uint64_t now = ticks(); /* before the other thread can have read it */
    self->port_posting = (uintptr_t)port;
    self->port_target = 0;
    uint64_t result = sonde_orig_port_post(port, env, context, value, transfer);
    uint64_t target = self->port_target;
    if (probe_stale(self))
        return result;
    self->port_posting = outer;
    self->port_target = outer_target;
    RECORD(self, port_post, 0, now, .from = (uintptr_t)port + (uint32_t)sonde_config.node.port_handle,
           .target = target, .context = whose);
    return result;
}

/* Any thread calls it, also those that nothing is recorded of: no slot is claimed. */
HOOK(int, uv_async_send, void *handle)
{
    struct probe_thread *self = probe_thread_claimed();
    if (self && self->port_posting)
        self->port_target = (uintptr_t)handle;
    return sonde_orig_uv_async_send(handle);
}

/* The port's handle was woken: its messages are taken and given to JavaScript. */
HOOK(void, port_receive, void *handle)
{
    struct probe_thread *self = probe_thread();
    if (!self) {
        sonde_orig_port_receive(handle);
        return;
    }
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_port_turn, (uintptr_t)handle, 0);
    RECORD(self, port_receive, 0, start, .handle = (uintptr_t)handle);
    sonde_orig_port_receive(handle);
    span_close(self, depth);
    RECORD(self, port_turn, start, ticks(), .handle = (uintptr_t)handle);
}
