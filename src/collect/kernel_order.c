/* See kernel_order.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_order.h"

#include <string.h>

#include "base/clock.h"
#include "base/macro.h"

/* A CPU that was stopped between reading the clock and taking its place in the ring is waited for so long.
 * Where it has written a later record already, only what that record interrupted can still come. */
static const uint64_t SETTLE_NS = 2 * NS_PER_MS, NESTED_NS = NS_PER_MS / 5;

int kernel_order_init(struct kernel_order *order, uint32_t lanes)
{
    order->count = lanes;
    order->lanes = calloc(lanes, sizeof(*order->lanes));
    order->heap = calloc(lanes, sizeof(*order->heap));
    return order->lanes && order->heap ? 0 : -ENOMEM;
}

void kernel_order_done(struct kernel_order *order)
{
    for (uint32_t i = 0; order->lanes && i < order->count; i++)
        array_done(&order->lanes[i].records);
    free(order->lanes);
    free(order->heap);
    *order = (struct kernel_order){0};
}

/* Nearly in order as they come: one that is late moves forward past few. */
int kernel_order_add(struct kernel_order *order, uint32_t lane, const struct kernel_record *record)
{
    struct kernel_lane *l = &order->lanes[lane];
    if (array_add(&l->records, *record) < 0)
        return -ENOMEM;
    struct kernel_record *at = &l->records.at[l->records.count - 1];
    const struct kernel_record *first = l->records.at + l->first;
    for (; at > first && at[-1].head.end_ns > record->head.end_ns; at--)
        *at = at[-1];
    *at = *record;
    l->newest_ns = MAX(l->newest_ns, record->head.end_ns);
    return 0;
}

uint64_t kernel_order_watermark(const struct kernel_order *order, uint64_t drained_ns)
{
    uint64_t least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < order->count; i++) {
        uint64_t newest_ns = order->lanes[i].newest_ns;
        least_ns = MIN(least_ns,
                       MAX(drained_ns - MIN(drained_ns, SETTLE_NS), newest_ns - MIN(newest_ns, NESTED_NS)));
    }
    return least_ns;
}

/* ---- the merge: a heap of lanes ---- */

static uint64_t first_ns(const struct kernel_order *order, uint32_t lane)
{
    const struct kernel_lane *l = &order->lanes[lane];
    return l->records.at[l->first].head.end_ns;
}

/* The lane at a place of the heap sinks to where those below it come later. */
static void sink(struct kernel_order *order, uint32_t place)
{
    uint32_t lane = order->heap[place];
    uint64_t ns = first_ns(order, lane);
    for (uint32_t child; (child = 2 * place + 1) < order->waiting; place = child) {
        if (child + 1 < order->waiting &&
            first_ns(order, order->heap[child + 1]) < first_ns(order, order->heap[child]))
            child++;
        if (first_ns(order, order->heap[child]) >= ns)
            break;
        order->heap[place] = order->heap[child];
    }
    order->heap[place] = lane;
}

void kernel_order_begin(struct kernel_order *order)
{
    order->waiting = 0;
    for (uint32_t i = 0; i < order->count; i++)
        if (order->lanes[i].first < order->lanes[i].records.count)
            order->heap[order->waiting++] = i;
    for (uint32_t i = order->waiting / 2; i-- > 0;)
        sink(order, i);
}

const struct kernel_record *kernel_order_take(struct kernel_order *order, uint64_t until_ns)
{
    if (!order->waiting || first_ns(order, order->heap[0]) > until_ns)
        return NULL;
    struct kernel_lane *l = &order->lanes[order->heap[0]];
    const struct kernel_record *record = &l->records.at[l->first++];
    if (l->first == l->records.count)
        order->heap[0] = order->heap[--order->waiting];
    if (order->waiting)
        sink(order, 0);
    return record;
}

void kernel_order_end(struct kernel_order *order)
{
    for (uint32_t i = 0; i < order->count; i++) {
        struct kernel_lane *l = &order->lanes[i];
        size_t left = l->records.count - l->first;
        if (l->first <= left) /* moved seldom, and few */
            continue;
        memmove(l->records.at, l->records.at + l->first, left * sizeof(*l->records.at));
        l->records.count = left;
        l->first = 0;
    }
}

uint64_t kernel_order_bytes(const struct kernel_order *order)
{
    uint64_t records = 0;
    for (uint32_t i = 0; i < order->count; i++)
        records += order->lanes[i].records.capacity;
    return records * sizeof(struct kernel_record);
}
