/* Radix sort, the least significant digit first, of keys with the places of their items. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct keyed {
    uint64_t key;
    uint32_t place;
};

enum { DIGIT_BITS = 11, DIGITS = 6, VALUES = 1 << DIGIT_BITS }; /* 6 * 11 >= 64 */

static size_t value_of(struct keyed item, unsigned digit)
{
    return item.key >> (DIGIT_BITS * digit) & (VALUES - 1);
}

/* One digit; where the keys are afterwards. */
static struct keyed *sort_digit(struct keyed *from, struct keyed *to, size_t count, unsigned digit)
{
    size_t at[VALUES] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        at[value_of(from[i], digit)]++;
    for (size_t v = 0; v < VALUES; v++) {
        size_t n = at[v];
        at[v] = sum;
        sum += n;
    }
    for (size_t i = 0; i < count; i++)
        to[at[value_of(from[i], digit)]++] = from[i];
    return to;
}

int sort_by_key(void *items, size_t count, size_t size, uint64_t (*key)(const void *item))
{
    if (count < 2)
        return 0;
    if (count > UINT32_MAX)
        return -E2BIG;
    uint64_t last = 0, now;
    size_t ordered = 0;
    while (ordered < count && (now = key((uint8_t *)items + ordered * size)) >= last) {
        last = now;
        ordered++;
    }
    if (ordered == count)
        return 0;
    struct keyed *keys = malloc(2 * count * sizeof(*keys)), *sorted = keys;
    uint8_t *copy = malloc(count * size);
    if (!keys || !copy) {
        free(keys);
        free(copy);
        return -ENOMEM;
    }
    uint64_t differ = 0;
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct keyed){key((uint8_t *)items + i * size), (uint32_t)i};
        differ |= keys[i].key ^ keys[0].key;
    }
    for (unsigned digit = 0; digit < DIGITS; digit++)
        if (value_of((struct keyed){.key = differ}, digit)) /* else all have the same */
            sorted = sort_digit(sorted, sorted == keys ? keys + count : keys, count, digit);
    memcpy(copy, items, count * size);
    for (size_t i = 0; i < count; i++)
        memcpy((uint8_t *)items + i * size, copy + sorted[i].place * size, size);
    free(keys);
    free(copy);
    return 0;
}
