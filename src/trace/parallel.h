/* Reading a trace in several threads, events in the same order as in one. The trace's time is cut into slices
 * along packet borders; each worker has a reader of its own (its own position in every stream), seeks to a
 * slice's start and decodes the whole slice; the slices are handed out in order. Private to trace.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_PARALLEL_H
#define TRACE_PARALLEL_H

#include "trace/trace.h"

struct parallel;

/* Starts the workers. 1, or 0 when the trace is not worth it (too short, without clocks, rotated files), or a
 * negative errno. */
int parallel_start(struct trace *trace, unsigned threads, struct parallel **ret_parallel);

/* As trace_next(); events and what they point to stay valid until the next call. */
int parallel_next(struct parallel *parallel, const struct event **ret_event);

/* The share of the trace that was handed out. */
double parallel_progress(const struct parallel *parallel);

/* Ends the workers. */
void parallel_free(struct parallel *parallel);

#endif
