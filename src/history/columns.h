/* The columnar store's own structures, shared by its builder (columns.c), its queries (columns_query.c) and
 * its summaries (columns_summary.c). Private to src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_COLUMNS_H
#define HISTORY_COLUMNS_H

#include "history/block.h"
#include "history/names.h"
#include "history/record.h"

enum {
    GROUP_LEVELS = 2,
    GROUP_SHIFT = 4, /* 16 segments or groups make a group of the next level */
    LANE = 64,       /* attributes that share one entry of a segment's directory */
};

/* A change that is not on disk yet. */
struct log_entry {
    uint64_t time_ns;
    uint64_t bits;
    uint32_t quark;
    uint32_t previous : 30; /* of the same attribute: its index plus one; 0: none */
    uint32_t type : 2;
};

struct segment {
    struct record record;
    uint32_t late; /* the last segment with a change earlier than this one's slice ends; itself when none */
};

struct columns {
    struct record_file file;
    ARRAY(struct segment) segments;
    ARRAY(struct record) groups[GROUP_LEVELS];
    uint64_t mapped_max; /* the builder maps records when a query needs them; this much may stay mapped */

    /* While building: the open slice. */
    struct log_entry *log;
    uint32_t log_count, log_capacity, log_limit;
    uint32_t fixed_limit;            /* options.segment_changes */
    uint64_t slice_start_ns, min_ns; /* min_ns: of the log's changes */
    ARRAY(struct ongoing) at_start;  /* every attribute's state when the slice began */
    uint32_t attributes_written, strings_written;
    uint64_t scratch_bytes; /* what a flush last needed */
};

/* ---- Building blocks of a record's body ---- */

/* Writes the blocks of a body lane by lane. block_fn appends quark's block, whose count and first change it
 * returns (1), or says that it has none (0). */
typedef int block_fn(void *context, uint32_t quark, struct body *body, uint64_t *ret_count,
                     uint64_t *ret_first_ns, struct problem *problem);
int body_add_blocks(struct body *body, struct record_head *head, block_fn *fn, void *context,
                    struct problem *problem);

static inline uint32_t lane_count(uint32_t attributes)
{
    return (attributes + LANE - 1) / LANE;
}

/* ---- Reading ---- */

/* Quark's block in a record: 1, 0 when it has none, or an error. */
int record_block(struct columns *columns, struct record *record, uint32_t quark,
                 struct block_place *ret_place, struct problem *problem);

/* The table of a lane's blocks. */
struct lane {
    struct record *record;
    uint64_t present; /* bit by bit: which attributes have blocks */
    unsigned blocks;
    const uint8_t *at; /* the first block; valid up to the table, but not checked */
    struct numbers counts, firsts;
    uint64_t ends[LANE]; /* of each block, from `at` */
};
int lane_open(struct columns *columns, struct record *record, uint32_t lane, struct lane *ret_lane,
              struct problem *problem);

/* A hint that a lane's table is needed soon; the record is mapped and its directory checked. */
static inline void lane_prefetch(const struct record *record, uint32_t index)
{
    const struct record_head *h = &record->head;
    uint32_t entry, lanes = lane_count(h->attributes);
    if (index >= lanes)
        return;
    memcpy(&entry, record->body + h->directory_at + lanes * 8ul + index * 4ul, 4);
    __builtin_prefetch(record->body + h->blocks_at + entry);
}

/* The first changes of a lane's blocks alone. The record is ready (record_ready). */
int lane_firsts(struct columns *columns, struct record *record, uint32_t index, unsigned blocks,
                struct numbers *ret_firsts, struct problem *problem);

static inline uint64_t lane_first_ns(const struct lane *lane, unsigned i)
{
    return lane->record->head.slice_start_ns + (uint64_t)unzigzag(numbers_get(&lane->firsts, i));
}

/* Opens the snapshot of a lane. */
int lane_snapshot(struct columns *columns, struct record *record, uint32_t lane, struct cells *ret_cells,
                  struct numbers *ret_ages, struct problem *problem);

/* The segment into whose slice a time falls; the number of segments for the log. */
uint32_t slice_of(const struct history *history, uint64_t time_ns);

/* When a state began, from its age in a snapshot. */
static inline uint64_t age_to_start(const struct history *history, uint64_t slice_start_ns, uint64_t age)
{
    return age > slice_start_ns - history->start_ns ? history->start_ns : slice_start_ns - age;
}

/* Which attributes of a lane have blocks, bit by bit; the record must be mapped and checked up to blocks_at.
 */
static inline uint64_t record_lane(const struct record *record, uint32_t lane)
{
    return bits_load(record->body + record->head.directory_at + (size_t)lane * 8);
}

/* Maps and checks a record's directory (and snapshots). */
int record_ready(struct columns *columns, struct record *record, struct problem *problem);

/* Reads one attribute's blocks, segment by segment. The segment behind the last is the log. */
struct reader {
    struct history *history;
    struct columns *columns;
    struct problem *problem;
    uint32_t quark;
    void *log_block; /* the log's changes of this attribute as a block, once they were needed */
    struct block_place log_place;
    /* The block and run used last, for queries that move on in time. */
    bool has_block, has_run;
    uint32_t segment, run_index;
    struct block block;
    struct run run;
    uint64_t times[RUN_CHANGES];
};

void reader_init(struct reader *reader, struct history *history, uint32_t quark, struct problem *problem);
void reader_done(struct reader *reader);

/* The block of segment `segment` (1), or 0 when it has none. */
int reader_block(struct reader *reader, uint32_t segment, struct block *ret_block);

/* The first block at or behind a segment: 1, or 0 when there is none. */
int reader_next_block(struct reader *reader, uint32_t segment, uint32_t *ret_segment,
                      struct block *ret_block);

/* The state at time_ns; *ret_segment is where the search for what follows begins. ret_segment may be NULL. */
int reader_find(struct reader *reader, uint64_t time_ns, struct state *ret_state, uint32_t *ret_segment);

/* The error for a block that cannot be decoded. */
int reader_damaged(struct reader *reader, uint32_t segment);

/* In the process that built the history: unmaps what was mapped for earlier queries, when it has become much.
 */
void columns_trim(struct history *history);

int columns_find(struct history *history, uint32_t quark, uint64_t time_ns, struct state *ret_state,
                 struct problem *problem);
int columns_full(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                 struct problem *problem);
int columns_range(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns, state_fn *fn,
                  void *context, struct problem *problem);
int columns_grid(struct history *history, const struct grid *grid, state_fn *fn, void *context,
                 struct problem *problem);
int columns_summarize(struct history *history, const struct grid *grid, summary_fn *fn, void *context,
                      struct problem *problem);

/* Writes the groups that the newest segment completes. */
int columns_add_groups(struct history *history, struct problem *problem);

/* Reads the node of quark in group record `group`: 1, or 0 when it has none. */
int group_node(struct columns *columns, struct record *group, uint32_t quark, struct node *ret_node,
               struct problem *problem);

#endif
