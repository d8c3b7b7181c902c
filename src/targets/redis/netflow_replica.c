/* See netflow.h: a write's way to the replicas, and that of a WAIT there and back. Both sides number the
 * bytes of the replication stream alike, so that what one queues and the other executes meet by that number.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "targets/redis/event.h"
#include "targets/redis/netflow_internal.h"

enum { ASKS_KEPT = 64 };

/* What is known of one end of a connection over which commands are replicated. */
struct flow_stream {
    /* At the server: put into its output and not written yet; written, and not seen at the replica yet;
     * requests for an acknowledgement that the replica has, and did not answer yet. */
    QUEUE(struct flow_copy *) queued;
    QUEUE(struct flow_copy *) written;
    QUEUE(struct flow_copy *) asks;
    uint64_t queued_bytes, written_bytes;
    uint64_t reached; /* the newest offset whose way is known, or known not to be; 0: none yet */
    QUEUE(struct flow_passed) heard;
    bool syncing; /* the replica has asked for all that there is, and was not written to since */
    /* At the replica */
    QUEUE(struct flow_applied) applied;
    QUEUE(struct flow_ack) acks;
    QUEUE(struct flow_passed) said;
    bool whole;      /* it was seen from its beginning */
    uint64_t offset; /* up to which it has executed */
    bool began;      /* what it executed was seen at the server's end */
};

static struct flow_stream *stream_of(struct netflow *n, struct flow_end *end)
{
    if (!end->stream)
        end->stream = calloc(1, sizeof(*end->stream));
    n->failed |= !end->stream;
    return end->stream;
}

/* ---- copies ---- */

static void copy_release(struct flow_copy *copy)
{
    if (!--copy->holders)
        free(copy);
}

/* It is complete or will never be; no queue has it any more. */
static void copy_over(struct netflow *n, struct flow_copy *copy, enum flow_reason reason)
{
    copy->over = true;
    copy->reason = (uint8_t)reason;
    if (copy->flow)
        flow_part(n, copy->flow, FLOW_COMPLETE);
    copy_release(copy);
}

/* The replica has it with everything else that there was when it began. */
static void copy_skipped(struct netflow *n, struct flow_copy *copy)
{
    copy->skipped = true;
    copy_over(n, copy, FLOW_COMPLETE);
}

#define copies_over(n, queue, reason)                      \
    while (queue_count(queue)) {                           \
        struct flow_copy *copy_over_ = queue_at(queue, 0); \
        queue_pop(queue);                                  \
        copy_over(n, copy_over_, reason);                  \
    }

void flow_stream_free(struct netflow *n, struct flow_end *end, enum flow_reason reason)
{
    struct flow_stream *stream = end->stream;
    if (!stream)
        return;
    end->stream = NULL;
    copies_over(n, &stream->queued, reason);
    copies_over(n, &stream->written, reason);
    copies_over(n, &stream->asks, reason);
    queue_done(&stream->queued);
    queue_done(&stream->written);
    queue_done(&stream->asks);
    queue_done(&stream->applied);
    queue_done(&stream->acks);
    queue_done(&stream->heard);
    queue_done(&stream->said);
    free(stream);
}

void flow_copies_done(struct flow *flow)
{
    array_foreach (&flow->copies, copy)
        copy_release(*copy);
    array_done(&flow->copies);
    if (flow->asked)
        copy_release(flow->asked);
}

void flow_asks_done(struct flow_process *process)
{
    for (; queue_count(&process->asks); process->asks.first++)
        copy_release(queue_at(&process->asks, 0));
    queue_done(&process->asks);
    array_done(&process->fed);
    array_done(&process->replicas);
    array_done(&process->applied);
}

/* ---- the server ---- */

void flow_replica_found(struct netflow *n, struct flow_process *process, struct flow_end *end)
{
    end->replica = true;
    array_foreach (&process->replicas, known)
        if (*known == end)
            return;
    n->failed |= array_add(&process->replicas, end) < 0;
}

