/* Short records of Node (event/short.h): its resources and callbacks as long as their numbers are small, and
 * what is submitted and completed with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_SHORT_H
#define TARGETS_NODE_SHORT_H

#define SONDE_SHORT_node(S)          \
    S(node_async_init, 3, none)      \
    S(node_callback, 3, none)        \
    S(uv_submit, 2, node_async_init) \
    S(uv_done, 2, node_callback)

/* Word: async id 0-31, trigger id 32-63. Rest: of a resource its type; of a callback its duration, and its
 * function is not known. */

static inline uint64_t short_resource_word(uint64_t async_id, uint64_t trigger_id)
{
    return async_id | trigger_id << 32;
}
/* Whether all of it fits. */
static inline bool short_resource_fits(uint64_t async_id, uint64_t trigger_id)
{
    return !((async_id | trigger_id) >> 32);
}
static inline bool short_callback_fits(uint64_t async_id, uint64_t trigger_id, uint64_t duration)
{
    return !((async_id | trigger_id) >> 32 | duration >> 48);
}
static inline void short_give_node_async_init(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_node_async_init init = {
        .async_id = (uint32_t)word, .trigger_id = word >> 32, .type = (uint32_t)rest};
    __builtin_memcpy(event->fields, &init, sizeof(init));
    event->duration = 0;
}
static inline void short_give_node_callback(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_node_callback callback = {.async_id = (uint32_t)word, .trigger_id = word >> 32};
    __builtin_memcpy(event->fields, &callback, sizeof(callback));
    event->duration = rest;
}

/* Word: request (no address of a program has more bits) 0-55, kind 56-63. Rest: of a submission, which has
 * the time of its resource, context 0-31, fd + 1 32-47. A completion has the times of its callback and status
 * 0. */

static inline uint64_t short_operation_word(uint64_t request, uint8_t kind)
{
    return request | (uint64_t)kind << 56;
}
static inline uint64_t short_operation_request(uint64_t word)
{
    return word & ((1ull << 56) - 1);
}
static inline uint64_t short_submit_rest(uint32_t context, int32_t fd)
{
    return context | (uint64_t)((uint32_t)fd + 1) << 32;
}
static inline bool short_submit_fits(int32_t fd)
{
    return !(((uint32_t)fd + 1) >> 16);
}
static inline void short_give_uv_submit(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_uv_submit submit = {.request = short_operation_request(word),
                                      .fd = (int32_t)(rest >> 32) - 1,
                                      .context = (uint32_t)rest,
                                      .kind = (uint8_t)(word >> 56)};
    __builtin_memcpy(event->fields, &submit, sizeof(submit));
    event->duration = 0;
}
static inline void short_give_uv_done(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_uv_done done = {.request = short_operation_request(word), .kind = (uint8_t)(word >> 56)};
    __builtin_memcpy(event->fields, &done, sizeof(done));
}

/* Whoever gives an event another field looks at what its short record makes of it. */
_Static_assert(FIELD_node_async_init_COUNT == 4 && FIELD_node_callback_COUNT == 4 &&
                   FIELD_uv_submit_COUNT == 5 && FIELD_uv_done_COUNT == 4,
               "the duration and what is above");

#endif
