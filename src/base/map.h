/* A hash map from a 64-bit key to a 64-bit value (an index, a pointer, a count). Open addressing with linear
 * probing and backward-shift deletion, so that it never fills up with tombstones. Strings are keys through
 * map_hash(), when the caller compares the full key behind the value itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t key;
    uint64_t value;
    uint8_t used;
};

/* Zero-initialise to use; map_done() when finished. Not thread safe. */
struct map {
    struct map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* The value's place, or NULL when the key is absent. Valid until the next map_put() or map_remove(). */
uint64_t *map_get(const struct map *map, uint64_t key);

/* The value's place, added with value 0 when absent; NULL when memory is exhausted. ret_new may be NULL. */
uint64_t *map_put(struct map *map, uint64_t key, bool *ret_new);

/* Removes the key; true when it was there. */
bool map_remove(struct map *map, uint64_t key);

/* The same keys and values in a new map. 0 or -ENOMEM, which leaves it empty. */
int map_copy(struct map *ret_copy, const struct map *map);

void map_clear(struct map *map);
void map_done(struct map *map);

/* xxh3 of the bytes, for keys that are not integers. */
uint64_t map_hash(const void *bytes, size_t length);

#define map_foreach(map, slot)                                                                \
    for (struct map_slot *slot = (map)->slots; slot < (map)->slots + (map)->capacity; slot++) \
        if (!slot->used) {                                                                    \
        } else

#endif