void flow_replica_gone(struct netflow *n, struct flow_process *process, struct flow_end *end)
{
    for (size_t i = 0; i < process->replicas.count; i++)
        if (process->replicas.at[i] == end) {
            process->replicas.at[i] = process->replicas.at[--process->replicas.count];
            flow_stream_free(n, end, process->lost ? FLOW_LOST : FLOW_UNFINISHED);
            return;
        }
}

static struct flow_copy *copy_new(struct netflow *n, struct flow_process *process, struct flow_end *end,
                                  const struct flow_fed *fed)
{
    struct flow_stream *stream = stream_of(n, end);
    struct flow_copy *copy = stream ? calloc(1, sizeof(*copy)) : NULL;
    if (!copy || queue_add(&stream->queued, copy) < 0) {
        free(copy);
        n->failed = true;
        return NULL;
    }
    stream->queued_bytes += fed->bytes;
    *copy = (struct flow_copy){.end = end,
                               .offset = fed->offset,
                               .bytes = fed->bytes,
                               .upto = stream->queued_bytes,
                               .turn = process->turns,
                               .holders = 1,
                               .queued = fed->time,
                               .write = FLOW_UNKNOWN,
                               .written = FLOW_UNKNOWN,
                               .woke = FLOW_UNKNOWN,
                               .start = FLOW_UNKNOWN,
                               .ended = FLOW_UNKNOWN,
                               .acked = FLOW_UNKNOWN,
                               .heard = FLOW_UNKNOWN};
    return copy;
}

/* Only what the recording of the replica will show has a way that can be followed. */
static void copies_new(struct netflow *n, struct flow_process *process, const struct flow_fed *fed,
                       struct flow *flow)
{
    array_foreach (&process->replicas, place) {
        struct flow_end *end = *place;
        if (!flow_both(end))
            continue;
        if (end->stream && queue_count(&end->stream->queued) >= FLOW_QUEUED_MAX)
            flow_stream_free(n, end, FLOW_TOO_MANY);
        struct flow_copy *copy = copy_new(n, process, end, fed);
        if (!copy)
            return;
        copy->flow = flow;
        copy->asks = !flow;
        if ((flow ? array_add(&flow->copies, copy) : queue_add(&process->asks, copy)) < 0) {
            copy->flow = NULL;
            n->failed = true;
            return;
        }
        copy->holders++;
        if (flow)
            flow->open++;
    }
    while (queue_count(&process->asks) > ASKS_KEPT * MAX(process->replicas.count, 1u)) {
        copy_release(queue_at(&process->asks, 0));
        queue_pop(&process->asks);
    }
}

/* All that one command has queued is one message; what was queued outside of commands may be the request for
 * an acknowledgement that a WAIT makes. */
void flow_take_fed(struct netflow *n, struct flow_process *process, int64_t start, struct flow *flow)
{
    struct flow_fed whole = {0};
    array_foreach (&process->fed, fed) {
        if (!flow || fed->time < start) {
            copies_new(n, process, fed, NULL);
            continue;
        }
        if (!whole.bytes)
            whole.time = fed->time;
        whole.bytes += fed->bytes;
        whole.offset = fed->offset;
    }
    array_clear(&process->fed);
    if (whole.bytes)
        copies_new(n, process, &whole, flow);
}

/* It will get a snapshot, which has all that was queued up to now. */
static void begins_anew(struct netflow *n, struct flow_stream *stream)
{
    while (queue_count(&stream->queued)) {
        struct flow_copy *copy = queue_at(&stream->queued, 0);
        queue_pop(&stream->queued);
        copy_skipped(n, copy);
    }
    stream->queued_bytes = stream->written_bytes = 0;
}

