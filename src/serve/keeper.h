/* Carries what the journal has on disk into the span store, on a thread of its own, and keeps the store
 * within its age and size. The journal is what was promised: what the store does not take is read from there
 * again, so that a store that fails for a while loses nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_KEEPER_H
#define SERVE_KEEPER_H

#include "span/store.h"

struct keeper_settings {
    const char *folder;       /* of the journal */
    struct journal *journal;  /* borrowed */
    struct span_store *store; /* borrowed; used by the keeper alone, but for query() */
    uint64_t keep_ns;         /* spans older than this are removed; 0: none */
    uint64_t keep_bytes;      /* above this the oldest are removed; 0: no limit */
    uint64_t look_ns;         /* between looks at age and size; 0: a minute */
    /* Traces that outlive the rest: the exemplars behind findings. At most room; returns how many. May be
     * NULL. */
    size_t (*exemplars)(void *context, struct trace_id *ids, size_t room);
    void *context;
};

struct keeper_counts {
    uint64_t errors;      /* attempts that the store refused; they are repeated */
    uint64_t expirations; /* times that old spans were removed */
    uint64_t undecodable; /* batches in the journal that do not decode */
    char last_error[512]; /* "" after a success */
};

struct keeper;

/* Brings the store up to date with the journal, as far as it lets itself, and goes on. */
int keeper_new(const struct keeper_settings *settings, struct keeper **ret_keeper, struct problem *problem);

/* Waits until all that is on disk in the journal is committed, or an attempt has failed. */
void keeper_drain(struct keeper *keeper);

void keeper_get_counts(struct keeper *keeper, struct keeper_counts *ret_counts);

/* Drains, then stops. */
void keeper_free(struct keeper *keeper);
DEFINE_FREEP(struct keeper, keeper_free)

#endif
