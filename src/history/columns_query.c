/* Queries of the columnar store: finding an attribute's blocks, the state at a time, all states, ranges,
 * grids. The essay in columns.c says how segments, late changes and groups fit together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/columns.h"

#include "base/macro.h"

/* ---- Records ---- */

/* While building, records are mapped when a query needs them; this much may stay mapped. */
#define MAPPED_MAX ((uint64_t)256 << 20)

void columns_trim(struct history *history)
{
    struct columns *c = history->store;
    if (c->file.map || c->file.mapped_bytes <= MAPPED_MAX)
        return;
    array_foreach (&c->segments, s)
        record_unmap(&c->file, &s->record);
    for (int level = 0; level < GROUP_LEVELS; level++)
        array_foreach (&c->groups[level], g)
            record_unmap(&c->file, g);
}

int record_ready(struct columns *columns, struct record *record, struct problem *problem)
{
    int r = record_map(&columns->file, record, problem);
    return r < 0 ? r : record_check(&columns->file, record, 0, record->head.blocks_at, problem);
}

/* The block table of a lane: the lengths of its blocks, each (1 << *ret_shift) bytes. */
static int lane_table(struct columns *columns, struct record *record, uint32_t lane, unsigned blocks,
                      const uint8_t **ret_table, unsigned *ret_shift, struct problem *problem)
{
    const struct record_head *h = &record->head;
    uint64_t entry_at = h->directory_at + lane_count(h->attributes) * 8ul + lane * 4ul;
    int r = record_check(&columns->file, record, entry_at, 4, problem);
    if (r < 0)
        return r;
    uint32_t entry;
    memcpy(&entry, record->body + entry_at, 4);
    uint64_t at = (uint64_t)h->blocks_at + (entry >> 2);
    if ((entry & 3) == 3 || at + ((uint64_t)blocks << (entry & 3)) > h->body_bytes - BITS_SLACK)
        return record_damaged(&columns->file, record, entry_at, "the place of a block table", problem);
    *ret_table = record->body + at;
    *ret_shift = entry & 3;
    return record_check(&columns->file, record, at, (uint64_t)blocks << *ret_shift, problem);
}

static inline uint32_t table_entry(const uint8_t *table, unsigned shift, unsigned i)
{
    uint32_t length = 0;
    memcpy(&length, table + ((size_t)i << shift), 1u << shift);
    return length;
}

static uint64_t table_sum(const uint8_t *table, unsigned shift, unsigned from, unsigned to)
{
    uint64_t sum = 0;
    if (shift == 0) {
        for (unsigned i = from; i < to; i++)
            sum += table[i];
        return sum;
    }
    for (unsigned i = from; i < to; i++)
        sum += table_entry(table, shift, i);
    return sum;
}

int record_block(struct columns *columns, struct record *record, uint32_t quark, const uint8_t **ret_at,
                 const uint8_t **ret_end, struct problem *problem)
{
    const struct record_head *h = &record->head;
    if (quark >= h->attributes)
        return 0;
    uint32_t lane = quark / LANE;
    uint64_t entry_at = h->directory_at + lane * 8ul;
    int r = record_map(&columns->file, record, problem);
    if (r == 0)
        r = record_check(&columns->file, record, entry_at, 8, problem);
    if (r < 0)
        return r;
    uint64_t present = bits_load(record->body + entry_at);
    if (!(present >> quark % LANE & 1))
        return 0;
    unsigned blocks = (unsigned)__builtin_popcountll(present), shift;
    unsigned i = (unsigned)__builtin_popcountll(present & bits_mask(quark % LANE));
    const uint8_t *table;
    r = lane_table(columns, record, lane, blocks, &table, &shift, problem);
    if (r < 0)
        return r;
    uint64_t length = table_entry(table, shift, i), back = table_sum(table, shift, i, blocks);
    if (back > (uint64_t)(table - record->body) - h->blocks_at)
        return record_damaged(&columns->file, record, (uint64_t)(table - record->body),
                              "the lengths of blocks", problem);
    r = record_check(&columns->file, record, (uint64_t)(table - back - record->body), length, problem);
    if (r < 0)
        return r;
    *ret_at = table - back;
    *ret_end = *ret_at + length;
    return 1;
}

/* ---- One attribute's blocks ---- */

