/* Reading a recording's folder: the trace through the analysis (and into a history of states), with what the
 * manifest beside the trace knows: losses, what could not be hooked, the cost of recording. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_FOLDER_H
#define ANALYZE_FOLDER_H

#include "model/analysis.h"
#include "states/states.h"
#include "base/problem.h"
#include "trace/pass.h"
#include "trace/trace.h"

struct folder_reading {
    struct analyze_options *analyze; /* its folder is set */
    const char *states;              /* the file that gets the history of states; NULL: none is made */
    /* Called now and then with bytes read and in all, and the analysis as far as it has come, for
     * analysis_so_far(). A value other than 0 ends the reading. NULL: nothing is called. */
    int (*progress)(void *context, struct analysis *analysis, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
};

/* Reads the trace to its end. 0 or a negative errno with problem set. The report has findings, losses,
 * overhead and what is missing; the caller frees both. */
int folder_read(const char *folder, const struct folder_reading *reading, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report);

/* What reads a recording's events for a report: the analysis of requests, and the passes of targets. */
struct readers;

enum { READERS_MAX = SONDE_RUNTIMES + 1 };

/* 0 or -ENOMEM. */
int readers_new(const struct analyze_options *options, struct readers **ret_readers);
void readers_free(struct readers *readers);
DEFINE_FREEP(struct readers, readers_free)

/* Fills in a pass for each, which borrows it; how many there are. */
size_t readers_passes(struct readers *readers, struct pass passes[READERS_MAX]);

/* Borrowed; and for good, which the caller frees: then only readers_free() may follow. */
struct analysis *readers_analysis(const struct readers *readers);
struct analysis *readers_take_analysis(struct readers *readers);

/* After the last event and pass_set_finish(): the report of all of them, ranked, with what the manifest and
 * the trace's reader say. took_ns: what reading took. 0 or -ENOMEM. */
int readers_report(const struct readers *readers, const char *folder, const struct trace *trace,
                   uint64_t took_ns, struct report *ret_report);

/* Adds what the manifest and the trace's reader say was lost, what could not be seen, and what tracing cost.
 * A manifest that is damaged is listed as missing. */
void folder_add_limits(struct report *report, const char *folder, const struct trace *trace);

/* Puts endpoints, event loops, operations, channels and functions into the report's document. 0 or -ENOMEM.
 */
int folder_extend(struct report *report, struct analysis *analysis);

/* Who talks to whom over pipes, UNIX sockets and message ports: ipc_channels_json() and ports_json(). A new
 * reference. */
json_t *analysis_channels_json(const struct analysis *analysis);

/* The processes with their threads, for views that know threads only; a new reference. */
json_t *folder_processes(const struct analysis *analysis);

#endif
