/* Strings as numbers: each distinct string is kept once and numbered from 0. They are
 * valid UTF-8: invalid bytes have been replaced with U+FFFD. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_NAMES_H
#define SPAN_NAMES_H

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "span/span.h"

/* Zero-initialise to use; names_done() when finished. Not thread safe. */
struct names {
    struct map by_hash;
    ARRAY(struct slice) strings; /* NUL-terminated too */
    struct arena arena;
};

#define NAMES_NONE UINT32_MAX

/* The string's number, new or known; NAMES_NONE when memory is exhausted. */
uint32_t names_put(struct names *names, struct slice string);

/* The number of a string that is known, or NAMES_NONE. */
uint32_t names_find(const struct names *names, struct slice string);

/* The string of a number, borrowed; "" for NAMES_NONE. */
const char *names_get(const struct names *names, uint32_t number);

void names_done(struct names *names);

#endif
