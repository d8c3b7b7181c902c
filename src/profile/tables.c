/* Unwind rows of many files in one array. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/tables.h"

#include <stdlib.h>
#include <string.h>

#include "unwind/ehframe.h"

/* ---- room ---- */

/* The first part that is large enough; 0 when there is none. */
static uint32_t room_take(room *r, uint32_t count)
{
    for (size_t i = 0; i < r->count; i++) {
        struct room_part *part = &r->at[i];
        if (part->high - part->low < count)
            continue;
        uint32_t at = part->low;
        part->low += count;
        if (part->low == part->high)
            memmove(part, part + 1, (--r->count - i) * sizeof(*part));
        return at;
    }
    return 0;
}

/* Joined with its neighbours. When memory ran out the room is lost. */
static void room_give(room *r, uint32_t low, uint32_t count)
{
    struct room_part part = {low, low + count};
    size_t i = 0;
    while (i < r->count && r->at[i].low < low)
        i++;
    if (i > 0 && r->at[i - 1].high == low) {
        part.low = r->at[--i].low;
        memmove(&r->at[i], &r->at[i + 1], (--r->count - i) * sizeof(part));
    }
    if (i < r->count && r->at[i].low == part.high) {
        r->at[i].low = part.low;
        return;
    }
    if (array_add(r, part) < 0)
        return;
    memmove(&r->at[i + 1], &r->at[i], (r->count - 1 - i) * sizeof(part));
    r->at[i] = part;
}

void tables_init(struct tables *t, struct unwind_row *rows, uint64_t *pages)
{
    t->rows = rows;
    t->pages = pages;
    room_give(&t->free_rows, 1, t->row_limit - 1); /* 0 means none */
    room_give(&t->free_pages, 1, t->page_limit - 1);
}

void tables_done(struct tables *t)
{
    array_done(&t->free_rows);
    array_done(&t->free_pages);
    array_done(&t->given_rows);
    array_done(&t->given_pages);
    array_done(&t->ranges);
}

uint32_t tables_take(struct tables *t, uint32_t count)
{
    uint32_t at = room_take(&t->free_rows, count);
    if (at) {
        t->rows_used += count;
    } else {
        t->full = true;
        t->lacked = MAX(t->lacked, count);
    }
    return at;
}

uint32_t tables_room(const struct tables *t)
{
    uint32_t most = 0;
    array_foreach (&t->free_rows, part)
        most = MAX(most, part->high - part->low);
    return most;
}

void tables_give(struct tables *t, uint32_t at, uint32_t count)
{
    if (!count)
        return;
    t->rows_used -= count;
    room_give(&t->given_rows, at, count);
}

void tables_settle(struct tables *t)
{
    array_foreach (&t->given_rows, part)
        room_give(&t->free_rows, part->low, part->high - part->low);
    array_foreach (&t->given_pages, part)
        room_give(&t->free_pages, part->low, part->high - part->low);
    array_clear(&t->given_rows);
    array_clear(&t->given_pages);
}

/* ---- files ---- */

/* For each page of code the first row at or before it, and one entry past the last. */
static void index_pages(struct tables *t, struct table_range *range)
{
    const struct unwind_row *rows = t->rows + range->rows_low;
    uint32_t count = range->rows_high - range->rows_low, first = rows[0].pc >> SAMPLER_PAGE_BITS,
             last = rows[count - 1].pc >> SAMPLER_PAGE_BITS;
    uint64_t need = last >= first ? (uint64_t)last - first + 3 : UINT64_MAX; /* not in order: nobody's rows */
    uint32_t at = need < t->page_limit ? room_take(&t->free_pages, (uint32_t)need) : 0;
    if (!at)
        return;
    range->page_first = first;
    range->page_base = at;
    range->page_count = (uint32_t)need;
    size_t row = 0;
    for (uint64_t page = first; page <= (uint64_t)last + 1; page++) {
        while (row < count && rows[row].pc < page << SAMPLER_PAGE_BITS)
            row++;
        t->pages[at++] = range->rows_low + (uint32_t)row;
    }
    t->pages[at] = range->rows_high;
}

/* A place in `ranges` that is not used; NULL when memory ran out. */
static struct table_range *new_range(struct tables *t)
{
    struct table_range none = {0};
    array_foreach (&t->ranges, range)
        if (!range->rows_low)
            return range;
    return array_add(&t->ranges, none) < 0 ? NULL : &t->ranges.at[t->ranges.count - 1];
}

bool tables_add(struct tables *t, const struct unwind_row *rows, uint32_t count, bool indexed,
                struct table_range *ret_range)
{
    uint32_t at = count && count < t->row_limit ? tables_take(t, count) : 0;
    if (!at) {
        t->full = true;
        return false;
    }
    *ret_range = (struct table_range){.rows_low = at, .rows_high = at + count, .serial = ++t->serials};
    memcpy(t->rows + at, rows, count * sizeof(*rows));
    if (indexed)
        index_pages(t, ret_range);
    return true;
}

void tables_remove(struct tables *t, const struct table_range *range)
{
    tables_give(t, range->rows_low, range->rows_high - range->rows_low);
    if (range->page_count)
        room_give(&t->given_pages, range->page_base, range->page_count);
}

const struct table_range *tables_of(struct tables *t, struct native_file *file)
{
    uint64_t *note = native_file_note(file);
    if (*note == UINT64_MAX)
        return NULL;
    if (*note)
        return &t->ranges.at[*note - 1];
    struct unwind_table *table = native_file_table(file);
    if (!table || table->count == 0) {
        *note = UINT64_MAX;
        return NULL;
    }
    if (table->count >= t->row_limit) {
        t->too_small = true;
        return NULL;
    }
    struct table_range *range = new_range(t);
    if (!range || !tables_add(t, table->rows, (uint32_t)table->count, true, range))
        return NULL;
    range->base = table->base;
    free(table->rows); /* one copy is enough: the kernel's can be read here, too */
    table->rows = t->rows + range->rows_low;
    table->borrowed = true;
    *note = (uint64_t)(range - t->ranges.at) + 1;
    return range;
}

void tables_keep(struct tables *t, struct native_file *file)
{
    const struct unwind_table *table = native_file_met(file) ? native_file_table(file) : NULL;
    if (table && !table->borrowed && t->rows_used + table->count <= t->row_limit / 4 &&
        table->count < tables_room(t))
        (void)tables_of(t, file);
}

void tables_drop(void *context, uint64_t note)
{
    struct tables *t = context;
    if (!note || note == UINT64_MAX)
        return;
    struct table_range *range = &t->ranges.at[note - 1];
    tables_remove(t, range);
    *range = (struct table_range){0};
}
