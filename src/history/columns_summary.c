/* Zoomed-out views of the columnar store: what each attribute did in each column, from summaries of runs,
 * blocks and groups of segments; and the group records themselves.
 *
 * The time of one attribute is a sequence of changes. A node (of a run, a block, a group) says what lies
 * between its first and its last change; between the last change of one node and the first of the next lies a
 * single state. A walk along the attribute takes the largest node that fits into the rest of a column, and
 * decodes changes only where a column begins or ends within a run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/columns.h"

#include "base/macro.h"

/* A walk along one attribute. `now_ns` is how far it came, `cell` the value in force there; what comes next
 * is the first change at or after now_ns in a segment at or behind `segment`. */
struct walk {
    struct reader reader;
    uint64_t now_ns;
    struct cell cell;
    uint32_t segment;
    bool at_change; /* a change at now_ns was counted: another one at the same time replaces it */
    struct summary *summary;
    /* Where in the block of `segment` the walk is, so that the next column goes on from there. */
    bool in_block, in_run;
    struct block block;
    struct node node; /* of the block, when it has several runs */
    uint32_t run;
    unsigned change, changes; /* in the run */
    uint64_t times[RUN_CHANGES];
    struct cell cells[RUN_CHANGES];
};

/* The value in force lasts until time_ns. */
static void walk_to(struct walk *walk, uint64_t time_ns)
{
    summary_add(walk->summary, walk->cell, time_ns - walk->now_ns);
    if (time_ns > walk->now_ns)
        walk->at_change = false;
    walk->now_ns = time_ns;
}

static void walk_change(struct walk *walk, uint64_t time_ns, struct cell cell)
{
    walk_to(walk, time_ns);
    walk->summary->changes += !walk->at_change;
    walk->at_change = true;
    walk->cell = cell;
}

static void walk_node(struct walk *walk, const struct node *node)
{
    walk_to(walk, node->first_ns);
    if (walk->at_change)
        walk->summary->changes--;
    summary_merge(walk->summary, &node->summary);
    walk->summary->changes += node->changes;
    walk->now_ns = node->last_ns;
    walk->cell = node->last;
    walk->at_change = true;
}

/* Whether a node lies ahead and ends before `end_ns`. A node's times may be nonsense in a damaged file. */
static bool fits(const struct walk *walk, const struct node *node, uint64_t end_ns)
{
    return node->first_ns >= walk->now_ns && node->first_ns <= node->last_ns && node->last_ns < end_ns;
}

static int enter_block(struct walk *walk)
{
    const struct block *block = &walk->block;
    if (block->runs > 1 && block_node(block, &walk->node) < 0)
        return reader_damaged(&walk->reader, walk->segment);
    walk->in_block = true;
    walk->in_run = false;
    walk->run = walk->now_ns > block->first_ns ? block_find_run(block, walk->now_ns) : 0;
    return 0;
}

static int enter_run(struct walk *walk)
{
    struct run run;
    if (block_run(&walk->block, walk->run, &run) < 0)
        return reader_damaged(&walk->reader, walk->segment);
    run_times(&run, walk->times);
    cells_all(&run.cells, run.count, walk->cells);
    walk->changes = run.count;
    walk->change = 0;
    walk->in_run = true;
    return 0;
}

/* The changes of the run from now_ns on and before end_ns: whether one at or behind end_ns was met. */
static bool walk_run(struct walk *walk, uint64_t end_ns)
{
    for (; walk->change < walk->changes; walk->change++) {
        uint64_t time_ns = walk->times[walk->change];
        if (time_ns < walk->now_ns)
            continue;
        if (time_ns >= end_ns)
            return true;
        walk_change(walk, time_ns, walk->cells[walk->change]);
    }
    return false;
}

/* Goes on in the block: 1 when a change at or behind end_ns was met, 0 when the block is done. */
static int walk_block(struct walk *walk, uint64_t end_ns)
{
    const struct block *block = &walk->block;
    if (block->first_ns >= end_ns)
        return 1;
    if (block->runs > 1 && fits(walk, &walk->node, end_ns)) {
        walk_node(walk, &walk->node);
        return 0;
    }
    for (; walk->run < block->runs; walk->run++) {
        if (!walk->in_run && block_run_first(block, walk->run) >= end_ns)
            return 1;
        if (!walk->in_run && block->runs > 1) {
            struct node node;
            if (block_run_node(block, walk->run, &node) < 0)
                return reader_damaged(&walk->reader, walk->segment);
            if (fits(walk, &node, end_ns)) {
                walk_node(walk, &node);
                continue;
            }
        }
        int r = walk->in_run ? 0 : enter_run(walk);
        if (r < 0)
            return r;
        if (walk_run(walk, end_ns))
            return 1;
        walk->in_run = false;
    }
    return 0;
}

