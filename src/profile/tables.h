/* The unwind rows of many files in one array that the kernel reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_TABLES_H
#define PROFILE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "unwind/native.h"
#include "unwind/sampler.h"

struct table_range {
    uint32_t rows_low, rows_high;
    uint32_t page_base, page_first; /* page_base 0: no index */
    uint64_t base;                  /* row.pc + base = address in the file */
};

struct tables {
    struct unwind_row *rows; /* shared with the kernel */
    uint64_t *pages;
    uint32_t row_limit, page_limit;
    uint32_t rows_used, pages_used;
    bool full; /* something found no room */
    ARRAY(struct table_range)
    ranges; /* the note of a file is its index + 1, or UINT64_MAX when it has none */
};

/* The rows of a file, added when they are new. NULL when the file has none or there is no more room. */
const struct table_range *tables_of(struct tables *tables, struct native_file *file);

/* Forgets everything; the notes of files must go, too. */
void tables_clear(struct tables *tables);

/* Room for count rows that change; the first's index, or 0 when there is none. */
uint32_t tables_reserve(struct tables *tables, uint32_t count);

#endif
