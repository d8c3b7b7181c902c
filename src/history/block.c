/* See block.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/block.h"

#include "base/macro.h"

/* ---- Summaries ---- */

void summary_add(struct summary *summary, struct cell cell, uint64_t ns)
{
    if (!ns)
        return;
    unsigned least = 0;
    for (unsigned i = 0; i < summary->count; i++) {
        if (cell_equal(summary->share[i].cell, cell)) {
            summary->share[i].ns += ns;
            return;
        }
        if (summary->share[i].ns < summary->share[least].ns)
            least = i;
    }
    if (summary->count < SUMMARY_WORKING) {
        least = summary->count++;
    } else if (summary->share[least].ns >= ns) {
        summary->other_ns += ns;
        return;
    } else {
        summary->other_ns += summary->share[least].ns;
    }
    summary->share[least].cell = cell;
    summary->share[least].ns = ns;
}

void summary_merge(struct summary *summary, const struct summary *more)
{
    for (unsigned i = 0; i < more->count; i++)
        summary_add(summary, more->share[i].cell, more->share[i].ns);
    summary->other_ns += more->other_ns;
    summary->changes += more->changes;
}

void summary_trim(struct summary *summary, unsigned keep)
{
    for (unsigned i = 1; i < summary->count; i++) {
        __typeof__(summary->share[0]) moving = summary->share[i];
        unsigned k = i;
        for (; k && summary->share[k - 1].ns < moving.ns; k--)
            summary->share[k] = summary->share[k - 1];
        summary->share[k] = moving;
    }
    while (summary->count > keep)
        summary->other_ns += summary->share[--summary->count].ns;
}

uint8_t *node_write(uint8_t *p, const struct node *node)
{
    struct summary s = node->summary;
    summary_trim(&s, HISTORY_SHARES);
    p = varint_put(p, node->last_ns - node->first_ns);
    p = cell_write(p, node->last);
    *p++ = (uint8_t)(s.count | (s.other_ns ? 0x80 : 0));
    for (unsigned i = 0; i < s.count; i++) {
        p = cell_write(p, s.share[i].cell);
        p = varint_put(p, s.share[i].ns);
    }
    return s.other_ns ? varint_put(p, s.other_ns) : p;
}

const uint8_t *node_read(const uint8_t *p, const uint8_t *end, uint64_t first_ns, struct node *ret_node)
{
    uint64_t length;
    ret_node->summary = (struct summary){0};
    ret_node->first_ns = first_ns;
    p = varint_get(p, end, &length);
    if (!p)
        return NULL;
    ret_node->last_ns = first_ns + length;
    p = cell_read(p, end, &ret_node->last);
    if (!p || p >= end)
        return NULL;
    uint8_t head = *p++;
    struct summary *s = &ret_node->summary;
    s->count = head & 7;
    if (s->count > HISTORY_SHARES)
        return NULL;
    for (unsigned i = 0; i < s->count; i++) {
        p = cell_read(p, end, &s->share[i].cell);
        if (p)
            p = varint_get(p, end, &s->share[i].ns);
        if (!p)
            return NULL;
    }
    return head & 0x80 ? varint_get(p, end, &s->other_ns) : p;
}

/* ---- Writing ---- */

static void node_of_changes(struct node *node, const struct change *changes, unsigned count)
{
    *node = (struct node){.first_ns = changes[0].time_ns,
                          .last_ns = changes[count - 1].time_ns,
                          .changes = count,
                          .last = changes[count - 1].cell};
    for (unsigned i = 0; i + 1 < count; i++)
        summary_add(&node->summary, changes[i].cell, changes[i + 1].time_ns - changes[i].time_ns);
}

static uint8_t *run_write(uint8_t *p, const struct change *changes, unsigned count)
{
    uint64_t gaps[RUN_CHANGES];
    struct cell cells[RUN_CHANGES];
    for (unsigned i = 0; i + 1 < count; i++)
        gaps[i] = changes[i + 1].time_ns - changes[i].time_ns;
    for (unsigned i = 0; i < count; i++)
        cells[i] = changes[i].cell;
    p = numbers_write(p, gaps, count - 1);
    return cells_write(p, cells, count);
}

static unsigned run_count(uint32_t count, uint32_t run)
{
    return MIN(count - run * RUN_CHANGES, (uint32_t)RUN_CHANGES);
}

/* First times of runs 1 .. n-1, then offsets of runs 0 .. n-1. */
static uint8_t *directory_write(uint8_t *p, const struct change *changes, uint32_t runs,
                                const uint32_t *offsets)
{
    uint64_t first = changes[0].time_ns;
    unsigned width = bits_needed(changes[(size_t)(runs - 1) * RUN_CHANGES].time_ns - first);
    *p++ = (uint8_t)width;
    struct bit_writer w = {.p = p};
    for (uint32_t i = 1; i < runs; i++)
        bits_put(&w, changes[(size_t)i * RUN_CHANGES].time_ns - first, width);
    p = bits_end(&w);
    width = bits_needed(offsets[runs - 1]);
    *p++ = (uint8_t)width;
    w = (struct bit_writer){.p = p};
    for (uint32_t i = 0; i < runs; i++)
        bits_put(&w, offsets[i], width);
    return bits_end(&w);
}