int group_node(struct columns *columns, struct record *group, uint32_t quark, struct node *ret_node,
               struct problem *problem)
{
    struct block_place place;
    int r = record_block(columns, group, quark, &place, problem);
    if (r <= 0)
        return r;
    ret_node->changes = place.count;
    if (node_read(place.at, place.end, place.first_ns, ret_node))
        return 1;
    return record_damaged(&columns->file, group, (uint64_t)(place.at - group->body),
                          "the summary of an attribute", problem);
}

/* Takes the largest group that begins at the walk's segment and fits: how many segments were passed, 0 for
 * none. */
static int walk_group(struct walk *walk, uint64_t end_ns)
{
    struct columns *c = walk->reader.columns;
    for (unsigned level = GROUP_LEVELS; level-- > 0;) {
        unsigned shift = GROUP_SHIFT * (level + 1);
        if (walk->segment & ((1u << shift) - 1) || walk->segment >> shift >= c->groups[level].count)
            continue;
        struct node node;
        int r = group_node(c, &c->groups[level].at[walk->segment >> shift], walk->reader.quark, &node,
                           walk->reader.problem);
        if (r < 0)
            return r;
        if (r && !fits(walk, &node, end_ns))
            continue;
        if (r)
            walk_node(walk, &node);
        return 1 << shift;
    }
    return 0;
}

/* Walks up to end_ns, adding what is passed to walk->summary. */
static int walk_until(struct walk *walk, uint64_t end_ns)
{
    uint32_t segments = (uint32_t)walk->reader.columns->segments.count;
    while (walk->segment <= segments) {
        int r;
        if (!walk->in_block) {
            r = walk_group(walk, end_ns);
            if (r < 0)
                return r;
            if (r > 0) {
                walk->segment += (uint32_t)r;
                continue;
            }
            r = reader_block(&walk->reader, walk->segment, &walk->block);
            if (r > 0)
                r = enter_block(walk);
            if (r < 0)
                return r;
        }
        r = walk->in_block ? walk_block(walk, end_ns) : 0;
        if (r < 0)
            return r;
        if (r > 0)
            break; /* the next column goes on here */
        walk->in_block = false;
        walk->segment++;
    }
    walk_to(walk, end_ns);
    return 0;
}

/* Puts the walk at start_ns: the value just before, and the segment in which to look for what follows. */
static int walk_begin(struct walk *walk, uint64_t start_ns)
{
    struct history *history = walk->reader.history;
    struct state state = {0};
    int r = 0;
    walk->segment = 0;
    if (start_ns > history->start_ns)
        r = reader_find(&walk->reader, start_ns - 1, &state, &walk->segment);
    walk->now_ns = start_ns;
    walk->cell = state.cell;
    walk->at_change = walk->in_block = false;
    return r;
}

int columns_summarize(struct history *history, const struct grid *grid, summary_fn *fn, void *context,
                      struct problem *problem)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < grid->count; i++) {
        struct walk walk;
        reader_init(&walk.reader, history, grid->quarks[i], problem);
        r = walk_begin(&walk, grid->start_ns);
        for (uint32_t column = 0; r == 0 && column < grid->columns; column++) {
            uint64_t end_ns = column_start(grid, column + 1);
            if (end_ns == walk.now_ns)
                continue;
            struct summary summary = {0};
            walk.summary = &summary;
            walk.at_change = false;
            r = walk_until(&walk, end_ns);
            if (r == 0)
                r = fn(context, grid->quarks[i], column, &summary);
        }
        reader_done(&walk.reader);
    }
    return r;
}

/* ---- Writing groups ---- */

struct group_build {
    struct history *history;
    unsigned level;
    uint32_t first; /* segment */
};

