/* Reading a trace: events in, requests with their vertical spans and findings out. One streaming pass; it
 * never asks where the events come from. Memory is bounded by the requests in flight and the examples that
 * are kept.
 *
 *     struct analysis *analysis;
 *     analysis_new(&options, &analysis);
 *     for each event, in order of time: analysis_event(analysis, event);
 *     analysis_finish(analysis);
 *     analysis_report(analysis, &report);      findings, losses
 *     analysis_requests(analysis, &requests);  the examples, slowest first
 *
 * analysis_so_far() reports at any time between two events, and changes nothing.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_ANALYSIS_H
#define MODEL_ANALYSIS_H

#include "model/request.h"
#include "finding/report.h"
#include "span/sketch.h"
#include "trace/event.h"

struct analyze_options {
    /* A turn of the event loop that keeps it for longer, time waiting for a CPU not counted, is a fault
     * when requests lose as much by it. 50 ms: a fifth of the quarter second that people notice, and above
     * what starting up and compiling a first request takes. */
    uint64_t stall_ns;
    /* A command that executes in a store for longer. 10 ms, as Redis' own slow log has it. */
    uint64_t slow_command_ns;
    /* An operation that waits longer for a pool thread. 20 ms: far above a healthy queue (microseconds). */
    uint64_t pool_wait_ns;
    /* Requests kept with their spans: the slowest of each endpoint, and the slowest of all. */
    uint32_t keep_per_endpoint;
    uint32_t keep_slowest;
    /* Only requests whose path contains this are kept; NULL for all. */
    const char *path;
    /* Only the request of this name is kept; NULL for all. */
    const char *request;
    /* Sum up what the latency of each endpoint consists of (breakdown.h). */
    bool breakdown;
    /* Gets every request once all is known of it, also those that are not kept. A negative errno ends the
     * reading. */
    int (*on_request)(void *context, const struct request *request);
    void *on_request_context;
    /* The folder that findings name in their link to the worst request; NULL: "DIR". */
    const char *folder;
};

#define ANALYZE_DEFAULTS                                   \
    ((struct analyze_options){.stall_ns = 50000000,        \
                              .slow_command_ns = 10000000, \
                              .pool_wait_ns = 20000000,    \
                              .keep_per_endpoint = 3,      \
                              .keep_slowest = 10})

/* One method and route of one service. */
struct endpoint {
    const char *service;
    const char *method;
    const char *route; /* the path with numbers and identifiers folded: "/users/:id" */
    struct sketch latency;
    uint64_t count; /* finished; those unfinished are not in latency */
    uint64_t unfinished;
    uint64_t errors; /* status 500 and above */
    uint64_t worst_ns;
};

/* What was read, for the overhead and for saying why a report is empty. */
struct analysis_counts {
    uint64_t events;
    uint64_t first_ns, last_ns;
    uint64_t processes, of_targets; /* of_targets: of a runtime that sonde knows */
    uint64_t requests, unfinished;
    uint64_t commands; /* that stores executed for clients, not inside scripts */
    /* Operations (commands to stores, HTTP calls, pool work) by how their request is known. */
    uint64_t proved, inferred, ambiguous, outside; /* outside: started by no request */
    /* Of those proved: known from the request context and from nothing else; and turns that contradicted a
     * process's contexts, whose operations are counted as ambiguous therefore. */
    uint64_t told, handovers;
    /* Commands joined to the traced caller that sent them; those that could not be: no traced sender's
     * connection, no number, or a number that was not sent. */
    uint64_t joined, unjoined;
    uint64_t http_joined;
    /* Responses to requests that were read before the recording began: no others are known of these. */
    uint64_t begun_before;
};

struct analysis;

/* 0 or -ENOMEM. options are copied (its strings are borrowed). */
int analysis_new(const struct analyze_options *options, struct analysis **ret_analysis);
void analysis_free(struct analysis *analysis);
DEFINE_FREEP(struct analysis, analysis_free)

/* 0 or -ENOMEM, after which the analysis may only be freed. */
int analysis_event(struct analysis *analysis, const struct event *event);

/* The trace is over: what is still open becomes unfinished. */
int analysis_finish(struct analysis *analysis);

/* Gets a report of what was read so far, which it may keep (report_done()) or not. Within the call, counts
 * and endpoints are those of the report, too; requests are not. 0, or a negative errno that analysis_so_far()
 * returns. */
typedef int analysis_so_far_fn(void *context, struct analysis *analysis, struct report *report);

/* What is still open, when a report is made of what was read so far. */
enum analysis_open {
    OPEN_LEFT_OUT, /* a trace is being read: how it ends comes later */
    OPEN_JUDGED, /* a recording goes on: requests and a callback that have not ended may have lasted too long
                    already */
};

/* Reports in the middle: the analysis is as it was before when this returns, and goes on. Works on copies of
 * the faults found so far, whose victims are limited, so that it takes milliseconds at most, but not for
 * every event. 0, -ENOMEM, or what use() returned. */
int analysis_so_far(struct analysis *analysis, enum analysis_open open, analysis_so_far_fn *use,
                    void *context);

/* Adds findings (ranked), losses and what could not be known to the report. After analysis_finish(). */
int analysis_report(struct analysis *analysis, struct report *report);

const struct analysis_counts *analysis_counts(const struct analysis *analysis);

/* The endpoints, in order of service, then of total time. Borrowed; *ret_count of them. */
const struct endpoint *analysis_endpoints(struct analysis *analysis, size_t *ret_count);

/* The samples of a profile that was taken beside the recording, for vertical.h; NULL: there are none.
 * Borrowed, sorted by thread and time; good until the next event. */
const struct profile *analysis_samples(struct analysis *analysis);

/* The kept requests, slowest first. Borrowed; *ret_count of them. */
const struct request *const *analysis_requests(struct analysis *analysis, size_t *ret_count);

#endif
