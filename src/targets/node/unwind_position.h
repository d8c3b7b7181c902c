/* From an offset into a function's bytecodes to line and column. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_POSITION_H
#define TARGETS_NODE_UNWIND_POSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/sourcemap.h"
#include "targets/node/unwind_heap.h"

enum v8_position;

/* The texts of scripts that were read, a few at a time, with the source maps that lie in them. */
struct v8_source {
    uint64_t script, string;
    struct v8_text text;
    struct source_map *map; /* NULL: none */
    bool map_sought;
};

struct v8_sources {
    struct v8_source at[8];
    size_t next;
};

void v8_sources_done(struct v8_sources *sources);

/* The line and column (from 1) of an offset into the bytecodes, in a frame with that context (0: unknown); of
 * the function's start when offset is negative or nothing better is known. Outputs stay untouched when not
 * even that is known. */
void v8_locate(const struct v8_heap *heap, struct v8_sources *sources, const struct v8_function *function,
               uint64_t bytecodes, int32_t offset, uint64_t context, uint32_t *ret_line, uint32_t *ret_column,
               enum v8_position *ret_position);

/* Generated code: what its Code object knows. */
struct v8_code {
    uint64_t code;       /* the Code object, 0 when it was not found */
    uint64_t start;      /* address of the first instruction */
    bool baseline;       /* compiled bytecode by bytecode */
    int32_t loop_offset; /* bytecode offset of the loop that was running when it took over; -1 for whole
                            functions */
};

/* The code that holds a pc in generated code, found by the header before the instructions. */
int v8_code_at(const struct v8_heap *heap, uint64_t pc, struct v8_code *ret_code);

/* The offset into the bytecodes that a pc in baseline code stands for (call: pc is a return address), or -1.
 */
int32_t v8_baseline_offset(const struct v8_heap *heap, const struct v8_code *code, uint64_t bytecodes,
                           uint64_t pc, bool call);

/* One function at a pc of optimised code: inlined functions first, the function itself last. */
struct v8_inlined {
    uint64_t shared;  /* SharedFunctionInfo; 0 for the function itself */
    int32_t position; /* in its script's source, or -1 */
};

/* Fills at most limit entries; how many, 0 when the code has no positions. */
size_t v8_inlined_at(const struct v8_heap *heap, const struct v8_code *code, uint64_t pc,
                     struct v8_inlined *ret_list, size_t limit);

/* The line and column of a position in a script's source. */
void v8_locate_position(const struct v8_heap *heap, struct v8_sources *sources, uint64_t script,
                        int32_t position, uint32_t *ret_line, uint32_t *ret_column);

/* The place that a person wrote, where the script holds its own source map, as what is translated when it is
 * loaded does (tsx, ts-node). path: of the script. false: line and column are the script's own. */
bool v8_original(const struct v8_heap *heap, struct v8_sources *sources, uint64_t script, const char *path,
                 uint32_t line, uint32_t column, struct source_place *ret_place);

#endif
