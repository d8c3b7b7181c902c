/* Compiles the .eh_frame of an ELF file to rows that can be stepped with two registers (rsp, rbp). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_EHFRAME_H
#define UNWIND_EHFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "symbol/elf.h"
#include "unwind/rows.h"

struct unwind_table {
    struct unwind_row *rows; /* sorted by pc; between functions lie CFA_GAP rows */
    size_t count;
    bool borrowed;      /* rows belong to somebody else */
    uint64_t base;      /* row.pc + base = address in the file */
    size_t functions;   /* FDEs read */
    size_t unsupported; /* rows whose rules need more than rsp and rbp */
    size_t damaged;     /* entries that were cut off or made no sense */
};

/* Reads the table; -ENOENT when the file has no .eh_frame, -EFBIG when its code spans more than 4 GB.
 * Released with unwind_table_free(). */
int unwind_table_read(const struct elf *elf, struct unwind_table **ret_table);
void unwind_table_free(struct unwind_table *table);
DEFINE_FREEP(struct unwind_table, unwind_table_free)

/* The row for an address of the file; NULL before the first. */
const struct unwind_row *unwind_table_find(const struct unwind_table *table, uint64_t address);

#endif
