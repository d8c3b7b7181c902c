/* The inside of a trace, for trace.c, parallel.c and rewrite.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACE_PRIVATE_H
#define TRACE_TRACE_PRIVATE_H

#include "base/array.h"
#include "trace/merge.h"
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
    struct merge merge;
    const uint8_t **next_data; /* by stream: its next event's fields */
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
