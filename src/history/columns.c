/* The columnar store: building it, opening it. One attribute is read by columns_read.c; queries are in
 * columns_query.c, summaries in columns_summary.c.
 *
 * WHY COLUMNS
 *
 * A State History Tree keeps each state as one record beside the states of other attributes that ended at
 * about the same time. A question about one attribute reads all of them, and each record repeats the
 * attribute, a start, an end and a value. Here the changes of one attribute lie side by side: times cost
 * their differences, values an index, the attribute nothing; a view of one attribute reads only that
 * attribute; and a summary has a place to be.
 *
 * TIME IS CUT INTO SLICES, ONE SEGMENT EACH
 *
 * Changes are appended to a log in memory. When it is full (eight changes an attribute, at least 2^18, after
 * 64 segments 2^19, at most 2^20) its changes are sorted by attribute and written as a segment; a new slice
 * begins at the latest time seen so far. A segment holds, by attribute:
 *
 *   - a snapshot: the value when the slice began, and since when; so a full state needs one segment, and a
 *     single query never searches backwards;
 *   - a block with the changes made during the slice, if any (block.h). Changes are stored, not states: a
 *     state ends where the next change of its attribute begins, in this block or the next one.
 *
 * A slice is made of arrivals, not of times: a late change (of an attribute that was behind) lies in the
 * segment in which it arrived, with a time before the slice's start. The changes of one attribute are in time
 * order over all segments, whatever their slices. So the value of an attribute at t is its last change at or
 * before t in the last segment that has one: either the segment into whose slice t falls, or a later one with
 * late changes. Each segment states its earliest change (min_ns), which tells whether that needs a look;
 * mostly it does not.
 *
 * Every 16 segments are followed by a group record, every 16 groups by a group of the next level. A group
 * lists the attributes that changed in it with a summary of each: queries skip whole groups in which an
 * attribute was quiet, and zoomed-out views read one summary in place of 16 or 256 blocks.
 *
 * THE FILE (little-endian)
 *
 *     offset
 *     0       8   "SNDHIST\n"
 *     8       4   version, 1
 *     12      4   0
 *     16      8   start_ns of the history
 *     24     32   0
 *     56      8   XXH3-64 of bytes 0 .. 55
 *     64          records, each at a multiple of 64 bytes:
 *
 *     0       4   "hrec"
 *     4       1   kind: 1 segment, 2 group, 3 end
 *     5       1   level of a group: 0 (16 segments), 1 (256)
 *     6       2   0
 *     8       4   number of the record in the file, from 0
 *     12      4   segment: its own index; group: the index of its first segment
 *     16      8   length of the body in bytes
 *     24      8   slice_start_ns: the latest change before this slice (segment; group: of its first segment)
 *     32      8   slice_max_ns: the latest change up to and including this record; end: end_ns of the history
 *     40      8   min_ns: the earliest change in the record
 *     48      8   changes in the record; end: in the file
 *     56      4   attributes in the directory
 *     60      4   new attributes, 64: 4 new strings in the names
 *     68      4   0
 *     72      4   where in the body the directory begins, 76: 4 the snapshots, 80: 4 the blocks
 *     84     28   0
 *     112     8   XXH3-64 of the page table's used part
 *     120     8   XXH3-64 of bytes 0 .. 119
 *     128         page table: for each 64 KiB of the body the low 32 bits of its XXH3-64; padded to 64 bytes
 *                 body, padded to 64 bytes
 *
 *     A body:
 *       names      each new attribute: varint parent + 1 (0: the root), varint length, bytes; then each
 *                  new string: varint length, bytes. Numbers go on from the segment before
 *       directory  lanes of 64 attributes, L of them:
 *                    8 L   bit i of entry l: attribute 64 l + i has a block
 *                    4 L   where the lane's block table is, from the blocks' begin
 *                    4 L   (segments) where the lane's snapshot is, from the snapshots' begin
 *       snapshots  each lane: numbers: slice_start_ns - the time since when; then cells (codec.h)
 *       blocks     each lane: its blocks one after another, then the block table: three times numbers
 *                  (codec.h), one for each block: zigzag of its first change's time - slice_start_ns;
 *                  how many changes it has; its length in bytes. The blocks begin as many bytes
 *                  before the table as their lengths add up to
 *       zeros      16 bytes, so that packed bits can be read eight bytes at a time
 *
 *     A segment's blocks are those of block.h; a group's are nodes (block.h).
 *
 * KILLED BUILDERS
 *
 * A record is written head first, in ascending order. A file that does not end with an end record was being
 * built: what lies behind its last whole record is ignored (history_info.lost_bytes), and the last record
 * counts as whole only if all its checksums are right. A wrong head with a good one somewhere behind it is
 * damage, not an unfinished end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/columns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/owner.h"

enum {
    LIMIT_MIN = 1 << 18,
    LIMIT_MAX = 1 << 20,
    LIMIT_PER_ATTRIBUTE = 8,
    LIMIT_GROWS_AFTER = 64,
    LIMIT_FIXED_MAX = 1 << 26
};

static int no_memory(const struct history *history, struct problem *problem)
{
    return problem_set(problem, -ENOMEM, "%s: no memory for the history's changes", history->path);
}

/* ---- Writing a body ---- */

