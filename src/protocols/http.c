/* HTTP over a connection, both sides, and the bytes that go out. Requests and responses pair by their order
 * on the connection; a response is over when its header and content are written, or the last chunk, else when
 * the next message or the end of the connection shows it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "protocols/http.h"
#include "protocols/protocols.h"
#include "model/reading.h"

enum { METHOD_HEAD = 2 };

/* How much later than the request was read its sending may be written down: a time slice or two. */
static const uint64_t EARLY_NS = 100000000;

static struct request *first_waiting(struct analysis *a, struct connection *c)
{
    while (c->first_waiting < c->waiting.count) {
        struct request *request = request_open(a, c->waiting.at[c->first_waiting]);
        if (request)
            return request;
        c->first_waiting++; /* gone with its process */
    }
    return NULL;
}

static void pop_waiting(struct connection *c)
{
    c->first_waiting++;
    if (c->first_waiting == c->waiting.count)
        c->first_waiting = c->waiting.count = 0;
    c->responding = 0;
}

void http_answered(struct analysis *a, struct thread *thread, struct request *request,
                   struct connection *caller, uint64_t now_ns, enum request_state state)
{
    request->end_ns = MAX(now_ns, request->start_ns);
    request->state = (uint8_t)state;
    LIST_ADD(a, &thread->answered, request->serial);
    if (!caller)
        return;
    for (size_t i = caller->first_call; i < caller->calls.count; i++)
        if (caller->calls.at[i].child == request)
            call_ready(a, &caller->calls.at[i], request->end_ns);
}

/* The response to the oldest request. */
static void answered(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns,
                     enum request_state state)
{
    struct request *request = first_waiting(a, c);
    if (!request)
        return;
    pop_waiting(c);
    http_answered(a, thread, request, c->mirror, now_ns, state);
}

/* ---- the server's side ---- */

/* The caller's connection and order say which call this request is. */
static struct call *find_caller(struct connection *c, uint64_t now_ns)
{
    struct connection *caller = c->mirror;
    if (!caller || caller->protocol != &protocol_http_client)
        return NULL;
    for (size_t i = caller->first_call; i < caller->calls.count; i++) {
        struct call *call = &caller->calls.at[i];
        if (call->kind == VSPAN_http && !call->child && call->sent_ns <= now_ns)
            return call;
    }
    return NULL;
}

void http_join(struct analysis *a, struct call *call, struct request *request)
{
    a->counts.http_joined++;
    call->child = request_ref(request);
    struct request *owner = call->settled ? request_open(a, call->owner) : NULL;
    if (!owner)
        return;
    request->caller = owner;
    if (call->span != VSPAN_NONE)
        owner->spans.at[call->span].child = request_ref(request);
}

struct request *http_request_new(struct analysis *a, struct thread *thread, const struct event *e)
{
    const struct value *path = &e->values[FIELD_http_request_path];
    bool has_path = HAS(e, http_request_path);
    struct request *request = request_new(a, thread, e->time_ns, (uint8_t)U(e, http_request_method),
                                          has_path ? path->s : "", has_path ? path->length : 0);
    if (request)
        context_begins(a, thread, request, (uint32_t)U(e, http_request_context));
    return request;
}

static void request_received(struct analysis *a, struct thread *thread, struct connection *c,
                             const struct event *e)
{
    if (c->protocol != &protocol_http_server)
        connection_serves(a, c);
    c->protocol = &protocol_http_server;
    if (c->local.port && !map_put(&thread->process->server_ports, c->local.port, NULL))
        a->failed = true;
    if (c->responding && c->response_needs == UINT64_MAX)
        answered(a, thread, c, c->last_write_ns, REQUEST_ANSWERED);
    struct request *request = http_request_new(a, thread, e);
    if (!request)
        return;
    LIST_ADD(a, &c->waiting, request->serial);
    c->current = request->serial;
    struct call *call = find_caller(c, e->time_ns);
    if (call)
        http_join(a, call, request);
    else
        c->unclaimed = request->serial;
    stretch_late_request(a, thread, request, call ? call->sent_ns : 0, c->opened_ns);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_side_server;
        item->id = request->serial;
    }
}

