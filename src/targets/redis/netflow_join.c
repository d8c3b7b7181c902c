/* See netflow.h: the parts of a life cycle, and what joins them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/netflow_internal.h"

#include <errno.h>
#include <stdlib.h>

/* Which way each of them goes. */
static const enum flow_point REPLY[] = {FLOW_SENT,  FLOW_WOKE,  FLOW_READ,    FLOW_STARTED, FLOW_BLOCKED,
                                        FLOW_ENDED, FLOW_WRITE, FLOW_WRITTEN, FLOW_GOT,     FLOW_POINTS},
                             BUS[] = {FLOW_SENT,     FLOW_WOKE,      FLOW_READ,        FLOW_STARTED,
                                      FLOW_QUEUED,   FLOW_BUS_WRITE, FLOW_BUS_WRITTEN, FLOW_BUS_WOKE,
                                      FLOW_BUS_READ, FLOW_BLOCKED,   FLOW_ENDED,       FLOW_WRITE,
                                      FLOW_WRITTEN,  FLOW_GOT,       FLOW_POINTS},
                             WAIT[] = {FLOW_SENT,     FLOW_WOKE,      FLOW_READ,        FLOW_STARTED,
                                       FLOW_QUEUED,   FLOW_BUS_WRITE, FLOW_BUS_WRITTEN, FLOW_BUS_WOKE,
                                       FLOW_BUS_READ, FLOW_ACK_WRITE, FLOW_ACK_READ,    FLOW_ENDED,
                                       FLOW_WRITE,    FLOW_WRITTEN,   FLOW_GOT,         FLOW_POINTS};
static const enum flow_point *const PATHS[FLOW_PATHS] = {
    [FLOW_REPLY] = REPLY, [FLOW_REDIRECT] = REPLY, [FLOW_LOCAL] = REPLY,
    [FLOW_BUS] = BUS,     [FLOW_REPLICA] = BUS,    [FLOW_WAIT] = WAIT};

enum flow_point flow_next(enum flow_path path, enum flow_point point)
{
    for (const enum flow_point *at = PATHS[path]; *at != FLOW_POINTS; at++)
        if (*at == point)
            return at[1];
    return FLOW_POINTS;
}

enum flow_point flow_next_of(enum flow_path path, const int64_t *at, enum flow_point point)
{
    do
        point = flow_next(path, point);
    while (point < FLOW_POINTS && at[point] == FLOW_UNKNOWN);
    return point;
}

/* ---- rows ---- */

static struct flow_row *row_get(struct netflow *n, const struct flow *flow, enum flow_path path)
{
    const uintptr_t parts[] = {(uintptr_t)flow->command, (uintptr_t)flow->node, (uintptr_t)path};
    bool added;
    uint64_t *place = map_put(&n->row_of, map_hash(parts, sizeof(parts)), &added);
    if (place && !added)
        return (struct flow_row *)(uintptr_t)*place;
    struct flow_row *row = place ? calloc(1, sizeof(*row)) : NULL;
    if (!row || array_add(&n->rows, row) < 0) {
        free(row);
        n->failed = true;
        return NULL;
    }
    *row = (struct flow_row){.command = flow->command, .node = flow->node, .path = path};
    *place = (uint64_t)(uintptr_t)row;
    return row;
}

static int merge_row(struct flow_row *into, const struct flow_row *from)
{
    int r = sketch_merge(&into->total, &from->total);
    for (enum flow_point p = 0; r >= 0 && p < FLOW_POINTS; p++)
        r = sketch_merge(&into->stage[p], &from->stage[p]);
    if (r >= 0)
        r = sketch_merge(&into->backlog, &from->backlog);
    into->command = from->command;
    into->path = from->path;
    into->count += from->count;
    into->from_traced += from->from_traced;
    into->disordered += from->disordered;
    into->resent += from->resent;
    into->incomplete += from->incomplete;
    if (from->worst_ns >= into->worst_ns) {
        into->worst_ns = from->worst_ns;
        into->node = from->node;
        into->worst_node = from->worst_node;
        memcpy(into->worst, from->worst, sizeof(into->worst));
    }
    return r;
}

static void row_done(struct flow_row *row)
{
    sketch_done(&row->total);
    sketch_done(&row->backlog);
    for (enum flow_point p = 0; p < FLOW_POINTS; p++)
        sketch_done(&row->stage[p]);
}