void reader_init(struct reader *reader, struct history *history, uint32_t quark, struct problem *problem)
{
    reader->history = history;
    reader->columns = history->store;
    reader->problem = problem;
    reader->quark = quark;
    reader->log_block = NULL;
    reader->log_block_bytes = 0;
    reader->has_block = reader->has_run = false;
}

void reader_done(struct reader *reader)
{
    free(reader->log_block);
    reader->log_block = NULL;
}

int reader_damaged(struct reader *reader, uint32_t segment)
{
    struct columns *c = reader->columns;
    if (segment >= c->segments.count)
        return problem_set(reader->problem, -EBADMSG, "%s: the changes in memory are inconsistent",
                           c->file.path);
    struct record *record = &c->segments.at[segment].record;
    const uint8_t *at = record->body, *end;
    if (record_block(c, record, reader->quark, &at, &end, NULL) <= 0)
        at = record->body;
    return record_damaged(&c->file, record, (uint64_t)(at - record->body), "the changes of an attribute",
                          reader->problem);
}

/* Encodes the attribute's changes in the log as a block, so that there is only one kind of thing to read. */
static int encode_log(struct reader *reader)
{
    struct columns *c = reader->columns;
    uint32_t count = 0;
    uint32_t entry = reader->history->ongoing.at[reader->quark].entry;
    for (uint32_t i = entry; i; i = c->log[i - 1].previous)
        count++;
    _cleanup_(freep) struct change *changes = malloc(count * sizeof(*changes));
    _cleanup_(freep) void *scratch = malloc(block_bound(count));
    uint8_t *block = malloc(block_bound(count) + BITS_SLACK);
    if (!changes || !scratch || !block) {
        free(block);
        return problem_set(reader->problem, -ENOMEM, "%s: no memory for a query", c->file.path);
    }
    for (uint32_t i = entry, k = count; i; i = c->log[i - 1].previous)
        changes[--k] = (struct change){c->log[i - 1].time_ns, {c->log[i - 1].bits, c->log[i - 1].type}};
    uint8_t *end = block_write(block, scratch, changes, count, c->slice_start_ns);
    memset(end, 0, BITS_SLACK);
    reader->log_block = block;
    reader->log_block_bytes = (size_t)(end - block);
    return 0;
}

int reader_block(struct reader *reader, uint32_t segment, struct block *ret_block)
{
    struct columns *c = reader->columns;
    const uint8_t *at = NULL, *end = NULL;
    uint64_t base;
    int r;
    if (segment < c->segments.count) {
        struct record *record = &c->segments.at[segment].record;
        r = record_block(c, record, reader->quark, &at, &end, reader->problem);
        if (r <= 0)
            return r;
        base = record->head.slice_start_ns;
    } else {
        if (!c->log_count || !reader->history->ongoing.at[reader->quark].entry)
            return 0;
        if (!reader->log_block) {
            r = encode_log(reader);
            if (r < 0)
                return r;
        }
        at = reader->log_block;
        end = at + reader->log_block_bytes;
        base = c->slice_start_ns;
    }
    if (block_open(ret_block, at, end, base) < 0)
        return reader_damaged(reader, segment);
    return 1;
}

/* Whether the group of segments at `segment` exists, begins there, and lacks the attribute: 1. */
static int group_lacks(struct reader *reader, unsigned level, uint32_t segment)
{
    struct columns *c = reader->columns;
    unsigned shift = GROUP_SHIFT * (level + 1);
    if (segment & ((1u << shift) - 1) || segment >> shift >= c->groups[level].count)
        return 0;
    const uint8_t *at, *end;
    int r =
        record_block(c, &c->groups[level].at[segment >> shift], reader->quark, &at, &end, reader->problem);
    return r < 0 ? r : !r;
}

int reader_next_block(struct reader *reader, uint32_t segment, uint32_t *ret_segment, struct block *ret_block)
{
    uint32_t end = (uint32_t)reader->columns->segments.count + 1;
    while (segment < end) {
        int skipped = 0;
        for (unsigned level = GROUP_LEVELS; level-- > 0 && skipped == 0;) {
            skipped = group_lacks(reader, level, segment);
            if (skipped < 0)
                return skipped;
            if (skipped)
                segment += 1u << GROUP_SHIFT * (level + 1);
        }
        if (skipped)
            continue;
        int r = reader_block(reader, segment, ret_block);
        if (r != 0) {
            *ret_segment = segment;
            return r;
        }
        segment++;
    }
    return 0;
}

