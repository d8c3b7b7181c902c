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

/* What a span is to the part of a trace that path_find_within() walks. */
enum path_role {
    PATH_OUTSIDE, /* not part of it, or nobody waits for it */
    PATH_INSIDE,
    PATH_LEAF, /* waited for, and not looked into */
};

/* The same for a part of a trace whose path_find() came just before (its index of children and its times are
 * used): `list` names the spans of it in ascending order, the first one on top; roles has trace->count
 * elements. Writes times of the spans listed only. */
void path_find_within(const struct trace *trace, const uint32_t *list, size_t count, const uint8_t *roles,
                      struct path_scratch *scratch, const struct path_time *whole, struct path_time *times);

void path_scratch_done(struct path_scratch *scratch);

#endif
