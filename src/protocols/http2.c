/* HTTP/2: the streams of a session are requests of their own, many at a time over one connection. What
 * nghttp2 tells of a stream names its session; http:session says which connection carries that. A session is
 * kept as a connection of its own (with no descriptor), whose calls end in any order, so that all that is
 * known of calls holds for streams too. The two ends of a stream have the same number on two ends of one TCP
 * connection: that joins them, with no header needed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "faults/faults.h"
#include "protocols/http.h"
#include "protocols/protocols.h"
#include "model/model.h"

enum { NO_DESCRIPTOR = -2 };

static struct connection *session_of(const struct process *process, uint64_t key)
{
    uint64_t *known = map_get(&process->sessions, key);
    return known ? (struct connection *)(uintptr_t)*known : NULL;
}

static struct connection *session_need(struct analysis *a, struct process *process, uint64_t key,
                                       uint64_t now_ns)
{
    struct connection *s = session_of(process, key);
    if (s)
        return s;
    s = connection_need(a, process, NO_DESCRIPTOR, process->session_count++, now_ns);
    uint64_t *place = s ? map_put(&process->sessions, key, NULL) : NULL;
    if (!place) {
        a->failed = true;
        return NULL;
    }
    *place = (uint64_t)(uintptr_t)s;
    s->session_key = key;
    s->family = AF_INET;
    s->protocol = &protocol_http2;
    return s;
}

/* The other end of the session, where that is traced. */
static struct connection *session_mirror(const struct connection *s)
{
    return s->carrier && s->carrier->mirror ? s->carrier->mirror->session : NULL;
}

static uint64_t stream_of(const struct connection *s, uint64_t number)
{
    uint64_t *known = map_get(&s->streams, number);
    return known ? *known : 0;
}

/* Calls are kept as their number and 1, since 0 is no call. */
static struct call *stream_call(struct connection *s, uint64_t number)
{
    uint64_t index = s && s->client ? stream_of(s, number) : 0;
    return index ? call_at(s, index - 1) : NULL;
}

static void remember_stream(struct analysis *a, struct connection *s, uint64_t number, uint64_t what)
{
    uint64_t *place = map_put(&s->streams, number, NULL);
    if (place)
        *place = what;
    else
        a->failed = true;
}

/* ---- the connection below ---- */

static void leave_carrier(struct connection *s)
{
    if (s->carrier)
        s->carrier->session = NULL;
    s->carrier = NULL;
}

static void forget(struct analysis *a, struct connection *c)
{
    if (c->session)
        c->session->carrier = NULL;
    leave_carrier(c);
    map_done(&c->streams);
    uint64_t *known = c->protocol == &protocol_http2 ? map_get(&c->process->sessions, c->session_key) : NULL;
    if (known && *known == (uint64_t)(uintptr_t)c)
        map_remove(&c->process->sessions, c->session_key);
}

static void session_seen(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *carrier = connection_need(a, thread->process, (int32_t)I(e, http_session_fd),
                                                 (uint32_t)U(e, http_session_generation), e->time_ns);
    struct connection *s = session_need(a, thread->process, U(e, http_session_session), e->time_ns);
    if (!carrier || !s || s->carrier == carrier)
        return;
    if (carrier->session)
        carrier->session->carrier = NULL;
    leave_carrier(s);
    while (calls_open(carrier)) /* bytes before it was known what they are */
        call_finish_first(a, carrier, e->time_ns);
    carrier->protocol = &protocol_http2;
    carrier->session = s;
    s->carrier = carrier;
    s->peer_name = carrier->peer_name;
    for (size_t i = s->first_call; i < s->calls.count; i++)
        s->calls.at[i].peer = s->peer_name;
}

static void closed(struct analysis *a, struct thread *thread, struct connection *carrier, uint64_t now_ns)
{
    struct connection *s = carrier->session, *other = s ? session_mirror(s) : NULL;
    if (!s)
        return;
    map_foreach (&s->streams, slot) {
        struct request *request = s->client ? NULL : request_open(a, slot->value);
        if (request && !request->end_ns)
            http_answered(a, thread, request, other, now_ns,
                          request->response_ns ? REQUEST_ANSWERED : REQUEST_ABORTED);
    }
    while (calls_open(s))
        call_finish_first(a, s, now_ns);
    map_remove(&s->process->sessions, s->session_key);
    connection_close(a, s);
}

/* ---- the server's side ---- */