/* ---- The state at a time ---- */

/* The segment into whose slice a time falls; the number of segments for the log. */
static uint32_t slice_of(const struct history *history, uint64_t time_ns)
{
    const struct columns *c = history->store;
    uint32_t low = 0, high = (uint32_t)c->segments.count; /* segment `high` begins too late */
    if (history->building && time_ns >= c->slice_start_ns)
        return high;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->segments.at[middle].record.head.slice_start_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t age_to_start(const struct history *history, uint64_t slice_start_ns, uint64_t age)
{
    return age > slice_start_ns - history->start_ns ? history->start_ns : slice_start_ns - age;
}

/* Opens the snapshot of a lane. */
static int lane_snapshot(struct columns *c, struct record *record, uint32_t lane, struct cells *ret_cells,
                         struct numbers *ret_ages, struct problem *problem)
{
    const struct record_head *h = &record->head;
    uint32_t lanes = lane_count(h->attributes), offset;
    uint64_t entry_at = h->directory_at + lanes * 12ul + lane * 4ul;
    int r = record_map(&c->file, record, problem);
    if (r == 0)
        r = record_check(&c->file, record, entry_at, 4, problem);
    if (r < 0)
        return r;
    memcpy(&offset, record->body + entry_at, 4);
    uint64_t at = (uint64_t)h->snapshots_at + offset;
    if (at >= h->blocks_at)
        return record_damaged(&c->file, record, entry_at, "the place of a snapshot", problem);
    uint64_t length = MIN(h->blocks_at - at, (uint64_t)(CODEC_CELLS_BYTES + CODEC_NUMBERS_BYTES));
    r = record_check(&c->file, record, at, length, problem);
    if (r < 0)
        return r;
    const uint8_t *end = record->body + h->blocks_at;
    unsigned n = MIN(h->attributes - lane * LANE, (uint32_t)LANE);
    const uint8_t *p = cells_open(ret_cells, record->body + at, end, n);
    if (p)
        p = numbers_open(ret_ages, p, end, n);
    return p ? 0 : record_damaged(&c->file, record, at, "a snapshot", problem);
}

/* The attribute's state when the slice of a segment (or of the log) began. */
static int state_at_slice(struct reader *reader, uint32_t segment, struct state *state)
{
    struct columns *c = reader->columns;
    uint32_t quark = reader->quark;
    *state = (struct state){.start_ns = reader->history->start_ns};
    if (segment >= c->segments.count) {
        if (quark < c->at_start.count) {
            state->start_ns = c->at_start.at[quark].start_ns;
            state->cell = ongoing_cell(&c->at_start.at[quark]);
        }
        return 0;
    }
    struct record *record = &c->segments.at[segment].record;
    if (quark >= record->head.attributes)
        return 0;
    struct cells cells;
    struct numbers ages;
    int r = lane_snapshot(c, record, quark / LANE, &cells, &ages, reader->problem);
    if (r < 0)
        return r;
    state->cell = cells_get(&cells, quark % LANE);
    state->start_ns =
        age_to_start(reader->history, record->head.slice_start_ns, numbers_get(&ages, quark % LANE));
    return 0;
}

static int load_run(struct reader *reader, uint32_t index)
{
    if (reader->has_run && reader->run_index == index)
        return 0;
    reader->has_run = false;
    if (block_run(&reader->block, index, &reader->run) < 0)
        return reader_damaged(reader, reader->segment);
    run_times(&reader->run, reader->times);
    reader->run_index = index;
    reader->has_run = true;
    return 0;
}

/* The state within the reader's block, whose first change is at or before time_ns. */
static int find_in_block(struct reader *reader, uint64_t time_ns, struct state *state)
{
    const struct block *block = &reader->block;
    uint32_t index = block_find_run(block, time_ns);
    int r = load_run(reader, index);
    if (r < 0)
        return r;
    unsigned low = 0, high = reader->run.count;
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if (reader->times[middle] <= time_ns)
            low = middle;
        else
            high = middle;
    }
    state->start_ns = reader->times[low];
    state->cell = cells_get(&reader->run.cells, low);
    if (high < reader->run.count)
        state->end_ns = reader->times[high];
    else if (index + 1 < block->runs)
        state->end_ns = block_run_first(block, index + 1);
    else
        state->end_ns = 0; /* begins in a later block */
    return 0;
}

