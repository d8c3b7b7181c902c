/* A stream's events in a turn of a Node.js event loop: whose callbacks they are, from what was asked on the
 * connection (BCTA, Node Compass 3.6), and whether that fits what the turn goes on with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/protocols.h"
#include "targets/node/node.h"

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

/* Commands of two requests are sent on a connection within this item: *one is whose was seen first. */
static bool pipelines(const struct turn *t, const struct item *item, const struct connection *c,
                      uint32_t *one)
{
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        if (child->event != SONDE_EVENT_stream_write) {
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

static void check_io(const struct turn *t, struct connection *c, const struct item *io, size_t count)
{
    c->answering = count;
    if (!count || c->calls.at[c->first_call].sent_ns >= io->start_ns)
        return;
    uint32_t one = 0;
    c->pipelined |= pipelines(t, io, c, &one);
    check_answers(t->a, t->thread, &c->calls.at[c->first_call], count, io, io);
}

/* A call that ended because its connection was closed while this side read from it: the other side did that.
 */
static void cut_off(const struct analysis *a, struct connection *c, const struct item *io)
{
    if (!c || c->closed_ns < io->start_ns || c->closed_ns > io->end_ns)
        return;
    for (size_t i = c->first_call; i <= c->calls.count; i++) {
        const struct call *call = i < c->calls.count ? &c->calls.at[i] : &c->ended;
        struct vspan *span = call->kind == VSPAN_http ? call_span(a, call) : NULL;
        if (span && span->lost == VSPAN_GIVEN_UP)
            span->lost = VSPAN_CUT_OFF;
    }
}

void read_io(struct turn *t, const struct item *io)
{
    struct connection *c = io_connection(t, io);
    const struct protocol *protocol = c ? connection_protocol(c) : NULL;
    struct context context = UNDECIDED;
    size_t replies = 0;
    bool first = c && !c->had_io && (!calls_open(c) || c->calls.at[c->first_call].sent_ns >= io->start_ns);
    bool data = c && !first; /* a first event without a question is the connection's establishment */
    if (data && protocol->replies)
        replies = protocol->replies(t->a, t->thread, c, io);
    if (c && protocol->input && (data || protocol->born_connected))
        context = protocol->input(t->a, t->thread, c, io, replies);
    if (data && protocol->in_order)
        check_io(t, c, io, protocol->replies ? replies : MIN(calls_open(c), (size_t)1));
    t->io = c;
    t->io_ns = io->start_ns;
    foreach_child(t, io, i) read_item(t, i, &context);
    t->io = NULL;
    cut_off(t->a, c, io);
    if (data && protocol->input_read)
        protocol->input_read(t->a, t->thread, c, io, replies);
    if (c) {
        c->answering = 0;
        c->had_io = 1;
    }
}
