/* Reading one attribute in the columnar store: its blocks in segments and groups, and its state at a time.
 * The essay in columns.c says how segments, late changes and groups fit together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/columns.h"

#include "base/macro.h"

/* ---- Records ---- */

void columns_trim(struct history *history)
{
    struct columns *c = history->store;
    if (c->file.map || c->file.mapped_bytes <= c->mapped_max)
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

/* The table of a lane, from *ret_at to *ret_end at most. */
static int lane_table(struct columns *columns, struct record *record, uint32_t index, const uint8_t **ret_at,
                      const uint8_t **ret_end, struct problem *problem)
{
    const struct record_head *h = &record->head;
    uint64_t entry_at = h->directory_at + lane_count(h->attributes) * 8ul + index * 4ul;
    int r = record_check(&columns->file, record, entry_at, 4, problem);
    if (r < 0)
        return r;
    uint32_t entry;
    memcpy(&entry, record->body + entry_at, 4);
    uint64_t table_at = (uint64_t)h->blocks_at + entry, limit = h->body_bytes - BITS_SLACK;
    if (table_at > limit)
        return record_damaged(&columns->file, record, entry_at, "the place of a block table", problem);
    *ret_at = record->body + table_at;
    *ret_end = record->body + limit;
    uint64_t most = MIN(limit - table_at, (uint64_t)3 * CODEC_NUMBERS_BYTES) + BITS_SLACK;
    return record_check(&columns->file, record, table_at, most, problem);
}

int lane_firsts(struct columns *columns, struct record *record, uint32_t index, unsigned blocks,
                struct numbers *ret_firsts, struct problem *problem)
{
    const uint8_t *table = NULL, *end = NULL;
    int r = lane_table(columns, record, index, &table, &end, problem);
    if (r < 0)
        return r;
    if (numbers_open(ret_firsts, table, end, blocks))
        return 0;
    return record_damaged(&columns->file, record, (uint64_t)(table - record->body), "a block table", problem);
}

int lane_open(struct columns *columns, struct record *record, uint32_t index, struct lane *ret_lane,
              struct problem *problem)
{
    const struct record_head *h = &record->head;
    const uint8_t *table = NULL, *end = NULL;
    int r = lane_table(columns, record, index, &table, &end, problem);
    if (r < 0)
        return r;
    struct numbers lengths;
    ret_lane->record = record;
    ret_lane->present = record_lane(record, index);
    ret_lane->blocks = bits_set(ret_lane->present);
    if (ret_lane->present & ~bits_mask(MIN(h->attributes - index * LANE, (uint32_t)LANE)))
        return record_damaged(&columns->file, record, h->directory_at + index * 8ul,
                              "no blocks of attributes unknown", problem);
    const uint8_t *p = numbers_open(&ret_lane->firsts, table, end, ret_lane->blocks);
    if (p)
        p = numbers_open(&ret_lane->counts, p, end, ret_lane->blocks);
    if (p)
        p = numbers_open(&lengths, p, end, ret_lane->blocks);
    uint64_t table_at = (uint64_t)(table - record->body), sum = 0;
    if (!p || lengths.high > 32)
        return record_damaged(&columns->file, record, table_at, "a block table", problem);
    numbers_all(&lengths, ret_lane->blocks, ret_lane->ends);
    for (unsigned i = 0; i < ret_lane->blocks; i++)
        ret_lane->ends[i] = sum += ret_lane->ends[i];
    if (sum > table_at - h->blocks_at)
        return record_damaged(&columns->file, record, table_at, "the lengths of blocks", problem);
    ret_lane->at = table - sum;
    return 0;
}

int record_block(struct columns *columns, struct record *record, uint32_t quark,
                 struct block_place *ret_place, struct problem *problem)
{
    const struct record_head *h = &record->head;
    if (quark >= h->attributes)
        return 0;
    uint64_t present_at = h->directory_at + quark / LANE * 8ul;
    int r = record_map(&columns->file, record, problem);
    if (r == 0)
        r = record_check(&columns->file, record, present_at, 8, problem);
    if (r < 0)
        return r;
    uint64_t present = bits_load(record->body + present_at);
    if (!(present >> quark % LANE & 1))
        return 0;
    struct lane lane;
    r = lane_open(columns, record, quark / LANE, &lane, problem);
    if (r < 0)
        return r;
    unsigned i = bits_set(present & bits_mask(quark % LANE));
    uint64_t from = i ? lane.ends[i - 1] : 0;
    ret_place->at = lane.at + from;
    ret_place->end = lane.at + lane.ends[i];
    ret_place->count = numbers_get(&lane.counts, i);
    ret_place->first_ns = lane_first_ns(&lane, i);
    r = record_check(&columns->file, record, (uint64_t)(ret_place->at - record->body), lane.ends[i] - from,
                     problem);
    return r < 0 ? r : 1;
}

/* ---- One attribute's blocks ---- */

void reader_init(struct reader *reader, struct history *history, uint32_t quark, struct problem *problem)
{
    reader->history = history;
    reader->columns = history->store;
    reader->problem = problem;
    reader->quark = quark;
    reader->log_block = NULL;
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
    struct block_place place;
    const uint8_t *at = record->body;
    if (record_block(c, record, reader->quark, &place, NULL) > 0)
        at = place.at;
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
    uint8_t *end = block_write(block, scratch, changes, count);
    memset(end, 0, BITS_SLACK);
    reader->log_block = block;
    reader->log_place = (struct block_place){block, end, count, changes[0].time_ns};
    return 0;
}

int reader_block(struct reader *reader, uint32_t segment, struct block *ret_block)
{
    struct columns *c = reader->columns;
    struct block_place place = {0};
    int r;
    if (segment < c->segments.count) {
        r = record_block(c, &c->segments.at[segment].record, reader->quark, &place, reader->problem);
        if (r <= 0)
            return r;
    } else {
        if (!c->log_count || !reader->history->ongoing.at[reader->quark].entry)
            return 0;
        r = reader->log_block ? 0 : encode_log(reader);
        if (r < 0)
            return r;
        place = reader->log_place;
    }
    return block_open(ret_block, &place) < 0 ? reader_damaged(reader, segment) : 1;
}

/* Whether the group of segments at `segment` exists, begins there, and lacks the attribute: 1. */
static int group_lacks(struct reader *reader, unsigned level, uint32_t segment)
{
    struct columns *c = reader->columns;
    unsigned shift = GROUP_SHIFT * (level + 1);
    if (segment & ((1u << shift) - 1) || segment >> shift >= c->groups[level].count)
        return 0;
    struct block_place place;
    int r = record_block(c, &c->groups[level].at[segment >> shift], reader->quark, &place, reader->problem);
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

uint32_t slice_of(const struct history *history, uint64_t time_ns)
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

int lane_snapshot(struct columns *c, struct record *record, uint32_t lane, struct cells *ret_cells,
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
    const uint8_t *p = numbers_open(ret_ages, record->body + at, end, n);
    if (p && cells_open(ret_cells, p, end, n) == 0)
        return 0;
    return record_damaged(&c->file, record, at, "a snapshot", problem);
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
