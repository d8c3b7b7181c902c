/* The difference of two statistical call-stack forests: what appeared, what vanished, what got slower, what
 * is now done one after another, and how much of the slow-down each of it carries. Times are of critical
 * paths, per request, so that they add up to the difference of the mean latencies. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMPARE_H
#define DIAGNOSE_COMPARE_H

#include "diagnose/book.h"

enum change_kind {
    CHANGE_SLOWER,
    CHANGE_FASTER,
    CHANGE_APPEARED,
    CHANGE_VANISHED,
    CHANGE_MORE_CALLS, /* no slower by itself, but called more often */
    CHANGE_SEQUENTIAL, /* calls that ran at once now run one after another */
    CHANGE_PARALLEL,
    CHANGE_EDGE, /* between caller and callee: network or queues */
};

struct forest_change {
    uint32_t path;
    enum change_kind kind;
    double before_ns, after_ns;         /* on the critical path, per request */
    double p95_before_ns, p95_after_ns; /* of one call (of the gap, for an edge) */
    double calls_before, calls_after;   /* per request */
    double concurrency_before, concurrency_after;
    double share; /* of the growth of the mean latency */
};

/* A vertex of several groups taken together. */
struct pooled_vertex {
    uint32_t path;
    struct vertex sum; /* its sketches are merged ones, freed by forest_done() */
};

struct forest {
    uint64_t requests;
    double mean_ns;
    ARRAY(struct pooled_vertex) vertices; /* parents before children */
    struct map vertex_of;
};

/* Pools groups of one bucket. -ENOMEM. */
int forest_init(struct forest *forest, const struct group *const *groups, size_t count);

/* Gives the paths below `from` the numbers of those with the same steps below `to`, where there are such. */
int forest_rename(const struct book *book, struct forest *forest, uint32_t from, uint32_t to);

const struct vertex *forest_vertex(const struct forest *forest, uint32_t path);
void forest_done(struct forest *forest);

/* The path from the root on which most of the critical time lies: at each vertex, on to the child below which
 * most of it is. At most room paths are written; returns how many. */
size_t forest_critical_path(const struct book *book, const struct forest *forest, uint32_t *paths,
                            size_t room);

/* The changes, the largest growth of critical time first. At most room are written; -ENOMEM. */
int forest_compare(const struct book *book, const struct forest *before, const struct forest *after,
                   struct forest_change *changes, size_t room, size_t *ret_count);

/* "disks createDisk: 3.0 at once before, now one after another" and the like. */
void forest_change_words(const struct book *book, const struct forest_change *change, struct text *to);
const char *forest_change_name(enum change_kind kind);

#endif
