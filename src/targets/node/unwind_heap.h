/* Objects of another process's V8 heap: words, types, strings, functions, scripts. The heap moves and may be
 * torn while it is read: every object is checked by its type before it is believed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_HEAP_H
#define TARGETS_NODE_UNWIND_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "targets/node/unwind_layout.h"

struct v8_heap {
    pid_t pid;
    const struct v8_layout *layout;
    struct memory_pages *pages; /* that it is read through; NULL: straight */
};

#define V8_NO_TYPE 0xffff

static inline bool v8_is_object(uint64_t word)
{
    return (word & 3) == 1;
}

static inline bool v8_is_smi(uint64_t word)
{
    return (word & 0xffffffff) == 0;
}

static inline int32_t v8_smi(uint64_t word)
{
    return (int32_t)(word >> 32);
}

/* The word at an offset of an object (a tagged pointer); false when it cannot be read. */
bool v8_word(const struct v8_heap *heap, uint64_t object, int32_t offset, uint64_t *ret_word);

/* The object's instance type, or V8_NO_TYPE when the word is no readable object. */
uint16_t v8_type(const struct v8_heap *heap, uint64_t word);

/* The same by an object's first word, its map. */
uint16_t v8_type_of_map(const struct v8_heap *heap, uint64_t map);

bool v8_is_string(const struct v8_heap *heap, uint64_t word);

/* A string's content. Two-byte strings stay UTF-16. */
struct v8_text {
    void *units;
    uint32_t length; /* in units */
    bool wide;       /* units are uint16_t, otherwise Latin-1 bytes */
};

/* Reads a string up to limit units (cut there). -EINVAL when it is none, -EFAULT. units is freed by the
 * caller. */
int v8_text(const struct v8_heap *heap, uint64_t string, uint32_t limit, struct v8_text *ret_text);

static inline uint32_t v8_unit(const struct v8_text *text, uint32_t index)
{
    return text->wide ? ((const uint16_t *)text->units)[index] : ((const uint8_t *)text->units)[index];
}

/* The string in UTF-8, owned by the caller, or NULL. */
char *v8_string(const struct v8_heap *heap, uint64_t string, uint32_t limit);

/* What is known about a function's shared information. */
struct v8_function {
    uint64_t shared;
    uint64_t script;    /* 0 for functions without source */
    uint64_t bytecodes; /* 0 when not readable from here */
    int32_t start, end; /* range in the script's source; -1 when unknown */
    char *name;         /* "" when it has none; owned by the caller */
};

/* Is it a function object with readable shared information? */
bool v8_is_function(const struct v8_heap *heap, uint64_t word);

/* The name of a variable that lives in a context: slot of the context depth levels out. 0 or a string. */
uint64_t v8_context_variable(const struct v8_heap *heap, uint64_t context, uint32_t depth, uint32_t slot);

/* Where the parts of a function lie: as long as that is the same, so is the function. 0: it is none. */
uint64_t v8_function_identity(const struct v8_heap *heap, uint64_t function);

int v8_function(const struct v8_heap *heap, uint64_t function, struct v8_function *ret_function);
int v8_function_of_shared(const struct v8_heap *heap, uint64_t shared, struct v8_function *ret_function);

#endif