/* Whether the block of `segment` begins at or before time_ns: 1, and it becomes the reader's. Otherwise
 * *ret_first is its first change's time, 0 when there is no block. */
static int block_reaches(struct reader *reader, uint32_t segment, uint64_t time_ns, uint64_t *ret_first)
{
    struct block block;
    int r = reader_block(reader, segment, &block);
    *ret_first = r > 0 ? block.first_ns : 0;
    if (r <= 0 || block.first_ns > time_ns)
        return MIN(r, 0);
    if (!reader->has_block || reader->segment != segment) {
        reader->block = block;
        reader->segment = segment;
        reader->has_block = true;
        reader->has_run = false;
    }
    return 1;
}

/* The end of a state that lasts until the first block at or behind `segment`. */
static int find_end(struct reader *reader, uint32_t segment, struct state *state)
{
    struct block next;
    uint32_t found;
    int r = reader_next_block(reader, segment, &found, &next);
    if (r < 0)
        return r;
    state->end_ns = r ? next.first_ns : reader->history->end_ns;
    if (state->end_ns < state->start_ns)
        return reader_damaged(reader, found);
    return 0;
}

/* The rest of a search once it is known which slice the time falls into. */
static int find_from_slice(struct reader *reader, uint32_t slice, uint64_t time_ns, struct state *state,
                           uint32_t *ret_segment)
{
    struct columns *c = reader->columns;
    uint32_t last = slice, segments = (uint32_t)c->segments.count;
    if (slice < segments)
        last = c->log_count && c->min_ns <= time_ns ? segments : c->segments.at[slice].late;
    uint64_t first = 0;
    for (uint32_t segment = last; segment + 1 > slice; segment--) {
        if (segment > slice && segment < segments && c->segments.at[segment].record.head.min_ns > time_ns)
            continue;
        int r = block_reaches(reader, segment, time_ns, &first);
        if (r < 0)
            return r;
        if (r) {
            *ret_segment = segment;
            r = find_in_block(reader, time_ns, state);
            return r < 0 || state->end_ns ? r : find_end(reader, segment + 1, state);
        }
        if (!segment)
            break;
    }
    *ret_segment = slice;
    int r = state_at_slice(reader, slice, state);
    if (r < 0)
        return r;
    state->end_ns = first;
    return first ? 0 : find_end(reader, slice + 1, state);
}

int reader_find(struct reader *reader, uint64_t time_ns, struct state *ret_state, uint32_t *ret_segment)
{
    uint32_t segment;
    /* Within the run used last, and not behind its last change? */
    if (reader->has_run && reader->times[0] <= time_ns && time_ns < reader->times[reader->run.count - 1]) {
        unsigned low = 0;
        while (reader->times[low + 1] <= time_ns)
            low++;
        *ret_state =
            (struct state){reader->times[low], reader->times[low + 1], cells_get(&reader->run.cells, low)};
        if (ret_segment)
            *ret_segment = reader->segment;
        return 0;
    }
    int r;
    if (reader->has_block && reader->block.runs > 1 && reader->block.first_ns <= time_ns &&
        time_ns < block_run_first(&reader->block, reader->block.runs - 1)) {
        segment = reader->segment;
        r = find_in_block(reader, time_ns, ret_state);
    } else {
        r = find_from_slice(reader, slice_of(reader->history, time_ns), time_ns, ret_state, &segment);
    }
    if (r < 0)
        return r;
    /* Every loop over time relies on this. */
    if (ret_state->start_ns > time_ns || ret_state->end_ns <= time_ns)
        return reader_damaged(reader, segment);
    if (ret_segment)
        *ret_segment = segment;
    return 0;
}

int columns_find(struct history *history, uint32_t quark, uint64_t time_ns, struct state *ret_state,
                 struct problem *problem)
{
    struct reader reader;
    reader_init(&reader, history, quark, problem);
    int r = reader_find(&reader, time_ns, ret_state, NULL);
    reader_done(&reader);
    return r;
}

/* ---- Ranges and grids ---- */

/* Hands out a state unless it has no length. */
static int emit(uint32_t quark, uint64_t start_ns, uint64_t end_ns, struct cell cell, state_fn *fn,
                void *context)
{
    if (start_ns >= end_ns)
        return 0;
    struct state state = {start_ns, end_ns, cell};
    return fn(context, quark, &state);
}

