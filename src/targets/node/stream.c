/* A stream's events in a turn of a Node.js event loop: whose callbacks they are, from what was asked on the
 * connection (BCTA, Node Compass 3.6), and whether that fits what the turn goes on with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/node.h"

enum { POLLIN_BIT = 1 };

static struct context other_reply(struct turn *t, struct connection *c, const struct item *io)
{
    struct call *call = calls_open(c) ? &c->calls.at[c->first_call] : NULL;
    if (!call || call->sent_ns >= io->start_ns) /* where the server speaks first, it greets who connected */
        return c->calls_gone ? decided(NULL, KNOWN_NOT, VSPAN_NONE) : UNDECIDED;
    struct request *owner = request_open(t->a, call->owner);
    struct context context = decided(owner, owner ? KNOWN_INFERRED : call->known, call->span);
    call_finish_first(t->a, c, io->start_ns);
    return context;
}

/* The parser's callbacks are about the newest request read, unless it is answered or others are pipelined. */
static struct context server_input(struct turn *t, const struct connection *c)
{
    size_t open = 0;
    for (size_t i = c->first_waiting; i < c->waiting.count; i++)
        open += request_open(t->a, c->waiting.at[i]) != NULL;
    struct request *current = request_open(t->a, c->current);
    if (open > 1)
        return decided(NULL, KNOWN_AMBIGUOUS, VSPAN_NONE);
    return decided(current, current ? KNOWN_PROVED : KNOWN_NOT, VSPAN_NONE);
}

static struct context client_input(struct turn *t, const struct connection *c, const struct item *io)
{
    foreach_child(t, io, i)
    {
        const struct item *child = item_at(t, i);
        if (child->event == SONDE_EVENT_http_response || child->event == SONDE_EVENT_http_end)
            return UNDECIDED; /* it says so itself */
    }
    if (!calls_open(c) || c->calls.at[c->first_call].sent_ns >= io->start_ns)
        return decided(NULL, KNOWN_NOT, VSPAN_NONE);
    const struct call *call = &c->calls.at[c->first_call];
    return decided(request_open(t->a, call->owner), call->known, call->span);
}

static struct connection *io_connection(const struct turn *t, const struct item *io)
{
    if (io->generation != UINT32_MAX)
        return connection_get(t->thread->process, io->fd, io->generation);
    struct connection *newest = NULL; /* the read never ended and its record does not say which use it was */
    map_foreach (&t->thread->process->connections, slot) {
        struct connection *c = (struct connection *)(uintptr_t)slot->value;
        if (c->fd == io->fd && !c->closed && (!newest || c->generation > newest->generation))
            newest = c;
    }
    return newest;
}

struct request *answered_in(const struct turn *t, const struct item *item, bool *several)
{
    struct request *answered = NULL;
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        struct request *one = child->event == SONDE_EVENT_http_response && child->small == 0
                                  ? request_open(t->a, child->id)
                                  : answered_in(t, child, several);
        *several |= answered && one && answered != one;
        answered = one ? one : answered;
    }
    return *several ? NULL : answered;
}

struct context claim_call(struct turn *t, struct call *call, const struct item *io)
{
    bool several = false;
    struct request *owner = answered_in(t, io, &several);
    if (owner)
        call_claim(t->a, call, owner);
    return owner && call->owner == owner->serial ? decided(owner, KNOWN_INFERRED, call->span)
                                                 : decided(NULL, call->known, VSPAN_NONE);
}

/* The same for an HTTP call, which has ended by now: what tells of its end is changed to tell whose it was.
 */
static void claim_ended(struct turn *t, struct connection *c, const struct item *io)
{
    struct call *call = &c->ended;
    if (call->kind != VSPAN_http || call->owner || c->last_call_end_ns < io->start_ns ||
        claim_call(t, call, io).owner == NULL)
        return;
    struct request *owner = request_open(t->a, call->owner);
    if (call->span != VSPAN_NONE)
        owner->spans.at[call->span].end_ns = MAX(c->last_call_end_ns, call->sent_ns);
    owner->open_calls--;
    foreach_child(t, io, i)
    {
        struct item *child = item_at(t, i);
        if ((child->event != SONDE_EVENT_http_response && child->event != SONDE_EVENT_http_end) || child->id)
            continue;
        child->id = call->owner;
        child->fd = KNOWN_INFERRED;
        child->count = call->span;
    }
}

