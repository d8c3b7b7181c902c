/* Redis' replies as a client of it reads them: which of the commands on the connection some bytes answer, and
 * so whose callbacks go on with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/node.h"

/* Of the sent oldest commands, how many were asked for up to the newest one of a request that is answered in
 * this part of the turn, or asks for something in its own context. */
static size_t count_going_on(const struct turn *t, const struct connection *c, size_t sent,
                             const struct item *item)
{
    size_t most = 0;
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        const struct request *owner =
            child->event == SONDE_EVENT_http_response && child->small == 0 ? request_open(t->a, child->id)
            : child->context > CONTEXT_NONE ? context_owner(t->a, t->thread, child->context)
                                            : NULL;
        for (size_t n = sent; owner && n > most; n--)
            if (c->calls.at[c->first_call + n - 1].owner == owner->serial)
                most = n;
        if (child->first_child != NONE_ITEM)
            most = MAX(most, count_going_on(t, c, sent, child));
    }
    return most;
}

/* How many of the oldest commands these bytes can answer: those whose replies were written before the read
 * began surely, those executed before it ended perhaps, since Redis records a write only when it has
 * returned, and by then the bytes may have been read. Of a Redis that is not traced, those up to the newest
 * whose request goes on in this turn, or all when none does. */
size_t redis_reply_count(const struct turn *t, const struct connection *c, const struct item *io)
{
    size_t answered = 0, sent = 0;
    for (size_t i = c->first_call; i < c->calls.count && c->calls.at[i].sent_ns < io->start_ns; i++) {
        const struct call *call = &c->calls.at[i];
        sent++;
        if ((call->ready_ns && call->ready_ns <= io->end_ns) ||
            (call->work_end_ns && call->work_end_ns <= io->end_ns))
            answered = sent;
    }
    if (c->mirror)
        return answered;
    size_t going_on = sent > 1 ? count_going_on(t, c, sent, io) : 0;
    return going_on ? going_on : sent;
}

struct context redis_reply_owner(struct turn *t, struct connection *c, const struct item *io,
                                 size_t candidates)
{
    const struct call *first = &c->calls.at[c->first_call];
    if (candidates == 1 && !first->owner && first->known == KNOWN_AMBIGUOUS)
        return claim_call(t, &c->calls.at[c->first_call], io);
    bool several = false, mixed = false;
    for (size_t i = 0; i < candidates; i++) {
        mixed |= first[i].known == KNOWN_AMBIGUOUS;
        several |= first[i].owner != first->owner;
    }
    struct context context = decided(NULL, KNOWN_NOT, VSPAN_NONE);
    context.shared = candidates > 1;
    if (several || mixed)
        context.known = KNOWN_AMBIGUOUS;
    else if (candidates && (context.owner = request_open(t->a, first->owner)))
        context.known = KNOWN_INFERRED, context.cause = first->span;
    for (size_t i = 0; several && i < candidates; i++) {
        struct request *one = request_open(t->a, first[i].owner);
        if (one)
            one->ambiguous++;
    }
    return context;
}

/* When a call that is still open may have ended; 0: not yet. */
static void perhaps_ended(const struct turn *t, const struct call *call, uint64_t end_ns)
{
    struct request *owner = call->span != VSPAN_NONE ? request_open(t->a, call->owner) : NULL;
    if (owner)
        owner->spans.at[call->span].end_ns = end_ns;
}

void redis_reply_done(struct turn *t, struct connection *c, const struct item *io, size_t replies)
{
    bool alone = replies == 1; /* something was read, and it can be nothing else */
    /* A write whose record ends while the read goes on may have been read; it was if its request went on. */
    size_t went_on = c->mirror && replies > 1 ? count_going_on(t, c, replies, io) : 0;
    /* Redis was taken off its processor before it had noted its write: what it had executed by then, it
     * wrote. */
    const struct call *first = calls_open(c) ? &c->calls.at[c->first_call] : NULL;
    bool unnoted = c->mirror && first && (!first->ready_ns || first->ready_ns > io->end_ns);
    for (size_t n = 0; calls_open(c); n++) {
        const struct call *call = &c->calls.at[c->first_call];
        uint64_t written_ns = unnoted ? call->work_end_ns : call->ready_ns;
        bool before = c->mirror ? n < went_on || (written_ns && written_ns <= io->start_ns) : n < replies;
        if (call->sent_ns >= io->start_ns || (!before && !alone))
            break;
        alone = false;
        if (!c->mirror)
            perhaps_ended(t, call, 0);
        call_finish_first(t->a, c, io->start_ns);
    }
    /* Of a Redis that is not traced, these may have been answered, too, without a request going on. */
    for (size_t i = c->first_call; !c->mirror && i < c->calls.count && c->calls.at[i].sent_ns < io->start_ns;
         i++)
        perhaps_ended(t, &c->calls.at[i], io->start_ns);
}
