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
    uint32_t rows_low, rows_high;               /* 0: not used */
    uint32_t page_base, page_first, page_count; /* page_base 0: no index */
    uint64_t base;                              /* row.pc + base = address in the file */
    uint32_t serial;                            /* of these rows: never that of others */
};

/* Parts of an array that are free, by place: [low, high). */
struct room_part {
    uint32_t low, high;
};
typedef ARRAY(struct room_part) room;

struct tables {
    struct unwind_row *rows; /* shared with the kernel */
    uint64_t *pages;
    uint32_t row_limit, page_limit;
    uint32_t rows_used;
    uint32_t serials; /* of ranges so far */
    bool full;        /* something found no room; for the user to clear */
    uint32_t lacked;  /* the most rows at once that found none; likewise */
    bool too_small;   /* something never finds any, however little else there is; likewise */
    room free_rows, free_pages;
    room given_rows, given_pages; /* back, but the kernel's half may still look into them */
    ARRAY(struct table_range)
    ranges; /* the note of a file is its index + 1, or UINT64_MAX when it has none */
};

/* With both limits set. The arrays must outlive it. */
void tables_init(struct tables *tables, struct unwind_row *rows, uint64_t *pages);
void tables_done(struct tables *tables);

/* The rows of a file, added when they are new; until the next call. NULL when the file has none or there is
 * no room. */
const struct table_range *tables_of(struct tables *tables, struct native_file *file);

/* Keeps the rows of a file that have been read, but not been asked for here, beyond its end: as long as all
 * of them together are a quarter of the room. */
void tables_keep(struct tables *tables, struct native_file *file);

/* Copies rows that were made elsewhere, and may be anything. False: there is no room. indexed: they are found
 * faster, and stay as they are. */
bool tables_add(struct tables *tables, const struct unwind_row *rows, uint32_t count, bool indexed,
                struct table_range *ret_range);
void tables_remove(struct tables *tables, const struct table_range *range);

/* Takes back the rows of the file with this note: for native_files_on_forget(), context is the tables. */
void tables_drop(void *context, uint64_t note);

/* Room for count rows that change; the first's index, or 0 when there is none. */
uint32_t tables_take(struct tables *tables, uint32_t count);
void tables_give(struct tables *tables, uint32_t at, uint32_t count);

/* How many rows could be taken at once. */
uint32_t tables_room(const struct tables *tables);

/* What was given back can be taken from now on: when no description that leads there is left in the kernel.
 */
void tables_settle(struct tables *tables);

#endif
