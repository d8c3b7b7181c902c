/* Memory that is freed all at once: the results of one analysis, the strings of one trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* Zero-initialise to use; arena_done() when finished. Not thread safe. */
struct arena {
    struct arena_block *blocks;
    size_t used_bytes; /* of the newest block */
    size_t held_bytes; /* over all blocks, for budgets */
};

/* size bytes, zeroed, aligned to 16, or NULL when memory is exhausted. Owned by the arena. */
void *arena_alloc(struct arena *arena, size_t size);

/* Copies of a string (NUL-terminated) or of its first length bytes; NULL when memory is exhausted. */
char *arena_strdup(struct arena *arena, const char *string);
char *arena_strndup(struct arena *arena, const char *string, size_t length);

/* Frees everything; the arena is empty and usable again. */
void arena_done(struct arena *arena);

#endif
