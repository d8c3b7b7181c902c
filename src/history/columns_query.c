/* Queries of the columnar store: the state of one attribute, all states at a time, ranges, grids. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/columns.h"

#include "base/macro.h"

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
    struct history_interval *states; /* with cells for values */
    uint64_t *open;                  /* a bit for each attribute whose state's end is not known yet */
    uint64_t changed;                /* of the lane at hand: those with a change at or before the time */
    uint32_t attributes;
};

/* The state when the slice began, for those attributes of a lane that have not changed since. */
static int sweep_snapshot(struct sweep *sweep, struct record *record, uint32_t lane, uint64_t wanted)
{
    struct cells cells;
    struct numbers ages;
    unsigned n = MIN(record->head.attributes - lane * LANE, (uint32_t)LANE);
    int r = lane_snapshot(sweep->c, record, lane, &cells, &ages, sweep->problem);
    if (r < 0)
        return r;
    struct cell values[LANE];
    uint64_t age[LANE];
    cells_all(&cells, n, values);
    numbers_all(&ages, n, age);
    for (wanted &= bits_mask(n); wanted; wanted &= wanted - 1) {
        unsigned i = (unsigned)__builtin_ctzll(wanted);
        struct history_interval *state = &sweep->states[(size_t)lane * LANE + i];
        state->start_ns = age_to_start(sweep->history, record->head.slice_start_ns, age[i]);
        interval_set(state, values[i]);
    }
    return 0;
}

/* The last change of a run at or before time_ns, and the time of the one behind it (0 in the run's last). */
static unsigned last_before(const struct run *run, uint64_t time_ns, uint64_t *ret_start_ns,
                            uint64_t *ret_next_ns)
{
    const struct numbers *gaps = &run->gaps;
    unsigned widths[2] = {gaps->low, gaps->high};
    uint64_t start_ns = run->first_ns, masks[2] = {bits_mask(gaps->low), bits_mask(gaps->high)};
    size_t at = 0;
    *ret_next_ns = 0;
    unsigned i = 0;
    for (; i + 1 < run->count; i++) {
        unsigned s = gaps->select >> i & 1;
        uint64_t gap = gaps->high <= 56 ? bits_load(gaps->bits + (at >> 3)) >> (at & 7) & masks[s]
                                        : bits_get(gaps->bits, at, widths[s]);
        at += widths[s];
        if (start_ns + gap > time_ns) {
            *ret_next_ns = start_ns + gap;
            break;
        }
        start_ns += gap;
    }
    *ret_start_ns = start_ns;
    return i;
}

/* The block's last change at or before the time becomes the state; the one behind it, its end. */
static int sweep_block(struct sweep *sweep, const struct block_place *place, uint32_t quark)
{
    struct history_interval *state = &sweep->states[quark];
    uint64_t bit = (uint64_t)1 << quark % LANE, *open = &sweep->open[quark / LANE];
    struct block block;
    struct run run;
    if (block_open(&block, place) < 0)
        return -EBADMSG;
    uint32_t index = block.runs > 1 ? block_find_run(&block, sweep->time_ns) : 0;
    if (block_run(&block, index, &run) < 0)
        return -EBADMSG;
    unsigned i = last_before(&run, sweep->time_ns, &state->start_ns, &state->end_ns);
    interval_set(state, cells_get(&run.cells, i));
    if (!state->end_ns && index + 1 < block.runs)
        state->end_ns = block_run_first(&block, index + 1);
    *open = state->end_ns ? *open & ~bit : *open | bit;
    sweep->changed |= bit;
    return 0;
}

/* All blocks of a lane. The record is ready. */
static int sweep_lane(struct sweep *sweep, struct record *record, uint32_t index)
{
    uint64_t left = record_lane(record, index), firsts[LANE];
    if (!left)
        return 0;
    struct lane lane;
    int r = lane_open(sweep->c, record, index, &lane, sweep->problem);
    if (r == 0)
        r = record_check(&sweep->c->file, record, (uint64_t)(lane.at - record->body),
                         lane.ends[lane.blocks - 1], sweep->problem);
    if (r < 0)
        return r;
    numbers_all(&lane.firsts, lane.blocks, firsts);
    for (unsigned i = 0; i < lane.blocks; i++, left &= left - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(left);
        uint32_t quark = index * LANE + bit;
        __builtin_prefetch(lane.at + lane.ends[i] + 256);
        uint64_t first_ns = record->head.slice_start_ns + (uint64_t)unzigzag(firsts[i]);
        if (first_ns > sweep->time_ns) {
            if (sweep->open[index] >> bit & 1)
                sweep->states[quark].end_ns = first_ns;
            sweep->open[index] &= ~((uint64_t)1 << bit);
            continue;
        }
        struct block_place place = {lane.at + (i ? lane.ends[i - 1] : 0), lane.at + lane.ends[i],
                                    numbers_get(&lane.counts, i), first_ns};
        if (sweep_block(sweep, &place, quark) < 0)
            return record_damaged(&sweep->c->file, record, (uint64_t)(place.at - record->body),
                                  "the changes of an attribute", sweep->problem);
    }
    return 0;
}

