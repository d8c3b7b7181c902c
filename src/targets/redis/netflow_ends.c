/* See netflow.h: which processes and connections there are, and what a client's end says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/netflow_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "event/event.h"
#include "targets/redis/event.h"

enum { POLLIN_BIT = 1 };

/* ---- processes and connections ---- */

const char *flow_intern(struct netflow *n, const char *text, size_t length)
{
    for (uint64_t hash = map_hash(text, length);; hash++) { /* equal hashes take the next free key */
        bool added;
        uint64_t *place = map_put(&n->strings, hash, &added);
        const char *known = place ? (const char *)(uintptr_t)*place : NULL;
        if (place && added)
            *place = (uint64_t)(uintptr_t)(known = arena_strndup(&n->arena, text, length));
        else if (known && (strncmp(known, text, length) != 0 || known[length]))
            continue;
        if (place && !known)
            map_remove(&n->strings, hash);
        n->failed |= !known;
        return known ? known : "";
    }
}

struct flow_process *flow_process_get(struct netflow *n, const struct event *e, int64_t pid)
{
    const uint64_t key = (uint64_t)e->trace << 40 | ((uint64_t)pid & 0xffffffffff);
    bool added;
    uint64_t *place = map_put(&n->processes, key, &added);
    if (place && !added)
        return (struct flow_process *)(uintptr_t)*place;
    struct flow_process *process = place ? calloc(1, sizeof(*process)) : NULL;
    if (!process || array_add(&n->all, process) < 0) {
        free(process);
        if (place)
            map_remove(&n->processes, key);
        n->failed = true;
        return NULL;
    }
    process->host = e->trace;
    process->pid = pid;
    process->woke = process->busy_until = FLOW_UNKNOWN;
    process->active = UINT32_MAX;
    const uint64_t *then = n->before ? map_get(&n->before->processes, key) : NULL;
    process->lost = then && ((const struct flow_process *)(uintptr_t)*then)->lost;
    *place = (uint64_t)(uintptr_t)process;
    return process;
}

struct flow_address {
    uint64_t high, low, port, machine; /* machine: of a loopback address; each has its own */
};

static struct flow_address address_of(const struct netflow *n, const struct event *e, uint64_t high,
                                      uint64_t low, uint64_t port)
{
    const uint64_t mapped = 0xffff, loopback = 127;
    bool local = high == 0 && (low == 1 || (low >> 32 == mapped && (low >> 24 & 0xff) == loopback));
    return (struct flow_address){high, low, port, local && n->machines ? n->machines[e->trace] : 0};
}

static struct flow_pair *pair_of(struct netflow *n, const struct flow_address *a,
                                 const struct flow_address *b, bool make, bool *ret_first)
{
    struct flow_address both[2] = {*a, *b};
    *ret_first = memcmp(a, b, sizeof(*a)) <= 0;
    if (!*ret_first)
        both[0] = *b, both[1] = *a;
    uint64_t hash = map_hash(both, sizeof(both));
    uint64_t *place = make ? map_put(&n->pairs, hash, NULL) : map_get(&n->pairs, hash);
    if (!place || *place || !make) {
        n->failed |= make && !place;
        return place ? (struct flow_pair *)(uintptr_t)*place : NULL;
    }
    struct flow_pair *pair = calloc(1, sizeof(*pair));
    if (!pair) {
        map_remove(&n->pairs, hash);
        n->failed = true;
        return NULL;
    }
    pair->ends[0].pair = pair->ends[1].pair = pair;
    const uint64_t *known = n->before ? map_get(&n->before->known, hash) : NULL;
    pair->both = !n->before || (known && *known & FLOW_KNOWN_BOTH);
    for (int i = 0; i < 2; i++) {
        pair->ends[i].fd = -1;
        pair->ends[i].wrote = FLOW_UNKNOWN;
        pair->ends[i].receives = known && *known & FLOW_KNOWN_RECEIVES << i;
        pair->ends[i].replica = known && *known & FLOW_KNOWN_REPLICA << i;
    }
    *place = (uint64_t)(uintptr_t)pair;
    return pair;
}

