/* The inside of a trace, for trace.c, parallel.c and rewrite.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACE_PRIVATE_H
#define TRACE_TRACE_PRIVATE_H

#include "base/array.h"
#include "trace/metadata.h"
#include "trace/parallel.h"
#include "trace/stream.h"

struct host {
    struct trace_host public;
    struct metadata *meta;
    char *path;
    const struct event_class **classes;
    size_t first_stream;
};

struct trace {
    ARRAY(struct host) hosts;
    ARRAY(struct stream) streams;
    bool borrowed; /* the hosts are another trace's */
    /* A tournament of losers: tree[0] is the stream that is first in time, every other node the loser of the
     * match played there. One path of log2(streams) matches replaces the winner. An entry is the next event's
     * time since base_ns with the stream's index in its low bits, so that a match is one comparison. */
    uint64_t *tree;
    unsigned stream_bits;
    int64_t base_ns;
    bool started;
    bool pending; /* the first stream was delivered and must advance */
    struct machine machine;
    uint32_t register_count;
    struct arena text;
    struct event event;
    struct trace_loss *losses;
    unsigned threads;
    struct parallel *parallel; /* NULL: reading in the caller's thread */
};

/* A second reader of the same trace, with its own position; it must be closed first. Indexes are shared. */
int trace_clone(const struct trace *trace, struct trace **ret_trace);

#endif