/* The pending state ends where a block's first change is; hands out all others of the block but the last,
 * which is then pending. Stops, with *ret_over set, behind end_ns. */
static int range_block(struct reader *reader, uint32_t segment, const struct block *block,
                       struct state *pending, uint64_t end_ns, bool *ret_over, state_fn *fn, void *context)
{
    /* Times up to pending's start were handed out already. */
    uint32_t from = pending->start_ns >= block->first_ns ? block_find_run(block, pending->start_ns) : 0;
    for (uint32_t i = from; i < block->runs; i++) {
        struct run run;
        uint64_t times[RUN_CHANGES];
        struct cell cells[RUN_CHANGES];
        if (block_run(block, i, &run) < 0)
            return reader_damaged(reader, segment);
        run_times(&run, times);
        cells_all(&run.cells, run.count, cells);
        for (unsigned k = 0; k < run.count; k++) {
            if (times[k] < pending->start_ns)
                continue;
            int r = emit(reader->quark, pending->start_ns, times[k], pending->cell, fn, context);
            if (r != 0)
                return r;
            *pending = (struct state){.start_ns = times[k], .cell = cells[k]};
            if (times[k] >= end_ns) {
                *ret_over = true;
                return 0;
            }
        }
    }
    return 0;
}

int columns_range(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns, state_fn *fn,
                  void *context, struct problem *problem)
{
    struct reader reader;
    reader_init(&reader, history, quark, problem);
    struct state pending;
    uint32_t segment = 0;
    bool over = false;
    int r = reader_find(&reader, start_ns, &pending, &segment);
    while (r == 0 && !over) {
        struct block block;
        r = reader_next_block(&reader, segment, &segment, &block);
        if (r < 0)
            break;
        if (r == 0) { /* the last state */
            r = emit(quark, pending.start_ns, history->end_ns, pending.cell, fn, context);
            break;
        }
        r = range_block(&reader, segment, &block, &pending, end_ns, &over, fn, context);
        segment++;
    }
    reader_done(&reader);
    return r;
}

