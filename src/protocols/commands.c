/* Commands that are sent to a store and answered in their order, pipelined or not: what the client's end
 * tells, what the server's tells where it is traced, and how the two are joined: by the mirrored connection
 * and the command's number on it (Redis microservices paper, integration). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"
#include "protocols/commands.h"

#include <string.h>

#include "protocols/protocols.h"
#include "model/reading.h"

enum { EARLY_MAX = 65536, POLLIN_BIT = 1, POLLOUT_BIT = 4 };

/* ---- which answers are whole ---- */

/* Where a server tells how long its answers are and the client how much it reads, both count the bytes of one
 * direction of their connection. They are in step from its first command on; and when that was lost, from a
 * read on that had as many bytes as the answers that it ended. */

static uint64_t losses(const struct analysis *a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ARRAY_SIZE(a->losses.count); i++)
        sum += a->losses.count[i];
    return sum;
}

static void get_in_step(const struct analysis *a, struct connection *c, uint64_t taken_bytes)
{
    c->taken_bytes = taken_bytes;
    c->step_losses = losses(a);
    c->in_step = 1;
}

/* Whether the bytes that io has read say which answers they end: not if they are more than the server is
 * known to have written. */
static bool bytes_tell(const struct analysis *a, const struct connection *c, const struct item *io)
{
    return c->in_step && io->id && c->mirror && c->taken_bytes + io->id <= c->mirror->told_bytes &&
           c->step_losses == losses(a);
}

/* When the part of what io has read was handed to its callback that has the last of so many bytes, the call's
 * answer: libuv reads in parts of 64 KB for as long as there is as much, TLS makes smaller ones of them. */
static uint64_t part_ns(const struct thread *thread, const struct item *io, const struct call *call,
                        uint64_t bytes)
{
    enum { PART_BYTES = 65536 };
    uint64_t parts = 0, size = PART_BYTES, got = 0, at_ns = io->start_ns;
    foreach_child_of(thread, io, counted) parts += counted->event == SONDE_EVENT_node_callback;
    if (parts >= 2 * ((io->id + PART_BYTES - 1) / PART_BYTES) && !(io->count & POLLOUT_BIT))
        size = (io->id + parts - 1) / parts;
    foreach_child_of(thread, io, part)
    {
        if (part->event != SONDE_EVENT_node_callback)
            continue;
        at_ns = part->start_ns;
        if ((got += size) >= bytes && at_ns >= call->work_end_ns)
            break;
    }
    return at_ns;
}

/* ---- the two ends ---- */

/* The call of that number on the caller's connection. A number that is unknown proves nothing. */
static struct call *call_of(struct connection *c, uint64_t number)
{
    struct connection *caller = c ? c->mirror : NULL;
    if (!caller || !number || !calls_open(caller))
        return NULL;
    uint64_t first = caller->calls.at[caller->first_call].number;
    if (!first || number < first || number - first >= calls_open(caller))
        return NULL;
    struct call *call = &caller->calls.at[caller->first_call + (number - first)];
    return call->number == number && call->kind == VSPAN_command ? call : NULL;
}

/* A command that was sent before this stretch was over has waited for it, also on the same connection, when
 * it is not known to be for the same request: a job's command belongs to none. */
static void queued_behind(struct analysis *a, struct thread *thread, const struct call *call,
                          uint64_t client_id, uint64_t start_ns)
{
    array_foreach (&thread->stretches, place) {
        struct stretch *s = *place;
        bool own = s->client_id == client_id && s->culprit == call->owner;
        if (s->what != STRETCH_COMMAND || own || call->sent_ns >= s->end_ns || s->end_ns > start_ns)
            continue;
        uint64_t delay_ns = s->end_ns - MAX(s->start_ns, call->sent_ns);
        s->queued_commands++;
        s->queued_ns += delay_ns;
        stretch_victim_chain(a, s, request_get(a, call->owner), delay_ns, VICTIM_WAITED);
    }
}

static void joined(struct analysis *a, struct call *call, const struct executed_command *c, int64_t pid)
{
    a->counts.joined++;
    call->name = c->name;
    call->work_start_ns = c->start_ns;
    call->work_end_ns = c->end_ns;
    call->client_id = c->client_id;
    call->argument_bytes = c->argument_bytes;
    call->answer_end = c->answer_end;
    call->peer_pid = pid;
    call->peer_tid = c->tid;
    call->sent_ns = MIN(call->sent_ns, c->start_ns);
    call_worked(a, call);
    if (c->ready_ns)
        call_ready(a, call, c->ready_ns);
}

