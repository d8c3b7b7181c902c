/* Where a pass puts what it finds out: states into a history, spans and findings to whoever wants them. Any
 * of them may be missing: a pass calls these functions all the same, and nothing happens. With the events
 * that it wants (struct pass, trace/pass.h) this is all of an analysis' interface, so that one read of a
 * trace feeds all passes and each of them runs alike on a file and on a live source. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_EMIT_H
#define STATES_EMIT_H

#include "base/problem.h"
#include "finding/report.h"
#include "history/history.h"
#include "span/span.h"

struct emit {
    struct history *states; /* borrowed; NULL: nobody asked for states */
    struct problem problem; /* of the first call that failed */
    int (*span)(void *context, const struct span *span);
    void *span_context;
    struct report *report; /* findings are added at finish(); borrowed */
};

#define EMIT_NONE UINT32_MAX /* the attribute of a history that nobody asked for */

/* The attribute NAME below parent (HISTORY_ROOT: at the top), created when it is new. 0 or a negative errno.
 */
int emit_attribute(struct emit *emit, uint32_t parent, const char *name, uint32_t *ret_quark);

/* From time_ns on the attribute has this value. Events of one thread may be a little out of order where a
 * tracer reads clocks badly: a change before the attribute's latest one counts from then. 0 or a negative
 * errno. */
int emit_state(struct emit *emit, uint64_t time_ns, uint32_t quark, struct history_value value);

/* The value holds over [start_ns, end_ns), nothing after it. */
int emit_interval(struct emit *emit, uint64_t start_ns, uint64_t end_ns, uint32_t quark,
                  struct history_value value);

/* 0, or what the receiver returned. */
int emit_span(struct emit *emit, const struct span *span);

#endif