bool flow_replica_command(struct netflow *n, struct flow_process *process, struct flow_client *client,
                          const char *command, int64_t start)
{
    bool acknowledges = strcmp(command, "replconf") == 0;
    if (!acknowledges && strcmp(command, "psync") != 0 && strcmp(command, "sync") != 0)
        return false;
    struct flow_end *end = client ? client->end : NULL;
    if (acknowledges) {
        process->heard = end;
        process->heard_at = start;
        process->heard_turn = process->turns;
        return true;
    }
    struct flow_stream *stream = end && end->replica ? stream_of(n, end) : NULL;
    if (stream) {
        begins_anew(n, stream);
        stream->syncing = true;
    }
    if (client) {
        client->heard = HEARD_ASKING;
        client->sent = 0;
    }
    return true;
}

void flow_fork_event(struct netflow *n, struct flow_process *process)
{
    array_foreach (&process->replicas, end)
        if ((*end)->stream && (*end)->stream->syncing)
            begins_anew(n, (*end)->stream);
}

int flow_replica_written(struct netflow *n, struct flow_process *process, struct flow_end *end, int64_t start,
                         int64_t written, int64_t bytes)
{
    struct flow_stream *stream = end && end->replica ? end->stream : NULL;
    if (!stream)
        return 0;
    bool unsure = bytes < 0 || process->lost;
    uint64_t waiting = stream->queued_bytes - stream->written_bytes;
    stream->syncing = false;
    stream->written_bytes = unsure ? stream->queued_bytes : stream->written_bytes + (uint64_t)bytes;
    while (queue_count(&stream->queued) && queue_at(&stream->queued, 0)->upto <= stream->written_bytes) {
        struct flow_copy *copy = queue_at(&stream->queued, 0);
        queue_pop(&stream->queued);
        copy->write = start;
        copy->written = written;
        copy->lost = process->lost && (process->turns - copy->turn > 1 || waiting != (uint64_t)bytes);
        if (queue_count(&stream->written) >= FLOW_QUEUED_MAX)
            copy_over(n, copy, FLOW_TOO_MANY);
        else
            n->failed |= queue_add(&stream->written, copy) < 0;
    }
    if (!queue_count(&stream->queued)) /* and what was queued before it was recorded */
        stream->written_bytes = stream->queued_bytes;
    return flow_match_copies(n, end);
}

/* A WAIT goes on. It was the replica that was heard last, if that was since the loop went round. */
void flow_wait_over(struct netflow *n, struct flow_process *process, struct flow *flow)
{
    if (!process->heard || process->heard_at < flow->at[FLOW_BLOCKED] || flow->asked ||
        process->turns - process->heard_turn > 1 || strcmp(flow->command, "wait") != 0)
        return;
    for (size_t i = 0; i < queue_count(&process->asks); i++) {
        struct flow_copy *copy = queue_at(&process->asks, i);
        if (copy->end != process->heard || copy->queued < flow->at[FLOW_BLOCKED])
            continue;
        flow->asked = copy;
        copy->holders++;
        copy->heard = process->heard_at;
        if (copy->over || copy->flow) /* another WAIT is told when it is over: both were answered at once */
            return;
        copy->flow = flow;
        flow->open++;
        return;
    }
}

/* ---- the replica ---- */

void flow_replicated_event(struct netflow *n, struct flow_process *process, const struct event *e)
{
    const struct flow_fed fed = {.offset = U(e, redis_replicated_offset),
                                 .bytes = (uint32_t)U(e, redis_replicated_bytes),
                                 .time = (int64_t)e->time_ns};
    if (!U(e, redis_replicated_applied)) {
        n->failed |= array_add(&process->fed, fed) < 0;
        return;
    }
    const struct flow_applied applied = {.offset = fed.offset,
                                         .bytes = fed.bytes,
                                         .time = fed.time,
                                         .number = process->command_number,
                                         .client_id = process->command_client,
                                         .command = process->command_client ? process->command_name : NULL,
                                         .start = process->command_start,
                                         .ended = process->command_ended,
                                         .woke = FLOW_UNKNOWN};
    process->command_client = 0;
    n->failed |= array_add(&process->applied, applied) < 0;
}

/* What was executed belongs to the connection that was read. */
void flow_replica_read(struct flow_process *process, struct flow_client *client, uint64_t id, int64_t start)
{
    array_foreach (&process->applied, applied)
        if (!applied->end) {
            applied->end = client->end;
            applied->woke = start;
            applied->lost = process->lost && (applied->client_id != id || start > applied->start);
        }
}

