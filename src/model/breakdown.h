/* What the latency of each endpoint's requests consists of, and how long each kind of operation took: for
 * comparing two traces. Only made when analyze_options.breakdown is set.
 *
 * Every moment of a request is charged to one part, so that the parts add up to the latency: what ran on the
 * event loop for it (the innermost), else the operation of it that was at work, else the operation that
 * waited (of several the one that ended last: the request goes on only then), else nothing of it that is
 * known.
 *
 * Requests of one trace are not independent of each other: neighbours share a stall. How far a mean is to be
 * trusted is therefore taken from blocks of time, not from single requests (batch means). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_BREAKDOWN_H
#define MODEL_BREAKDOWN_H

#include "model/analysis.h"
#include "base/map.h"

enum { BREAKDOWN_BLOCKS = 64 };

/* Sums by block of time; all of one breakdown have blocks of equal length. */
struct blocks {
    double sum[BREAKDOWN_BLOCKS];
    uint8_t halvings; /* how often neighbours were put together */
};

struct part {
    const char *layer; /* "http", "js", "v8", "libuv", "redis" */
    const char *name;  /* "fs_read: waits for a pool thread" */
    uint64_t requests; /* that had it */
    uint64_t newest;   /* serial of the newest of them */
    struct blocks time_ns;
};

struct breakdown_endpoint {
    const char *service, *method, *route;
    uint64_t count; /* finished requests */
    struct blocks requests, latency_ns;
    ARRAY(struct part) parts;
};

/* One kind of operation of one service: its ATTL, submission to completion. */
struct operation_kind {
    const char *service, *layer, *name;
    struct sketch attl;
    struct blocks count, total_ns;
    uint64_t gc_ns;
};

struct breakdown {
    uint64_t first_ns, block_ns;
    uint8_t halvings;
    ARRAY(struct breakdown_endpoint) endpoints;
    ARRAY(struct operation_kind) operations;
    struct map index;
};

/* NULL unless the option was set. Borrowed; complete after analysis_finish(). */
const struct breakdown *analysis_breakdown(const struct analysis *analysis);

/* The mean of sums per count, and its standard error over the blocks; *ret_blocks of them had a count.
 * The error is 0 when there are fewer than two. */
double blocks_mean(const struct breakdown *b, const struct blocks *sums, const struct blocks *counts,
                   double *ret_error, unsigned *ret_blocks);

/* analyze.c and request.c: */
struct breakdown *breakdown_new(void);
void breakdown_free(struct breakdown *breakdown);
void breakdown_request(struct analysis *analysis, const struct request *request);

#endif