int netflow_sums(const struct netflow *n, flow_sums *sums)
{
    int r = 0;
    array_foreach (&n->rows, place) {
        const struct flow_row *row = *place;
        size_t at = 0;
        while (at < sums->count &&
               (sums->at[at].path != row->path || strcmp(sums->at[at].command, row->command) != 0))
            at++;
        if (at == sums->count && (r = array_add(sums, (struct flow_row){0})) < 0)
            return r;
        if ((r = merge_row(&sums->at[at], row)) < 0)
            return r;
    }
    return r;
}

void netflow_sums_done(flow_sums *sums)
{
    array_foreach (sums, row)
        row_done(row);
    array_done(sums);
}

void flow_row_free(struct flow_row *row)
{
    row_done(row);
    free(row);
}

/* Two hosts' clocks are known up to an error only: what seems to go back by less than that took no time. */
static bool in_order(const struct netflow *n, const int64_t *at, enum flow_path path)
{
    int64_t last = FLOW_UNKNOWN;
    for (enum flow_point p = FLOW_SENT; p < FLOW_POINTS; p = flow_next(path, p)) {
        if (at[p] == FLOW_UNKNOWN)
            continue;
        if (last != FLOW_UNKNOWN && at[p] + (int64_t)n->tolerance_ns < last)
            return false;
        last = at[p];
    }
    return true;
}

static bool was_resent(const struct flow_end *end, int64_t from, int64_t to)
{
    const struct flow_pair *pair = end ? end->pair : NULL;
    for (unsigned i = 0; pair && i < MIN(pair->resent_count, (unsigned)FLOW_RESENT_KEPT); i++)
        if (pair->resent[i] >= from && pair->resent[i] <= to)
            return true;
    return false;
}

/* Times that only seem to contradict each other are put into the order of the path. */
static void straighten(int64_t at[static FLOW_POINTS])
{
    if (at[FLOW_GOT] != FLOW_UNKNOWN) /* the client may read it before the server's call returns */
        at[FLOW_WRITTEN] = MIN(at[FLOW_WRITTEN], at[FLOW_GOT]);
    /* What comes while a loop handles what it woke up for may be read together with that. */
    if (at[FLOW_SENT] != FLOW_UNKNOWN && at[FLOW_WOKE] < at[FLOW_SENT])
        at[FLOW_WOKE] = at[FLOW_READ];
    if (at[FLOW_BUS_WRITE] != FLOW_UNKNOWN) {
        if (at[FLOW_BUS_WOKE] < at[FLOW_BUS_WRITE])
            at[FLOW_BUS_WOKE] = at[FLOW_BUS_READ];
        at[FLOW_BUS_WRITTEN] = MIN(at[FLOW_BUS_WRITTEN], at[FLOW_BUS_WOKE]);
    }
}

/* One complete path. at: when it passed which point, FLOW_UNKNOWN where its path does not go. */
static void account(struct netflow *n, const struct flow *flow, enum flow_path path, const int64_t *at,
                    const struct flow_process *node)
{
    struct flow_row *row = row_get(n, flow, path);
    if (!row)
        return;
    row->count++;
    row->from_traced += at[FLOW_SENT] != FLOW_UNKNOWN;
    row->resent += flow->resent;
    row->disordered += !in_order(n, at, path);
    int64_t first = at[FLOW_SENT] != FLOW_UNKNOWN ? at[FLOW_SENT] : at[FLOW_WOKE], last = first;
    for (enum flow_point p = FLOW_SENT; p < FLOW_POINTS; p = flow_next(path, p)) {
        last = at[p] != FLOW_UNKNOWN ? at[p] : last;
        enum flow_point next = at[p] == FLOW_UNKNOWN ? FLOW_POINTS : flow_next_of(path, at, p);
        if (next < FLOW_POINTS)
            n->failed |= sketch_add(&row->stage[p], (uint64_t)MAX(at[next] - at[p], 0)) < 0;
    }
    uint64_t total = (uint64_t)MAX(last - first, 0);
    if (at[FLOW_SENT] != FLOW_UNKNOWN)
        n->failed |= sketch_add(&row->backlog,
                                (uint64_t)MAX(flow->busy_until, at[FLOW_SENT]) - (uint64_t)at[FLOW_SENT]) < 0;
    n->failed |= sketch_add(&row->total, total) < 0;
    if (total >= row->worst_ns) {
        row->worst_ns = total;
        row->worst_node = node;
        memcpy(row->worst, at, sizeof(row->worst));
    }
}

