/* Go programs: their unwind rules, from the runtime's own table (they have no .eh_frame). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_GO_H
#define UNWIND_GO_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"
#include "unwind/rows.h"

/* Rows for the Go code in the file, pc relative to base, in no order; owned by the caller. -ENOENT when the
 * file has no table of Go 1.18 or later. */
int go_rows_read(const struct elf *elf, uint64_t base, struct unwind_row **ret_rows, size_t *ret_count);

/* The name of the Go function at an address of the file, borrowed from it; NULL when there is none. For
 * programs without symbols: the table is always there. */
const char *go_function_name(const struct elf *elf, uint64_t address);

#endif