static int add_directory(struct body *body, struct record_head *head, size_t lane_bytes)
{
    size_t bytes = lane_count(head->attributes) * lane_bytes;
    if (body->count > UINT32_MAX / 2 || body_reserve(body, bytes) < 0)
        return -ENOMEM;
    head->directory_at = (uint32_t)body->count;
    memset(body->at + body->count, 0, bytes);
    body->count += bytes;
    return 0;
}

/* The entry of a lane in the directory's second (blocks) or third (snapshots) array. */
static void set_entry(struct body *body, const struct record_head *head, unsigned array, uint32_t lane,
                      uint32_t value)
{
    size_t lanes = lane_count(head->attributes);
    memcpy(body->at + head->directory_at + lanes * (4 + 4 * array) + lane * 4ul, &value, 4);
}

static int add_snapshots(struct history *history, const struct columns *c, struct body *body,
                         struct record_head *head)
{
    head->snapshots_at = (uint32_t)body->count;
    for (uint32_t lane = 0; lane < lane_count(head->attributes); lane++) {
        struct cell cells[LANE];
        uint64_t ages[LANE];
        unsigned n = MIN(head->attributes - lane * LANE, (uint32_t)LANE);
        for (unsigned i = 0; i < n; i++) {
            size_t quark = (size_t)lane * LANE + i;
            bool known = quark < c->at_start.count;
            cells[i] = known ? ongoing_cell(&c->at_start.at[quark]) : (struct cell){0};
            ages[i] = c->slice_start_ns - (known ? c->at_start.at[quark].start_ns : history->start_ns);
        }
        if (body_reserve(body, CODEC_CELLS_BYTES + CODEC_NUMBERS_BYTES) < 0)
            return -ENOMEM;
        set_entry(body, head, 2, lane, (uint32_t)body->count - head->snapshots_at);
        uint8_t *p = numbers_write(body->at + body->count, ages, n);
        p = cells_write(p, cells, n);
        body->count = (size_t)(p - body->at);
    }
    return 0;
}

static int add_lane(struct body *body, struct record_head *head, uint32_t lane, block_fn *fn, void *context,
                    struct problem *problem)
{
    uint64_t lengths[LANE], counts[LANE], firsts[LANE], present = 0;
    unsigned blocks = 0, n = MIN(head->attributes - lane * LANE, (uint32_t)LANE);
    for (unsigned i = 0; i < n; i++) {
        size_t before = body->count;
        uint64_t first_ns;
        int r = fn(context, lane * LANE + i, body, &counts[blocks], &first_ns, problem);
        if (r < 0)
            return r;
        if (!r)
            continue;
        present |= (uint64_t)1 << i;
        firsts[blocks] = zigzag((int64_t)(first_ns - head->slice_start_ns));
        lengths[blocks++] = body->count - before;
    }
    size_t table_at = body->count - head->blocks_at;
    if (table_at > UINT32_MAX / 2)
        return problem_set(problem, -EFBIG, "a segment of the history exceeds 2 GiB");
    if (body_reserve(body, 3 * CODEC_NUMBERS_BYTES) < 0)
        return -ENOMEM;
    uint8_t *p = numbers_write(body->at + body->count, firsts, blocks);
    p = numbers_write(p, counts, blocks);
    p = numbers_write(p, lengths, blocks);
    body->count = (size_t)(p - body->at);
    memcpy(body->at + head->directory_at + lane * 8ul, &present, 8);
    set_entry(body, head, 1, lane, (uint32_t)table_at);
    return 0;
}

