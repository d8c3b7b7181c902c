/* See netflow.h: what the events of nodes say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/netflow_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "targets/redis/events_bus.h"
#include "targets/redis/event.h"

enum {
    BUS_PUBLISH = 4,
    BUS_PUBLISH_SHARD = 10,
    OPEN_MAX = 1 << 20,      /* life cycles under way at once */
    UNWRITTEN_MAX = 1 << 16, /* commands of one client that are not answered */
};

static const char *name_of(const struct flow_process *process, uint64_t id)
{
    const uint64_t *known = map_get(&process->names, id);
    return known ? (const char *)(uintptr_t)*known : "unknown command";
}

/* ---- a node: commands and replies ---- */

static struct flow_client *client_of(struct netflow *n, struct flow_process *process, uint64_t id, int64_t fd)
{
    bool added;
    uint64_t *place = id ? map_put(&process->clients, id, &added) : NULL;
    struct flow_client *client = place && !added ? (struct flow_client *)(uintptr_t)*place : NULL;
    if (place && added && (client = calloc(1, sizeof(*client)))) {
        client->read = client->written = client->blocked = FLOW_UNKNOWN;
        *place = (uint64_t)(uintptr_t)client;
    }
    n->failed |= id && !client;
    if (client && !client->end)
        client->end = flow_end_of(process, fd);
    if (client && client->end && !client->end->client_id) {
        client->end->client_id = id;
        if (client->end->replica)
            flow_replica_found(n, process, client->end);
    }
    if (client && client->end && client->end->client_id != id)
        client->end = NULL; /* the record of its connection was lost: that is the one before */
    return client;
}

/* A command that blocked is executed a second time when its key is there (7.2). */
static struct flow *again(const struct flow_client *client, const char *command, uint64_t number)
{
    size_t count = client && number ? client->unwritten.count : 0;
    struct flow *last = count ? client->unwritten.at[count - 1] : NULL;
    return last && last->number == number && last->command == command ? last : NULL;
}

static void give_up_client(struct netflow *n, struct flow_client *client, enum flow_reason reason)
{
    array_foreach (&client->pending, d)
        flow_delivery_over(n, *d, reason);
    array_foreach (&client->unwritten, flow)
        flow_part(n, *flow, reason);
    array_clear(&client->pending);
    array_clear(&client->unwritten);
    client->silent = reason == FLOW_NO_REPLY;
}

/* Either way: what passes there is no life of its own. */
static bool replicates(struct flow_end *end)
{
    return end && (end->replica || flow_other(end)->replica);
}

static struct flow *flow_new(struct netflow *n, struct flow_process *process, const struct event *e,
                             uint64_t client_id, int64_t fd, uint64_t name, uint64_t number)
{
    struct flow_client *client = client_of(n, process, client_id, fd);
    struct flow *flow = again(client, name_of(process, name), number);
    if (flow) {
        flow->at[FLOW_ENDED] = (int64_t)e->time_ns;
        flow->turn = process->turns;
        return flow;
    }
    if (client && client->unwritten.count >= UNWRITTEN_MAX)
        give_up_client(n, client, FLOW_NO_REPLY);
    if (client && (client->silent || replicates(client->end)))
        return NULL;
    flow = client && n->open_count < OPEN_MAX ? calloc(1, sizeof(*flow)) : NULL;
    if (!flow || array_add(&client->unwritten, flow) < 0) {
        n->flows += client != NULL;
        n->reasons[FLOW_TOO_MANY] += client != NULL;
        free(flow);
        return NULL;
    }
    for (enum flow_point p = 0; p < FLOW_POINTS; p++)
        flow->at[p] = FLOW_UNKNOWN;
    flow->busy_until = FLOW_UNKNOWN;
    flow->node = process;
    flow->end = client->end;
    flow->command = name_of(process, name);
    flow->number = number;
    flow->at[FLOW_ENDED] = (int64_t)e->time_ns;
    flow->at[FLOW_STARTED] = FLOW_UNKNOWN;
    flow->at[FLOW_READ] = client->read;
    flow->threaded = client->read_tid != e->tid;
    flow->read_known = flow->threaded && client->read > client->written;
    flow->turn = process->turns;
    flow->tid = e->tid;
    flow->open = 1; /* its reply */
    flow->next = n->open;
    if (n->open)
        n->open->before = flow;
    n->open = flow;
    n->open_count++;
    if (array_add(&process->waking, flow) < 0)
        n->failed = true;
    else
        flow->open++;
    if (!flow_both(client->end))
        return flow;
    flow_waits_for_call(n, flow);
    return flow;
}