/* Adds the blocks (or groups one level below) of one attribute: 1 and its node, 0 when it has none. */
static int build_node(struct group_build *build, uint32_t quark, struct node *ret_node,
                      struct problem *problem)
{
    struct columns *c = build->history->store;
    struct reader reader;
    reader_init(&reader, build->history, quark, problem);
    *ret_node = (struct node){0};
    uint32_t first = build->first >> GROUP_SHIFT * build->level;
    for (uint32_t i = first; i < first + (1u << GROUP_SHIFT); i++) {
        struct node node;
        int r;
        if (build->level) {
            r = group_node(c, &c->groups[build->level - 1].at[i], quark, &node, problem);
        } else {
            struct block block;
            r = reader_block(&reader, i, &block);
            if (r > 0 && block_node(&block, &node) < 0)
                r = reader_damaged(&reader, i);
        }
        if (r < 0)
            return r;
        if (!r)
            continue;
        if (!ret_node->changes) {
            *ret_node = node;
            ret_node->summary.changes = 0;
            continue;
        }
        summary_add(&ret_node->summary, ret_node->last, node.first_ns - ret_node->last_ns);
        summary_merge(&ret_node->summary, &node.summary);
        ret_node->changes += node.changes - (node.first_ns == ret_node->last_ns);
        ret_node->last_ns = node.last_ns;
        ret_node->last = node.last;
    }
    return ret_node->changes > 0;
}

static int add_group_block(void *context, uint32_t quark, struct body *body, uint64_t *ret_count,
                           uint64_t *ret_first_ns, struct problem *problem)
{
    struct group_build *build = context;
    struct node node;
    int r = build_node(build, quark, &node, problem);
    if (r <= 0)
        return r;
    if (body_reserve(body, NODE_BYTES) < 0)
        return -ENOMEM;
    body->count = (size_t)(node_write(body->at + body->count, &node) - body->at);
    *ret_count = node.changes;
    *ret_first_ns = node.first_ns;
    return 1;
}

static int write_group(struct history *history, unsigned level, struct problem *problem)
{
    struct columns *c = history->store;
    uint32_t first = (uint32_t)c->groups[level].count << GROUP_SHIFT * (level + 1);
    uint32_t last = first + (1u << GROUP_SHIFT * (level + 1)) - 1;
    const struct record_head *begin = &c->segments.at[first].record.head,
                             *end = &c->segments.at[last].record.head;
    struct record_head head = {.kind = RECORD_GROUP,
                               .level = (uint8_t)level,
                               .first = first,
                               .slice_start_ns = begin->slice_start_ns,
                               .slice_max_ns = end->slice_max_ns,
                               .min_ns = UINT64_MAX,
                               .attributes = end->attributes};
    for (uint32_t i = first; i <= last; i++) {
        head.min_ns = MIN(head.min_ns, c->segments.at[i].record.head.min_ns);
        head.changes += c->segments.at[i].record.head.changes;
    }
    struct body body = {0};
    struct group_build build = {history, level, first};
    size_t directory = lane_count(head.attributes) * 12ul;
    int r = body_reserve(&body, directory);
    if (r == 0) {
        memset(body.at, 0, directory);
        body.count = directory;
        r = array_reserve(&c->groups[level], c->groups[level].count + 1);
    }
    if (r == 0)
        r = body_add_blocks(&body, &head, add_group_block, &build, problem);
    if (r == -ENOMEM)
        problem_set(problem, r, "%s: no memory to summarise segments", history->path);
    struct record record;
    if (r == 0)
        r = record_append(&c->file, &head, body.at, &record, problem);
    if (r == 0)
        (void)array_add(&c->groups[level], record);
    free(body.at);
    return r;
}

int columns_add_groups(struct history *history, struct problem *problem)
{
    struct columns *c = history->store;
    for (unsigned level = 0; level < GROUP_LEVELS; level++) {
        unsigned shift = GROUP_SHIFT * (level + 1);
        while (c->groups[level].count < c->segments.count >> shift) {
            uint32_t first = (uint32_t)c->groups[level].count << shift;
            int r = write_group(history, level, problem);
            for (uint32_t i = first; level == 0 && i < first + (1u << shift); i++)
                record_unmap(&c->file, &c->segments.at[i].record); /* so that building maps little */
            if (r < 0)
                return r;
        }
    }
    return 0;
}