/* When the message of a command passed which point. */
static void message_points(const struct flow *flow, const struct flow_delivery *d, int64_t at[FLOW_POINTS])
{
    const struct flow_arrival *arrival = d->arrival;
    memcpy(at, flow->at, sizeof(flow->at));
    at[FLOW_ENDED] = d->ended;
    at[FLOW_WRITE] = d->write;
    at[FLOW_WRITTEN] = d->written;
    at[FLOW_GOT] = d->got;
    if (arrival) {
        at[FLOW_QUEUED] = arrival->queued;
        at[FLOW_BUS_WRITE] = arrival->write;
        at[FLOW_BUS_WRITTEN] = arrival->written;
        at[FLOW_BUS_WOKE] = arrival->woke;
        at[FLOW_BUS_READ] = arrival->start;
    }
    straighten(at);
}

static void account_message(struct netflow *n, const struct flow *flow, const struct flow_delivery *d)
{
    int64_t at[FLOW_POINTS];
    message_points(flow, d, at);
    account(n, flow, d->arrival ? FLOW_BUS : FLOW_LOCAL, at, d->arrival ? d->arrival->node : NULL);
}

/* A write at a replica, or a WAIT that waited for one. */
static void account_copy(struct netflow *n, const struct flow *flow, const struct flow_copy *copy)
{
    enum flow_path path = copy->asks ? FLOW_WAIT : FLOW_REPLICA;
    enum flow_reason reason = copy->over ? copy->reason : FLOW_UNFINISHED;
    int64_t at[FLOW_POINTS];
    if (copy->skipped)
        return;
    flow_copy_points(flow, copy, at);
    straighten(at);
    bool ordered = reason || in_order(n, at, path);
    bool lost = flow->node->lost || flow_end_lost(flow_other(copy->end));
    if (copy->asks && !ordered) /* an acknowledgement that was under way already has ended the WAIT */
        return;
    if (lost && !ordered)
        reason = FLOW_LOST;
    if (!copy->asks)
        n->copies[reason]++;
    if (!reason) {
        account(n, flow, path, at, copy->node);
        return;
    }
    struct flow_row *row = row_get(n, flow, path);
    if (row)
        row->incomplete++;
}

void flow_copy_lost(struct netflow *n, struct flow_process *node, const char *command)
{
    struct flow_row *row = row_get(n, &(struct flow){.command = command, .node = node}, FLOW_REPLICA);
    n->copies[FLOW_LOST]++;
    if (row)
        row->incomplete++;
}

static bool message_contradicts(const struct netflow *n, const struct flow *flow,
                                const struct flow_delivery *d)
{
    bool lost = flow->node->lost || (d->arrival && d->arrival->node->lost) ||
                (d->end && flow_end_lost(flow_other(d->end)));
    int64_t at[FLOW_POINTS];
    message_points(flow, d, at);
    return lost && !in_order(n, at, d->arrival ? FLOW_BUS : FLOW_LOCAL);
}

/* Whether events were lost, and what is left of them is in no possible order: some are another command's. */
static bool contradicts(const struct netflow *n, const struct flow *flow)
{
    bool lost = flow->node->lost || (flow->end && flow_end_lost(flow_other(flow->end))),
         wrong = lost && !in_order(n, flow->at, FLOW_REPLY);
    array_foreach (&flow->deliveries, d)
        wrong |= message_contradicts(n, flow, *d);
    array_foreach (&flow->arrivals, arrival)
        array_foreach (&(*arrival)->deliveries, d)
            wrong |= message_contradicts(n, flow, *d);
    return wrong;
}

/* ---- the end of a life ---- */

void flow_arrival_free(struct netflow *n, struct flow_arrival *arrival)
{
    if (arrival->before)
        arrival->before->next = arrival->next;
    else
        n->arrivals = arrival->next;
    if (arrival->next)
        arrival->next->before = arrival->before;
    array_foreach (&arrival->deliveries, d)
        free(*d);
    array_done(&arrival->deliveries);
    free(arrival);
}

