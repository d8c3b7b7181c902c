/* Analyses as streaming passes: each declares the events it wants and gets them in time order; one read of a
 * trace feeds all of them. A live source drives passes through a pass_set in the same way. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_PASS_H
#define TRACE_PASS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/event.h"
#include "trace/trace.h"

struct pass {
    const char *name;
    /* Catalogue ids, ended by 0; NULL: every event, foreign ones too. EVENT_FOREIGN in it: every foreign
     * event. */
    const uint16_t *wanted;
    /* 0, or a negative errno that ends the run. */
    int (*event)(void *self, const struct event *event);
    int (*finish)(void *self); /* after the last event; may be NULL */
    void *self;
};

/* Which passes want which event; zero-initialise. */
struct pass_set {
    const struct pass *passes;
    size_t count;
    uint32_t *first; /* by id: index into lists, ended by NULL there */
    const struct pass **lists;
};

/* passes is borrowed. 0 or -ENOMEM. */
int pass_set_init(struct pass_set *set, const struct pass *passes, size_t count);
void pass_set_done(struct pass_set *set);

/* Hands one event to whoever wants it. 0, or the first negative errno. */
int pass_set_event(const struct pass_set *set, const struct event *event);

/* Calls every finish(). 0, or the first negative errno. */
int pass_set_finish(const struct pass_set *set);

/* Called now and then (at least every 65,536 events) with bytes read and in all; a value other than 0 ends
 * the run and is returned (a negative errno such as -EINTR). */
typedef int (*trace_progress_fn)(void *context, uint64_t done_bytes, uint64_t total_bytes);

/* Reads the trace to its end, from where it stands, and finishes the passes. progress may be NULL. */
int trace_run(struct trace *trace, const struct pass *passes, size_t count, trace_progress_fn progress,
              void *context);

#endif