/* Since when events of the same thread surely belong to this span. Bringing the hosts' clocks together
 * stretches times, but not durations, by some millionths: after a long span its beginning seems to come
 * behind what it began with. */
static int64_t begins(const struct event *e)
{
    uint64_t duration_ns = e->values[FIELD_DURATION].u;
    return (int64_t)(e->time_ns - duration_ns - duration_ns / 1000);
}

/* Messages that were queued for subscribers within a span, and so belong to it. */
static void take_deliveries(struct netflow *n, struct flow_process *process, int64_t start, struct flow *flow,
                            struct flow_arrival *arrival)
{
    array_foreach (&process->told, told) {
        struct flow_client *client =
            told->time >= start ? client_of(n, process, told->client_id, told->fd) : NULL;
        struct flow_delivery *d = client ? calloc(1, sizeof(*d)) : NULL;
        if (!client)
            continue;
        if (!d || array_add(&client->pending, d) < 0) {
            free(d);
            n->failed = true;
            continue;
        }
        *d = (struct flow_delivery){.end = client->end,
                                    .flow = flow,
                                    .arrival = arrival,
                                    .ended = told->time,
                                    .write = FLOW_UNKNOWN,
                                    .written = FLOW_UNKNOWN,
                                    .got = FLOW_UNKNOWN,
                                    .tid = told->tid,
                                    .turn = process->turns};
        if (flow)
            flow->open++;
        else
            arrival->open++;
        n->failed |= (flow ? array_add(&flow->deliveries, d) : array_add(&arrival->deliveries, d)) < 0;
        if (client->end)
            flow_other(client->end)->receives = true;
    }
    array_clear(&process->told);
}

/* Bus messages that a command has put on links wait there with it. */
static void take_sending(struct netflow *n, struct flow_process *process, int64_t start, struct flow *flow)
{
    for (size_t i = 0; i < process->sending.count; i++) {
        struct flow_sent sent = process->sending.at[i];
        bool publishes =
            redis_bus_number(sent.type) == BUS_PUBLISH || redis_bus_number(sent.type) == BUS_PUBLISH_SHARD;
        if (flow && publishes && sent.queued >= start) {
            sent.flow = flow;
            flow->open++;
        }
        n->failed |= queue_add(&process->sending_on.at[i]->sent, sent) < 0;
    }
    array_clear(&process->sending);
    array_clear(&process->sending_on);
}

static void command_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    int64_t start = (int64_t)(e->time_ns - e->values[FIELD_DURATION].u);
    if (U(e, redis_command_depth))
        return;
    uint64_t id = U(e, redis_command_client_id);
    struct flow_client *client = client_of(n, process, id, I(e, redis_command_fd));
    struct flow *flow =
        flow_replica_command(n, process, client, name_of(process, U(e, redis_command_name)), start)
            ? NULL
            : flow_new(n, process, e, id, I(e, redis_command_fd), U(e, redis_command_name),
                       U(e, redis_command_sequence));
    if (flow && flow->at[FLOW_STARTED] == FLOW_UNKNOWN)
        flow->at[FLOW_STARTED] = start;
    if (flow && client->blocked != FLOW_UNKNOWN) {
        if (flow->at[FLOW_BLOCKED] == FLOW_UNKNOWN)
            flow->at[FLOW_BLOCKED] = (int64_t)e->time_ns;
        client->blocked = FLOW_UNKNOWN;
    }
    take_sending(n, process, begins(e), flow);
    if (flow)
        take_deliveries(n, process, begins(e), flow, NULL);
    flow_take_fed(n, process, begins(e), flow);
    process->command_start = start;
    process->command_ended = (int64_t)e->time_ns;
    process->command_number = U(e, redis_command_sequence);
    process->command_name = name_of(process, U(e, redis_command_name));
    process->command_client = id;
}

