/* What is written to a stream, and its end, whatever the protocol: handed to the connection's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/commands.h"
#include "protocols/exchange.h"
#include "protocols/protocols.h"
#include "model/model.h"

static void written(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, stream_write_fd),
                                           (uint32_t)U(e, stream_write_generation), e->time_ns);
    if (!c)
        return;
    c->bytes_written += U(e, stream_write_bytes);
    c->last_write_ns = e->time_ns;
    if (U(e, stream_write_messages) && (c->protocol || !connection_is_pipe(c)))
        exchange_is_of(a, c, command_protocol((uint8_t)U(e, stream_write_wire)));
    const struct protocol *protocol = connection_protocol(c);
    if (protocol->written)
        protocol->written(a, thread, c, e);
}

static void closed(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_get(thread->process, (int32_t)I(e, stream_close_fd),
                                          (uint32_t)U(e, stream_close_generation));
    if (!c)
        return;
    for (const struct protocol *const *p = PROTOCOLS; *p; p++)
        if ((*p)->closed)
            (*p)->closed(a, thread, c, e->time_ns);
    /* Calls without an answer end here. An HTTP call that a stalled server may still read stays findable. */
    c->closed_ns = e->time_ns;
    for (size_t i = c->first_call; i < c->calls.count; i++) {
        struct call *call = &c->calls.at[i];
        struct vspan *span = call->kind == VSPAN_http && !call->status ? call_span(a, call) : NULL;
        if (span)
            span->lost = VSPAN_GIVEN_UP;
        if (call->kind != VSPAN_http || call->child || !c->mirror)
            call->done = 1;
    }
    while (calls_open(c) && c->calls.at[c->first_call].done)
        call_finish_first(a, c, e->time_ns);
    connection_close(a, c);
}

const struct event_reading STREAM_EVENTS[] = {
    {SONDE_EVENT_stream_write, written}, {SONDE_EVENT_stream_close, closed}, {0}};
