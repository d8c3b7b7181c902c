/* A store of raw spans: for the exemplars behind a finding, for SQL, for Parquet. An interface, so that the
 * embedded engine and a cluster serve the same callers. Bucket indices of durations are computed here on the
 * way in, so that any engine only sums them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_STORE_H
#define SPAN_STORE_H

#include "base/macro.h"
#include "base/text.h"
#include "span/journal.h"
#include "span/mapping.h"
#include "span/sketch.h"

struct span_store;

struct trace_id {
    uint64_t high, low;
};

/* append, commit and the rest belong to one thread; query may be called from others at any time, and sees
 * what was committed. */
struct span_store_operations {
    /* Adds a span to the batch that is being built. */
    int (*append)(struct span_store *store, const struct span *span);
    /* Makes the batch and the position that it reaches in the journal durable, together or not at all: after
     * a failure the batch is gone, and everything from the last position on is to be appended again. */
    int (*commit)(struct span_store *store, struct journal_position position, struct problem *problem);
    /* Drops the batch that is being built. */
    void (*discard)(struct span_store *store);
    /* The position of the last commit; zeros in a fresh store. */
    int (*position)(struct span_store *store, struct journal_position *ret_position, struct problem *problem);
    /* Runs a query and appends its rows as JSON objects, one to a line, values as strings. */
    int (*query)(struct span_store *store, const char *sql, struct text *to, struct problem *problem);
    /* Removes spans that started before a time, except those of traces that were ever named here. */
    int (*expire)(struct span_store *store, uint64_t before_ns, const struct trace_id *keep,
                  size_t keep_count, struct problem *problem);
    /* The bytes that the spans take. */
    int (*size)(struct span_store *store, uint64_t *ret_bytes, struct problem *problem);
    void (*close)(struct span_store *store);
};

struct span_store {
    const struct span_store_operations *operations;
    size_t commit_spans; /* a batch should not be larger; 0: it may */
};

static inline void span_store_close(struct span_store *store)
{
    if (store)
        store->operations->close(store);
}
DEFINE_FREEP(struct span_store, span_store_close)

/* The sketches of the stored durations, one for each combination of values of these columns ("service,name"),
 * from the bins that the engine sums: equal to the bit whichever engine it is. take gets the values in the
 * order of the columns, groups ascending by them. */
int span_store_sketches(struct span_store *store, const char *columns,
                        int (*take)(void *context, const char *const *values, size_t count,
                                    const struct sketch *sketch),
                        void *context, struct problem *problem);

/* For the engines: a string as JSON, and a span's attributes as an object, which replaces what `to` had. */
void span_json_string(struct text *to, struct slice string);
void span_attributes_json(const struct span *span, struct text *to);

/* A JSON object's string members in order, as in a row of query(): at most room, cut in place. Returns how
 * many. */
size_t span_store_row(char *line, const char **ret_values, size_t room);

/* The embedded engine: a DuckDB file. The library is loaded when a store is opened: SONDE_DUCKDB names it,
 * else it is looked for beside the program, in the npm package @duckdb/node-bindings-linux-x64 of the source
 * tree, and where the loader looks. -ENOENT with a remedy when there is none. */
int duckdb_store_open(const char *path, struct span_store **ret_store, struct problem *problem);

/* Reads a Parquet file's rows through the same engine, mapped as CSV is. */
int duckdb_read_parquet(const char *path, const struct mapping *mapping, struct span_sink *sink,
                        struct problem *problem);

#endif
