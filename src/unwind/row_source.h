/* Languages whose files carry unwind rules and names of their own, in place of .eh_frame and symbols. Each is
 * one `const struct row_source row_source_NAME` in src/targets/NAME/rows.c; the table is made from
 * event/targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_ROW_SOURCE_H
#define UNWIND_ROW_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"
#include "unwind/rows.h"

/* A function in which the language's own threads, which the kernel does not know, wait for a lock, or let
 * others go on that wait. Its first parameter is the lock, in RAX, and R14 is the thread. */
struct row_source_lock {
    const char *function; /* NULL: the end of a list */
    bool lets_go;
};

struct row_source {
    /* Rows for the language's code in the file, pc relative to base, in no order; owned by the caller.
     * -ENOENT when the file has none. */
    int (*read)(const struct elf *elf, uint64_t base, struct unwind_row **ret_rows, size_t *ret_count);
    /* The name of the function at an address of the file, borrowed from it; NULL when there is none. */
    const char *(*name)(const struct elf *elf, uint64_t address);

    /* ---- optional: NULL where there is nothing of it ---- */

    const struct row_source_lock *locks; /* one that uses another one comes first */
    /* [start, end) of the function of that name, with what pads it. -ENOENT when the file has none. */
    int (*find)(const struct elf *elf, const char *name, uint64_t *ret_start, uint64_t *ret_end);
    /* How far behind a thread its number lies; 0: not known. */
    uint16_t (*number)(const struct elf *elf);
};

/* Ends with NULL. */
extern const struct row_source *const ROW_SOURCES[];

#endif