/* Commands of two requests are sent on a connection within this item: *one is whose was seen first. */
static bool pipelines(const struct turn *t, const struct item *item, const struct connection *c,
                      uint32_t *one)
{
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        if (child->event != SONDE_EVENT_uv_write) {
            if (pipelines(t, child, c, one))
                return true;
        } else if (child->context > CONTEXT_NONE &&
                   connection_get(t->thread->process, child->fd, child->generation) == c) {
            if (*one && *one != child->context)
                return true;
            *one = child->context;
        }
    }
    return false;
}

void check_answers(const struct turn *t, const struct call *answers, size_t count, const struct item *root,
                   const struct item *item)
{
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        struct request *went_on = NULL;
        if (child->event == SONDE_EVENT_http_response && child->small == 0) {
            went_on = request_open(t->a, child->id);
        } else if (child->event == SONDE_EVENT_uv_write || child->event == SONDE_EVENT_uv_submit) {
            const struct connection *c =
                child->event == SONDE_EVENT_uv_write
                    ? connection_get(t->thread->process, child->fd, child->generation)
                    : NULL;
            if (!c || c->pipelined)
                went_on = context_owner(t->a, t->thread, child->context);
        } else {
            check_answers(t, answers, count, root, child);
        }
        if (went_on)
            context_check(t->a, t->thread->process, answers, count, went_on, root->start_ns);
    }
}

static void check_io(const struct turn *t, struct connection *c, const struct item *io, size_t replies)
{
    size_t count = c->protocol == PROTOCOL_REDIS_CLIENT ? replies : MIN(calls_open(c), (size_t)1);
    c->answering = count;
    if (!count || c->calls.at[c->first_call].sent_ns >= io->start_ns)
        return;
    uint32_t one = 0;
    c->pipelined |= pipelines(t, io, c, &one);
    check_answers(t, &c->calls.at[c->first_call], count, io, io);
}

/* With one message under way, what comes is its answer; with several the order says which, not whose callback
 * it is. */
static struct context ipc_answer(struct turn *t, struct connection *c, const struct item *io)
{
    uint32_t span;
    bool alone = c->ipc_waiting.count == 1;
    struct request *owner = ipc_read(t->a, c, io->start_ns, io->count, &span);
    return owner && alone ? decided(owner, KNOWN_INFERRED, span) : UNDECIDED;
}

static bool answers_in_order(const struct connection *c)
{
    return c->protocol != PROTOCOL_HTTP_SERVER && c->protocol != PROTOCOL_HTTP2 &&
           c->protocol != PROTOCOL_WEBSOCKET;
}

void read_io(struct turn *t, const struct item *io)
{
    struct connection *c = io_connection(t, io);
    struct context context = UNDECIDED;
    bool first = c && !c->had_io && (!calls_open(c) || c->calls.at[c->first_call].sent_ns >= io->start_ns);
    size_t replies = c && !first && c->protocol == PROTOCOL_REDIS_CLIENT ? redis_reply_count(t, c, io) : 0;
    if (c && !first) { /* a first event without a question is the connection's establishment */
        if (c->protocol == PROTOCOL_REDIS_CLIENT)
            context = redis_reply_owner(t, c, io, replies);
        else if (c->protocol == PROTOCOL_HTTP_CLIENT)
            claim_ended(t, c, io), context = client_input(t, c, io);
        else if (c->protocol == PROTOCOL_HTTP_SERVER)
            context = server_input(t, c);
        else if (c->protocol == PROTOCOL_HTTP2 || c->protocol == PROTOCOL_WEBSOCKET)
            ; /* what is told of frames and messages says whose they are */
        else if (c->calls_gone || calls_open(c))
            context = other_reply(t, c, io);
    }
    if (c && ipc_is(c) && c->protocol == PROTOCOL_UNKNOWN)
        context = ipc_answer(t, c, io);
    if (c && !first && answers_in_order(c))
        check_io(t, c, io, replies);
    t->io = c;
    t->io_ns = io->start_ns;
    foreach_child(t, io, i) read_item(t, i, &context);
    t->io = NULL;
    if (c && !first && c->protocol == PROTOCOL_REDIS_CLIENT && io->count & POLLIN_BIT)
        redis_reply_done(t, c, io, replies);
    if (c) {
        c->answering = 0;
        c->had_io = 1;
    }
}