static void flow_over(struct netflow *n, struct flow *flow)
{
    if (flow->reason == FLOW_COMPLETE)
        straighten(flow->at);
    if (flow->reason == FLOW_COMPLETE && contradicts(n, flow))
        flow->reason = FLOW_LOST;
    n->flows++;
    n->reasons[flow->reason]++;
    const enum flow_path path = flow->redirected ? FLOW_REDIRECT : FLOW_REPLY;
    if (flow->reason != FLOW_COMPLETE) {
        struct flow_row *row = row_get(n, flow, path);
        if (row)
            row->incomplete++;
    } else {
        const int64_t last = MAX(flow->at[FLOW_GOT], flow->at[FLOW_WRITTEN]);
        flow->resent |= was_resent(flow->end, MAX(flow->at[FLOW_SENT], 0), last);
        account(n, flow, path, flow->at, NULL);
        array_foreach (&flow->deliveries, d)
            account_message(n, flow, *d);
        array_foreach (&flow->arrivals, arrival)
            array_foreach (&(*arrival)->deliveries, d)
                account_message(n, flow, *d);
        array_foreach (&flow->copies, copy)
            account_copy(n, flow, *copy);
        if (flow->asked)
            account_copy(n, flow, flow->asked);
    }
    flow_copies_done(flow);
    array_foreach (&flow->deliveries, d)
        free(*d);
    array_foreach (&flow->arrivals, arrival)
        flow_arrival_free(n, *arrival);
    array_done(&flow->deliveries);
    array_done(&flow->arrivals);
    if (flow->before)
        flow->before->next = flow->next;
    else
        n->open = flow->next;
    if (flow->next)
        flow->next->before = flow->before;
    n->open_count--;
    n->unknown_count -= flow->unknown;
    free(flow);
}

void flow_part(struct netflow *n, struct flow *flow, enum flow_reason reason)
{
    if (reason && !flow->reason)
        flow->reason = reason;
    if (!--flow->open)
        flow_over(n, flow);
}

void flow_arrival_part(struct netflow *n, struct flow_arrival *arrival, enum flow_reason reason)
{
    arrival->open--;
    if (reason && !arrival->reason)
        arrival->reason = reason;
    if (arrival->flow)
        flow_part(n, arrival->flow, reason);
    else if (!arrival->open && !arrival->waits)
        flow_arrival_free(n, arrival);
}

void flow_delivery_over(struct netflow *n, struct flow_delivery *d, enum flow_reason reason)
{
    if (d->arrival)
        flow_arrival_part(n, d->arrival, reason);
    else
        flow_part(n, d->flow, reason);
}

/* ---- the two ends of a connection ---- */

int flow_tell(struct netflow *n, const struct flow_process *from, const struct flow_process *to, int64_t sent,
              int64_t received, bool certain)
{
    if (!n->message || from->host == to->host)
        return 0;
    const struct netflow_message message = {from->host, to->host, (uint64_t)sent, (uint64_t)received,
                                            certain};
    return n->message(n->context, &message);
}

/* When the client was told that there is something to read, which was written from start to end;
 * FLOW_UNKNOWN: not yet. A client may read more than what it woke up for: what was written while it handled
 * that was read then, or comes next; the former is assumed, which is wrong by no more than the handling
 * takes. */
static int64_t readable_after(const struct netflow *n, struct flow_end *client, int64_t start, int64_t end)
{
    size_t low = 0, high = queue_count(&client->readable);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (queue_at(&client->readable, middle).end < start)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == queue_count(&client->readable))
        return FLOW_UNKNOWN;
    const struct flow_readable *found = &queue_at(&client->readable, low);
    return found->start + (int64_t)n->tolerance_ns >= start ? found->start : end;
}

/* Where events were lost, its read and its write may be another command's: what the command's own record says
 * is as true, if less tight. */
static int joined(struct netflow *n, struct flow_end *server, struct flow *flow, const struct flow_call *call,
                  int64_t got)
{
    struct flow_end *client = flow_other(server);
    flow->at[FLOW_SENT] = call->sent;
    flow->at[FLOW_GOT] = got;
    bool lost = flow_end_lost(server);
    int r = flow_tell(n, client->process, server->process, call->sent,
                      flow->at[lost ? FLOW_STARTED : FLOW_READ], true);
    return r < 0 || call->several || client->receives
               ? r
               : flow_tell(n, server->process, client->process, flow->at[lost ? FLOW_STARTED : FLOW_WRITE],
                           got, !call->unsure);
}

