/* A turn of an event loop as a tree: how it is put together, which request is answered in it, and whether
 * that fits the answers that the turn brings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reading.h"

struct item *turn_item(struct analysis *a, struct thread *thread, uint16_t event, uint64_t start_ns,
                       uint64_t end_ns)
{
    uint32_t index = (uint32_t)thread->items.count;
    struct item item = {.start_ns = start_ns,
                        .end_ns = end_ns,
                        .first_child = NONE_ITEM,
                        .next = NONE_ITEM,
                        .low = index,
                        .event = event};
    if (array_add(&thread->items, item) < 0) {
        a->failed = true;
        return NULL;
    }
    struct item *added = &thread->items.at[index];
    if (event_catalogue[event].span)
        while (thread->roots.count) {
            uint32_t root = thread->roots.at[thread->roots.count - 1];
            struct item *child = &thread->items.at[root];
            if (child->start_ns < start_ns)
                break;
            child->next = added->first_child;
            added->first_child = root;
            added->low = child->low;
            thread->roots.count--;
        }
    if (array_add(&thread->roots, index) < 0) {
        a->failed = true;
        return NULL;
    }
    return added;
}

bool only_request(const struct thread *thread, const struct request *request, uint64_t since_ns)
{
    return thread->open.count == 1 && thread->open.at[0] == request && thread->left_ns <= since_ns;
}

struct request *answered_in(const struct analysis *a, const struct thread *thread, const struct item *item,
                            bool *several)
{
    struct request *answered = NULL;
    foreach_child_of(thread, item, child)
    {
        struct request *one = child->event == SONDE_EVENT_http_response && child->small == SONDE_side_server
                                  ? request_open(a, child->id)
                                  : answered_in(a, thread, child, several);
        *several |= answered && one && answered != one;
        answered = one ? one : answered;
    }
    return *several ? NULL : answered;
}

struct context claim_call(struct analysis *a, const struct thread *thread, struct call *call,
                          const struct item *io)
{
    bool several = false;
    struct request *owner = answered_in(a, thread, io, &several);
    if (owner && only_request(thread, owner, call->sent_ns))
        call_claim(a, call, owner);
    return owner && call->owner == owner->serial ? decided(owner, KNOWN_INFERRED, call->span)
                                                 : decided(NULL, call->known, VSPAN_NONE);
}

void check_answers(struct analysis *a, const struct thread *thread, const struct call *answers, size_t count,
                   const struct item *root, const struct item *item)
{
    foreach_child_of(thread, item, child)
    {
        struct request *went_on = NULL;
        if (child->event == SONDE_EVENT_http_response && child->small == SONDE_side_server) {
            went_on = request_open(a, child->id);
        } else if (child->event == SONDE_EVENT_stream_write || child->event == SONDE_EVENT_uv_submit) {
            const struct connection *c = child->event == SONDE_EVENT_stream_write
                                             ? connection_get(thread->process, child->fd, child->generation)
                                             : NULL;
            if (!c || c->pipelined)
                went_on = context_owner(a, thread, child->context);
        } else {
            check_answers(a, thread, answers, count, root, child);
        }
        if (went_on)
            context_check(a, thread->process, answers, count, went_on, root->start_ns);
    }
}