/* A blocked client's command ends when it goes on, which is told within the command that wakes it, or by a
 * timer. */
static void block_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_client *client = client_of(n, process, U(e, redis_block_client_id), I(e, redis_block_fd));
    size_t count = client ? client->unwritten.count : 0;
    struct flow *last = count ? client->unwritten.at[count - 1] : NULL;
    if (client && U(e, redis_block_begins))
        client->blocked = (int64_t)e->time_ns;
    else if (last && last->at[FLOW_BLOCKED] != FLOW_UNKNOWN) {
        last->at[FLOW_ENDED] = (int64_t)e->time_ns;
        last->unblocked = true;
        last->turn = process->turns;
        flow_wait_over(n, process, last);
    }
}

static void answered_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow *flow = flow_new(n, process, e, U(e, redis_answered_client_id), I(e, redis_answered_fd),
                                 U(e, redis_answered_name), U(e, redis_answered_sequence));
    uint64_t answer = U(e, redis_answered_answer);
    if (!flow)
        return;
    if (flow->at[FLOW_STARTED] == FLOW_UNKNOWN)
        flow->at[FLOW_STARTED] = (int64_t)e->time_ns;
    flow->redirected = answer == SONDE_redis_answer_moved || answer == SONDE_redis_answer_ask;
}

static int read_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_client *client =
        client_of(n, process, U(e, redis_read_query_client_id), I(e, redis_read_query_fd));
    if (!client)
        return 0;
    client->read = (int64_t)(e->time_ns - e->values[FIELD_DURATION].u);
    client->read_tid = e->tid;
    flow_replica_read(process, client, U(e, redis_read_query_client_id), client->read);
    array_foreach (&client->unwritten, place) {
        struct flow *flow = *place;
        if (flow->at[FLOW_STARTED] < client->read) /* of an earlier read */
            continue;
        flow->at[FLOW_READ] = client->read;
        flow->read_known = true;
        flow->threaded = false;
    }
    return flow_replica_heard(n, client, I(e, redis_read_query_bytes), (int64_t)e->time_ns);
}

static int reply_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    int64_t end = (int64_t)e->time_ns, start = end - (int64_t)e->values[FIELD_DURATION].u;
    struct flow_client *client =
        client_of(n, process, U(e, redis_write_reply_client_id), I(e, redis_write_reply_fd));
    if (!client)
        return 0;
    process->busy_until = end;
    struct flow_end *to = client->end;
    flow_take_fed(n, process, INT64_MAX, NULL);
    int r = flow_replica_written(n, process, to, start, end, I(e, redis_write_reply_bytes));
    if (r >= 0)
        r = flow_replica_acks(n, client, start, I(e, redis_write_reply_bytes));
    if (r < 0)
        return r;
    bool read_there = flow_both(to);
    array_foreach (&client->pending, place) {
        struct flow_delivery *d = *place;
        d->write = start;
        d->written = end;
        bool lost = flow_written_later(process, d->tid, d->turn, e);
        if (!lost && read_there && queue_add(&to->deliveries, d) == 0)
            continue;
        flow_delivery_over(n, d, lost ? FLOW_LOST : FLOW_COMPLETE);
    }
    array_clear(&client->pending);
    bool lost = flow_others_missing(process, client, e);
    client->written = start;
    array_foreach (&client->unwritten, place) {
        struct flow *flow = *place;
        flow->at[FLOW_WRITE] = start;
        flow->at[FLOW_WRITTEN] = end;
        if (flow->at[FLOW_READ] == FLOW_UNKNOWN)
            flow->at[FLOW_READ] = flow->at[FLOW_STARTED];
        flow_part(n, flow, lost ? FLOW_LOST : FLOW_COMPLETE);
    }
    array_clear(&client->unwritten);
    if (!read_there)
        return 0;
    to->wrote = start;
    flow_match_readable(n, to);
    return flow_match_calls(n, to);
}

