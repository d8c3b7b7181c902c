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

struct span_store;

struct span_store_operations {
    /* Adds a span to the batch that is being built. */
    int (*append)(struct span_store *store, const struct span *span);
    /* Makes the batch and the position that it reaches in the journal durable, together or not at all. */
    int (*commit)(struct span_store *store, struct journal_position position, struct problem *problem);
    /* The position of the last commit; zeros in a fresh store. */
    int (*position)(struct span_store *store, struct journal_position *ret_position, struct problem *problem);
    /* Runs a query and appends its rows as JSON objects, one to a line. */
    int (*query)(struct span_store *store, const char *sql, struct text *to, struct problem *problem);
    /* Removes spans that started before a time. */
    int (*expire)(struct span_store *store, uint64_t before_ns, struct problem *problem);
    void (*close)(struct span_store *store);
};

struct span_store {
    const struct span_store_operations *operations;
};

static inline void span_store_close(struct span_store *store)
{
    if (store)
        store->operations->close(store);
}
DEFINE_FREEP(struct span_store, span_store_close)

/* The embedded engine: a DuckDB file. The library is loaded when a store is opened: SONDE_DUCKDB names it,
 * else it is looked for beside the program, in the npm package @duckdb/node-bindings-linux-x64 of the source
 * tree, and where the loader looks. -ENOENT with a remedy when there is none. */
int duckdb_store_open(const char *path, struct span_store **ret_store, struct problem *problem);

/* Reads a Parquet file's rows through the same engine, mapped as CSV is. */
int duckdb_read_parquet(const char *path, const struct mapping *mapping, struct span_sink *sink,
                        struct problem *problem);

#endif
