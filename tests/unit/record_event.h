/* A record as the probe would write it, as the event that a reader would hand out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_RECORD_EVENT_H
#define TESTS_UNIT_RECORD_EVENT_H

#include <string.h>

#include "trace/event.h"

#define US(n) ((uint64_t)(n)*1000)
#define MS(n) ((uint64_t)(n)*1000000)

enum { RECORD_VALUES = 32 };

static inline void record_value(struct value *to, const struct event_field *field, const char *record)
{
    const char *at = record + field->record_offset;
    switch (field->type) {
#define CASE(type, ctype, member)            \
    case FIELD_TYPE_##type: {                \
        ctype number;                        \
        memcpy(&number, at, sizeof(number)); \
        to->member = number;                 \
        break;                               \
    }
        CASE(u8, uint8_t, u)
        CASE(u16, uint16_t, u)
        CASE(u32, uint32_t, u)
        CASE(u64, uint64_t, u)
        CASE(i32, int32_t, i)
        CASE(i64, int64_t, i)
#undef CASE
    case FIELD_TYPE_str:
        break;
    }
}

/* texts: of the event's strings, in their order; those that are missing are empty. The event borrows values,
 * which must be zeroed. */
static inline struct event record_event(enum sonde_event_id id, int64_t pid, int64_t tid, uint64_t time_ns,
                                        uint64_t duration_ns, const void *record, const char *const *texts,
                                        unsigned text_count, struct value values[static RECORD_VALUES])
{
    const struct event_description *d = &event_catalogue[id];
    unsigned text = 0;
    values[0].u = duration_ns;
    for (unsigned i = 1; i < d->field_count; i++) {
        record_value(&values[i], &d->fields[i], record);
        if (d->fields[i].type != FIELD_TYPE_str)
            continue;
        values[i].s = text < text_count ? texts[text] : "";
        values[i].length = (uint32_t)strlen(values[i].s);
        text++;
    }
    return (struct event){
        .time_ns = time_ns, .id = id, .pid = pid, .tid = tid, .values = values, .present = UINT64_MAX};
}

#endif
