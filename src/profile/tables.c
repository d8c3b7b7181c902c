/* Unwind rows of many files in one array. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/tables.h"

#include <stdlib.h>
#include <string.h>

#include "unwind/ehframe.h"

/* For each page of code the first row at or before it, and one entry past the last. */
static void index_pages(struct tables *t, struct table_range *range, const struct unwind_table *table)
{
    uint32_t first = table->rows[0].pc >> SAMPLER_PAGE_BITS,
             last = table->rows[table->count - 1].pc >> SAMPLER_PAGE_BITS;
    uint64_t need = (uint64_t)last - first + 3;
    if (need > t->page_limit - t->pages_used)
        return;
    range->page_first = first;
    range->page_base = t->pages_used;
    size_t row = 0;
    for (uint64_t page = first; page <= (uint64_t)last + 1; page++) {
        while (row < table->count && table->rows[row].pc < page << SAMPLER_PAGE_BITS)
            row++;
        t->pages[t->pages_used++] = range->rows_low + (uint32_t)row;
    }
    t->pages[t->pages_used++] = range->rows_high;
}

const struct table_range *tables_of(struct tables *t, struct native_file *file)
{
    uint64_t *note = native_file_note(file);
    if (*note == UINT64_MAX)
        return NULL;
    if (*note)
        return &t->ranges.at[*note - 1];
    *note = UINT64_MAX;
    struct unwind_table *table = native_file_table(file);
    if (!table || table->count == 0)
        return NULL;
    if (table->count > t->row_limit - t->rows_used) {
        t->full = true;
        return NULL;
    }
    if (t->pages_used == 0)
        t->pages_used = 1; /* 0 means none */
    struct table_range range = {
        .rows_low = t->rows_used, .rows_high = t->rows_used + (uint32_t)table->count, .base = table->base};
    memcpy(t->rows + range.rows_low, table->rows, table->count * sizeof(*table->rows));
    index_pages(t, &range, table);
    t->rows_used = range.rows_high;
    free(table->rows); /* one copy is enough: the kernel's can be read here, too */
    table->rows = t->rows + range.rows_low;
    table->borrowed = true;
    if (array_add(&t->ranges, range) < 0)
        return NULL;
    *note = t->ranges.count;
    return &t->ranges.at[*note - 1];
}

void tables_clear(struct tables *t)
{
    t->rows_used = t->pages_used = 0;
    t->full = false;
    array_clear(&t->ranges);
}

uint32_t tables_reserve(struct tables *t, uint32_t count)
{
    if (t->rows_used == 0)
        t->rows_used = 1;
    if (count > t->row_limit - t->rows_used) {
        t->full = true;
        return 0;
    }
    uint32_t at = t->rows_used;
    t->rows_used += count;
    return at;
}