void flow_pairs_forget(struct netflow *n)
{
    map_foreach (&n->pairs, slot) {
        struct flow_pair *pair = (struct flow_pair *)(uintptr_t)slot->value;
        const struct flow_end *ends = pair->ends;
        uint64_t known = ends[0].process && ends[1].process ? FLOW_KNOWN_BOTH : 0;
        for (int i = 0; i < 2; i++) {
            known |= ends[i].replica ? FLOW_KNOWN_REPLICA << i : 0;
            known |= ends[i].receives && flow_end_lost(&ends[!i]) ? FLOW_KNOWN_RECEIVES << i : 0;
        }
        free(pair);
        slot->value = known;
    }
    n->known = n->pairs;
    n->pairs = (struct map){0};
}

bool flow_both(const struct flow_end *end)
{
    return end && end->pair->both;
}

void flow_connection_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    uint64_t family = U(e, net_connection_family);
    int32_t fd = (int32_t)I(e, net_connection_fd);
    uint64_t *place = map_put(&process->fds, (uint64_t)fd, NULL);
    n->failed |= !place;
    if (!place)
        return;
    *place = 0;
    if ((family != AF_INET && family != AF_INET6) || !U(e, net_connection_peer_port))
        return;
    const struct flow_address local =
                                  address_of(n, e, U(e, net_connection_local_high),
                                             U(e, net_connection_local_low), U(e, net_connection_local_port)),
                              peer =
                                  address_of(n, e, U(e, net_connection_peer_high),
                                             U(e, net_connection_peer_low), U(e, net_connection_peer_port));
    bool first;
    struct flow_pair *pair = pair_of(n, &local, &peer, true, &first);
    if (!pair)
        return;
    struct flow_end *end = &pair->ends[!first];
    uint32_t generation = (uint32_t)U(e, net_connection_generation);
    if (end->process && (end->process != process || end->fd != fd || end->generation != generation)) {
        flow_replica_gone(n, end->process, end);
        flow_end_clear(n, end, FLOW_UNFINISHED); /* the address is used again */
        flow_end_clear(n, flow_other(end), FLOW_UNFINISHED);
    }
    end->process = process;
    end->fd = fd;
    end->generation = generation;
    end->client_id = end->called = 0;
    end->wrote = FLOW_UNKNOWN;
    end->uncertain = end->pipelined = false;
    *place = (uint64_t)(uintptr_t)end;
}

struct flow_end *flow_end_of(const struct flow_process *process, int64_t fd)
{
    const uint64_t *known = fd >= 0 ? map_get(&process->fds, (uint64_t)fd) : NULL;
    return known ? (struct flow_end *)(uintptr_t)*known : NULL;
}

void flow_resent_event(struct netflow *n, const struct event *e)
{
    const struct flow_address local =
                                  address_of(n, e, U(e, tcp_retransmit_local_high),
                                             U(e, tcp_retransmit_local_low), U(e, tcp_retransmit_local_port)),
                              peer =
                                  address_of(n, e, U(e, tcp_retransmit_peer_high),
                                             U(e, tcp_retransmit_peer_low), U(e, tcp_retransmit_peer_port));
    bool first;
    struct flow_pair *pair = pair_of(n, &local, &peer, false, &first);
    if (pair)
        pair->resent[pair->resent_count++ % FLOW_RESENT_KEPT] = (int64_t)e->time_ns;
}

/* ---- a client ---- */

