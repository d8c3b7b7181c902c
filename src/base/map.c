/* See map.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t slot_of(const struct map *map, uint64_t key)
{
    /* Fibonacci hashing: keys are often pointers or small integers. */
    return (size_t)((key * 0x9E3779B97F4A7C15ull) >> 32) & (map->capacity - 1);
}

static struct map_slot *find(const struct map *map, uint64_t key)
{
    size_t i = slot_of(map, key);
    while (map->slots[i].used && map->slots[i].key != key)
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

static bool grow(struct map *map)
{
    struct map bigger = {.capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (!bigger.slots)
        return false;
    if (map->slots) {
        map_foreach (map, slot) {
            *find(&bigger, slot->key) = *slot;
        }
    }
    free(map->slots);
    *map = bigger;
    return true;
}

uint64_t *map_get(const struct map *map, uint64_t key)
{
    if (!map->count)
        return NULL;
    struct map_slot *slot = find(map, key);
    return slot->used ? &slot->value : NULL;
}

uint64_t *map_put(struct map *map, uint64_t key, bool *ret_new)
{
    if (map->count * 4 >= map->capacity * 3 && !grow(map))
        return NULL;
    struct map_slot *slot = find(map, key);
    bool added = !slot->used;
    if (added) {
        *slot = (struct map_slot){.key = key, .used = 1};
        map->count++;
    }
    if (ret_new)
        *ret_new = added;
    return &slot->value;
}

int map_copy(struct map *ret_copy, const struct map *map)
{
    struct map copy = *map;
    copy.slots = map->capacity ? malloc(map->capacity * sizeof(*map->slots)) : NULL;
    if (map->capacity && !copy.slots) {
        *ret_copy = (struct map){0};
        return -ENOMEM;
    }
    if (map->capacity)
        memcpy(copy.slots, map->slots, map->capacity * sizeof(*map->slots));
    *ret_copy = copy;
    return 0;
}

bool map_remove(struct map *map, uint64_t key)
{
    if (!map->count)
        return false;
    struct map_slot *slot = find(map, key);
    if (!slot->used)
        return false;
    size_t mask = map->capacity - 1, hole = (size_t)(slot - map->slots);
    for (size_t i = (hole + 1) & mask; map->slots[i].used; i = (i + 1) & mask) {
        size_t home = slot_of(map, map->slots[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].used = 0;
    map->count--;
    return true;
}

void map_clear(struct map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->capacity * sizeof(*map->slots));
    map->count = 0;
}

void map_done(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}

uint64_t map_hash(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}
