/* The critical path of one request: which spans the request was waiting for at each moment, so that their
 * exclusive times add up to its duration. Also each span's own time, and how far its children ran at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_PATH_H
#define DIAGNOSE_PATH_H

#include "span/link.h"

struct path_time {
    uint64_t critical_ns;       /* exclusive time on the path */
    uint64_t self_ns;           /* the span's duration without what its children cover */
    uint64_t children_total_ns; /* of the children's durations within the span */
    uint64_t children_busy_ns;  /* while at least one child ran */
    bool on_path;
    bool is_call;    /* a client's span: its exclusive time is the edge to `callee` */
    uint32_t callee; /* the server's span, or PART_NONE */
};

/* Memory that is kept from request to request. Zero-initialise; path_scratch_done() when finished. */
struct path_scratch {
    size_t capacity;
    uint32_t *first_child; /* count + 1 of them */
    uint32_t *children;
    uint32_t *chosen;
    uint64_t *window; /* start and end per span */
};

/* Of a linked trace, for the tree below `root`; times has trace->count elements, zeroed for other trees'
 * spans except their own time. 0 or -ENOMEM. */
int path_find(const struct trace *trace, uint32_t root, struct path_scratch *scratch,
              struct path_time *times);

void path_scratch_done(struct path_scratch *scratch);

#endif