/* The loop was told at start that there is something to read. */
int flow_replica_turn(struct netflow *n, struct flow_process *process, int64_t start)
{
    int r = 0;
    array_foreach (&process->applied, applied) {
        struct flow_end *server = applied->end ? flow_other(applied->end) : NULL;
        struct flow_stream *stream = server && server->process ? stream_of(n, applied->end) : NULL;
        if (!stream)
            continue;
        if (!server->replica)
            flow_replica_found(n, server->process, server);
        applied->lost |= process->lost && applied->woke < start;
        applied->woke = MIN(applied->woke, start);
        while (queue_count(&stream->applied) >= FLOW_QUEUED_MAX)
            queue_pop(&stream->applied);
        stream->offset = applied->offset;
        stream->whole = applied->number;
        n->failed |= queue_add(&stream->applied, *applied) < 0;
        if ((r = flow_match_copies(n, server)) < 0)
            return r;
    }
    array_clear(&process->applied);
    return 0;
}

/* What the replica said is read. */
int flow_replica_heard(struct netflow *n, struct flow_client *client, int64_t bytes, int64_t end)
{
    struct flow_stream *stream = client->heard && client->end ? client->end->stream : NULL;
    if (client->heard == HEARD_ASKING) { /* in this very read */
        client->heard = HEARD_SINCE;
        return 0;
    }
    client->sent += client->heard ? (uint64_t)MAX(bytes, 0) : 0;
    if (!stream || !n->message)
        return 0;
    while (queue_count(&stream->heard) >= FLOW_QUEUED_MAX)
        queue_pop(&stream->heard);
    n->failed |= queue_add(&stream->heard, (struct flow_passed){client->sent, end}) < 0;
    return flow_match_copies(n, client->end);
}

/* It writes to the server that it replicates: an acknowledgement. */
int flow_replica_acks(struct netflow *n, struct flow_client *client, int64_t start, int64_t bytes)
{
    struct flow_stream *stream = client->end ? client->end->stream : NULL;
    client->sent += client->heard ? 0 : (uint64_t)MAX(bytes, 0);
    if (!stream || !stream->offset || bytes <= 0)
        return 0;
    while (queue_count(&stream->acks) >= FLOW_QUEUED_MAX)
        queue_pop(&stream->acks);
    n->failed |= queue_add(&stream->acks, (struct flow_ack){stream->offset, start}) < 0;
    while (queue_count(&stream->said) >= FLOW_QUEUED_MAX)
        queue_pop(&stream->said);
    if (n->message && stream->whole)
        n->failed |= queue_add(&stream->said, (struct flow_passed){client->sent, start}) < 0;
    return flow_match_copies(n, flow_other(client->end));
}

/* ---- both ---- */

static void acknowledged(struct netflow *n, struct flow_end *server, struct flow_end *replica)
{
    struct flow_stream *own = server->stream, *theirs = replica->stream;
    while (queue_count(&own->asks) && queue_count(&theirs->acks)) {
        struct flow_copy *copy = queue_at(&own->asks, 0);
        const struct flow_ack ack = queue_at(&theirs->acks, 0);
        if (ack.offset < copy->offset) {
            queue_pop(&theirs->acks);
            continue;
        }
        queue_pop(&own->asks);
        copy->acked = ack.time;
        copy->lost |= flow_end_lost(server) || flow_end_lost(replica); /* it may be a later one's */
        copy_over(n, copy, copy->lost ? FLOW_LOST : FLOW_COMPLETE);
    }
}

