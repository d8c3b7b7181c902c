/* Languages whose files carry unwind rules and names of their own, in place of .eh_frame and symbols. Each is
 * one `const struct row_source row_source_NAME` in src/targets/NAME/rows.c; the table is made from
 * event/targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_ROW_SOURCE_H
#define UNWIND_ROW_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"
#include "unwind/rows.h"

struct row_source {
    /* Rows for the language's code in the file, pc relative to base, in no order; owned by the caller.
     * -ENOENT when the file has none. */
    int (*read)(const struct elf *elf, uint64_t base, struct unwind_row **ret_rows, size_t *ret_count);
    /* The name of the function at an address of the file, borrowed from it; NULL when there is none. */
    const char *(*name)(const struct elf *elf, uint64_t address);
};

/* Ends with NULL. */
extern const struct row_source *const ROW_SOURCES[];

#endif
