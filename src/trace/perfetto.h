/* Writing a trace as Perfetto's TrackEvent protobuf, for ui.perfetto.dev and its trace processor. Spans
 * become slices, instants instants, fields debug annotations; tracks are processes, threads, and below them
 * one track per kind of event, so that spans of different kinds never cut into each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_PERFETTO_H
#define TRACE_PERFETTO_H

#include <stdio.h>

#include "base/macro.h"
#include "trace/event_names.h"
#include "trace/trace.h"

struct perfetto;

/* Packets go to the open file, which stays the caller's. trace is borrowed, for the hosts' names. */
int perfetto_new(FILE *file, const struct trace *trace, struct perfetto **ret_writer);

/* Writes one event; names (may be NULL) resolves numbers to texts. 0, -ENOMEM, or -EIO. */
int perfetto_event(struct perfetto *writer, const struct event *event, const struct event_names *names);

void perfetto_free(struct perfetto *writer);
DEFINE_FREEP(struct perfetto, perfetto_free)

#endif