int body_add_blocks(struct body *body, struct record_head *head, block_fn *fn, void *context,
                    struct problem *problem)
{
    int r = 0;
    head->blocks_at = (uint32_t)body->count;
    for (uint32_t lane = 0; r == 0 && lane < lane_count(head->attributes); lane++)
        r = add_lane(body, head, lane, fn, context, problem);
    if (r == 0)
        r = body_reserve(body, BITS_SLACK);
    if (r < 0)
        return r;
    memset(body->at + body->count, 0, BITS_SLACK);
    body->count += BITS_SLACK;
    head->body_bytes = body->count;
    return 0;
}

/* ---- Flushing the log ---- */

struct sorted {
    struct change *changes;
    uint32_t *ends; /* of each attribute's changes */
    void *scratch;
};

static void sorted_done(struct sorted *sorted)
{
    free(sorted->changes);
    free(sorted->ends);
    free(sorted->scratch);
}

/* A counting sort by attribute, which keeps the order of arrival within each. */
static int sort_log(const struct columns *c, uint32_t attributes, struct sorted *sorted)
{
    sorted->ends = calloc((size_t)attributes + 1, sizeof(*sorted->ends));
    sorted->changes = malloc(MAX(c->log_count, 1u) * sizeof(*sorted->changes));
    if (!sorted->ends || !sorted->changes)
        return -ENOMEM;
    uint32_t at = 0, most = 0;
    for (uint32_t i = 0; i < c->log_count; i++)
        sorted->ends[c->log[i].quark]++;
    for (uint32_t q = 0; q < attributes; q++) {
        uint32_t count = sorted->ends[q];
        sorted->ends[q] = at;
        at += count;
        most = MAX(most, count);
    }
    for (uint32_t i = 0; i < c->log_count; i++) {
        const struct log_entry *e = &c->log[i];
        sorted->changes[sorted->ends[e->quark]++] = (struct change){e->time_ns, {e->bits, e->type}};
    }
    sorted->scratch = malloc(block_bound(most));
    return sorted->scratch ? 0 : -ENOMEM;
}

static int add_sorted_block(void *context, uint32_t quark, struct body *body, uint64_t *ret_count,
                            uint64_t *ret_first_ns, struct problem *problem)
{
    const struct sorted *sorted = context;
    uint32_t from = quark ? sorted->ends[quark - 1] : 0, count = sorted->ends[quark] - from;
    if (!count)
        return 0;
    if (body_reserve(body, block_bound(count)) < 0)
        return -ENOMEM;
    uint8_t *end = block_write(body->at + body->count, sorted->scratch, sorted->changes + from, count);
    body->count = (size_t)(end - body->at);
    *ret_count = count;
    *ret_first_ns = sorted->changes[from].time_ns;
    return 1;
}

static int write_segment(struct history *history, struct columns *c, struct record *ret_record,
                         struct problem *problem)
{
    struct record_head head = {.kind = RECORD_SEGMENT,
                               .first = (uint32_t)c->segments.count,
                               .slice_start_ns = c->slice_start_ns,
                               .slice_max_ns = history->max_ns,
                               .min_ns = c->log_count ? c->min_ns : history->max_ns,
                               .changes = c->log_count,
                               .attributes = (uint32_t)history->attributes.all.count,
                               .new_attributes =
                                   (uint32_t)history->attributes.all.count - c->attributes_written,
                               .new_strings = (uint32_t)history->strings.strings.count - c->strings_written};
    struct sorted sorted = {0};
    struct body body = {0};
    int r = sort_log(c, head.attributes, &sorted);
    if (r == 0)
        r = names_write(history, c->attributes_written, c->strings_written, &body);
    if (r == 0)
        r = add_directory(&body, &head, 16);
    if (r == 0)
        r = add_snapshots(history, c, &body, &head);
    if (r == 0)
        r = body_add_blocks(&body, &head, add_sorted_block, &sorted, problem);
    if (r == -ENOMEM)
        no_memory(history, problem);
    if (r == 0)
        r = record_append(&c->file, &head, body.at, ret_record, problem);
    c->scratch_bytes = body.capacity + c->log_count * sizeof(struct change);
    sorted_done(&sorted);
    free(body.at);
    return r;
}