int flow_write_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_end *end = flow_end_of(process, I(e, stream_write_fd));
    uint64_t first = U(e, stream_write_first_message), messages = U(e, stream_write_messages);
    if (!end || !first || U(e, stream_write_wire) != SONDE_wire_resp || !flow_both(end) ||
        messages > FLOW_QUEUED_MAX)
        return 0;
    end->uncertain |= first != end->called + 1 && end->called; /* that of a call between was lost */
    end->called = first + messages - 1;
    const bool unseen = !flow_other(end)->process;
    for (uint64_t i = 0; i < messages && queue_count(&end->calls) < FLOW_QUEUED_MAX; i++) {
        if (unseen &&
            queue_count(&end->calls) >= FLOW_UNSEEN_MAX) /* most servers are recorded at once or not at all */
            flow_call_pop(end);
        n->failed |= queue_add(&end->calls, (struct flow_call){first + i, (int64_t)e->time_ns, FLOW_UNKNOWN,
                                                               end->uncertain}) < 0;
    }
    return flow_match_calls(n, flow_other(end));
}

/* Where one call was under way it is this one that is answered; where there were several, any of them may be.
 * The next one is written within the callback of this, so that its record comes first. */
static void answered(struct flow_end *end, int64_t start)
{
    size_t before = end->answered, open = 0;
    while (before + open < queue_count(&end->calls) && queue_at(&end->calls, before + open).sent < start)
        open++;
    end->answered += open;
    for (size_t i = 0; i < open; i++) {
        struct flow_call *call = &queue_at(&end->calls, before + i);
        call->got = start;
        call->several |= open > 1 || end->uncertain;
        call->unsure = end->pipelined;
    }
    end->pipelined |= open > 1;
}

static bool give_up_oldest(struct netflow *n, struct flow_end *end)
{
    if (!queue_count(&end->flows))
        return false;
    struct flow *oldest = queue_at(&end->flows, 0);
    queue_pop(&end->flows);
    flow_part(n, oldest, FLOW_TOO_MANY);
    return true;
}

void flow_waits_for_call(struct netflow *n, struct flow *flow)
{
    struct flow_end *end = flow->end;
    flow->unknown = !flow_other(end)->process;
    n->unknown_count += flow->unknown;
    if (!flow->number)
        flow->reason = FLOW_UNNUMBERED;
    else if (queue_count(&end->flows) >= FLOW_QUEUED_MAX ||
             (flow->unknown && n->unknown_count > n->unknown_max && !give_up_oldest(n, end)))
        flow->reason = FLOW_TOO_MANY;
    else if (queue_add(&end->flows, flow) < 0)
        n->failed = true;
    else
        flow->open++;
}

/* What the server has written is looked for in the order in which it was written: nobody asks any more what
 * there was to read before the oldest write that is still looked for. */
static void forget_readable(struct flow_end *client)
{
    const struct flow_end *server = flow_other(client);
    int64_t from = server->wrote;
    if (queue_count(&server->deliveries))
        from = MIN(from, queue_at(&server->deliveries, 0)->write);
    if (queue_count(&server->flows) && queue_at(&server->flows, 0)->at[FLOW_WRITE] != FLOW_UNKNOWN)
        from = MIN(from, queue_at(&server->flows, 0)->at[FLOW_WRITE]);
    while (queue_count(&client->readable) >= (server->process ? FLOW_QUEUED_MAX : FLOW_UNSEEN_MAX) ||
           (queue_count(&client->readable) && queue_at(&client->readable, 0).end < from))
        queue_pop(&client->readable);
}

void flow_call_pop(struct flow_end *client)
{
    queue_pop(&client->calls);
    client->answered -= client->answered > 0;
}

int flow_readable_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_end *end = flow_end_of(process, I(e, stream_io_fd));
    int64_t start = (int64_t)(e->time_ns - e->values[FIELD_DURATION].u);
    if (!end || !(U(e, stream_io_events) & POLLIN_BIT) || !flow_both(end))
        return 0;
    forget_readable(end);
    n->failed |= queue_add(&end->readable, (struct flow_readable){start, (int64_t)e->time_ns}) < 0;
    answered(end, start);
    flow_match_readable(n, flow_other(end));
    return flow_match_calls(n, flow_other(end));
}
