/* What HTTP/1, HTTP/2 and WebSocket share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_HTTP_H
#define PROTOCOLS_HTTP_H

#include "model/model.h"

/* What an http:request tells of: at a server, and at its client. */
struct request *http_request_new(struct analysis *a, struct thread *thread, const struct event *e);
struct call http_call_of(struct analysis *a, const struct event *e);
/* The request was sent by that call. */
void http_join(struct analysis *a, struct call *call, struct request *request);
/* Its response is written whole, or will never be. caller: the other end, may be NULL. */
void http_answered(struct analysis *a, struct thread *thread, struct request *request,
                   struct connection *caller, uint64_t now_ns, enum request_state state);
/* The callbacks around this event belong to the call's owner. */
struct item *http_tell_turn(struct analysis *a, struct thread *thread, const struct event *e,
                            const struct call *call);
/* uv:write: bytes of a response went out. */
void http_written(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e);

/* http2.c: an http:request, http:response or http:end of a stream. */
void http2_event(struct analysis *a, struct thread *thread, const struct event *e);

#endif
