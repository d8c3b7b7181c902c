/* Which events of kernel tracers say something about states, by their names and fields: those of LTTng (old
 * and new) and of perf. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_KERNEL_EVENTS_H
#define STATES_KERNEL_EVENTS_H

#include "trace/event.h"

enum kernel_kind {
    KERNEL_OTHER,
    KERNEL_SWITCH,
    KERNEL_WAKEUP,
    KERNEL_FORK,
    KERNEL_EXIT, /* do_exit(): the thread still runs, to its last switch */
    KERNEL_FREE,
    KERNEL_PRIORITY,
    KERNEL_THREAD, /* of a dump of what there was */
    KERNEL_ENTRY,  /* of a system call */
    KERNEL_RETURN,
    KERNEL_IRQ_ENTRY,
    KERNEL_IRQ_EXIT,
    KERNEL_SOFTIRQ_ENTRY,
    KERNEL_SOFTIRQ_EXIT,
    KERNEL_FREQUENCY,
    KERNEL_BLOCK_INSERT,
    KERNEL_BLOCK_ISSUE,
    KERNEL_BLOCK_COMPLETE,
    KERNEL_DISK, /* of a dump: a block device's name */
};

/* Fields, each of one meaning over all kinds. */
enum kernel_field {
    KERNEL_TID, /* whom the event is about; of a switch: who leaves */
    KERNEL_NEXT_TID,
    KERNEL_STATE, /* prev_state; a dump's status; a frequency in kHz */
    KERNEL_NAME,
    KERNEL_NEXT_NAME,
    KERNEL_PRIO,
    KERNEL_NEXT_PRIO,
    KERNEL_PID,
    KERNEL_PARENT,
    KERNEL_NUMBER, /* of an interrupt, its vector; of a frequency, its CPU */
    KERNEL_DEVICE,
    KERNEL_SECTOR,
    KERNEL_FIELDS,
};

struct kernel_class {
    enum kernel_kind kind;
    int field[KERNEL_FIELDS]; /* index into the event's values; -1: none */
    int cpu;                  /* of the packet's context; -1: none */
    bool exits;               /* a system call that ends the thread (exit, exit_group) */
    char call[64];            /* a system call's name */
};

struct kernel_class kernel_classify(const struct event_class *class);

/* "NET_RX"; NULL for a vector that Linux does not have. */
const char *kernel_softirq(uint64_t vector);

#endif