static void request_received(struct analysis *a, struct thread *thread, struct connection *s,
                             const struct event *e)
{
    uint64_t number = U(e, http_request_stream);
    struct request *request = http_request_new(a, thread, e);
    if (!request)
        return;
    request->stream = (uint32_t)number;
    remember_stream(a, s, number, request->serial);
    struct connection *port = s->carrier;
    if (port)
        connection_serves(a, port);
    if (port && port->local.port && !map_put(&thread->process->server_ports, port->local.port, NULL))
        a->failed = true;
    struct call *call = stream_call(session_mirror(s), number);
    uint64_t sent_ns = call ? call->sent_ns : 0;
    if (call && !call->child)
        http_join(a, call, request);
    stretch_late_request(a, thread, request, sent_ns, s->opened_ns);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return;
    item->small = SONDE_side_server;
    item->id = request->serial;
    item->trigger = U(e, http_request_resource);
    item->count = (uint32_t)number;
}

static void response_begun(struct analysis *a, struct thread *thread, const struct connection *s,
                           const struct event *e)
{
    struct request *request = s->client ? NULL : request_open(a, stream_of(s, U(e, http_response_stream)));
    if (!request)
        return;
    request->status = (uint16_t)U(e, http_response_status);
    request->response_ns = e->time_ns;
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_side_server;
        item->id = request->serial;
    }
}

/* ---- the client's side ---- */

static void request_sent(struct analysis *a, struct thread *thread, struct connection *s,
                         const struct event *e)
{
    uint64_t index = 0;
    s->client = 1;
    struct call call = http_call_of(a, e);
    if (!call_add(a, s, &call, &index))
        return;
    remember_stream(a, s, U(e, http_request_stream), index + 1);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_side_client;
        item->context = (uint32_t)U(e, http_request_context);
        item->fd = s->fd;
        item->generation = s->generation;
        item->id = index;
        item->count = 1;
    }
}

static void tell(struct analysis *a, struct thread *thread, const struct event *e, const struct call *call)
{
    struct item *item = http_tell_turn(a, thread, e, call);
    if (item)
        item->trigger = 1; /* of one callback only: the next may be of another stream */
}

static void response_read(struct analysis *a, struct thread *thread, struct call *call, const struct event *e)
{
    uint64_t status = U(e, http_response_status);
    if (status < 200)
        return; /* informational: the response follows */
    call_answered(a, call, (uint16_t)status);
    if (!call->ready_ns)
        call_ready(a, call, e->time_ns);
    tell(a, thread, e, call);
}

/* ---- ends ---- */

static void stream_ended(struct analysis *a, struct thread *thread, struct connection *s,
                         const struct event *e)
{
    uint64_t number = U(e, http_end_stream);
    bool closed = U(e, http_end_side) == SONDE_side_server;
    struct call *call = stream_call(s, number);
    struct request *request = s->client ? NULL : request_open(a, stream_of(s, number));
    if (call) {
        if (!closed)
            tell(a, thread, e, call);
        map_remove(&s->streams, number);
        call_finish(a, s, call, e->time_ns);
    } else if (request && closed) {
        if (!request->end_ns)
            http_answered(a, thread, request, session_mirror(s), e->time_ns,
                          request->response_ns ? REQUEST_ANSWERED : REQUEST_ABORTED);
        map_remove(&s->streams, number);
    }
}

void http2_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *s;
    struct call *call;
    switch (e->id) {
    case SONDE_EVENT_http_request:
        s = session_need(a, thread->process, U(e, http_request_parser), e->time_ns);
        if (s && U(e, http_request_side) == SONDE_side_server)
            request_received(a, thread, s, e);
        else if (s)
            request_sent(a, thread, s, e);
        break;
    case SONDE_EVENT_http_response:
        s = session_of(thread->process, U(e, http_response_parser));
        if (s && U(e, http_response_side) == SONDE_side_server)
            response_begun(a, thread, s, e);
        else if ((call = s ? stream_call(s, U(e, http_response_stream)) : NULL))
            response_read(a, thread, call, e);
        break;
    case SONDE_EVENT_http_end:
        s = session_of(thread->process, U(e, http_end_parser));
        if (s)
            stream_ended(a, thread, s, e);
        break;
    }
}

/* A gRPC call's own status, of whichever side. */
static void grpc_ended(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *s = session_of(thread->process, U(e, http_grpc_session));
    uint64_t number = U(e, http_grpc_stream);
    uint8_t grpc = (uint8_t)MIN(U(e, http_grpc_status) + 1, 255u);
    struct call *call = stream_call(s, number);
    struct request *request = s && !s->client ? request_open(a, stream_of(s, number)) : NULL;
    if (request)
        request->grpc = grpc;
    if (!call)
        return;
    call->grpc = grpc;
    struct vspan *span = call_span(a, call);
    if (span)
        span->grpc = grpc;
}

static const struct event_reading EVENTS[] = {
    {SONDE_EVENT_http_session, session_seen}, {SONDE_EVENT_http_grpc, grpc_ended}, {0}};

/* What is told of frames says whose they are: there is nothing to find out from what comes. */
const struct protocol protocol_http2 = {
    .name = "http", .events = EVENTS, .parallel = true, .closed = closed, .forget = forget};
