/* What the parts of the history share: values as the stores keep them, the history itself, and the table of
 * operations that a store provides. Private to src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_MODEL_H
#define HISTORY_MODEL_H

#include "base/array.h"
#include "history/attributes.h"
#include "history/dictionary.h"
#include "history/history.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little-endian and read in place");

/* A value: type is one of enum history_type; bits is 0 for null, the integer, the double's bits, or the
 * number of a string in the dictionary. Equal values are equal cells. */
struct cell {
    uint64_t bits;
    uint32_t type;
};

static inline bool cell_equal(struct cell a, struct cell b)
{
    return a.bits == b.bits && a.type == b.type;
}

/* A full state is made in the caller's array: cells take the place of values until the very end. */
static inline void interval_set(struct history_interval *state, struct cell cell)
{
    state->value.type = cell.type;
    state->value.integer = (int64_t)cell.bits;
}

/* A cell over [start_ns, end_ns). */
struct state {
    uint64_t start_ns, end_ns;
    struct cell cell;
};

/* The state of an attribute that has not ended. */
struct ongoing {
    uint64_t start_ns;
    uint64_t bits;
    uint32_t type;
    uint32_t entry; /* the columnar store's: its newest entry in the log, plus one; 0: none */
};

static inline struct cell ongoing_cell(const struct ongoing *o)
{
    return (struct cell){o->bits, o->type};
}

typedef int state_fn(void *context, uint32_t quark, const struct state *state);

/* Values and how long each held: what history_summary is made of. */
enum { SUMMARY_WORKING = 16 };
struct summary {
    uint64_t changes;
    uint64_t other_ns;
    uint32_t count;
    struct {
        struct cell cell;
        uint64_t ns;
    } share[SUMMARY_WORKING];
};
typedef int summary_fn(void *context, uint32_t quark, uint32_t column, struct summary *summary);

/* A view's columns: column i begins at column_start(grid, i); there are `columns` of them. */
struct grid {
    const uint32_t *quarks;
    size_t count;
    uint64_t start_ns, end_ns;
    uint32_t columns;
};

static inline uint64_t column_start(const struct grid *grid, uint32_t column)
{
    uint64_t span = grid->end_ns - grid->start_ns, product;
    if (__builtin_mul_overflow(span, column, &product)) /* rare, and slow to divide */
        return grid->start_ns + (uint64_t)((unsigned __int128)span * column / grid->columns);
    return grid->start_ns + product / grid->columns;
}

/* What a store does. Times and quarks are checked before it is called. */
struct store_ops {
    /* The attribute changes from history->ongoing[quark] to cell at time_ns (which is not earlier than that
     * state's start). Called before ongoing is updated; may update ongoing[quark].entry. */
    int (*change)(struct history *history, uint32_t quark, uint64_t time_ns, struct cell cell,
                  struct problem *problem);
    int (*flush)(struct history *history, struct problem *problem);
    /* Completes the file. history->end_ns is set already. */
    int (*close)(struct history *history, struct problem *problem);
    void (*free)(struct history *history);
    void (*info)(const struct history *history, struct history_info *info);
    /* The state at time_ns, which is before ongoing[quark].start_ns or the history is closed. */
    int (*find)(struct history *history, uint32_t quark, uint64_t time_ns, struct state *ret_state,
                struct problem *problem);
    /* ret_states[0 .. attributes - 1], by interval_set(); end_ns 0 is the history's end; quarks are not set.
     */
    int (*full)(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                struct problem *problem);
    /* States that overlap [start_ns, end_ns) in order, those of no length left out. */
    int (*range)(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns, state_fn *fn,
                 void *context, struct problem *problem);
    int (*grid)(struct history *history, const struct grid *grid, state_fn *fn, void *context,
                struct problem *problem);
    int (*summarize)(struct history *history, const struct grid *grid, summary_fn *fn, void *context,
                     struct problem *problem);
};

struct history {
    char *path;
    const struct store_ops *ops;
    void *store; /* struct columns or struct tree */
    struct attributes attributes;
    struct dictionary strings;
    ARRAY(struct ongoing) ongoing; /* by quark; empty when opened from a file */
    uint64_t start_ns;
    uint64_t end_ns; /* of a closed history; HISTORY_ONGOING while building */
    uint64_t max_ns; /* of all changes so far */
    uint64_t changes;
    bool building, complete;
    uint64_t lost_bytes;
};

/* Both stores. create and open fill in history->ops and history->store; ops->free undoes it, also half-way.
 */
int columns_create(struct history *history, const struct history_options *options, struct problem *problem);
int columns_open(struct history *history, int fd, uint64_t file_bytes, struct problem *problem);
int tree_create(struct history *history, const struct history_options *options, struct problem *problem);
int tree_open(struct history *history, int fd, uint64_t file_bytes, struct problem *problem);

#endif
