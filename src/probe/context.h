/* Which request is being served right now: see context.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_CONTEXT_H
#define PROBE_CONTEXT_H

#include "probe/probe.h"

/* A callback scope has just been opened on this thread; async_id 0 when unknown. The script is started in
 * the first one that serves; a request that came with this scope is entered. */
HOT void context_scope(struct probe_thread *self, uint64_t async_id);

/* The context of an HTTP request that goes to JavaScript now, where the script enters it; 0 without a
 * script. */
HOT uint32_t context_new_request(void);

/* The same for a request whose next scope is of a resource that carries others' requests too: an HTTP/2
 * session, a WebSocket connection. stream: the async id of the resource that is its alone, 0 for none. */
uint32_t context_new_shared(struct probe_thread *self, uint64_t stream);

/* The request has been to JavaScript (carried), or was not for it. Where Node did not announce it, as for an
 * upgrade, it is entered with the parser's next scope. */
HOT void context_parsed(struct probe_thread *self, bool carried);

/* Whose code is running: 0 when nobody can be asked, 1 for no request's, else the request's number. fd is
 * the descriptor that is written to, or -1. To be asked where JavaScript may be called: in a function that
 * JavaScript has called. */
HOT uint32_t context_current(struct probe_thread *self, int fd);

/* A resource is created. Handles that outlive the request that made them pass its context on to whatever
 * they call back; such callbacks are to begin without one. */
void context_resource(struct probe_thread *self, const void *environment, const uint64_t *type,
                      uint64_t async_id);

/* A garbage collection has ended: how many promises there were, where the script counts them. */
void context_collected(struct probe_thread *self);

#endif
