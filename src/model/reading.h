/* Reading a turn of an event loop, a tree of items: whose what happens in it is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_READING_H
#define MODEL_READING_H

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
    uint8_t told;       /* owner is known only from a context's number */
    uint8_t once;       /* for the next callback only, which may be another's all the same: HTTP/2 */
    uint8_t late_write; /* in a callback that goes on with what was written before, by anybody */
    uint8_t begins;     /* in the callback that owner came with */
    uint64_t callback;  /* async id of the innermost callback, 0 none or not known */
};

static inline struct context decided(struct request *owner, enum known known, uint32_t cause)
{
    return (struct context){.owner = owner, .known = (uint8_t)known, .decided = 1, .cause = cause};
}

static const struct context UNDECIDED = {.cause = VSPAN_NONE};

/* No item: the end of a list of children. */
enum { NONE_ITEM = UINT32_MAX };
static inline struct item *item_or_null(const struct thread *thread, uint32_t index)
{
    return index == NONE_ITEM ? NULL : &thread->items.at[index];
}

#define foreach_child_of(thread, parent, child)                                           \
    for (struct item *child = item_or_null(thread, (parent)->first_child); child != NULL; \
         child = item_or_null(thread, child->next))

/* Whether no other request of the thread was being served since then. */
bool only_request(const struct thread *thread, const struct request *request, uint64_t since_ns);

/* The one request whose response is written in this part of the turn; NULL when none or several are. */
struct request *answered_in(const struct analysis *a, const struct thread *thread, const struct item *item,
                            bool *several);

/* A call of unknown owner, whose answer alone this turn brings, and in it a request is answered: it was that
 * request's, if there has been no other since the call. With another, it is not known: what answers may have
 * waited for that one to go on (a lock, a cache). */
struct context claim_call(struct analysis *a, const struct thread *thread, struct call *call,
                          const struct item *io);

/* Every request that goes on in this turn: does it fit whose answers the turn brings? */
void check_answers(struct analysis *a, const struct thread *thread, const struct call *answers, size_t count,
                   const struct item *root, const struct item *item);

#endif
