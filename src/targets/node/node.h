/* What reading a turn of a Node.js event loop consists of: node.c reads it, stream.c asks the
 * connection's protocol whose a stream's events are. Private to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_NODE_H
#define TARGETS_NODE_NODE_H

#include "targets/node/state.h"
#include "model/reading.h"

/* What is learnt about the turn as a whole. */
struct turn {
    struct analysis *a;
    struct thread *thread;
    uint64_t start_ns;
    uint32_t port_turn; /* the item of the port whose messages are read; else the outermost one */
    uint64_t gc_ns, sync_ns, sync_worst_ns, encode_ns, encode_worst_ns;
    uint8_t encode_what;
    uint64_t longest_ns;
    uint64_t culprit;
    uint32_t culprit_span; /* of the longest callback, in the culprit's tree */
    const char *callback;  /* type of the longest callback */
    uint32_t sync_count;
    uint8_t phase;           /* of the loop */
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

#define foreach_child(t, item, index) \
    for (uint32_t index = (item)->first_child; index != NONE_ITEM; index = item_at(t, index)->next)

/* node.c */
void read_item(struct turn *t, uint32_t index, struct context *c);
/* Whose an operation is, where the probe could ask (context.c): c is what the callback around it says. */
struct context turn_told(const struct turn *t, const struct item *item, const struct context *c);

/* operation.c: an operation of the pool becomes a span of its request, and so does what the code itself did
 * (uv:run, v8:gc, v8:regexp, v8:encode), which is added up for the turn. */
void add_pool_span(struct turn *t, struct pool_op *op, struct request *owner, enum known known,
                   uint32_t parent);
void read_runtime_span(struct turn *t, const struct item *item, const struct context *c);

/* function.c */
void function_read(struct turn *t, const struct item *item, const struct context *c);
void function_settled(struct turn *t, const struct item *item);

/* frame.c */
extern const struct frame_reading node_frames;

/* stream.c: a stream's events, with all that happened in them. */
void read_io(struct turn *t, const struct item *io);

#endif
