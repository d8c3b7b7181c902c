/* The records of the kernel's side in order of time. Each CPU has a ring of its own, in which its records
 * stand nearly in order; here they wait in a lane for each ring until no lane can get an earlier one, and
 * leave by a merge. Used by kernel.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_KERNEL_ORDER_H
#define COLLECT_KERNEL_ORDER_H

#include <stdint.h>

#include "base/array.h"
#include "event/kernel.h"

/* Any record of a ring. */
struct kernel_record {
    struct sonde_kernel_record head;
    union {
        struct record_sys_call sys_call;
        struct record_sched_switch sched_switch;
        struct record_sched_brief sched_brief;
        struct record_sched_wakeup sched_wakeup;
        struct record_tcp_connect tcp;
        struct record_tcp_retransmit tcp_retransmit;
        struct record_block_io block_io;
    } body;
};

struct kernel_lane {
    ARRAY(struct kernel_record) records; /* from the first on in order of time */
    size_t first;
    uint64_t newest_ns;
};

/* Zero-initialise to use. */
struct kernel_order {
    struct kernel_lane *lanes;
    uint32_t count;
    uint32_t *heap; /* of lanes, the one whose first record is the earliest on top; while records are taken */
    uint32_t waiting;
};

/* -ENOMEM; kernel_order_done() either way. */
int kernel_order_init(struct kernel_order *order, uint32_t lanes);
void kernel_order_done(struct kernel_order *order);

/* One more of a ring, in the order in which the ring has them. -ENOMEM. */
int kernel_order_add(struct kernel_order *order, uint32_t lane, const struct kernel_record *record);

/* Until when everything is there, once all rings were read at drained_ns or later: what comes then ends
 * later, unless its CPU was kept from writing it for longer than is waited. */
uint64_t kernel_order_watermark(const struct kernel_order *order, uint64_t drained_ns);

/* Begins to take records. Then kernel_order_take() gives the earliest that ends at until_ns or before, and
 * NULL when there is none; a record is good until kernel_order_end(). */
void kernel_order_begin(struct kernel_order *order);
const struct kernel_record *kernel_order_take(struct kernel_order *order, uint64_t until_ns);
void kernel_order_end(struct kernel_order *order);

/* What it takes of memory. */
uint64_t kernel_order_bytes(const struct kernel_order *order);

#endif
