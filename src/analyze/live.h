/* A recording that is being written, read as it grows: each event once, as soon as everything older has been
 * written too, by one analysis, which reports at any time what was found so far.
 *
 *     struct live *live;
 *     int r = live_new(folder, &options, &live, &problem);
 *     while (r >= 0 && !live_is_complete(live) && (r = live_read(live, &problem)) >= 0)
 *         if (live_so_far(live, show, context) == 0)
 *             wait a second;
 *     if (r >= 0)
 *         r = live_finish(live, NULL, &problem, &analysis, &report);
 *     live_free(live);
 *
 * Memory is the analysis' own (model/analysis.h) and that of a trace that is read (trace/trace.h). One
 * thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_LIVE_H
#define ANALYZE_LIVE_H

#include "analyze/folder.h"

struct live;

/* folder need not hold a trace yet. options are copied; their strings and folder are borrowed. 0 or -ENOMEM.
 */
int live_new(const char *folder, const struct analyze_options *options, struct live **ret_live,
             struct problem *problem);
void live_free(struct live *live);
DEFINE_FREEP(struct live, live_free)

/* Reads what has come since the last time and is settled: so old that nothing older is written any more, as
 * the manifest says how often the recorder writes. 0 or a negative errno with problem set. */
int live_read(struct live *live, struct problem *problem);

/* The recorder has ended, and all was read. */
bool live_is_complete(const struct live *live);

/* Everything up to here was read, in the trace's clock; 0: nothing yet. */
uint64_t live_read_ns(const struct live *live);

const struct analysis_counts *live_counts(const struct live *live);

/* What a report of the trace up to live_read_ns() says, what has not ended included: analysis_so_far(). */
int live_so_far(struct live *live, analysis_so_far_fn *use, void *context);

/* The report of the whole, as folder_read() makes it, once it is complete or has been given up (then: of what
 * is there now). Events that came too late for their place, and what could not be read while it was being
 * written, make it read the whole again. reading: as folder_read()'s, used only then; its analyze and states
 * are not. 0 or a negative errno with problem set; the caller frees both. Only live_free() may follow. */
int live_finish(struct live *live, const struct folder_reading *reading, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report);

/* ---- the events alone, for who analyses them otherwise ---- */

/* {.folder = ...}, then growing_done() when finished. */
struct growing {
    const char *folder;
    struct trace *trace; /* NULL: nothing is written yet */
    uint64_t until_ns;   /* what is later is not read yet; UINT64_MAX once it is complete */
    uint64_t newest_ns;  /* of all events that were given out */
    uint64_t late;       /* events that came after newer ones had been given out, and were left out */
    bool complete;       /* the recorder has ended */
};

/* Looks for what has come and is settled. 0 or a negative errno with problem set. */
int growing_look(struct growing *growing, struct problem *problem);

/* The next event of it in order of time, as trace_next(). */
int growing_next(struct growing *growing, const struct event **ret_event);

void growing_done(struct growing *growing);

#endif