/* The segment into whose slice the time falls: its blocks, and its snapshot for what did not change by then.
 */
static int sweep_slice(struct sweep *sweep, struct record *record)
{
    int r = record_ready(sweep->c, record, sweep->problem);
    for (uint32_t lane = 0; r == 0 && lane < lane_count(record->head.attributes); lane++) {
        sweep->changed = 0;
        r = sweep_lane(sweep, record, lane);
        if (r == 0 && ~sweep->changed)
            r = sweep_snapshot(sweep, record, lane, ~sweep->changed);
    }
    return r;
}

/* The first changes in a later segment: the ends of those states of a lane that are open. */
static int sweep_firsts(struct sweep *sweep, struct record *record, uint32_t index)
{
    uint64_t present = record_lane(record, index), wanted = present & sweep->open[index];
    lane_prefetch(record, index + 6);
    if (!wanted)
        return 0;
    struct numbers firsts;
    int r = lane_firsts(sweep->c, record, index, bits_set(present), &firsts, sweep->problem);
    if (r < 0)
        return r;
    sweep->open[index] &= ~wanted;
    for (; wanted; wanted &= wanted - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(wanted);
        uint64_t first = numbers_get(&firsts, bits_set(present & bits_mask(bit)));
        sweep->states[(size_t)index * LANE + bit].end_ns =
            record->head.slice_start_ns + (uint64_t)unzigzag(first);
    }
    return 0;
}

/* The blocks of a later segment: all that begin early enough for the time, or only the ends of open states.
 */
static int sweep_segment(struct sweep *sweep, struct record *record, bool ends_only)
{
    int r = record_ready(sweep->c, record, sweep->problem);
    for (uint32_t lane = 0; r == 0 && lane < lane_count(record->head.attributes); lane++)
        r = ends_only ? sweep_firsts(sweep, record, lane) : sweep_lane(sweep, record, lane);
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
        int r = sweep_segment(sweep, &c->segments.at[segment++].record, true);
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
        struct history_interval *state = &sweep->states[quark];
        uint64_t after = 0;
        for (uint32_t i = sweep->history->ongoing.at[quark].entry; i; i = c->log[i - 1].previous) {
            const struct log_entry *e = &c->log[i - 1];
            if (e->time_ns <= sweep->time_ns) {
                state->start_ns = e->time_ns;
                state->end_ns = after;
                interval_set(state, (struct cell){e->bits, e->type});
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
        uint32_t late = c->segments.at[slice].late;
        r = sweep_slice(sweep, &c->segments.at[slice].record);
        for (uint32_t i = slice + 1; r == 0 && i <= late; i++) /* a later change beats an earlier segment's */
            r = sweep_segment(sweep, &c->segments.at[i].record,
                              c->segments.at[i].record.head.min_ns > sweep->time_ns);
        if (r == 0)
            r = sweep_ends(sweep, late + 1);
    } else {
        for (uint32_t quark = 0; quark < MIN(sweep->attributes, (uint32_t)c->at_start.count); quark++) {
            sweep->states[quark].start_ns = c->at_start.at[quark].start_ns;
            interval_set(&sweep->states[quark], ongoing_cell(&c->at_start.at[quark]));
        }
    }
    if (r == 0 && sweep->history->building)
        sweep_log(sweep);
    return r;
}

int columns_full(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                 struct problem *problem)
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
        ret_states[quark] = (struct history_interval){.start_ns = history->start_ns};
    for (uint32_t lane = 0; lane < lane_count(attributes); lane++)
        open[lane] = bits_mask(MIN(attributes - lane * LANE, (uint32_t)LANE));
    return sweep_all(&sweep);
}
