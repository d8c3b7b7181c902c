/* Looks at stacks in a worker without rights: what goes there and what comes back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_STALL_WORKER_H
#define COLLECT_STALL_WORKER_H

#include "broker/worker.h"
#include "collect/stall.h"
#include "collect/stall_stack.h"

#define STALL_STACK_BYTES (256u << 10)

/* A piece of work, sent up to the end of the copied stack. */
struct stall_work {
    bool prepares; /* only: read the process's layout */
    bool waiting;  /* the thread is in a system call */
    struct user_regs_struct registers;
    uint64_t stack_start, stack_bytes;
    uint8_t stack[STALL_STACK_BYTES];
};

extern const struct worker_kind stall_worker;

/* A report as bytes: malloc'ed, at most BROKER_BYTES_MAX. 0 or -ENOMEM. */
int stall_report_encode(const struct stall_report *report, void **ret_bytes, size_t *ret_length);

/* The other way, from a worker that may say anything: texts are cut and made printable, numbers that are out
 * of range are refused (-EPROTO). Released with stall_report_done(). */
int stall_report_decode(const void *bytes, size_t length, struct stall_report *ret_report);

#endif
