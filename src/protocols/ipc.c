/* Processes that talk over pipes and UNIX sockets: child_process channels, extra pipes, sockets of a path. A
 * message that a request writes is followed to the next bytes read on the same descriptor (a ping and its
 * pong, in order), bytes that the other end does not take to the completion of their write. Who is at the
 * other end is known by the sockets' inodes: a pair is made at once and gets two that follow each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "faults/faults.h"
#include "protocols/ipc.h"
#include "protocols/protocols.h"
#include "model/reading.h"
#include "base/clock.h"

enum { WAITING_MAX = 256, POLLIN_BIT = 1 };

static void opened(struct analysis *a, struct connection *c)
{
    uint64_t *place = connection_is_pipe(c) && c->inode ? map_put(&a->inodes, c->inode, NULL) : NULL;
    if (place)
        *place = (uint64_t)(uintptr_t)c;
}

static void forget(struct analysis *a, struct connection *c)
{
    uint64_t *place = c->inode ? map_get(&a->inodes, c->inode) : NULL;
    if (place && *place == (uint64_t)(uintptr_t)c)
        map_remove(&a->inodes, c->inode);
}

static const struct connection *at_inode(const struct analysis *a, const struct connection *c, int64_t step)
{
    uint64_t *place = c->inode ? map_get(&a->inodes, c->inode + (uint64_t)step) : NULL;
    const struct connection *other = place ? (const struct connection *)(uintptr_t)*place : NULL;
    return other && other->process != c->process && other->family == c->family ? other : NULL;
}

/* The other end, where its process is traced and has used it. Of a pair that libuv makes for a child the
 * parent keeps the first. */
static const struct connection *other_end(const struct analysis *a, const struct connection *c)
{
    const struct connection *after = at_inode(a, c, 1), *before = at_inode(a, c, -1);
    if (after && after->process->parent == c->process->pid)
        return after;
    if (before && c->process->parent == before->process->pid)
        return before;
    return NULL;
}

/* "descriptor 21, to worker on its descriptor 3". */
static const char *name_of(struct analysis *a, const struct connection *c)
{
    char name[256];
    const struct connection *other = other_end(a, c);
    if (other)
        snprintf(name, sizeof(name), "descriptor %d, to %s (process %lld) on its descriptor %d", c->fd,
                 other->process->service, (long long)other->process->pid, other->fd);
    else
        snprintf(name, sizeof(name), "descriptor %d, a %s", c->fd,
                 c->family == AF_UNIX ? "UNIX socket" : "pipe");
    return intern_string(a, name);
}

static uint32_t add_span(struct analysis *a, struct request *owner, enum known known, uint32_t parent,
                         const struct vspan *like)
{
    struct vspan span = *like;
    span.parent = parent;
    span.cause = VSPAN_NONE;
    span.layer = LAYER_loop;
    span.kind = VSPAN_ipc;
    span.known = (uint8_t)known;
    return request_add_span(a, owner, &span);
}

void ipc_wrote(struct analysis *a, struct connection *c, const struct context *whose, uint64_t at_ns,
               uint64_t bytes, uint64_t write_id)
{
    struct request *owner = whose->owner;
    struct vspan like = {
        .start_ns = at_ns, .peer = name_of(a, c), .written_bytes = bytes, .told = whose->told};
    c->ipc_writes++;
    c->ipc_bytes += bytes;
    if (write_id) {
        like.name = "write to a full pipe";
        like.sequence = write_id;
        if (owner)
            add_span(a, owner, (enum known)whose->known, whose->parent, &like);
        return;
    }
    like.name = "message and answer";
    struct ipc_message message = {.sent_ns = at_ns, .owner = owner ? owner->serial : 0};
    message.span = owner ? add_span(a, owner, (enum known)whose->known, whose->parent, &like) : VSPAN_NONE;
    if (c->ipc_waiting.count == WAITING_MAX) /* a channel that is only written to */
        memmove(c->ipc_waiting.at, c->ipc_waiting.at + 1,
                --c->ipc_waiting.count * sizeof(*c->ipc_waiting.at));
    LIST_ADD(a, &c->ipc_waiting, message);
}