/* Enters a segment into the index and notes the slices that its late changes reach back to. */
static void add_segment(struct columns *c, const struct record *record)
{
    uint32_t index = (uint32_t)c->segments.count;
    (void)array_add(&c->segments, (struct segment){.record = *record, .late = index});
    for (uint32_t k = index; k-- > 0;) {
        if (c->segments.at[k + 1].record.head.slice_start_ns <= record->head.min_ns)
            break;
        c->segments.at[k].late = index;
    }
}

static int columns_flush(struct history *history, struct problem *problem)
{
    struct columns *c = history->store;
    bool names = c->attributes_written < history->attributes.all.count ||
                 c->strings_written < history->strings.strings.count;
    if (!c->log_count && !names)
        return 0;
    /* First all that can fail. */
    struct record record;
    if (array_reserve(&c->segments, c->segments.count + 1) < 0 ||
        array_reserve(&c->at_start, history->ongoing.count + 1) < 0)
        return no_memory(history, problem);
    int r = write_segment(history, c, &record, problem);
    if (r < 0)
        return r;
    add_segment(c, &record);

    for (uint32_t i = 0; i < c->log_count; i++)
        history->ongoing.at[c->log[i].quark].entry = 0;
    c->log_count = 0;
    c->slice_start_ns = history->max_ns;
    if (history->ongoing.count)
        memcpy(c->at_start.at, history->ongoing.at, history->ongoing.count * sizeof(*c->at_start.at));
    c->at_start.count = history->ongoing.count;
    c->attributes_written = (uint32_t)history->attributes.all.count;
    c->strings_written = (uint32_t)history->strings.strings.count;
    return columns_add_groups(history, problem);
}

/* ---- Changes ---- */

/* How many changes the open slice takes before it is written. */
static uint32_t slice_limit(const struct history *history, const struct columns *c)
{
    if (c->fixed_limit)
        return c->fixed_limit;
    /* Long traces get longer segments: fewer places to look at for a view of the whole. */
    uint64_t wanted = (uint64_t)history->attributes.all.count * LIMIT_PER_ATTRIBUTE;
    uint64_t least = (uint64_t)LIMIT_MIN << (c->segments.count >= LIMIT_GROWS_AFTER);
    return (uint32_t)MIN(MAX(wanted, least), (uint64_t)LIMIT_MAX);
}

static int make_room(struct history *history, struct columns *c, uint64_t time_ns, struct problem *problem)
{
    uint32_t limit = slice_limit(history, c);
    /* Cut between two times where possible: what happens at one instant stays together. */
    if (c->log_count >= limit && (time_ns > history->max_ns || c->log_count >= limit + limit / 4))
        return columns_flush(history, problem);
    if (c->log_count < c->log_capacity)
        return 0;
    uint32_t grown = MAX(MIN(c->log_capacity * 2, limit + limit / 4), 4096u);
    grown = MAX(grown, c->log_count + 1);
    struct log_entry *moved = realloc(c->log, grown * sizeof(*moved));
    if (!moved)
        return no_memory(history, problem);
    c->log = moved;
    c->log_capacity = grown;
    return 0;
}

static int columns_change(struct history *history, uint32_t quark, uint64_t time_ns, struct cell cell,
                          struct problem *problem)
{
    struct columns *c = history->store;
    struct ongoing *o = &history->ongoing.at[quark];
    if (o->entry && o->start_ns == time_ns) {
        c->log[o->entry - 1].bits = cell.bits;
        c->log[o->entry - 1].type = cell.type & 3;
        return 0;
    }
    if (c->log_count >= c->log_limit) {
        int r = make_room(history, c, time_ns, problem);
        if (r < 0)
            return r;
        c->log_limit = MIN(c->log_capacity, slice_limit(history, c));
    }
    c->min_ns = c->log_count ? MIN(c->min_ns, time_ns) : time_ns;
    c->log[c->log_count++] = (struct log_entry){.time_ns = time_ns,
                                                .bits = cell.bits,
                                                .quark = quark,
                                                .previous = o->entry & 0x3fffffff,
                                                .type = cell.type & 3};
    o->entry = c->log_count;
    history->changes++;
    return 0;
}

