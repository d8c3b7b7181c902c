/* What reading a turn of a Node.js event loop consists of: node.c reads it, stream.c says whose a stream's
 * events are, redis_reply.c whose the replies of a Redis. Private to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_NODE_H
#define TARGETS_NODE_NODE_H

#include "model/model.h"

/* Whose what happens now is. */
struct context {
    struct request *owner;
    uint32_t parent; /* span in owner's tree */
    uint32_t cause;  /* span whose completion this is; taken by the first callback */
    uint8_t known;
    uint8_t decided; /* owner is final: a callback's own async id has no say */
    uint8_t shared;
    uint8_t in_callback;
    uint8_t told;       /* owner is known from a context's number, and from nothing else */
    uint8_t once;       /* for the next callback only, which may be another's all the same: HTTP/2 */
    uint8_t late_write; /* in a callback that goes on with what was written before, by anybody */
};

/* What is learnt about the turn as a whole. */
struct turn {
    struct analysis *a;
    struct thread *thread;
    uint32_t port_turn; /* the item of the port whose messages are read; else the outermost one */
    uint64_t gc_ns, sync_ns, sync_worst_ns, encode_ns, encode_worst_ns;
    uint8_t encode_what;
    uint64_t longest_ns;
    uint64_t culprit;
    uint32_t culprit_span; /* of the longest callback, in the culprit's tree */
    const char *callback;  /* type of the longest callback */
    uint32_t sync_count;
    uint64_t write_wrap;     /* the newest write that was asked for and is not done at once */
    uint64_t newest_id;      /* of the ids created in it */
    uint64_t client_trigger; /* of the newest HTTP client request: what it was asked for in */
    uint8_t sync_kind;
    struct connection *io; /* whose events are read, since io_ns; NULL: none */
    uint64_t io_ns;
    uint64_t functions_ns;        /* chosen functions that have returned within the one that is read */
    ARRAY(struct request *) held; /* those that it was about */
};

static inline struct item *item_at(const struct turn *t, uint32_t index)
{
    return &t->thread->items.at[index];
}

/* No item: the end of a list of children. */
enum { NONE_ITEM = UINT32_MAX };
#define foreach_child(t, item, index) \
    for (uint32_t index = (item)->first_child; index != NONE_ITEM; index = item_at(t, index)->next)

static inline struct context decided(struct request *owner, enum known known, uint32_t cause)
{
    return (struct context){.owner = owner, .known = (uint8_t)known, .decided = 1, .cause = cause};
}

static const struct context UNDECIDED = {.cause = VSPAN_NONE};

/* node.c */
void read_item(struct turn *t, uint32_t index, struct context *c);
/* Whose an operation is, where the probe could ask (context.c): c is what the callback around it says. */
struct context turn_told(const struct turn *t, const struct item *item, const struct context *c);

/* function.c */
void function_read(struct turn *t, const struct item *item, const struct context *c);
void function_settled(struct turn *t, const struct item *item);

/* stream.c: a stream's events, with all that happened in them. */
void read_io(struct turn *t, const struct item *io);
/* The one request whose response is written in this part of the turn; NULL when none or several are. */
struct request *answered_in(const struct turn *t, const struct item *item, bool *several);
/* A call of unknown owner, whose answer alone this turn brings, and in it a request is answered: it was that
 * request's. */
struct context claim_call(struct turn *t, struct call *call, const struct item *io);
/* Every request that goes on in this turn: does it fit whose answers the turn brings? */
void check_answers(const struct turn *t, const struct call *answers, size_t count, const struct item *root,
                   const struct item *item);

/* redis_reply.c */
/* How many of the oldest commands on c these bytes can answer, whose they are, and, once what went on with
 * them is read, that they have ended. */
size_t redis_reply_count(const struct turn *t, const struct connection *c, const struct item *io);
struct context redis_reply_owner(struct turn *t, struct connection *c, const struct item *io, size_t replies);
void redis_reply_done(struct turn *t, struct connection *c, const struct item *io, size_t replies);

#endif