static void free_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    uint64_t id = U(e, redis_free_client_client_id);
    uint64_t *place = map_get(&process->clients, id);
    struct flow_client *client = place ? (struct flow_client *)(uintptr_t)*place : NULL;
    if (!client)
        return;
    give_up_client(n, client, FLOW_UNFINISHED);
    if (client->end)
        flow_replica_gone(n, process, client->end);
    array_done(&client->pending);
    array_done(&client->unwritten);
    free(client);
    map_remove(&process->clients, id);
}

/* ---- a node: its loop ---- */

static int64_t woke_for(const struct flow_process *process, int64_t read, int64_t start, bool threaded)
{
    if (read >= start)
        return start;
    return threaded && process->woke != FLOW_UNKNOWN && process->woke <= read ? process->woke : read;
}

/* The loop was told what is ready at start; NULL: its recording has ended. */
static int loop_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    int64_t end = (int64_t)e->time_ns, start = end - (int64_t)e->values[FIELD_DURATION].u;
    if (U(e, redis_loop_phase_phase) != SONDE_redis_phase_process_events) {
        process->busy_until = end;
        return 0;
    }
    array_foreach (&process->waking, place) {
        struct flow *flow = *place;
        flow->at[FLOW_WOKE] = woke_for(process, flow->at[FLOW_READ], start, flow->threaded);
        if (flow->at[FLOW_WOKE] == start && process->busy_until <= start)
            flow->busy_until = process->busy_until;
        bool lost = process->lost && !flow->threaded && flow->at[FLOW_READ] < start;
        flow_part(n, flow, lost ? FLOW_LOST : FLOW_COMPLETE);
    }
    array_clear(&process->waking);
    array_foreach (&process->arriving, place) {
        bool lost = process->lost && (*place)->start < start;
        (*place)->woke = woke_for(process, (*place)->start, start, false);
        flow_arrival_part(n, *place, lost ? FLOW_LOST : FLOW_COMPLETE);
    }
    array_clear(&process->arriving);
    process->turns++;
    process->woke = start;
    process->busy_until = end;
    return flow_replica_turn(n, process, start);
}

/* ---- a node: the bus ---- */

static struct flow_link *link_of(struct netflow *n, struct flow_process *process, uint64_t id)
{
    uint64_t *place = id ? map_put(&process->links, id, NULL) : NULL;
    if (place && !*place)
        *place = (uint64_t)(uintptr_t)calloc(1, sizeof(struct flow_link));
    n->failed |= id && (!place || !*place);
    return place ? (struct flow_link *)(uintptr_t)*place : NULL;
}

static void link_is(struct flow_process *process, struct flow_link *link, int64_t fd)
{
    struct flow_end *end = flow_end_of(process, fd);
    if (end == link->end)
        return;
    link->end = end;
    link->queued = link->done; /* the memory of one that is gone is another's now */
}

static void send_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_link *link = link_of(n, process, U(e, redis_bus_send_link));
    if (!link)
        return;
    link->queued += U(e, redis_bus_send_bytes);
    struct flow_sent sent = {.mark = (uint32_t)U(e, redis_bus_send_mark),
                             .bytes = (uint32_t)U(e, redis_bus_send_bytes),
                             .type = (uint32_t)U(e, redis_bus_send_type),
                             .upto = link->queued,
                             .queued = (int64_t)e->time_ns,
                             .turn = process->turns};
    n->failed |= array_add(&process->sending, sent) < 0 || array_add(&process->sending_on, link) < 0;
}

