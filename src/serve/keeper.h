/* Carries what the journal has on disk into the span store, on a thread of its own, and keeps the store
 * within its age and size. Spans come decoded from the receiver. The journal is what was promised: what was
 * before, what the store did not take, and what there was no room for is read from there, so that a store
 * that fails for a while loses nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_KEEPER_H
#define SERVE_KEEPER_H

#include "span/batch.h"
#include "span/store.h"

struct keeper_settings {
    const char *folder;       /* of the journal */
    struct journal *journal;  /* borrowed; what it has when the keeper is made is stored */
    struct span_store *store; /* borrowed; used by the keeper alone, but for query() */
    uint64_t keep_ns;         /* spans older than this are removed; 0: none */
    uint64_t keep_bytes;      /* above this the oldest are removed; 0: no limit */
    uint64_t look_ns;         /* between looks at age and size; 0: a minute */
    size_t held_max;          /* bytes of batches that were given; others are read from the journal */
    /* Traces that outlive the rest: the exemplars behind findings. At most room; returns how many. May be
     * NULL. */
    size_t (*exemplars)(void *context, struct trace_id *ids, size_t room);
    void *context;
};

struct keeper_counts {
    uint64_t errors;      /* attempts that the store refused; they are repeated */
    uint64_t expirations; /* times that old spans were removed */
    uint64_t undecodable; /* batches in the journal that do not decode */
    uint64_t reread;      /* batches that were read from the journal and decoded */
    char last_error[512]; /* "" after a success */
};

struct keeper;

/* Brings the store up to date with the journal, as far as it lets itself, and goes on. */
int keeper_new(const struct keeper_settings *settings, struct keeper **ret_keeper, struct problem *problem);

/* Another batch, on disk in the journal in (before, end]; to be called in the journal's order, none left out.
 * The spans are stored as they are where there is room for them, and are read from the journal otherwise, or
 * if NULL. */
void keeper_give(struct keeper *keeper, struct span_batch *spans, struct journal_position before,
                 struct journal_position end);

/* Waits until all that was given is committed, or an attempt has failed. */
void keeper_drain(struct keeper *keeper);

void keeper_get_counts(struct keeper *keeper, struct keeper_counts *ret_counts);

/* Drains, then stops. */
void keeper_free(struct keeper *keeper);
DEFINE_FREEP(struct keeper, keeper_free)

#endif
