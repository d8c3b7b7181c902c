/* The changes of one attribute within one segment, and what summaries say of them. Private to src/history.
 *
 * A block holds `count` changes in runs of 64. A block of several runs has a directory of its runs and a
 * summary of itself and of each run; a block of one run is so small that decoding it is as quick as reading a
 * summary. The count and the first change's time are not in the block but beside those of its neighbours
 * (columns.c).
 *
 *     count <= 64:
 *       run
 *     count > 64, in n runs:
 *       byte      width W
 *       packed    for runs 1 .. n-1: its first change's time - the block's first, W bits each
 *       byte      width P
 *       packed    for runs 0 .. n-1: its offset from the node, P bits each
 *       node      of the whole block
 *       runs
 *
 *     run:  numbers   differences between the times of successive changes, count - 1 of them
 *           cells     the new values, count of them
 *           node      in a block of several runs only
 *
 *     node: varint    last change's time - first change's time
 *           cell      the value after the last change
 *           byte      bits 0..2: shares (0 .. 4); bit 7: other_ns follows
 *           shares    each a cell and a varint: how many ns between the first and the last change it held
 *           varint    other_ns: held by values that are not listed
 *
 * Numbers and cells are those of codec.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_BLOCK_H
#define HISTORY_BLOCK_H

#include "history/codec.h"

enum {
    RUN_CHANGES = CODEC_MAX,
    NODE_BYTES = VARINT_MAX * 2 + CODEC_CELL_BYTES + 1 + HISTORY_SHARES * (CODEC_CELL_BYTES + VARINT_MAX),
    RUN_BYTES = CODEC_NUMBERS_BYTES + CODEC_CELLS_BYTES + NODE_BYTES,
};

struct change {
    uint64_t time_ns;
    struct cell cell;
};

/* What lies between the first and the last change of a run, block or group of segments. */
struct node {
    uint64_t first_ns, last_ns;
    uint64_t changes;
    struct cell last; /* the value from last_ns on */
    struct summary summary;
};

/* ---- Summaries ---- */

/* A value held for so long. */
void summary_add(struct summary *summary, struct cell cell, uint64_t ns);
void summary_merge(struct summary *summary, const struct summary *more);

/* Sorts the shares, longest first, and moves all but the first `keep` to other_ns. */
void summary_trim(struct summary *summary, unsigned keep);

uint8_t *node_write(uint8_t *p, const struct node *node);
/* Fills in everything but changes; NULL when damaged. */
const uint8_t *node_read(const uint8_t *p, const uint8_t *end, uint64_t first_ns, struct node *ret_node);

/* ---- Blocks ---- */

/* An upper bound of what block_write() writes. */
static inline size_t block_bound(size_t count)
{
    return (count / RUN_CHANGES + 1) * (RUN_BYTES + 16) + NODE_BYTES + 64;
}

/* Writes changes[0 .. count), in time order, to p, which has block_bound(count) bytes. scratch has as many
 * and is aligned for integers. */
uint8_t *block_write(uint8_t *p, void *scratch, const struct change *changes, uint32_t count);

/* Where a block is, and what is known of it outside. */
struct block_place {
    const uint8_t *at, *end;
    uint64_t count;
    uint64_t first_ns;
};

struct block {
    uint64_t first_ns;
    uint32_t count, runs;
    const uint8_t *area, *end; /* the node and the runs, or the only run */
    /* Several runs only: */
    const uint8_t *run_times, *run_offsets;
    unsigned time_width, offset_width;
};

/* 0, or -EBADMSG. The block keeps pointing into the place. */
int block_open(struct block *block, const struct block_place *place);

/* The first change's time of run i. */
static inline uint64_t block_run_first(const struct block *block, uint32_t i)
{
    return i ? block->first_ns +
                   bits_get(block->run_times, (size_t)(i - 1) * block->time_width, block->time_width)
             : block->first_ns;
}

/* The last run that begins at or before time_ns (0 when none does). */
uint32_t block_find_run(const struct block *block, uint64_t time_ns);

struct run {
    uint64_t first_ns;
    unsigned count;
    struct numbers gaps;
    struct cells cells;
};
int block_run(const struct block *block, uint32_t i, struct run *ret_run);

/* The times of a run's changes. */
static inline void run_times(const struct run *run, uint64_t *ret_times)
{
    numbers_sums(&run->gaps, run->first_ns, run->count - 1, ret_times);
}

/* The summary of run i, and of the whole block; read, or computed for a block of one run. 0 or -EBADMSG. */
int block_run_node(const struct block *block, uint32_t i, struct node *ret_node);
int block_node(const struct block *block, struct node *ret_node);

#endif
