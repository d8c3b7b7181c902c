/* The names of source files in the line table of a unit, without running the table's program: libdw runs all
 * of it to get at them, which was most of what naming inlined functions took. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_LINE_FILES_H
#define SYMBOL_LINE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct line_section {
    const uint8_t *at; /* NULL: the file has none, or it is still compressed */
    size_t size;
};

struct line_sections {
    struct line_section lines, line_strings, strings; /* .debug_line, .debug_line_str, .debug_str */
};

/* The path of file `number` (as DW_AT_decl_file has it) of the table at `offset` of .debug_line, appended to
 * ret_path as libdw has it: below its directory, where that is said. directory: of the unit
 * (DW_AT_comp_dir); NULL: not known. -ENOENT when the table has no such file, -EBADMSG when it makes no
 * sense, -ENOTSUP for forms that compilers do not use. */
int line_file_path(const struct line_sections *sections, uint64_t offset, uint64_t number,
                   const char *directory, struct text *ret_path);

#endif