static int bus_write_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    int64_t end = (int64_t)e->time_ns, start = end - (int64_t)e->values[FIELD_DURATION].u;
    int64_t bytes = I(e, redis_bus_write_bytes);
    struct flow_link *link = link_of(n, process, U(e, redis_bus_write_link));
    take_sending(n, process, INT64_MAX, NULL);
    if (!link)
        return 0;
    link_is(process, link, I(e, redis_bus_write_fd));
    link->done = bytes < 0 ? link->queued : link->done + (uint64_t)bytes;
    if (process->lost)
        flow_written_with_losses(process, link, bytes);
    while (queue_count(&link->sent) && queue_at(&link->sent, 0).upto <= link->done) {
        struct flow_sent sent = queue_at(&link->sent, 0);
        queue_pop(&link->sent);
        sent.write = start;
        sent.written = end;
        if (flow_both(link->end) && queue_count(&link->end->sent) < FLOW_QUEUED_MAX)
            n->failed |= queue_add(&link->end->sent, sent) < 0;
        else if (sent.flow)
            flow_part(n, sent.flow,
                      link->end && link->end->pair->both ? FLOW_TOO_MANY
                      : process->lost                    ? FLOW_LOST
                                                         : FLOW_NO_NODE);
    }
    if (!queue_count(&link->sent)) /* what was queued before it was recorded has been written, too */
        link->done = link->queued;
    return flow_both(link->end) ? flow_match_bus(n, link->end) : 0;
}

static void packet_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    int64_t start = (int64_t)(e->time_ns - e->values[FIELD_DURATION].u);
    struct flow_link *link = link_of(n, process, U(e, redis_bus_packet_link));
    struct flow_arrival *arrival = link ? calloc(1, sizeof(*arrival)) : NULL;
    take_sending(n, process, INT64_MAX, NULL); /* an answer to it */
    if (!arrival || array_add(&link->arrived, arrival) < 0) {
        n->failed |= link != NULL;
        free(arrival);
        return;
    }
    arrival->next = n->arrivals;
    if (n->arrivals)
        n->arrivals->before = arrival;
    n->arrivals = arrival;
    arrival->node = process;
    arrival->mark = (uint32_t)U(e, redis_bus_packet_mark);
    arrival->bytes = (uint32_t)U(e, redis_bus_packet_bytes);
    arrival->type = (uint32_t)U(e, redis_bus_packet_type);
    arrival->start = arrival->woke = start;
    process->active = process->turns;
    arrival->waits = true;
    take_deliveries(n, process, begins(e), NULL, arrival);
    if (arrival->deliveries.count && array_add(&process->arriving, arrival) == 0)
        arrival->open++;
}

static int bus_read_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    struct flow_link *link = link_of(n, process, U(e, redis_bus_read_link));
    if (!link || !link->arrived.count)
        return 0;
    link_is(process, link, I(e, redis_bus_read_fd));
    bool both = flow_both(link->end);
    array_foreach (&link->arrived, place) {
        struct flow_arrival *arrival = *place;
        if (both && queue_count(&link->end->arrived) < FLOW_QUEUED_MAX &&
            queue_add(&link->end->arrived, arrival) == 0)
            continue;
        arrival->waits = false;
        if (!arrival->open)
            flow_arrival_free(n, arrival);
    }
    array_clear(&link->arrived);
    return both ? flow_match_bus(n, flow_other(link->end)) : 0;
}
/* ---- the pass ---- */

static void start_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    const struct value *name = &e->values[FIELD_process_start_name];
    if (HAS(e, process_start_name) && name->length)
        process->name = flow_intern(n, name->s, name->length);
}

