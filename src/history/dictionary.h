/* The distinct strings among a history's values, numbered in order of first use. Private to src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_DICTIONARY_H
#define HISTORY_DICTIONARY_H

#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"

/* Zero-initialise to use. */
struct dictionary {
    ARRAY(const char *) strings; /* by number */
    struct map by_hash;          /* hash, probed upwards -> number + 1 */
    struct arena arena;
};

void dictionary_done(struct dictionary *dictionary);

/* The string's number, given out anew when it is not known yet. -ENOMEM, or -E2BIG when all 2^32 - 2 are
 * used. */
int dictionary_add(struct dictionary *dictionary, const char *string, size_t length, uint32_t *ret_number);

#endif
