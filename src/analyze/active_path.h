/* The critical path of a thread through wake-ups: what it did itself, and while it waited, what the thread
 * did that then woke it, and so on. After Giraldeau and Dagenais, Wait Analysis of Distributed Systems Using
 * Kernel Tracing, IEEE TPDS 2016, section 4 (Trace Compass' active path), on the states of states.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_ACTIVE_PATH_H
#define ANALYZE_ACTIVE_PATH_H

#include "history/history.h"

/* [from_ns, to_ns) of the path: segments come in order and leave nothing out. */
struct active_segment {
    uint64_t from_ns, to_ns;
    int64_t tid;
    const char *state; /* of this thread then; "" where none is known */
    const char *waker; /* of a wait: "irq 26", "softirq NET_RX", "" when nothing is known; NULL: no wait */
};

/* prefix: of the host's attributes, "" or "NAME/". 0, -ENOENT when there is no such thread, another negative
 * errno, or what segment() returned. */
int active_path(struct history *states, const char *prefix, int64_t tid, uint64_t from_ns, uint64_t to_ns,
                int (*segment)(void *context, const struct active_segment *segment), void *context,
                struct problem *problem);

#endif
