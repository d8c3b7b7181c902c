/* Source files and lines of native code, from DWARF. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_LINES_H
#define SYMBOL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "symbol/elf.h"

struct lines;

struct line_position {
    const char *file; /* lives as long as the lines */
    uint32_t line, column;
};

/* About how much memory reading the lines of a file takes, in bytes: what is compressed is held as a whole,
 * of the rest what was asked for (a quarter is assumed). 0 when it has none. */
size_t lines_cost(struct elf *elf);

/* -ENOENT when the file has no DWARF. elf must outlive the result. */
int lines_open(struct elf *elf, struct lines **ret_lines);
void lines_free(struct lines *lines);
DEFINE_FREEP(struct lines, lines_free)

/* The line of the code at an address of the file; with function, the one where its function begins (so that
 * all of a function's code has one place). -ENOENT where nothing is known. */
int lines_find(struct lines *lines, uint64_t address, bool function, struct line_position *ret_position);

/* A function whose code stands inside another's. */
struct line_inlined {
    const char *name;              /* as the compiler wrote it: may be mangled */
    struct line_position declared; /* where the function stands; file NULL: unknown */
    struct line_position call;     /* where it was called, in the next outer one */
};

/* The functions inlined at an address, the innermost first; what holds them all is the symbol's function and
 * not among them. Returns how many. Texts live as long as the lines. DWARF 5, sections 3.3.8 and 2.17. */
size_t lines_inlined(struct lines *lines, uint64_t address, struct line_inlined *ret_list, size_t limit);

#endif