/* ---- Creating, closing ---- */

static int columns_close(struct history *history, struct problem *problem)
{
    struct columns *c = history->store;
    int r = columns_flush(history, problem);
    if (r < 0)
        return r;
    struct record_head head = {
        .kind = RECORD_END, .slice_max_ns = history->end_ns, .changes = history->changes};
    struct record end = {0};
    r = record_append(&c->file, &head, "", &end, problem);
    if (r < 0)
        return r;
    free(end.checked);
    if (fsync(c->file.fd) < 0) {
        r = problem_set(problem, -errno, "%s: cannot sync: %s", history->path, strerror(errno));
        record_take_back(&c->file, &end); /* another attempt, or more changes, may follow */
        return r;
    }
    free(c->log);
    c->log = NULL;
    c->log_capacity = c->log_limit = 0;
    array_done(&c->at_start);
    return 0;
}

static void columns_free(struct history *history)
{
    struct columns *c = history->store;
    if (!c)
        return;
    array_foreach (&c->segments, s)
        record_done(&c->file, &s->record);
    array_done(&c->segments);
    for (int level = 0; level < GROUP_LEVELS; level++) {
        array_foreach (&c->groups[level], g)
            record_done(&c->file, g);
        array_done(&c->groups[level]);
    }
    array_done(&c->at_start);
    free(c->log);
    record_file_done(&c->file);
    free(c);
    history->store = NULL;
}

static void columns_info(const struct history *history, struct history_info *info)
{
    const struct columns *c = history->store;
    info->segments = (uint32_t)c->segments.count;
    info->file_bytes = c->file.bytes;
    info->memory_bytes += c->log_capacity * sizeof(*c->log) + c->at_start.capacity * sizeof(*c->at_start.at) +
                          c->segments.capacity * (sizeof(*c->segments.at) + 16) +
                          (history->building ? c->scratch_bytes : 0);
}

static const struct store_ops COLUMNS_OPS = {
    .change = columns_change,
    .flush = columns_flush,
    .close = columns_close,
    .free = columns_free,
    .info = columns_info,
    .find = columns_find,
    .full = columns_full,
    .range = columns_range,
    .grid = columns_grid,
    .summarize = columns_summarize,
};

static struct columns *columns_new(struct history *history)
{
    struct columns *c = calloc(1, sizeof(*c));
    if (c) {
        c->file.fd = -1;
        c->mapped_max = (uint64_t)256 << 20;
    }
    history->ops = &COLUMNS_OPS;
    history->store = c;
    return c;
}

int columns_create(struct history *history, const struct history_options *options, struct problem *problem)
{
    struct columns *c = columns_new(history);
    if (!c)
        return no_memory(history, problem);
    c->fixed_limit = MIN(options->segment_changes, (uint32_t)LIMIT_FIXED_MAX);
    c->slice_start_ns = history->start_ns;
    int fd = owner_open(history->path, O_RDWR | O_CREAT | O_TRUNC);
    if (fd < 0)
        return problem_set(problem, fd, "%s: cannot create: %s", history->path, strerror(-fd));
    int r = record_file_create(&c->file, fd, history->path, history->start_ns, problem);
    c->file.durable = options->durable;
    return r;
}

/* ---- Opening ---- */

