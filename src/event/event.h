/* The catalogue as tables that a program can walk: for the CTF writer, the readers and the manual. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_EVENT_H
#define EVENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/catalogue.h"

enum field_type {
    FIELD_TYPE_u8,
    FIELD_TYPE_u16,
    FIELD_TYPE_u32,
    FIELD_TYPE_u64,
    FIELD_TYPE_i32,
    FIELD_TYPE_i64,
    FIELD_TYPE_str,
};

struct event_label {
    uint32_t value;
    const char *label;
};

/* What a field's number means: a unit, or the labels of an enumeration. */
struct event_meaning {
    const char *name;                 /* "bytes", "uv_kind" */
    const char *unit;                 /* "" for enumerations */
    const struct event_label *labels; /* NULL for units */
    uint32_t label_count;
};

struct event_field {
    const char *name;
    const char *text; /* what it says, for the manual */
    enum field_type type;
    enum sonde_meaning meaning;
    uint16_t record_offset; /* in struct record_X; a string's length stands there */
};

struct event_description {
    const char *name; /* "redis:command" */
    const char *text;
    bool span;   /* has a duration; its time is its end */
    bool probe;  /* from a ring; else from the collector */
    bool kernel; /* written by the BPF program, else by the collector */
    uint16_t record_size;
    uint8_t field_count;              /* with the duration at index 0, which every event reserves */
    const struct event_field *fields; /* in the order of FIELD_x constants; fields[0] is the duration */
};

/* Indexed by enum sonde_event_id; entry 0 is empty. SONDE_EVENT_COUNT entries. */
extern const struct event_description event_catalogue[];

/* Indexed by enum sonde_meaning. */
extern const struct event_meaning event_meanings[];

/* The catalogue number of a name, or SONDE_EVENT_none. */
enum sonde_event_id event_by_name(const char *name);

/* An enumeration's label for a value, or NULL when it has none. */
const char *event_label(enum sonde_meaning meaning, uint64_t value);

#endif
