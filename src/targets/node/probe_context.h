/* Which request is being served right now: see probe_context.c, and probe/context.h for what the rest of the
 * probe asks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_CONTEXT_H
#define TARGETS_NODE_PROBE_CONTEXT_H

#include "probe/context.h"

/* A callback scope has just been opened on this thread, in that node::Environment (NULL: unknown); async_id 0
 * when unknown. The script is started in the first one that serves; a request that came with this scope is
 * entered. */
HOT void context_scope(struct probe_thread *self, const void *environment, uint64_t async_id);

/* The context of an HTTP request that goes to JavaScript now, where the script enters it; 0 without a
 * script. */
HOT uint32_t context_new_request(void);

/* The request has been to JavaScript (carried), or was not for it. Where Node did not announce it, as for an
 * upgrade, it is entered with the parser's next scope. */
HOT void context_parsed(struct probe_thread *self, bool carried);

/* A resource is created: recorded. Handles that outlive the request that made them pass its context on to
 * whatever they call back; such callbacks are to begin without one. */
HOT void resource_made(struct probe_thread *self, const void *environment, const uint64_t *type,
                       uint64_t async_id, uint64_t trigger_id);

/* A garbage collection has ended: how many promises there were, where the script counts them. */
void context_collected(struct probe_thread *self);

#endif
