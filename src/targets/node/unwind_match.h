/* Places in the source by matching its words with the bytecodes (unwind_match.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_MATCH_H
#define TARGETS_NODE_UNWIND_MATCH_H

#include "targets/node/unwind.h"
#include "targets/node/unwind_heap.h"

/* The bytes of an array of V8's heap that has at most limit of them; data: where they begin. The caller frees
 * them. */
bool v8_bytes(const struct v8_heap *heap, uint64_t array, int32_t data, uint32_t limit, uint8_t **ret_bytes,
              uint32_t *ret_length);

/* Where in the text the bytecode at the offset comes from; -1: not known. context: the function's, for the
 * names of variables; may be 0. */
int32_t v8_match_position(const struct v8_heap *heap, const struct v8_text *text,
                          const struct v8_function *function, uint64_t bytecodes, int32_t offset,
                          uint64_t context);

#endif