/* The offsets in a head, which everything else relies on. */
static bool plausible(const struct history *history, const struct columns *c, const struct record_head *h)
{
    if (h->kind == RECORD_END)
        return true;
    uint64_t lanes = lane_count(h->attributes), directory_end = h->directory_at;
    if (h->kind == RECORD_SEGMENT) {
        directory_end += lanes * 16;
        if (h->first != c->segments.count || h->snapshots_at != directory_end ||
            h->snapshots_at > h->blocks_at ||
            h->attributes != history->attributes.all.count + h->new_attributes)
            return false;
    } else {
        if (h->kind != RECORD_GROUP || h->level >= GROUP_LEVELS)
            return false;
        directory_end += lanes * 12;
        uint64_t last = (uint64_t)h->first + (1u << GROUP_SHIFT * (h->level + 1u));
        if (directory_end != h->blocks_at ||
            h->first != c->groups[h->level].count << GROUP_SHIFT * (h->level + 1u) ||
            last > c->segments.count || h->attributes > history->attributes.all.count)
            return false;
    }
    return h->body_bytes >= BITS_SLACK && h->blocks_at <= h->body_bytes - BITS_SLACK &&
           h->slice_start_ns >= history->start_ns && h->slice_max_ns >= h->slice_start_ns &&
           h->min_ns >= history->start_ns;
}

static int load_names(struct history *history, struct columns *c, struct record *record,
                      struct problem *problem)
{
    const struct record_head *h = &record->head;
    int r = record_check(&c->file, record, 0, h->directory_at, problem);
    if (r < 0)
        return r;
    const uint8_t *p = record->body, *bad;
    r = names_read(history, p, p + h->directory_at, h->new_attributes, h->new_strings, &bad);
    if (r == -EBADMSG)
        return record_damaged(&c->file, record, (uint64_t)(bad - p), "a name not seen before", problem);
    return r < 0 ? no_memory(history, problem) : 0;
}

/* Takes a record into the index. 0, or an error, after which the record is still the caller's. */
static int accept_record(struct history *history, struct columns *c, struct record *record,
                         struct problem *problem)
{
    const struct record_head *h = &record->head;
    if (!plausible(history, c, h))
        return problem_set(problem, -EBADMSG,
                           "%s: offset %" PRIu64 ": the head of record %u contradicts those before it",
                           history->path, record->file_at, h->number);
    if (h->kind == RECORD_GROUP) {
        if (array_add(&c->groups[h->level], *record) < 0)
            return no_memory(history, problem);
    } else if (h->kind == RECORD_SEGMENT) {
        if (c->segments.count &&
            h->slice_start_ns < c->segments.at[c->segments.count - 1].record.head.slice_max_ns)
            return problem_set(problem, -EBADMSG,
                               "%s: offset %" PRIu64 ": segment %u begins before the one before it ends",
                               history->path, record->file_at, h->first);
        if (array_reserve(&c->segments, c->segments.count + 1) < 0)
            return no_memory(history, problem);
        int r = load_names(history, c, record, problem);
        if (r < 0)
            return r;
        add_segment(c, record);
        history->max_ns = h->slice_max_ns;
        history->changes += h->changes;
    }
    c->file.bytes = record_end(record);
    c->file.records++;
    return 0;
}

int columns_open(struct history *history, int fd, uint64_t file_bytes, struct problem *problem)
{
    struct columns *c = columns_new(history);
    if (!c) {
        close(fd);
        return no_memory(history, problem);
    }
    int r = record_file_open(&c->file, fd, file_bytes, history->path, &history->start_ns, problem);
    history->max_ns = history->start_ns;
    while (r == 0 && !history->complete) {
        struct record record;
        r = record_next(&c->file, c->file.bytes, &record, problem);
        if (r <= 0)
            break;
        bool end = record.head.kind == RECORD_END, last = record_end(&record) == file_bytes;
        if (!end && last && record_check(&c->file, &record, 0, record.head.body_bytes, NULL) < 0) {
            record_done(&c->file, &record); /* the unfinished end of a killed builder */
            r = 0;
            break;
        }
        r = accept_record(history, c, &record, problem);
        if (r == 0 && end) {
            history->complete = true;
            history->end_ns = record.head.slice_max_ns;
        }
        if (r < 0 || end)
            record_done(&c->file, &record);
    }
    if (r < 0)
        return r;
    history->lost_bytes = file_bytes - c->file.bytes;
    if (!history->complete)
        history->end_ns = history->max_ns == HISTORY_ONGOING ? HISTORY_ONGOING : history->max_ns + 1;
    if (history->end_ns <= history->max_ns || (history->complete && history->lost_bytes))
        return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": expected the end of the history here",
                           history->path, c->file.bytes);
    return 0;
}