/* A response to what was never read on its connection; but what is no request is refused likewise. */
static bool begun_before(const struct connection *c, uint64_t status)
{
    enum { BAD_REQUEST = 400, TIMEOUT = 408, TOO_LARGE = 431 };
    return !c->current && status != BAD_REQUEST && status != TIMEOUT && status != TOO_LARGE;
}

static void response_begun(struct analysis *a, struct thread *thread, struct connection *c,
                           const struct event *e)
{
    uint64_t status = U(e, http_response_status);
    if (status >= 100 && status < 200 && status != 101)
        return;        /* informational: the response follows */
    if (c->responding) /* the previous one ended without our seeing it */
        answered(a, thread, c, c->last_write_ns, REQUEST_ANSWERED);
    struct request *request = first_waiting(a, c);
    if (!request) {
        a->counts.begun_before += begun_before(c, status);
        return;
    }
    request->status = (uint16_t)status;
    request->response_ns = e->time_ns;
    if (status == 101)
        c->upgraded = intern_string(a, request->path);
    int64_t content = I(e, http_response_content_length);
    uint64_t headers = U(e, http_response_header_bytes);
    if (request->method_number == METHOD_HEAD || status == 204 || status == 304 || status == 101)
        content = 0;
    c->responding = 1;
    c->response_needs = headers && content >= 0 ? c->bytes_written + headers + (uint64_t)content : UINT64_MAX;
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_side_server;
        item->id = request->serial;
    }
}

/* ---- the client's side ---- */

/* The server may have read the request before its sender wrote down that it sent it. */
static void claim_early(struct analysis *a, struct connection *c, struct call *call)
{
    struct request *request = c->mirror ? request_open(a, c->mirror->unclaimed) : NULL;
    if (!request || call->sent_ns < request->start_ns || call->sent_ns - request->start_ns > EARLY_NS)
        return;
    c->mirror->unclaimed = 0;
    call->sent_ns = request->start_ns;
    http_join(a, call, request);
    if (request->end_ns)
        call_ready(a, call, request->end_ns);
}

struct call http_call_of(struct analysis *a, const struct event *e)
{
    char path[256] = "", name[300];
    const struct value *text = &e->values[FIELD_http_request_path];
    if (HAS(e, http_request_path))
        snprintf(path, sizeof(path), "%.*s", (int)MIN(text->length, 255u), text->s);
    snprintf(name, sizeof(name), "%s %s", method_name((uint8_t)U(e, http_request_method)), route_of(a, path));
    return (struct call){.kind = VSPAN_http, .sent_ns = e->time_ns, .name = intern_string(a, name)};
}

static void request_sent(struct analysis *a, struct thread *thread, struct connection *c,
                         const struct event *e)
{
    c->protocol = &protocol_http_client;
    uint64_t index = 0;
    struct call call = http_call_of(a, e);
    call.after_other = c->last_call_end_ns && c->last_call_end_ns >= thread->last_turn_end_ns;
    struct call *added = call_add(a, c, &call, &index);
    if (!added)
        return;
    claim_early(a, c, added);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_side_client;
        item->context = (uint32_t)U(e, http_request_context);
        item->fd = c->fd;
        item->generation = c->generation;
        item->id = index;
        item->count = 1;
    }
}

struct item *http_tell_turn(struct analysis *a, struct thread *thread, const struct event *e,
                            const struct call *call)
{
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return NULL;
    item->small = SONDE_side_client;
    item->id = call->owner;
    item->fd = call->known;
    item->count = call->span;
    return item;
}

static void response_read(struct analysis *a, struct thread *thread, struct connection *c,
                          const struct event *e)
{
    if (!calls_open(c))
        return;
    struct call *call = &c->calls.at[c->first_call];
    if (e->id == SONDE_EVENT_http_response) {
        call_answered(a, call, (uint16_t)U(e, http_response_status));
        if (call->status == 101)
            c->upgraded = intern_string(a, strchr(call->name, '/') ? strchr(call->name, '/') : "");
        if (!call->ready_ns) /* the other side is not traced: at the latest now */
            call_ready(a, call, e->time_ns);
    }
    http_tell_turn(a, thread, e, call);
    if (e->id == SONDE_EVENT_http_end && (call->status >= 200 || call->status == 101))
        call_finish_first(a, c, e->time_ns);
}

/* ---- bytes ---- */

