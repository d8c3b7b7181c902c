/* Bytes to and from an address whose protocol is not known: what is sent until bytes come back is one
 * exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/exchange.h"

#include <sys/socket.h>

#include "protocols/protocols.h"
#include "model/reading.h"
#include "base/clock.h"

enum { EPHEMERAL_PORTS = 32768 };

static bool serves_at(const struct process *process, const struct connection *c)
{
    map_foreach (&process->connections, slot) {
        const struct connection *other = (const struct connection *)(uintptr_t)slot->value;
        if (other != c && other->local.port == c->local.port)
            return true;
    }
    return false;
}

/* Whether this end opened the connection. A server may listen on a port of the range from which clients get
 * theirs: then who speaks first asks, unless others came to the same port. */
static bool client_side(const struct connection *c, uint64_t written)
{
    if ((c->family != AF_INET && c->family != AF_INET6) || c->local.port < EPHEMERAL_PORTS || !c->peer.port)
        return false;
    if (c->client || c->peer.port < EPHEMERAL_PORTS || c->calls_gone || calls_open(c))
        return true;
    return !c->had_io && c->bytes_written == written && !serves_at(c->process, c);
}

/* Some other protocol: what is sent until bytes come back is one exchange. Whether those have come, in the
 * turn that this lies in, is known when the turn is read: until then what is sent is a call of its own (see
 * exchange_joins()). */
static void bytes_sent(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e)
{
    if (!U(e, stream_write_bytes) || !client_side(c, U(e, stream_write_bytes)))
        return;
    if (calls_open(c) > 1) {
        c->calls.at[c->calls.count - 1].written_bytes += U(e, stream_write_bytes);
        return;
    }
    uint64_t index = 0;
    struct call call = {.kind = VSPAN_other,
                        .sent_ns = e->time_ns,
                        .written_bytes = U(e, stream_write_bytes),
                        .name = c->peer_name ? c->peer_name : intern_string(a, "socket")};
    if (!call_add(a, c, &call, &index))
        return;
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->context = (uint32_t)U(e, stream_write_context);
        item->fd = c->fd;
        item->generation = c->generation;
        item->id = index;
        item->count = 1;
    }
}

bool exchange_joins(struct connection *c, uint64_t number)
{
    struct call *first = c && calls_open(c) ? &c->calls.at[c->first_call] : NULL;
    if (!first || first->kind != VSPAN_other || calls_open(c) < 2 || number != c->calls_gone + 1)
        return false;
    first->written_bytes += first[1].written_bytes;
    c->calls.count--;
    return true;
}

void exchange_is_of(struct analysis *a, struct connection *c, const struct protocol *protocol)
{
    while (!c->protocol && calls_open(c) && c->calls.at[c->first_call].kind == VSPAN_other)
        call_finish_first(a, c, c->calls.at[c->first_call].sent_ns);
    if (!c->protocol && c->asked && protocol->wire >= SONDE_wire_amqp)
        peer_speaks(a, c);
    c->protocol = protocol;
}

/* More of a long answer follows sooner than that. */
static const uint64_t PAUSE_NS = 10 * NS_PER_MS;

static struct context input(struct analysis *a, struct thread *thread, struct connection *c,
                            const struct item *io, size_t replies)
{
    struct call *call = calls_open(c) ? &c->calls.at[c->first_call] : NULL;
    bool asked = call && call->sent_ns < io->start_ns, bytes = io->id != 0,
         paused = c->last_read_ns && io->start_ns > c->last_read_ns + PAUSE_NS;
    if (bytes)
        c->last_read_ns = io->end_ns;
    if (!asked && bytes && paused)
        peer_spoke(a, c, false);
    if (!asked) /* where the server speaks first, it greets who connected */
        return c->calls_gone ? decided(NULL, KNOWN_NOT, VSPAN_NONE) : UNDECIDED;
    struct request *owner = request_open(a, call->owner);
    if (owner)
        peer_spoke(a, c, true);
    struct context context = decided(owner, owner ? KNOWN_INFERRED : call->known, call->span);
    call_finish_first(a, c, io->start_ns);
    return context;
}

const struct protocol protocol_exchange = {
    .name = "exchange", .in_order = true, .written = bytes_sent, .input = input};
