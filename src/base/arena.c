/* See arena.h. Blocks are linked, newest first, and grow from 16 KiB to 1 MiB. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

struct arena_block {
    struct arena_block *next;
    size_t size_bytes;
    char data[] __attribute__((aligned(16)));
};

enum { BLOCK_MIN = 16 << 10, BLOCK_MAX = 1 << 20 };

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > (size_t)-1 - BLOCK_MAX)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (!arena->blocks || arena->blocks->size_bytes - arena->used_bytes < size) {
        size_t want = arena->blocks ? MIN(arena->blocks->size_bytes * 2, (size_t)BLOCK_MAX) : BLOCK_MIN;
        want = MAX(want, size);
        struct arena_block *block = malloc(sizeof(*block) + want);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        block->size_bytes = want;
        arena->blocks = block;
        arena->used_bytes = 0;
        arena->held_bytes += want;
    }
    void *p = arena->blocks->data + arena->used_bytes;
    arena->used_bytes += size;
    return memset(p, 0, size);
}

char *arena_strndup(struct arena *arena, const char *string, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    if (copy)
        memcpy(copy, string, length);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *string)
{
    return arena_strndup(arena, string, strlen(string));
}

void arena_done(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){0};
}