uint8_t *block_write(uint8_t *p, void *scratch, const struct change *changes, uint32_t count)
{
    if (count <= RUN_CHANGES)
        return run_write(p, changes, count);

    /* The scratch holds the runs and their offsets until the block's node and directory are known. */
    uint32_t runs = (count - 1) / RUN_CHANGES + 1;
    uint32_t *offsets = scratch;
    uint8_t *body = (uint8_t *)(offsets + runs), *q = body;
    struct node whole = {.first_ns = changes[0].time_ns,
                         .last_ns = changes[count - 1].time_ns,
                         .last = changes[count - 1].cell};
    for (uint32_t i = 0; i < runs; i++) {
        offsets[i] = (uint32_t)(q - body);
        const struct change *from = changes + (size_t)i * RUN_CHANGES;
        unsigned n = run_count(count, i);
        q = run_write(q, from, n);
        struct node node;
        node_of_changes(&node, from, n);
        q = node_write(q, &node);
        summary_merge(&whole.summary, &node.summary);
        if (i + 1 < runs)
            summary_add(&whole.summary, node.last, from[n].time_ns - node.last_ns);
    }
    uint8_t head[NODE_BYTES];
    uint32_t head_bytes = (uint32_t)(node_write(head, &whole) - head);
    for (uint32_t i = 0; i < runs; i++)
        offsets[i] += head_bytes;
    p = directory_write(p, changes, runs, offsets);
    memcpy(p, head, head_bytes);
    memcpy(p + head_bytes, body, (size_t)(q - body));
    return p + head_bytes + (q - body);
}

/* ---- Reading ---- */

static const uint8_t *packed_open(const uint8_t *p, const uint8_t *end, uint32_t n, unsigned max_width,
                                  const uint8_t **ret_bits, unsigned *ret_width)
{
    if (p >= end || *p > max_width)
        return NULL;
    *ret_width = *p++;
    size_t bytes = bits_bytes((size_t)n * *ret_width);
    if ((size_t)(end - p) < bytes)
        return NULL;
    *ret_bits = p;
    return p + bytes;
}

int block_open(struct block *block, const struct block_place *place)
{
    if (!place->count || place->count > UINT32_MAX / 2)
        return -EBADMSG;
    const uint8_t *p = place->at, *end = place->end;
    block->first_ns = place->first_ns;
    block->count = (uint32_t)place->count;
    block->runs = (block->count - 1) / RUN_CHANGES + 1;
    block->end = end;
    if (block->runs > 1) {
        p = packed_open(p, end, block->runs - 1, 64, &block->run_times, &block->time_width);
        if (p)
            p = packed_open(p, end, block->runs, 32, &block->run_offsets, &block->offset_width);
        if (!p)
            return -EBADMSG;
    }
    block->area = p;
    return 0;
}

uint32_t block_find_run(const struct block *block, uint64_t time_ns)
{
    uint32_t low = 0, high = block->runs; /* run low begins early enough, run high does not */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (block_run_first(block, middle) <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int block_run(const struct block *block, uint32_t i, struct run *ret_run)
{
    uint64_t offset = 0;
    if (block->runs > 1)
        offset = bits_get(block->run_offsets, (size_t)i * block->offset_width, block->offset_width);
    if (offset > (uint64_t)(block->end - block->area))
        return -EBADMSG;
    ret_run->first_ns = block_run_first(block, i);
    ret_run->count = run_count(block->count, i);
    const uint8_t *p = numbers_open(&ret_run->gaps, block->area + offset, block->end, ret_run->count - 1);
    return p ? cells_open(&ret_run->cells, p, block->end, ret_run->count) : -EBADMSG;
}

int block_run_node(const struct block *block, uint32_t i, struct node *ret_node)
{
    struct run run;
    int r = block_run(block, i, &run);
    if (r < 0)
        return r;
    if (block->runs > 1) {
        ret_node->changes = run.count;
        const uint8_t *p = cells_end(&run.cells);
        return p && node_read(p, block->end, run.first_ns, ret_node) ? 0 : -EBADMSG;
    }
    uint64_t times[RUN_CHANGES];
    struct cell cells[RUN_CHANGES];
    struct change changes[RUN_CHANGES] = {0};
    run_times(&run, times);
    cells_all(&run.cells, run.count, cells);
    for (unsigned k = 0; k < run.count; k++)
        changes[k] = (struct change){times[k], cells[k]};
    node_of_changes(ret_node, changes, run.count);
    return 0;
}

int block_node(const struct block *block, struct node *ret_node)
{
    if (block->runs == 1)
        return block_run_node(block, 0, ret_node);
    ret_node->changes = block->count;
    return node_read(block->area, block->end, block->first_ns, ret_node) ? 0 : -EBADMSG;
}