/* The time at which the reply reached the client; FLOW_UNKNOWN while that is not known. *reason is set when
 * the reply may be that of another call. */
static int64_t got_at(const struct netflow *n, struct flow_end *client, const struct flow *flow,
                      enum flow_reason *reason)
{
    const struct flow_call call = queue_at(&client->calls, 0);
    bool lost = flow_end_lost(client), alone = !call.several && !client->receives;
    if (alone && (n->message || (!lost && !call.unsure)))
        return call.got;
    if (n->message)
        return MAX(call.got, call.sent);
    int64_t got = readable_after(n, client, flow->at[FLOW_WRITE], flow->at[FLOW_WRITTEN]);
    if (!lost || got == FLOW_UNKNOWN)
        return got;
    /* That it is not the next one's reply is certain if the next one was sent only then. */
    if (queue_count(&client->calls) < 2)
        return FLOW_UNKNOWN;
    const struct flow_call next = queue_at(&client->calls, 1);
    if (client->receives || next.number != call.number + 1 || next.sent < got)
        *reason = FLOW_LOST;
    return got;
}

int flow_match_calls(struct netflow *n, struct flow_end *server)
{
    struct flow_end *client = flow_other(server);
    int r = 0;
    while (r >= 0 && queue_count(&server->flows) && queue_count(&client->calls)) {
        struct flow *flow = queue_at(&server->flows, 0);
        const struct flow_call call = queue_at(&client->calls, 0);
        if (flow->number > call.number) { /* not executed, or that was not recorded */
            n->calls_unmatched++;
            flow_call_pop(client);
            continue;
        }
        enum flow_reason reason = flow->number < call.number ? FLOW_NO_CALL : FLOW_COMPLETE;
        if (!reason && flow->at[FLOW_WRITE] == FLOW_UNKNOWN)
            break;
        if (!reason) {
            int64_t got = got_at(n, client, flow, &reason);
            if (got == FLOW_UNKNOWN)
                break;
            r = joined(n, server, flow, &call, got);
            flow_call_pop(client);
        }
        queue_pop(&server->flows);
        flow_part(n, flow, reason);
    }
    return r;
}

void flow_match_readable(struct netflow *n, struct flow_end *server)
{
    struct flow_end *client = flow_other(server);
    while (queue_count(&server->deliveries)) {
        struct flow_delivery *d = queue_at(&server->deliveries, 0);
        bool lost = flow_end_lost(client); /* what is there to read may be another message */
        d->got = readable_after(n, client, d->write, d->written);
        if (d->got == FLOW_UNKNOWN && !lost)
            return;
        queue_pop(&server->deliveries);
        flow_delivery_over(n, d, lost ? FLOW_LOST : FLOW_COMPLETE);
    }
}

static bool same_message(const struct flow_sent *sent, const struct flow_arrival *arrival)
{
    return sent->mark == arrival->mark && sent->bytes == arrival->bytes && sent->type == arrival->type;
}

/* After events were lost the order proves nothing: only a message that there is once on either side. */
static bool only_one(const struct flow_end *sender, const struct flow_end *receiver, size_t s, size_t a)
{
    enum { LOOKED_AT = 64 };
    const struct flow_sent *sent = &queue_at(&sender->sent, s);
    for (size_t i = 0; i < MIN(queue_count(&sender->sent), (size_t)LOOKED_AT); i++)
        if (i != s && queue_at(&sender->sent, i).mark == sent->mark)
            return false;
    for (size_t i = 0; i < MIN(queue_count(&receiver->arrived), (size_t)LOOKED_AT); i++)
        if (i != a && queue_at(&receiver->arrived, i)->mark == sent->mark)
            return false;
    return true;
}

static void give_up_sent(struct netflow *n, struct flow_end *sender, enum flow_reason reason)
{
    const struct flow_sent sent = queue_at(&sender->sent, 0);
    queue_pop(&sender->sent);
    n->messages_unmatched += reason != FLOW_NO_NODE;
    if (sent.flow)
        flow_part(n, sent.flow, reason);
}

static void give_up_arrival(struct netflow *n, struct flow_end *receiver)
{
    struct flow_arrival *arrival = queue_at(&receiver->arrived, 0);
    queue_pop(&receiver->arrived);
    n->messages_unmatched++;
    arrival->waits = false;
    if (!arrival->open)
        flow_arrival_free(n, arrival);
}