static void name_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    const struct value *text = &e->values[FIELD_probe_name_text];
    uint64_t *place = HAS(e, probe_name_text) ? map_put(&process->names, U(e, probe_name_id), NULL) : NULL;
    if (place)
        *place = (uint64_t)(uintptr_t)flow_intern(n, text->s, text->length);
}

static const uint16_t WANTED[] = {SONDE_EVENT_process_start,     SONDE_EVENT_loss,
                                  SONDE_EVENT_net_connection,    SONDE_EVENT_probe_name,
                                  SONDE_EVENT_redis_command,     SONDE_EVENT_redis_answered,
                                  SONDE_EVENT_redis_block,       SONDE_EVENT_redis_read_query,
                                  SONDE_EVENT_redis_write_reply, SONDE_EVENT_redis_free_client,
                                  SONDE_EVENT_redis_loop_phase,  SONDE_EVENT_redis_bus_send,
                                  SONDE_EVENT_redis_bus_write,   SONDE_EVENT_redis_bus_packet,
                                  SONDE_EVENT_redis_bus_read,    SONDE_EVENT_redis_message,
                                  SONDE_EVENT_stream_write,      SONDE_EVENT_stream_io,
                                  SONDE_EVENT_tcp_retransmit,    SONDE_EVENT_redis_replicated,
                                  SONDE_EVENT_redis_fork,        0};

static int pass_event(void *self, const struct event *e)
{
    struct netflow *n = self;
    int64_t pid = e->id == SONDE_EVENT_process_start ? (int64_t)U(e, process_start_pid)
                  : e->id == SONDE_EVENT_loss        ? (int64_t)U(e, loss_pid)
                                                     : e->pid;
    if (e->id == SONDE_EVENT_tcp_retransmit) {
        flow_resent_event(n, e);
        return 0;
    }
    struct flow_process *process = flow_process_get(n, e, pid);
    int r = 0;
    if (!process)
        return -ENOMEM;
    switch (e->id) {
    case SONDE_EVENT_process_start:
        start_event(n, process, e);
        break;
    case SONDE_EVENT_loss:
        flow_loss_event(process);
        break;
    case SONDE_EVENT_net_connection:
        flow_connection_event(n, process, e);
        break;
    case SONDE_EVENT_probe_name:
        name_event(n, process, e);
        break;
    case SONDE_EVENT_redis_command:
        command_event(n, process, e);
        break;
    case SONDE_EVENT_redis_block:
        block_event(n, process, e);
        break;
    case SONDE_EVENT_redis_answered:
        answered_event(n, process, e);
        break;
    case SONDE_EVENT_redis_read_query:
        r = read_event(n, process, e);
        break;
    case SONDE_EVENT_redis_write_reply:
        r = reply_event(n, process, e);
        break;
    case SONDE_EVENT_redis_free_client:
        free_event(n, process, e);
        break;
    case SONDE_EVENT_redis_loop_phase:
        r = loop_event(n, process, e);
        break;
    case SONDE_EVENT_redis_replicated:
        flow_replicated_event(n, process, e);
        break;
    case SONDE_EVENT_redis_fork:
        flow_fork_event(n, process);
        break;
    case SONDE_EVENT_redis_bus_send:
        send_event(n, process, e);
        break;
    case SONDE_EVENT_redis_bus_write:
        r = bus_write_event(n, process, e);
        break;
    case SONDE_EVENT_redis_bus_packet:
        packet_event(n, process, e);
        break;
    case SONDE_EVENT_redis_bus_read:
        r = bus_read_event(n, process, e);
        break;
    case SONDE_EVENT_redis_message:
        n->failed |=
            array_add(&process->told, (struct flow_told){U(e, redis_message_client_id), (int64_t)e->time_ns,
                                                         e->tid, (int32_t)I(e, redis_message_fd)}) < 0;
        break;
    case SONDE_EVENT_stream_write:
        r = flow_write_event(n, process, e);
        break;
    case SONDE_EVENT_stream_io:
        r = flow_readable_event(n, process, e);
        break;
    }
    return r < 0 ? r : n->failed ? -ENOMEM : 0;
}