/* A request that is answered where another one's write was done may have had its own bytes written with
 * those: Node keeps them until the pipe takes more. What it did last before was to ask for that. Or it has
 * waited for the other one to go on (a lock): with another request there, that is ambiguous. */
void ipc_wrote_behind(struct analysis *a, struct connection *c, struct request *request, bool only,
                      uint64_t done_ns)
{
    uint64_t since_ns = request->start_ns;
    if (request->open_calls)
        return;
    for (size_t i = 1; i < request->spans.count; i++) {
        const struct vspan *span = &request->spans.at[i];
        if (!span->end_ns || span->end_ns > done_ns)
            return;
        since_ns = MAX(since_ns, span->end_ns);
    }
    add_span(a, request, only ? KNOWN_INFERRED : KNOWN_AMBIGUOUS, 0,
             &(struct vspan){.start_ns = since_ns,
                             .end_ns = done_ns,
                             .name = "write to a full pipe",
                             .peer = name_of(a, c),
                             .sequence = 1});
}

/* How long the other process was still starting: until its loop first ran. Of one that is not traced it is
 * not known, and it may have begun just then. */
static uint64_t starting_ns(const struct connection *other, const struct vspan *span)
{
    uint64_t *slot = other ? map_get(&other->process->threads, (uint64_t)other->process->pid) : NULL;
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    if (!thread || !thread->loops_since_ns)
        return span->end_ns - span->start_ns;
    uint64_t ready_ns = MIN(MAX(thread->loops_since_ns, span->start_ns), span->end_ns);
    return ready_ns - span->start_ns;
}

/* The oldest message has its answer. Returns whose it is, with the span in *ret_span. */
static struct request *answer_oldest(struct analysis *a, struct connection *c, uint64_t at_ns,
                                     uint32_t *ret_span)
{
    struct ipc_message message = c->ipc_waiting.at[0];
    memmove(c->ipc_waiting.at, c->ipc_waiting.at + 1, --c->ipc_waiting.count * sizeof(*c->ipc_waiting.at));
    if (!c->ipc_answers++)
        c->ipc_first_answer_ns = at_ns;
    c->ipc_answer_ns += at_ns - message.sent_ns;
    c->ipc_worst_answer_ns = MAX(c->ipc_worst_answer_ns, at_ns - message.sent_ns);
    struct request *owner = request_open(a, message.owner);
    if (!owner || message.span == VSPAN_NONE)
        return NULL;
    struct vspan *span = &owner->spans.at[message.span];
    span->end_ns = MAX(at_ns, span->start_ns);
    const struct connection *other = other_end(a, c);
    if (message.sent_ns < c->ipc_first_answer_ns)
        span->starting_ns = starting_ns(other, span);
    span->peer_pid = other ? other->process->pid : 0;
    span->peer = name_of(a, c); /* the other end may have shown itself since */
    span->unusual = attl_add(a, c->process->service, span);
    *ret_span = message.span;
    return owner;
}

/* Bytes came: the answer to the oldest message; to as many as the other end wrote since the last time, where
 * that is seen, because a loop that stood reads them all at once. Returns whose it is, with the span in
 * *ret_span; NULL when it is several requests'. */
static struct request *answers_read(struct analysis *a, struct connection *c, uint64_t at_ns, uint32_t events,
                                    uint32_t *ret_span)
{
    *ret_span = VSPAN_NONE;
    if (!(events & POLLIN_BIT))
        return NULL;
    const struct connection *other = other_end(a, c);
    uint64_t came = other ? other->ipc_writes - MIN(c->ipc_taken, other->ipc_writes) : 1;
    c->ipc_taken = other ? other->ipc_writes : 0;
    struct request *owner = NULL;
    for (uint64_t i = 0; i < MAX(came, 1u) && c->ipc_waiting.count && c->ipc_waiting.at[0].sent_ns < at_ns;
         i++) {
        struct request *one = answer_oldest(a, c, at_ns, ret_span);
        owner = i && one != owner ? NULL : one;
    }
    return owner;
}

