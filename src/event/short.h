/* Short records: for what follows in a thread's ring right behind the record that says the rest, and for what
 * happens so often that smaller fields are worth it. Most of what is written in a pipeline of commands, and
 * of a file's operations, is what the record before has too: a client, a descriptor, a time.
 *
 * One of two words has no time of its own: it stands behind a record of a certain event, takes over the time
 * and the fields of that, and changes some. One of three words has one, and may stand behind anything:
 *
 *     words   first            second                                                          third
 *     2       what it says     bits 0-7 number, 8-15 words, as in ring.h; 16-63: more of it
 *     3       its end_tsc      the same                                                        what it says
 *
 * What a short record stands behind may be a short one, too. What does not fit into one is an ordinary
 * record. Which there are, and what they say, is in the short.h of targets. They are in rings only: who reads
 * a ring gets what they stand for (short_read.h), so that a recording has none. A ring may be read between
 * any two of them, and after the death of its process: each is whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_SHORT_H
#define EVENT_SHORT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/catalogue.h"
#include "event/ring.h"

enum { SHORT_FIELDS = 48 };

/* A record as it is read. */
struct short_event {
    enum sonde_event_id id;
    uint64_t end_tsc, duration;
    char fields[SHORT_FIELDS] __attribute__((aligned(8))); /* struct record_X, of what takes part in this */
};

#include "event/target_short.h"

/* S(ident of the event that it stands for, its words, ident of what it is behind or none) */
enum {
#define S(ident, words, behind) SONDE_SHORT_PLACE_##ident,
    SONDE_TARGET_SHORT(S)
#undef S
        SONDE_SHORT_COUNT,
    SONDE_SHORT_FIRST = 256 - SONDE_SHORT_COUNT
};
enum sonde_short {
    SONDE_SHORT_none,
#define S(ident, words, behind) SONDE_SHORT_##ident = SONDE_SHORT_FIRST + SONDE_SHORT_PLACE_##ident,
    SONDE_TARGET_SHORT(S)
#undef S
};
_Static_assert((int)SONDE_EVENT_COUNT <= (int)SONDE_SHORT_FIRST, "the last numbers are theirs");

static inline uint64_t short_meta(enum sonde_short id, uint64_t words, uint64_t rest)
{
    return id | words << 8 | rest << 16;
}

#endif
