/* WebSocket messages: what a turn of the event loop says of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_WEBSOCKET_H
#define PROTOCOLS_WEBSOCKET_H

#include "model/model.h"

/* What an item of a message says (small). */
enum { MESSAGE_ASKS, MESSAGE_BACK, MESSAGE_ANSWERS, MESSAGE_SENT };
/* A message was sent for the request, which may be NULL; a callback of it has ended. */
void websocket_answered(struct analysis *a, struct thread *thread, struct request *request, uint64_t now_ns);
void websocket_handled(struct request *request, uint64_t now_ns);
/* Of the messages that came on the connection, those of whose handlers nothing was seen for long end. */
void websocket_end_old(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns);

#endif