void http_written(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e)
{
    if (c->responding && (c->bytes_written >= c->response_needs || U(e, stream_write_last_chunk)))
        answered(a, thread, c, e->time_ns, REQUEST_ANSWERED);
}

static void closed(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns)
{
    while (first_waiting(a, c)) {
        struct request *request = first_waiting(a, c);
        bool begun = request->response_ns != 0;
        answered(a, thread, c, begun ? MAX(c->last_write_ns, request->response_ns) : now_ns,
                 begun ? REQUEST_ANSWERED : REQUEST_ABORTED);
    }
}

/* ---- what comes, in a turn ---- */

/* The parser's callbacks are about the newest request read, unless it is answered or others are pipelined. */
static struct context server_input(struct analysis *a, struct thread *thread, struct connection *c,
                                   const struct item *io, size_t replies)
{
    size_t open = 0;
    for (size_t i = c->first_waiting; i < c->waiting.count; i++)
        open += request_open(a, c->waiting.at[i]) != NULL;
    struct request *current = request_open(a, c->current);
    if (open > 1)
        return decided(NULL, KNOWN_AMBIGUOUS, VSPAN_NONE);
    return decided(current, current ? KNOWN_PROVED : KNOWN_NOT, VSPAN_NONE);
}

/* As claim_call(), of a call that has ended by now: what tells of its end is changed to tell whose it was. */
static void claim_ended(struct analysis *a, struct thread *thread, struct connection *c,
                        const struct item *io)
{
    struct call *call = &c->ended;
    if (call->kind != VSPAN_http || call->owner || c->last_call_end_ns < io->start_ns ||
        claim_call(a, thread, call, io).owner == NULL)
        return;
    struct request *owner = request_open(a, call->owner);
    if (call->span != VSPAN_NONE)
        owner->spans.at[call->span].end_ns = MAX(c->last_call_end_ns, call->sent_ns);
    owner->open_calls--;
    foreach_child_of(thread, io, child)
    {
        if ((child->event != SONDE_EVENT_http_response && child->event != SONDE_EVENT_http_end) || child->id)
            continue;
        child->id = call->owner;
        child->fd = KNOWN_INFERRED;
        child->count = call->span;
    }
}

static struct context client_input(struct analysis *a, struct thread *thread, struct connection *c,
                                   const struct item *io, size_t replies)
{
    claim_ended(a, thread, c, io);
    foreach_child_of(thread, io, child)
    {
        if (child->event == SONDE_EVENT_http_response || child->event == SONDE_EVENT_http_end)
            return UNDECIDED; /* it says so itself */
    }
    if (!calls_open(c) || c->calls.at[c->first_call].sent_ns >= io->start_ns)
        return decided(NULL, KNOWN_NOT, VSPAN_NONE);
    const struct call *call = &c->calls.at[c->first_call];
    return decided(request_open(a, call->owner), call->known, call->span);
}

/* ---- events ---- */

static void request_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    if (U(e, http_request_stream)) {
        http2_event(a, thread, e);
        return;
    }
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, http_request_fd),
                                           (uint32_t)U(e, http_request_generation), e->time_ns);
    if (c && U(e, http_request_side) == SONDE_side_server)
        request_received(a, thread, c, e);
    else if (c)
        request_sent(a, thread, c, e);
}

static void response_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    if (U(e, http_response_stream)) {
        http2_event(a, thread, e);
        return;
    }
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, http_response_fd),
                                           (uint32_t)U(e, http_response_generation), e->time_ns);
    if (c && U(e, http_response_side) == SONDE_side_server)
        response_begun(a, thread, c, e);
    else if (c)
        response_read(a, thread, c, e);
}

static void end_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    if (U(e, http_end_stream)) {
        http2_event(a, thread, e);
        return;
    }
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, http_end_fd),
                                           (uint32_t)U(e, http_end_generation), e->time_ns);
    if (c && U(e, http_end_side) == SONDE_side_client)
        response_read(a, thread, c, e);
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_http_request, request_event},
                                              {SONDE_EVENT_http_response, response_event},
                                              {SONDE_EVENT_http_end, end_event},
                                              {0}};

const struct protocol protocol_http_server = {
    .name = "http", .events = EVENTS, .written = http_written, .input = server_input, .closed = closed};
const struct protocol protocol_http_client = {.name = "http", .in_order = true, .input = client_input};
