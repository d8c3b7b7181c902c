/* See names.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/names.h"

#include "base/text.h"

/* The slot of the string, or of the first free key after those it collides with. */
static uint64_t *locate(const struct names *names, struct slice string, uint64_t *ret_key)
{
    uint64_t key = map_hash(string.at, string.length);
    for (;; key++) {
        uint64_t *number = map_get(&names->by_hash, key);
        if (!number || slice_equal(names->strings.at[*number], string)) {
            *ret_key = key;
            return number;
        }
    }
}

static uint32_t put_new(struct names *names, struct slice string, uint64_t key)
{
    if (names->strings.count >= NAMES_NONE - 1)
        return NAMES_NONE;
    struct slice copy = {arena_strndup(&names->arena, string.length ? string.at : "", string.length),
                         string.length};
    if (!copy.at || array_add(&names->strings, copy) < 0)
        return NAMES_NONE;
    uint64_t *number = map_put(&names->by_hash, key, NULL);
    if (!number) {
        names->strings.count--;
        return NAMES_NONE;
    }
    *number = names->strings.count - 1;
    return (uint32_t)*number;
}

/* Strings that are not valid UTF-8 are found and kept in the form in which they are shown. put: NULL, or
 * names. */
static uint32_t find_or_put(const struct names *names, struct slice string, struct names *put)
{
    uint64_t key;
    const uint64_t *number = locate(names, string, &key);
    if (number)
        return (uint32_t)*number;
    if (text_is_utf8(string.at, string.length))
        return put ? put_new(put, string, key) : NAMES_NONE;
    struct text clean = {0};
    text_add_utf8(&clean, string.at, string.length);
    uint32_t found =
        clean.failed ? NAMES_NONE : find_or_put(names, (struct slice){text_get(&clean), clean.length}, put);
    text_done(&clean);
    return found;
}

uint32_t names_find(const struct names *names, struct slice string)
{
    return find_or_put(names, string, NULL);
}

uint32_t names_put(struct names *names, struct slice string)
{
    return find_or_put(names, string, names);
}

const char *names_get(const struct names *names, uint32_t number)
{
    return number < names->strings.count ? names->strings.at[number].at : "";
}

void names_done(struct names *names)
{
    map_done(&names->by_hash);
    array_done(&names->strings);
    arena_done(&names->arena);
}