/* The clocks of a server and its replica need messages both ways. */
static int was_heard(struct netflow *n, struct flow_end *server, struct flow_end *replica)
{
    struct flow_stream *own = server->stream, *theirs = replica->stream;
    int r = 0;
    while (r >= 0 && queue_count(&own->heard) && queue_count(&theirs->said)) {
        const struct flow_passed heard = queue_at(&own->heard, 0), said = queue_at(&theirs->said, 0);
        if (heard.upto < said.upto) {
            queue_pop(&own->heard);
            continue;
        }
        queue_pop(&theirs->said);
        if (!flow_end_lost(replica)) /* else it has said more than is known, and this is heard earlier */
            r = flow_tell(n, replica->process, server->process, said.time, heard.time, true);
    }
    return r;
}

static int applied_copy(struct netflow *n, struct flow_end *server, struct flow_end *replica,
                        struct flow_copy *copy, const struct flow_applied *applied)
{
    int r =
        flow_tell(n, server->process, replica->process, flow_end_lost(server) ? copy->queued : copy->write,
                  flow_end_lost(replica) ? applied->time : applied->start, true);
    copy->node = replica->process;
    copy->woke = applied->woke;
    copy->start = applied->start;
    copy->ended = applied->ended;
    copy->lost |= applied->lost;
    if (!copy->asks)
        copy_over(n, copy, copy->lost ? FLOW_LOST : FLOW_COMPLETE);
    else if (queue_add(&server->stream->asks, copy) < 0)
        n->failed = true;
    return r;
}

/* The replica has executed what has no record at the server, between two messages that have one. Where the
 * server's records were lost, a write's is counted as such. */
static void without_record(struct netflow *n, struct flow_end *server, const struct flow_copy *next,
                           const struct flow_applied *applied)
{
    static const char *const NO_WRITES[] = {"ping", "replconf", "select"};
    uint64_t reached = server->stream->reached;
    if (!reached || applied->offset <= reached || applied->offset > next->offset - next->bytes ||
        !flow_end_lost(server) || !applied->command)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(NO_WRITES); i++)
        if (strcmp(applied->command, NO_WRITES[i]) == 0)
            return;
    flow_copy_lost(n, server->process, applied->command);
}

int flow_match_copies(struct netflow *n, struct flow_end *server)
{
    struct flow_end *replica = flow_other(server);
    struct flow_stream *own = server->stream, *theirs = replica->stream;
    int r = 0;
    if (!own || !theirs)
        return 0;
    while (r >= 0 && queue_count(&own->written) && queue_count(&theirs->applied)) {
        struct flow_copy *copy = queue_at(&own->written, 0);
        const struct flow_applied applied = queue_at(&theirs->applied, 0);
        if (applied.offset < copy->offset) {
            without_record(n, server, copy, &applied);
            queue_pop(&theirs->applied);
            theirs->began = true;
            continue;
        }
        queue_pop(&own->written);
        own->reached = copy->offset;
        bool there = applied.offset - applied.bytes < copy->offset;
        if (there)
            r = applied_copy(n, server, replica, copy, &applied);
        else if (theirs->began || flow_end_lost(server) || flow_end_lost(replica))
            copy_over(n, copy, flow_end_lost(replica) ? FLOW_LOST : FLOW_NO_PACKET);
        else
            copy_skipped(n, copy);
        theirs->began |= there;
    }
    acknowledged(n, server, replica);
    return r < 0 ? r : was_heard(n, server, replica);
}

void flow_copy_points(const struct flow *flow, const struct flow_copy *copy, int64_t at[FLOW_POINTS])
{
    memcpy(at, flow->at, sizeof(flow->at));
    at[FLOW_QUEUED] = copy->queued;
    at[FLOW_BUS_WRITE] = copy->write;
    at[FLOW_BUS_WRITTEN] = copy->written;
    at[FLOW_BUS_WOKE] = copy->woke;
    at[FLOW_BUS_READ] = copy->start;
    at[FLOW_BLOCKED] = FLOW_UNKNOWN;
    if (copy->asks) {
        at[FLOW_ACK_WRITE] = copy->acked;
        at[FLOW_ACK_READ] = copy->heard;
    } else {
        at[FLOW_ENDED] = copy->ended;
        at[FLOW_WRITE] = at[FLOW_WRITTEN] = at[FLOW_GOT] = FLOW_UNKNOWN;
    }
}
