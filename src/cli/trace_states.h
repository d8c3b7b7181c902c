/* `sonde trace states`, called by cmd_trace.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_STATES_H
#define CLI_TRACE_STATES_H

#include "base/array.h"
#include "cli/moment.h"
#include "cli/options.h"
#include "trace/filter.h"

/* The command line: which of it a part takes is in its option groups. Zero-initialise;
 * trace_asked_done() when finished. */
struct trace_asked {
    bool json, align, follow;
    struct moment at, from, to;
    ARRAY(const char *) names;      /* patterns */
    ARRAY(const char *) processes;  /* pids, or patterns of process names */
    ARRAY(const char *) attributes; /* patterns */
    struct filter *filter;          /* NULL: none */
    uint64_t limit;                 /* of events */
    uint32_t threads, columns;
    const char *path; /* the thread whose path is wanted: "TID" or "HOST/TID"; NULL: none is */
    const char *keep; /* where the history is kept, or NULL */
};

void trace_asked_done(struct trace_asked *asked);

extern const struct option_row TRACE_MOMENT_ROWS[], TRACE_STATES_ROWS[];

/* Prints states. Returns an exit status. */
int trace_states(const struct trace_asked *asked, const char *path);

#endif
