/* The inside of a trace, for trace.c, parallel.c and rewrite.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACE_PRIVATE_H
#define TRACE_TRACE_PRIVATE_H

#include "base/array.h"
#include "trace/merge.h"
#include "trace/metadata.h"
#include "trace/parallel.h"
#include "trace/stream.h"

/* What a folder holds: a name, and what it is as far as the folder says (DT_REG ...; DT_UNKNOWN). */
struct folder_entry {
    char *name;
    unsigned char type;
};

typedef ARRAY(struct folder_entry) name_list;

struct retired {
    struct metadata *meta;
    const struct event_class **classes;
};

struct host {
    struct trace_host public;
    struct metadata *meta;
    char *path;
    const struct event_class **classes;
    size_t first_stream;
    uint64_t metadata_bytes;
    /* What was read before the metadata grew: events that were handed out point into it. */
    ARRAY(struct retired) retired;
};

struct trace {
    ARRAY(struct host) hosts;
    ARRAY(struct stream) streams;
    bool borrowed; /* the hosts are another trace's */
    struct merge merge;
    const uint8_t **next_data; /* by stream: its next event's fields */
    bool started;
    struct stream *pending; /* the first stream, when its event was delivered and it must advance; or NULL */
    struct machine machine;
    uint32_t register_count;
    struct arena text;
    struct event event;
    struct trace_loss *losses;
    unsigned threads;
    struct parallel *parallel; /* NULL: reading in the caller's thread */
};

/* ---- parts of trace.c that grow.c uses too ---- */

/* The names in a folder, sorted, so that streams are numbered alike everywhere. */
int trace_list_folder(const char *path, name_list *names);
void trace_names_done(name_list *names);
bool trace_is_stream_name(const char *name);

/* Whether it is a regular file, or a link to one. path is the entry's. */
bool trace_is_file(const char *path, const struct folder_entry *entry);
int trace_describe_host(struct host *host);
int trace_reserve_registers(struct trace *trace, uint32_t count);

/* What the merge needs, made anew when there are more streams. */
int trace_prepare(struct trace *trace);

/* All streams, as they stand, into the merge. */
void trace_merge_all(struct trace *trace);

/* The stream's next event, or its end; that of the stream that is pending. */
int trace_advance(struct trace *trace, struct stream *stream);
int trace_advance_pending(struct trace *trace);

/* Bytes of the folder's metadata file, 0 when there is none. */
uint64_t trace_metadata_bytes(const char *folder);

/* A second reader of the same trace, with its own position; it must be closed first. Indexes are shared. */
int trace_clone(const struct trace *trace, struct trace **ret_trace);

#endif
