/* Which request is being served right now. The runtime whose streams write_seen() reads knows it, and defines
 * these functions among its hooks: src/targets/node/probe_context.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_CONTEXT_H
#define PROBE_CONTEXT_H

#include "probe/probe.h"

/* Whose code is running: 0 when nobody can be asked, 1 for no request's, else the request's number. fd is
 * the descriptor that is written to, or -1. To be asked where the program's own code may be called: in a
 * function that that code has called. */
HOT uint32_t context_current(struct probe_thread *self, int fd);

/* The context of what a connection brings that carries others' requests too (messages of a broker, of a
 * WebSocket, an HTTP/2 stream), and whose next callback serves it; 0 where none is kept. stream: the
 * runtime's own id of what is its alone, 0 for none. */
uint32_t context_new_shared(struct probe_thread *self, uint64_t stream);

#endif
