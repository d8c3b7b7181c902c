/* Short records (short.h) as what they stand for. What they are made of was written by a traced process: any
 * values may come. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_SHORT_READ_H
#define EVENT_SHORT_READ_H

#include "event/short.h"

/* In words, of a number from SONDE_SHORT_FIRST to 255. */
unsigned short_words(unsigned id);

/* *newest is what was read last of a ring: an ordinary record becomes that ... */
void short_remember(struct short_event *newest, enum sonde_event_id id, uint64_t end_tsc, uint64_t duration,
                    const void *payload);

/* ... and a short record (all its words), once it is what that stands for, whose fields are in
 * newest->fields. False: it is not behind what it has to be, and then nothing is behind it. */
bool short_expand(struct short_event *newest, const uint64_t *words);

#endif
