/* See dictionary.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/dictionary.h"

#include <string.h>

void dictionary_done(struct dictionary *dictionary)
{
    array_done(&dictionary->strings);
    map_done(&dictionary->by_hash);
    arena_done(&dictionary->arena);
}

int dictionary_add(struct dictionary *dictionary, const char *string, size_t length, uint32_t *ret_number)
{
    uint64_t key = map_hash(string, length);
    for (;; key++) {
        const uint64_t *found = map_get(&dictionary->by_hash, key);
        if (!found)
            break;
        const char *known = dictionary->strings.at[*found - 1];
        if (!strncmp(known, string, length) && !known[length]) {
            *ret_number = (uint32_t)*found - 1;
            return 0;
        }
    }
    if (dictionary->strings.count >= UINT32_MAX - 1)
        return -E2BIG;
    if (array_reserve(&dictionary->strings, dictionary->strings.count + 1) < 0)
        return -ENOMEM;
    char *copy = arena_strndup(&dictionary->arena, string, length);
    uint64_t *slot = copy ? map_put(&dictionary->by_hash, key, NULL) : NULL;
    if (!slot)
        return -ENOMEM;
    (void)array_add(&dictionary->strings, copy);
    *slot = dictionary->strings.count;
    *ret_number = (uint32_t)dictionary->strings.count - 1;
    return 0;
}