/* A call was added to the caller's end: its command may have been executed already. */
static void claim_early(struct analysis *a, struct connection *caller, struct call *call)
{
    struct connection *c = caller->mirror;
    if (!c || !call->number)
        return;
    size_t taken = 0;
    while (taken < c->early.count && c->early.at[taken].number < call->number)
        taken++; /* its call was never seen */
    if (taken < c->early.count && c->early.at[taken].number == call->number) {
        joined(a, call, &c->early.at[taken++], c->process->pid);
        a->counts.unjoined--;
    }
    if (taken) {
        c->early.count -= taken;
        memmove(c->early.at, c->early.at + taken, c->early.count * sizeof(*c->early.at));
    }
}

struct call *command_executed(struct analysis *a, struct thread *thread, struct connection *c,
                              const struct executed_command *done)
{
    struct call *call = call_of(c, done->number);
    if (c)
        c->tells = done->number != 0;
    if (call && !call->work_end_ns) {
        joined(a, call, done, thread->process->pid);
        queued_behind(a, thread, call, done->client_id, done->start_ns);
    } else {
        a->counts.unjoined++;
        if (c && c->mirror && done->number && c->early.count < EARLY_MAX)
            LIST_ADD(a, &c->early, *done);
    }
    return call;
}

/* Everything that this client's commands have produced so far goes out: also the replies of commands that
 * were not executed (queued in a transaction, refused), which stand before one that was. */
void commands_replied(struct analysis *a, struct connection *c, uint64_t now_ns, uint64_t rest_ns)
{
    struct connection *caller = c ? c->mirror : NULL;
    if (c)
        c->replied_ns = now_ns;
    if (!caller)
        return;
    caller->rest_ns = MAX(caller->rest_ns, rest_ns);
    array_foreach (&c->early, early)
        if (!early->ready_ns)
            early->ready_ns = now_ns;
    size_t executed = 0;
    for (size_t i = caller->first_call; i < caller->calls.count; i++)
        if (caller->calls.at[i].work_end_ns)
            executed = i + 1;
    for (size_t i = caller->first_call; i < executed; i++)
        if (!caller->calls.at[i].ready_ns)
            call_ready(a, &caller->calls.at[i], now_ns);
}

/* ---- the client's end: what is sent ---- */

/* Commands that begin in these bytes, numbered as the server will number them. */
void commands_written(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e)
{
    uint64_t first = U(e, stream_write_first_message), messages = U(e, stream_write_messages), index = 0;
    if (!messages || messages > U(e, stream_write_bytes) / c->protocol->command_bytes_min + 1)
        return; /* no new one, or a damaged record */
    messages = MIN(messages, (uint64_t)CALLS_MAX);
    const char *named = process_name_of(thread->process, U(e, stream_write_operation));
    if (!calls_open(c) && !c->calls_gone)
        get_in_step(a, c, c->mirror ? c->mirror->told_bytes : 0);
    for (uint64_t i = 0; i < messages; i++) {
        struct call call = {.kind = VSPAN_command,
                            .wire = c->protocol->wire,
                            .number = first ? first + i : 0,
                            .sent_ns = e->time_ns,
                            .written_bytes = U(e, stream_write_bytes),
                            .write_messages = (uint32_t)messages,
                            .name = !i && named ? named : intern_string(a, c->protocol->command)};
        if (c->statements)
            call.statement = statement_of(c, call.number);
        uint64_t at = 0;
        struct call *added = call_add(a, c, &call, &at);
        if (!added)
            return;
        index = i ? index : at;
        claim_early(a, c, added);
    }
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->fd = c->fd;
        item->generation = c->generation;
        item->context = (uint32_t)U(e, stream_write_context);
        item->id = index;
        item->count = (uint32_t)messages;
    }
}

/* ---- the client's end: which commands some bytes answer, and so whose callbacks go on with them ---- */

/* Of the sent oldest commands, how many were asked for up to the newest one of a request that is answered in
 * this part of the turn, or asks for something in its own context. */
static size_t count_going_on(const struct analysis *a, const struct thread *thread,
                             const struct connection *c, size_t sent, const struct item *item)
{
    size_t most = 0;
    foreach_child_of(thread, item, child)
    {
        const struct request *owner =
            child->event == SONDE_EVENT_http_response && child->small == SONDE_side_server
                ? request_open(a, child->id)
            : child->context > CONTEXT_NONE ? context_owner(a, thread, child->context)
                                            : NULL;
        for (size_t n = sent; owner && n > most; n--)
            if (c->calls.at[c->first_call + n - 1].owner == owner->serial)
                most = n;
        if (child->first_child != NONE_ITEM)
            most = MAX(most, count_going_on(a, thread, c, sent, child));
    }
    return most;
}

/* Whether the server's end says which of the client's commands it has executed. It cannot where one of the
 * two was attached to after the connection was opened, or the server's end does not understand its bytes. */
static bool server_tells(const struct connection *client)
{
    bool numbered = !calls_open(client) || client->calls.at[client->first_call].number;
    return numbered && client->mirror && client->mirror->tells;
}

