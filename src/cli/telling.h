/* Telling what changes among findings that are looked at again and again: a line each for those that are new,
 * worse or gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TELLING_H
#define CLI_TELLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

struct told {
    char *key;   /* kind, service and place: what stays the same while it goes on */
    char *title; /* as it was told last */
    char *severity;
    json_int_t cost_ns; /* then */
    bool there;         /* in the newest look */
};

/* Zero-initialise, but for json; telling_done() when finished. */
struct telling {
    bool json; /* a document in a line each, else words */
    uint64_t read_ns;
    ARRAY(struct told) list;
};

/* Prints to stdout which findings (of a report's document) are new, became severe, cost twice as much, or are
 * gone. read_ns: what was read when they were looked at, in the trace's clock. */
void telling_changes(struct telling *telling, uint64_t read_ns, const json_t *findings);
void telling_done(struct telling *telling);

/* The text that the object has by that name, or "". */
const char *telling_text(const json_t *object, const char *key);

#endif