/* The first sample at or behind time_ns, from `from` on. */
static uint32_t next_sample(const uint64_t *samples, uint32_t from, uint32_t count, uint64_t time_ns)
{
    uint32_t step = 1, low = from;
    while (low + step < count && samples[low + step] < time_ns) {
        low += step;
        step *= 2;
    }
    uint32_t high = MIN(low + step, count);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (samples[middle] < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int columns_grid(struct history *history, const struct grid *grid, state_fn *fn, void *context,
                 struct problem *problem)
{
    _cleanup_(freep) uint64_t *samples = malloc(grid->columns * sizeof(*samples));
    if (!samples)
        return problem_set(problem, -ENOMEM, "%s: no memory for %u columns", history->path, grid->columns);
    for (uint32_t i = 0; i < grid->columns; i++)
        samples[i] = column_start(grid, i);
    int r = 0;
    for (size_t i = 0; r == 0 && i < grid->count; i++) {
        struct reader reader;
        reader_init(&reader, history, grid->quarks[i], problem);
        for (uint32_t column = 0; r == 0 && column < grid->columns;) {
            struct state state;
            r = reader_find(&reader, samples[column], &state, NULL);
            if (r == 0)
                r = fn(context, grid->quarks[i], &state);
            if (r == 0)
                column = next_sample(samples, column, grid->columns, state.end_ns);
        }
        reader_done(&reader);
    }
    return r;
}

/* ---- All states at a time ----
 *
 * A sweep over whole segments: the snapshot of the slice's segment, the changes in its blocks, late ones in
 * the blocks behind it, and from there on only the first change of each attribute whose state's end is still
 * open (end_ns 0). */

struct sweep {
    struct history *history;
    struct columns *c;
    struct problem *problem;
    uint64_t time_ns;
    struct state *states;
    uint64_t *open; /* a bit for each attribute whose state's end is not known yet */
    uint32_t attributes;
};

static int sweep_snapshot(struct sweep *sweep, struct record *record)
{
    uint64_t slice_start_ns = record->head.slice_start_ns;
    for (uint32_t lane = 0; lane < lane_count(record->head.attributes); lane++) {
        struct cells cells;
        struct numbers ages;
        int r = lane_snapshot(sweep->c, record, lane, &cells, &ages, sweep->problem);
        if (r < 0)
            return r;
        struct cell values[LANE];
        uint64_t age[LANE];
        unsigned n = MIN(record->head.attributes - lane * LANE, (uint32_t)LANE);
        cells_all(&cells, n, values);
        numbers_all(&ages, n, age);
        struct state *states = sweep->states + (size_t)lane * LANE;
        for (unsigned i = 0; i < n; i++)
            states[i] = (struct state){age_to_start(sweep->history, slice_start_ns, age[i]), 0, values[i]};
    }
    return 0;
}

/* The block's last change at or before the time becomes the state; the one behind it, its end. */
static int sweep_block(struct sweep *sweep, const struct block *block, uint32_t quark)
{
    struct state *state = &sweep->states[quark];
    uint64_t time_ns = sweep->time_ns, bit = (uint64_t)1 << quark % LANE;
    if (block->first_ns > time_ns) {
        if (sweep->open[quark / LANE] & bit)
            state->end_ns = block->first_ns;
        sweep->open[quark / LANE] &= ~bit;
        return 0;
    }
    uint32_t index = block_find_run(block, time_ns);
    struct run run;
    uint64_t times[RUN_CHANGES];
    if (block_run(block, index, &run) < 0)
        return -EBADMSG;
    run_times(&run, times);
    unsigned i = 1;
    while (i < run.count && times[i] <= time_ns)
        i++;
    state->start_ns = times[i - 1];
    state->cell = cells_get(&run.cells, i - 1);
    if (i < run.count)
        state->end_ns = times[i];
    else
        state->end_ns = index + 1 < block->runs ? block_run_first(block, index + 1) : 0;
    sweep->open[quark / LANE] = (sweep->open[quark / LANE] & ~bit) | (state->end_ns ? 0 : bit);
    return 0;
}

/* All blocks of a lane that `wanted` has a bit for. */
static int sweep_lane(struct sweep *sweep, struct record *record, uint32_t lane, uint64_t wanted)
{
    uint64_t present = record_lane(record, lane), left = present;
    if (!(present & wanted))
        return 0;
    unsigned blocks = (unsigned)__builtin_popcountll(present), shift;
    const uint8_t *table;
    int r = lane_table(sweep->c, record, lane, blocks, &table, &shift, sweep->problem);
    if (r < 0)
        return r;
    uint64_t back = table_sum(table, shift, 0, blocks);
    uint64_t table_at = (uint64_t)(table - record->body);
    if (back > table_at - record->head.blocks_at)
        return record_damaged(&sweep->c->file, record, table_at, "the lengths of blocks", sweep->problem);
    r = record_check(&sweep->c->file, record, table_at - back, back, sweep->problem);
    if (r < 0)
        return r;
    const uint8_t *p = table - back;
    for (unsigned i = 0; i < blocks; i++, left &= left - 1) {
        const uint8_t *end = p + table_entry(table, shift, i);
        uint32_t quark = lane * LANE + (uint32_t)__builtin_ctzll(left);
        struct block block;
        if (wanted >> quark % LANE & 1 && quark < sweep->attributes) {
            r = block_open(&block, p, end, record->head.slice_start_ns);
            if (r == 0)
                r = sweep_block(sweep, &block, quark);
            if (r < 0)
                return record_damaged(&sweep->c->file, record, (uint64_t)(p - record->body),
                                      "the changes of an attribute", sweep->problem);
        }
        p = end;
    }
    return 0;
}

/* The blocks of one segment: all of them, or those of attributes whose state's end is open. */
static int sweep_segment(struct sweep *sweep, struct record *record, bool all)
{
    int r = record_ready(sweep->c, record, sweep->problem);
    for (uint32_t lane = 0; r == 0 && lane < lane_count(record->head.attributes); lane++)
        r = sweep_lane(sweep, record, lane, all ? UINT64_MAX : sweep->open[lane]);
    return r;
}

/* Whether an attribute with an open end changes in a group: 1. */
static int group_concerns(struct sweep *sweep, struct record *group)
{
    int r = record_ready(sweep->c, group, sweep->problem);
    for (uint32_t lane = 0; r == 0 && lane < lane_count(group->head.attributes); lane++)
        if (record_lane(group, lane) & sweep->open[lane])
            return 1;
    return r;
}

static bool any_open(const struct sweep *sweep)
{
    for (uint32_t lane = 0; lane < lane_count(sweep->attributes); lane++)
        if (sweep->open[lane])
            return true;
    return false;
}

/* The ends of the states that last into the segments from `segment` on. */
static int sweep_ends(struct sweep *sweep, uint32_t segment)
{
    struct columns *c = sweep->c;
    while (segment < c->segments.count && any_open(sweep)) {
        bool skipped = false;
        for (unsigned level = GROUP_LEVELS; level-- > 0 && !skipped;) {
            unsigned shift = GROUP_SHIFT * (level + 1);
            if (segment & ((1u << shift) - 1) || segment >> shift >= c->groups[level].count)
                continue;
            int r = group_concerns(sweep, &c->groups[level].at[segment >> shift]);
            if (r < 0)
                return r;
            skipped = r == 0;
            if (skipped)
                segment += 1u << shift;
        }
        if (skipped)
            continue;
        int r = sweep_segment(sweep, &c->segments.at[segment++].record, false);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The log's changes, attribute by attribute from the newest back. */
static void sweep_log(struct sweep *sweep)
{
    const struct columns *c = sweep->c;
    for (uint32_t quark = 0; c->log_count && quark < sweep->attributes; quark++) {
        struct state *state = &sweep->states[quark];
        uint64_t after = 0;
        for (uint32_t i = sweep->history->ongoing.at[quark].entry; i; i = c->log[i - 1].previous) {
            const struct log_entry *e = &c->log[i - 1];
            if (e->time_ns <= sweep->time_ns) {
                *state = (struct state){e->time_ns, after, {e->bits, e->type}};
                after = 0;
                break;
            }
            after = e->time_ns;
        }
        if (after && !state->end_ns) /* all of them are later */
            state->end_ns = after;
    }
}

static int sweep_all(struct sweep *sweep)
{
    struct columns *c = sweep->c;
    uint32_t slice = slice_of(sweep->history, sweep->time_ns), segments = (uint32_t)c->segments.count;
    int r = 0;
    if (slice < segments) {
        struct record *record = &c->segments.at[slice].record;
        r = record_ready(c, record, sweep->problem);
        if (r == 0)
            r = sweep_snapshot(sweep, record);
        uint32_t late = c->segments.at[slice].late;
        for (uint32_t i = slice; r == 0 && i <= late; i++) /* a later change beats an earlier segment's */
            r = sweep_segment(sweep, &c->segments.at[i].record,
                              c->segments.at[i].record.head.min_ns <= sweep->time_ns);
        if (r == 0)
            r = sweep_ends(sweep, late + 1);
    } else {
        for (uint32_t quark = 0; quark < MIN(sweep->attributes, (uint32_t)c->at_start.count); quark++) {
            sweep->states[quark].start_ns = c->at_start.at[quark].start_ns;
            sweep->states[quark].cell = ongoing_cell(&c->at_start.at[quark]);
        }
    }
    if (r == 0 && sweep->history->building)
        sweep_log(sweep);
    return r;
}

int columns_full(struct history *history, uint64_t time_ns, struct state *ret_states, struct problem *problem)
{
    uint32_t attributes = (uint32_t)history->attributes.all.count;
    struct sweep sweep = {.history = history,
                          .c = history->store,
                          .problem = problem,
                          .time_ns = time_ns,
                          .states = ret_states,
                          .attributes = attributes};
    _cleanup_(freep) uint64_t *open = malloc((lane_count(attributes) + 1) * sizeof(*open));
    if (!open)
        return problem_set(problem, -ENOMEM, "%s: no memory for a query", history->path);
    sweep.open = open;
    for (uint32_t quark = 0; quark < attributes; quark++)
        ret_states[quark] = (struct state){.start_ns = history->start_ns};
    for (uint32_t lane = 0; lane < lane_count(attributes); lane++)
        open[lane] = bits_mask(MIN(attributes - lane * LANE, (uint32_t)LANE));
    int r = sweep_all(&sweep);
    for (uint32_t quark = 0; r == 0 && quark < attributes; quark++) {
        struct state *state = &ret_states[quark];
        if (!state->end_ns)
            state->end_ns = history->end_ns;
        if (state->start_ns > time_ns || state->end_ns <= time_ns)
            return problem_set(problem, -EBADMSG, "%s: the states of attribute %u contradict each other",
                               history->path, quark);
    }
    return r;
}