/* Executed in the same iteration of the server's loop before the stretch began: since then no reply has been
 * written, which is done when all that came in has been executed. (A command that blocks, such as BLPOP, has
 * no reply for longer than that.) written_ns: the newest reply to anyone; 0: none is known. */
static bool reply_is_kept(const struct call *call, const struct stretch *s, uint64_t written_ns)
{
    return call->kind == VSPAN_command && call->number && written_ns && call->work_end_ns > written_ns &&
           call->work_end_ns <= s->start_ns && !call->ready_ns;
}

/* Of the oldest that waits on the connection which the command came on it is not said that it queued: it may
 * be the command itself. */
static void held_on(struct analysis *a, struct connection *c, struct stretch *s, uint64_t written_ns)
{
    struct connection *caller = c->mirror;
    bool itself = c->key == s->client_id;
    for (size_t i = caller->first_call; i < caller->calls.count; i++) {
        const struct call *call = &caller->calls.at[i];
        if (reply_is_kept(call, s, written_ns))
            stretch_victim_chain(a, s, request_get(a, call->owner), s->end_ns - s->start_ns, VICTIM_WAITED);
        if (call->kind != VSPAN_command || call->number || call->sent_ns <= c->replied_ns ||
            call->sent_ns >= s->end_ns)
            continue;
        uint64_t delay_ns = s->end_ns - MAX(s->start_ns, call->sent_ns);
        struct vspan *span = call_span(a, call);
        if (span)
            span->stalled_ns += delay_ns;
        if (!itself) {
            s->queued_commands++;
            s->queued_ns += delay_ns;
        }
        itself = false;
        stretch_victim_chain(a, s, request_get(a, call->owner), delay_ns, VICTIM_WAITED);
    }
}

void commands_held(struct analysis *a, const struct process *server, struct stretch *s)
{
    uint64_t written_ns = 0;
    map_foreach (&server->connections, slot)
        written_ns = MAX(written_ns, ((const struct connection *)(uintptr_t)slot->value)->replied_ns);
    map_foreach (&server->connections, slot) {
        struct connection *c = (struct connection *)(uintptr_t)slot->value;
        if (c->mirror)
            held_on(a, c, s, written_ns);
    }
}

/* How many of the oldest commands these bytes can answer: those whose replies were written before the read
 * began surely, those executed before it ended perhaps, since a server records a write only when it has
 * returned, and by then the bytes may have been read. Of a server that is not traced, those up to the newest
 * whose request goes on in this turn, or all when none does. */
size_t command_replies(const struct analysis *a, const struct thread *thread, const struct connection *c,
                       const struct item *io)
{
    size_t answered = 0, sent = 0;
    for (size_t i = c->first_call; i < c->calls.count && c->calls.at[i].sent_ns < io->start_ns; i++) {
        const struct call *call = &c->calls.at[i];
        sent++;
        if ((call->ready_ns && call->ready_ns <= io->end_ns) ||
            (call->work_end_ns && call->work_end_ns <= io->end_ns))
            answered = sent;
    }
    while (answered && bytes_tell(a, c, io) &&
           c->calls.at[c->first_call + answered - 1].answer_end > c->taken_bytes + io->id)
        answered--;
    if (server_tells(c))
        return answered;
    size_t going_on = sent > 1 ? count_going_on(a, thread, c, sent, io) : 0;
    return going_on ? going_on : sent;
}

/* The call that these bytes are the rest of the answer to, though it ended with the first of them, where they
 * answer none that was sent since; NULL: they are none. Of a server that is not traced they can be nothing
 * else. */
static struct vspan *rest_of(const struct analysis *a, const struct connection *c)
{
    bool more =
        server_tells(c) ? c->rest_ns > MAX(c->ended.ready_ns, c->ended.work_end_ns) : !c->takes_messages;
    return more && c->ended.kind == VSPAN_command ? call_span(a, &c->ended) : NULL;
}

