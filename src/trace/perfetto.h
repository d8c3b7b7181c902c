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

/* What is made of several events: tracks, which are described once, and slices on them. All: 0, -ENOMEM or
 * -EIO. Slices of one track come in the order of time, and do not overlap. */

/* A process's own track; the first name that it is given stays. */
int perfetto_process(struct perfetto *writer, uint32_t host, int64_t pid, const char *name,
                     uint64_t *ret_track);

/* A thread's own track; what perfetto_event() writes of it lies there, too. pid: -1 when it is not known. */
int perfetto_thread(struct perfetto *writer, uint32_t host, int64_t pid, const char *process_name,
                    int64_t tid, const char *name, uint64_t *ret_track);

/* A track below another one (0: below the host). is_counter: it has values, not slices. */
int perfetto_lane(struct perfetto *writer, uint32_t host, uint64_t parent, const char *name, bool is_counter,
                  uint64_t *ret_track);

/* One of several tracks of a name, by a number of its own: ui.perfetto.dev draws them as one, in as many rows
 * as slices run at once. */
int perfetto_row(struct perfetto *writer, uint64_t parent, const char *name, uint64_t number,
                 uint64_t *ret_track);

enum perfetto_flow { FLOW_NONE, FLOW_BEGINS, FLOW_ENDS };

/* [start_ns, end_ns), an instant when they are equal; an arrow leads from where the flow begins to where it
 * ends. A slice may lie within one that was written before, on the same track. */
int perfetto_slice(struct perfetto *writer, uint64_t track, uint64_t start_ns, uint64_t end_ns,
                   const char *name, enum perfetto_flow flow, uint64_t flow_id);
int perfetto_count(struct perfetto *writer, uint64_t track, uint64_t time_ns, int64_t value);

void perfetto_free(struct perfetto *writer);
DEFINE_FREEP(struct perfetto, perfetto_free)

#endif