static int arrived(struct netflow *n, struct flow_end *sender, struct flow_end *receiver)
{
    const struct flow_sent sent = queue_at(&sender->sent, 0);
    struct flow_arrival *arrival = queue_at(&receiver->arrived, 0);
    queue_pop(&sender->sent);
    queue_pop(&receiver->arrived);
    n->messages++;
    int r = flow_tell(n, sender->process, receiver->process, flow_end_lost(sender) ? sent.queued : sent.write,
                      arrival->start, true);
    arrival->waits = false;
    arrival->queued = sent.queued;
    arrival->write = sent.write;
    arrival->written = sent.written;
    struct flow *flow = sent.flow;
    if (!flow || array_add(&flow->arrivals, arrival) < 0) {
        n->failed |= flow != NULL;
        if (!arrival->open)
            flow_arrival_free(n, arrival);
        if (flow)
            flow_part(n, flow, FLOW_UNFINISHED);
        return r;
    }
    arrival->flow = flow;
    flow->resent |= was_resent(sender, sent.write, arrival->start);
    flow->open += arrival->open;
    flow_part(n, flow, sent.lost ? FLOW_LOST : (enum flow_reason)arrival->reason);
    return r;
}

/* Both sides are in the order of the link. Where the oldest of the two are not the same message, what has no
 * partner within sight was sent or read before the other end was recorded, or its record was lost. */
int flow_match_bus(struct netflow *n, struct flow_end *sender)
{
    enum { SIGHT = 64 };
    struct flow_end *receiver = flow_other(sender);
    int r = 0;
    while (r >= 0 && queue_count(&sender->sent) && queue_count(&receiver->arrived)) {
        size_t sents = MIN(queue_count(&sender->sent), (size_t)SIGHT),
               arrivals = MIN(queue_count(&receiver->arrived), (size_t)SIGHT), s = 0, a = 0;
        bool same = same_message(&queue_at(&sender->sent, 0), queue_at(&receiver->arrived, 0));
        bool unsure = sender->unsure || receiver->unsure || flow_end_lost(sender) || flow_end_lost(receiver);
        if (same && !unsure) {
            r = arrived(n, sender, receiver);
            continue;
        }
        if (unsure && !n->ending && MAX(sents, arrivals) < SIGHT / 2) /* more of them make it sure */
            break;
        while (s < sents && !same_message(&queue_at(&sender->sent, s), queue_at(&receiver->arrived, 0)))
            s++;
        while (a < arrivals && !same_message(&queue_at(&sender->sent, 0), queue_at(&receiver->arrived, a)))
            a++;
        if (s == sents && a == arrivals) { /* neither has a partner */
            if (sents < SIGHT && arrivals < SIGHT)
                break;
            give_up_sent(n, sender, FLOW_NO_PACKET);
            give_up_arrival(n, receiver);
            continue;
        }
        bool later = s < sents; /* the oldest packet's message is behind others */
        if (unsure && !only_one(sender, receiver, later ? s : 0, later ? 0 : a)) {
            if (later)
                give_up_arrival(n, receiver);
            else
                give_up_sent(n, sender, FLOW_LOST);
            continue;
        }
        for (; later && s; s--)
            give_up_sent(n, sender, FLOW_NO_PACKET);
        for (; !later && a; a--)
            give_up_arrival(n, receiver);
        sender->unsure = receiver->unsure = false;
        r = arrived(n, sender, receiver);
    }
    return r;
}

void flow_end_clear(struct netflow *n, struct flow_end *end, enum flow_reason reason)
{
    while (queue_count(&end->flows)) {
        struct flow *flow = queue_at(&end->flows, 0);
        queue_pop(&end->flows);
        flow_part(n, flow, reason);
    }
    while (queue_count(&end->deliveries)) {
        struct flow_delivery *d = queue_at(&end->deliveries, 0);
        queue_pop(&end->deliveries);
        flow_delivery_over(n, d, reason);
    }
    flow_stream_free(n, end, reason);
    while (queue_count(&end->sent))
        give_up_sent(n, end, reason);
    while (queue_count(&end->arrived))
        give_up_arrival(n, end);
    queue_done(&end->calls);
    queue_done(&end->readable);
    queue_done(&end->flows);
    queue_done(&end->deliveries);
    queue_done(&end->sent);
    queue_done(&end->arrived);
    end->answered = 0;
}
