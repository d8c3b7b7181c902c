/* See short_read.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/short_read.h"

#include <string.h>

static const struct {
    enum sonde_event_id is, behind; /* SONDE_EVENT_none: anything */
    unsigned words;
    void (*give)(uint64_t word, uint64_t rest, struct short_event *event);
} KINDS[SONDE_SHORT_COUNT] = {
#define S(ident, words, behind) {SONDE_EVENT_##ident, SONDE_EVENT_##behind, words, short_give_##ident},
    SONDE_TARGET_SHORT(S)
#undef S
};

#define S(ident, words, behind)                                                                     \
    _Static_assert(sizeof(struct record_##ident) <= SHORT_FIELDS && ((words) == 2 || (words) == 3), \
                   "as short.h says");
SONDE_TARGET_SHORT(S)
#undef S

unsigned short_words(unsigned id)
{
    return KINDS[id - SONDE_SHORT_FIRST].words;
}

/* The size of an event's fields, if its short records change them; else 0. */
static size_t size_of_basis(enum sonde_event_id id)
{
    switch (id) {
#define S(ident, words, behind) \
    case SONDE_EVENT_##ident:   \
        return sizeof(struct record_##ident);
        SONDE_TARGET_SHORT(S)
#undef S
    default:
        return 0;
    }
}

void short_remember(struct short_event *newest, enum sonde_event_id id, uint64_t end_tsc, uint64_t duration,
                    const void *payload)
{
    newest->id = id;
    newest->end_tsc = end_tsc;
    newest->duration = duration;
    memcpy(newest->fields, payload, size_of_basis(id));
}

bool short_expand(struct short_event *newest, const uint64_t *words)
{
    unsigned number = (words[1] & 0xff) - SONDE_SHORT_FIRST;
    enum sonde_event_id behind = KINDS[number].behind;
    if (behind != SONDE_EVENT_none && behind != newest->id) {
        newest->id = SONDE_EVENT_none;
        return false;
    }
    bool timed = KINDS[number].words == 3;
    if (timed)
        newest->end_tsc = words[0];
    KINDS[number].give(timed ? words[2] : words[0], words[1] >> 16, newest);
    newest->id = KINDS[number].is;
    return true;
}