/* A request that was answered did not wait for what is still open: it only told somebody something. */
static void request_done(struct request *request)
{
    array_foreach (&request->spans, span)
        if ((span->kind == VSPAN_ipc || span->message) && !span->end_ns &&
            request->state != REQUEST_UNFINISHED)
            span->end_ns = span->start_ns;
}

/* The loop stood in [start, end): who had sent it a message that was not answered yet waited for that. */
static void stalled(struct analysis *a, const struct thread *thread, struct stretch *s)
{
    map_foreach (&thread->process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        const struct connection *other = connection_is_pipe(c) ? other_end(a, c) : NULL;
        for (size_t i = 0; other && i < other->ipc_waiting.count; i++) {
            const struct ipc_message *message = &other->ipc_waiting.at[i];
            struct request *owner = request_open(a, message->owner);
            if (!owner || message->span == VSPAN_NONE || message->sent_ns >= s->end_ns)
                continue;
            uint64_t delay_ns = s->end_ns - MAX(message->sent_ns, s->start_ns);
            owner->spans.at[message->span].stalled_ns += a->so_far ? 0 : delay_ns;
            stretch_victim_chain(a, s, owner, delay_ns, VICTIM_WAITED);
        }
    }
}

/* ---- as a protocol ---- */

static void bytes_written(struct analysis *a, struct thread *thread, struct connection *c,
                          const struct event *e)
{
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return;
    item->small = ITEM_IPC;
    item->fd = c->fd;
    item->generation = c->generation;
    item->id = U(e, stream_write_bytes);
    item->context = (uint32_t)U(e, stream_write_context);
    item->trigger = I(e, stream_write_result) == 0; /* queued: the other end takes no more */
}

/* With one message under way, what comes is its answer; with several the order says which, not whose callback
 * it is. */
static struct context input(struct analysis *a, struct thread *thread, struct connection *c,
                            const struct item *io, size_t replies)
{
    uint32_t span;
    bool alone = c->ipc_waiting.count == 1;
    struct request *owner = answers_read(a, c, io->start_ns, io->count, &span);
    return owner && alone ? decided(owner, KNOWN_INFERRED, span) : UNDECIDED;
}

const struct protocol protocol_pipe = {.name = "pipe",
                                       .in_order = true,
                                       .born_connected = true,
                                       .opened = opened,
                                       .written = bytes_written,
                                       .input = input,
                                       .forget = forget,
                                       .request_done = request_done,
                                       .stalled = stalled};

/* ---- for programs ---- */

void ipc_channels_json(const struct analysis *a, json_t *array)
{
    array_foreach (&a->all_processes, process)
        map_foreach (&(*process)->connections, slot) {
            const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
            if (!connection_is_pipe(c) || !c->ipc_writes)
                continue;
            const struct connection *other = other_end(a, c);
            json_t *object =
                json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "service", (*process)->service, "process",
                          (json_int_t)(*process)->pid, "descriptor", c->fd, "writes_count",
                          (json_int_t)c->ipc_writes, "bytes", (json_int_t)c->ipc_bytes, "answers_count",
                          (json_int_t)c->ipc_answers, "unanswered_count", (json_int_t)c->ipc_waiting.count);
            if (c->ipc_answers) {
                json_object_set_new(object, "answer_mean_ns",
                                    json_integer((json_int_t)(c->ipc_answer_ns / c->ipc_answers)));
                json_object_set_new(object, "answer_worst_ns",
                                    json_integer((json_int_t)c->ipc_worst_answer_ns));
            }
            if (other) {
                json_object_set_new(object, "to_service", json_string(other->process->service));
                json_object_set_new(object, "to_process", json_integer((json_int_t)other->process->pid));
                json_object_set_new(object, "to_descriptor", json_integer(other->fd));
            }
            json_array_append_new(array, object);
        }
}