struct context command_input(struct analysis *a, struct thread *thread, struct connection *c,
                             const struct item *io, size_t candidates)
{
    /* Before the first answer a server of some stores speaks unasked (MySQL's greeting): whose connection it
     * is goes on. */
    if (!candidates && !c->calls_gone)
        return UNDECIDED;
    if (c->takes_messages)
        return decided(NULL, KNOWN_NOT, VSPAN_NONE);
    const struct call *first = &c->calls.at[c->first_call];
    if (!candidates && bytes_tell(a, c, io)) { /* of an answer that is not whole yet */
        bool begun = calls_open(c) && first->answer_end && first->sent_ns < io->start_ns;
        return decided(begun ? request_open(a, first->owner) : NULL, begun ? KNOWN_INFERRED : KNOWN_NOT,
                       VSPAN_NONE);
    }
    if (!candidates && rest_of(a, c))
        return decided(request_open(a, c->ended.owner), KNOWN_INFERRED, c->ended.span);
    if (candidates == 1 && !first->owner && first->known == KNOWN_AMBIGUOUS)
        return claim_call(a, thread, &c->calls.at[c->first_call], io);
    bool several = false, mixed = false;
    for (size_t i = 0; i < candidates; i++) {
        mixed |= first[i].known == KNOWN_AMBIGUOUS;
        several |= first[i].owner != first->owner;
    }
    struct context context = decided(NULL, KNOWN_NOT, VSPAN_NONE);
    context.shared = candidates > 1;
    if (several || mixed)
        context.known = KNOWN_AMBIGUOUS;
    else if (candidates && (context.owner = request_open(a, first->owner)))
        context.known = KNOWN_INFERRED, context.cause = first->span;
    for (size_t i = 0; several && i < candidates; i++) {
        struct request *one = request_open(a, first[i].owner);
        if (one)
            one->ambiguous++;
    }
    return context;
}

/* When a call that is still open may have ended; 0: not yet. */
static void perhaps_ended(const struct analysis *a, const struct call *call, uint64_t end_ns)
{
    struct request *owner = call->span != VSPAN_NONE ? request_open(a, call->owner) : NULL;
    if (owner)
        owner->spans.at[call->span].end_ns = end_ns;
}

/* When the newest part of what was read for this event was handed to its callback: libuv reads a large answer
 * in parts of 64 KB, with a callback for each. What was read after the next command had been sent is of that
 * one. */
static uint64_t newest_part_ns(const struct thread *thread, const struct connection *c, size_t replies,
                               const struct item *io)
{
    uint64_t until_ns = calls_open(c) > replies ? c->calls.at[c->first_call + replies].sent_ns : UINT64_MAX;
    uint64_t newest_ns = 0;
    size_t parts = 0;
    foreach_child_of(thread, io, child)
    {
        if (child->event != SONDE_EVENT_node_callback || child->start_ns >= until_ns)
            continue;
        newest_ns = MAX(newest_ns, child->start_ns);
        parts++;
    }
    return parts > 1 ? newest_ns : io->start_ns;
}

void command_input_read(struct analysis *a, struct thread *thread, struct connection *c,
                        const struct item *io, size_t replies)
{
    if (!(io->count & POLLIN_BIT))
        return;
    bool counted = bytes_tell(a, c, io);
    uint64_t behind = c->ended.answer_end;
    uint64_t newest_ns = newest_part_ns(thread, c, replies, io);
    struct vspan *rest = replies || counted ? NULL : rest_of(a, c);
    if (rest)
        rest->end_ns = MAX(rest->end_ns, newest_ns);
    if (!replies && c->rest_ns != UINT64_MAX)
        c->rest_ns = 0;
    bool tells = server_tells(c);
    bool alone = replies == 1; /* something was read, and it can be nothing else */
    /* A write whose record ends while the read goes on may have been read; it was if its request went on. */
    size_t went_on = tells && replies > 1 ? count_going_on(a, thread, c, replies, io) : 0;
    /* The server was taken off its CPU before it had noted its write: what it had executed by then, it
     * wrote. */
    const struct call *first = calls_open(c) ? &c->calls.at[c->first_call] : NULL;
    bool unnoted = tells && first && (!first->ready_ns || first->ready_ns > io->end_ns);
    for (size_t n = 0; calls_open(c); n++) {
        const struct call *call = &c->calls.at[c->first_call];
        if (counted && call->answer_end) {
            if (call->answer_end > c->taken_bytes + io->id)
                break;
            alone = false;
            uint64_t bytes = call->answer_end - MIN(call->answer_end, c->taken_bytes);
            call_finish_first(a, c, part_ns(thread, io, call, bytes));
            continue;
        }
        uint64_t written_ns = unnoted ? call->work_end_ns : call->ready_ns;
        bool before = tells ? n < went_on || (written_ns && written_ns <= io->start_ns) : n < replies;
        if (call->sent_ns >= io->start_ns || (!before && !alone))
            break;
        alone = false;
        if (!tells)
            perhaps_ended(a, call, 0);
        call_finish_first(a, c, n + 1 == replies ? newest_ns : io->start_ns);
    }
    /* Of a server that is not traced, these may have been answered, too, without a request going on. */
    for (size_t i = c->first_call; !tells && i < c->calls.count && c->calls.at[i].sent_ns < io->start_ns; i++)
        perhaps_ended(a, &c->calls.at[i], io->start_ns);
    c->taken_bytes += io->id;
    if (!counted)
        c->in_step = 0;
    if (!counted && io->id && c->ended.answer_end - behind == io->id)
        get_in_step(a, c, c->ended.answer_end);
}
