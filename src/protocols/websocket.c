/* WebSocket: each message that a server receives is a request of its own, from its read to the first message
 * that is sent in its context: what its handler did is its span. Nothing in the protocol says that a message
 * is an answer, and many are none: a message without one ends with the last that was seen of its handler, and
 * is kept for a while, since the handler may only wait for something unseen.
 *
 * Messages are numbered on their connection, each way: that joins the two ends. Messages that came in one
 * read are handed to JavaScript at once and are one request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "protocols/http.h"
#include "protocols/protocols.h"
#include "protocols/websocket.h"
#include "base/clock.h"

enum { METHOD_OTHER = 255 };

static const uint64_t KEPT_NS = 5 * NS_PER_S;

/* ---- the server's side ---- */

void websocket_end_old(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns)
{
    while (c->first_waiting < c->waiting.count) {
        struct request *request = request_open(a, c->waiting.at[c->first_waiting]);
        if (request && (request->state != REQUEST_ANSWERED || request->end_ns + KEPT_NS > now_ns))
            return;
        if (request)
            http_answered(a, thread, request, c->mirror, request->end_ns, REQUEST_ANSWERED);
        c->first_waiting++;
    }
    c->first_waiting = c->waiting.count = 0;
}

static void closed(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns)
{
    if (c->protocol != &protocol_websocket)
        return;
    for (size_t i = c->first_waiting; i < c->waiting.count; i++) {
        struct request *request = request_open(a, c->waiting.at[i]);
        if (request)
            http_answered(a, thread, request, c->mirror,
                          request->state == REQUEST_ANSWERED ? request->end_ns : now_ns,
                          request->state == REQUEST_ANSWERED ? REQUEST_ANSWERED : REQUEST_ABORTED);
    }
    c->first_waiting = c->waiting.count = 0;
}

static struct call *find_call(const struct connection *caller, uint64_t first, uint64_t messages)
{
    for (size_t i = caller ? caller->first_call : 0; caller && i < caller->calls.count; i++) {
        struct call *call = &caller->calls.at[i];
        if (call->message && !call->ended && !call->child && call->number >= first &&
            call->number - first < messages)
            return call;
    }
    return NULL;
}

static void message_received(struct analysis *a, struct thread *thread, struct connection *c,
                             const struct event *e)
{
    websocket_end_old(a, thread, c, e->time_ns);
    const char *path = c->upgraded ? c->upgraded : "";
    struct request *request = request_new(a, thread, e->time_ns, METHOD_OTHER, path, strlen(path));
    if (!request)
        return;
    request->messages = (uint32_t)MAX(U(e, ws_message_messages), 1u);
    request->method = request->spans.at[0].name = intern_string(a, "MESSAGE");
    context_begins(a, thread, request, (uint32_t)U(e, ws_message_context));
    LIST_ADD(a, &c->waiting, request->serial);
    struct call *call = find_call(c->mirror, U(e, ws_message_first), request->messages);
    if (call)
        http_join(a, call, request);
    stretch_late_request(a, thread, request, call ? call->sent_ns : 0, c->opened_ns);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = MESSAGE_ASKS;
        item->id = request->serial;
        item->count = request->messages;
    }
}

static void message_answers(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return;
    item->small = MESSAGE_ANSWERS;
    item->context = (uint32_t)U(e, ws_message_context);
}

void websocket_answered(struct analysis *a, struct thread *thread, struct request *request, uint64_t now_ns)
{
    if (!request || !request->messages || request->response_ns)
        return;
    request->response_ns = now_ns;
    http_answered(a, thread, request, NULL, now_ns, REQUEST_ANSWERED);
}

void websocket_handled(struct request *request, uint64_t now_ns)
{
    if (!request->messages || request->response_ns)
        return;
    bool waits = request->open_calls > 0;
    request->state = waits ? REQUEST_OPEN : REQUEST_ANSWERED;
    request->end_ns = waits ? 0 : now_ns;
}

/* ---- the client's side ---- */

static void message_sent(struct analysis *a, struct thread *thread, struct connection *c,
                         const struct event *e)
{
    char name[300];
    snprintf(name, sizeof(name), "MESSAGE %s", c->upgraded ? route_of(a, c->upgraded) : "");
    uint64_t index = 0;
    struct call call = {.kind = VSPAN_http,
                        .message = 1,
                        .number = U(e, ws_message_first),
                        .sent_ns = e->time_ns,
                        .written_bytes = U(e, ws_message_bytes),
                        .write_messages = (uint32_t)U(e, ws_message_messages),
                        .name = intern_string(a, name)};
    if (!call_add(a, c, &call, &index))
        return;
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = MESSAGE_SENT;
        item->context = (uint32_t)U(e, ws_message_context);
        item->fd = c->fd;
        item->generation = c->generation;
        item->id = index;
        item->count = 1;
    }
}

/* What comes answers the message that was answered at its other end; where that is not seen, or several were,
 * the oldest of them, and then the callback is not said to be its request's. */
static void message_back(struct analysis *a, struct thread *thread, struct connection *c,
                         const struct event *e)
{
    struct call *oldest = NULL, *answered = NULL;
    size_t open = 0, answers = 0;
    for (size_t i = c->first_call; i < c->calls.count; i++) {
        struct call *call = &c->calls.at[i];
        if (call->ended || !call->message)
            continue;
        oldest = open++ ? oldest : call;
        if (call->child && call->child->response_ns)
            answered = answers++ ? answered : call;
    }
    struct call *call = answered ? answered : oldest;
    if (!call)
        return;
    if (!call->ready_ns)
        call_ready(a, call, e->time_ns);
    struct item *item = open == 1 || answers == 1 ? http_tell_turn(a, thread, e, call) : NULL;
    if (item) {
        item->small = MESSAGE_BACK;
        item->fd = MIN(item->fd, (int32_t)KNOWN_INFERRED);
    }
    call_finish(a, c, call, e->time_ns);
}

static void message_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, ws_message_fd),
                                           (uint32_t)U(e, ws_message_generation), e->time_ns);
    if (!c)
        return;
    c->protocol = &protocol_websocket;
    bool sent = U(e, ws_message_sent) != 0;
    bool server = U(e, ws_message_side) == SONDE_side_server;
    if (server && sent)
        message_answers(a, thread, e);
    else if (server)
        message_received(a, thread, c, e);
    else if (sent)
        message_sent(a, thread, c, e);
    else
        message_back(a, thread, c, e);
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_ws_message, message_event}, {0}};

/* What is told of messages says whose they are. The response that turned the connection into a WebSocket may
 * still be under way. */
const struct protocol protocol_websocket = {
    .name = "websocket", .events = EVENTS, .written = http_written, .closed = closed};
