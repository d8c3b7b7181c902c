/* See event.h. Generated from the catalogue by its own macros. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#include <stddef.h>
#include <string.h>

#define L(e, ident, value, text) {value, text},
#define M(ident)                 static const struct event_label LABELS_##ident[] = {SONDE_ENUM_##ident(L, ident)};
SONDE_ENUMS(M)
#undef M
#undef L

const struct event_meaning event_meanings[] = {
#define M(ident, unit) {#ident, unit, NULL, 0},
    SONDE_UNITS(M)
#undef M
#define M(ident) {#ident, "", LABELS_##ident, sizeof(LABELS_##ident) / sizeof(LABELS_##ident[0])},
        SONDE_ENUMS(M)
#undef M
};

#define OFFSET_u8(e, name)  offsetof(struct record_##e, name)
#define OFFSET_u16(e, name) offsetof(struct record_##e, name)
#define OFFSET_u32(e, name) offsetof(struct record_##e, name)
#define OFFSET_u64(e, name) offsetof(struct record_##e, name)
#define OFFSET_i32(e, name) offsetof(struct record_##e, name)
#define OFFSET_i64(e, name) offsetof(struct record_##e, name)
#define OFFSET_str(e, name) offsetof(struct record_##e, name##_length)
#define F(e, type, name, meaning, text) \
    {#name, text, FIELD_TYPE_##type, SONDE_MEANING_##meaning, OFFSET_##type(e, name)},
#define E(ident, name, shape, origin, text)                                    \
    static const struct event_field FIELDS_##ident[] = {                       \
        {"duration", "how long it took", FIELD_TYPE_u64, SONDE_MEANING_ns, 0}, \
        SONDE_FIELDS_##ident(F, ident)};
SONDE_EVENTS(E)
#undef E
#undef F

#define SHAPE_SPAN       true
#define SHAPE_INSTANT    false
#define ORIGIN_PROBE     true, false
#define ORIGIN_COLLECTOR false, false
#define ORIGIN_KERNEL    false, true

const struct event_description event_catalogue[] = {{0},
#define E(ident, name, shape, origin, text)              \
    {name,                                               \
     text,                                               \
     SHAPE_##shape,                                      \
     ORIGIN_##origin,                                    \
     sizeof(struct record_##ident),                      \
     sizeof(FIELDS_##ident) / sizeof(FIELDS_##ident[0]), \
     FIELDS_##ident},
                                                    SONDE_EVENTS(E)
#undef E
};

enum sonde_event_id event_by_name(const char *name)
{
    for (int i = 1; i < SONDE_EVENT_COUNT; i++)
        if (strcmp(event_catalogue[i].name, name) == 0)
            return (enum sonde_event_id)i;
    return SONDE_EVENT_none;
}

const char *event_label(enum sonde_meaning meaning, uint64_t value)
{
    const struct event_meaning *m = &event_meanings[meaning];
    for (uint32_t i = 0; i < m->label_count; i++)
        if (m->labels[i].value == value)
            return m->labels[i].label;
    return NULL;
}