/* What the events of a process need to be understood. */
static void process_forget(struct flow_process *process)
{
    map_foreach (&process->clients, slot) {
        struct flow_client *client = (struct flow_client *)(uintptr_t)slot->value;
        array_done(&client->pending);
        array_done(&client->unwritten);
        free(client);
    }
    map_foreach (&process->links, slot) {
        struct flow_link *link = (struct flow_link *)(uintptr_t)slot->value;
        if (!link)
            continue;
        queue_done(&link->sent);
        array_done(&link->arrived);
        free(link);
    }
    map_done(&process->fds);
    map_done(&process->clients);
    map_done(&process->links);
    map_done(&process->names);
    array_done(&process->waking);
    array_done(&process->arriving);
    array_done(&process->sending);
    array_done(&process->sending_on);
    array_done(&process->told);
    flow_asks_done(process);
}

/* What is still open was cut off by the recording's end, or waits for a record that was lost. */
static int pass_finish(void *self)
{
    struct netflow *n = self;
    n->ending = true;
    map_foreach (&n->pairs, slot) {
        struct flow_pair *pair = (struct flow_pair *)(uintptr_t)slot->value;
        for (int i = 0, r; i < 2; i++)
            if ((r = flow_match_bus(n, &pair->ends[i])) < 0)
                return r;
        bool lost = (pair->ends[0].process && pair->ends[0].process->lost) ||
                    (pair->ends[1].process && pair->ends[1].process->lost);
        for (int i = 0; i < 2; i++)
            flow_end_clear(n, &pair->ends[i], lost ? FLOW_LOST : FLOW_UNFINISHED);
    }
    while (n->open) {
        struct flow *flow = n->open;
        flow->open = 1;
        flow_part(n, flow, flow->node->lost ? FLOW_LOST : FLOW_UNFINISHED);
    }
    while (n->arrivals)
        flow_arrival_free(n, n->arrivals);
    array_foreach (&n->all, process)
        process_forget(*process);
    flow_pairs_forget(n);
    return n->failed ? -ENOMEM : 0;
}

int netflow_new(netflow_message_fn message, void *context, const uint64_t *machines, struct netflow *before,
                struct netflow **ret_netflow)
{
    struct netflow *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->message = message;
    n->context = context;
    n->machines = machines;
    n->before = before;
    n->unknown_max = FLOW_QUEUED_MAX;
    *ret_netflow = n;
    return 0;
}

void netflow_free(struct netflow *n)
{
    if (!n)
        return;
    map_foreach (&n->pairs, slot) {
        struct flow_pair *pair = (struct flow_pair *)(uintptr_t)slot->value;
        for (int i = 0; i < 2; i++)
            flow_end_clear(n, &pair->ends[i], FLOW_UNFINISHED);
        free(pair);
    }
    while (n->open) {
        n->open->open = 1;
        flow_part(n, n->open, FLOW_UNFINISHED);
    }
    while (n->arrivals)
        flow_arrival_free(n, n->arrivals);
    array_foreach (&n->rows, row)
        flow_row_free(*row);
    array_foreach (&n->all, process) {
        process_forget(*process);
        free(*process);
    }
    array_done(&n->rows);
    array_done(&n->all);
    map_done(&n->strings);
    map_done(&n->processes);
    map_done(&n->pairs);
    map_done(&n->known);
    map_done(&n->row_of);
    arena_done(&n->arena);
    free(n);
}

struct pass netflow_pass(struct netflow *n)
{
    return (struct pass){
        .name = "netflow", .wanted = WANTED, .event = pass_event, .finish = pass_finish, .self = n};
}
