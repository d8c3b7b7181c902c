/* One event as every pass sees it, whether it came from a CTF file, a ring of the probe or another machine.
 * An event, its class and its values are borrowed: they stay valid until the next event is asked for
 * (classes until the trace is closed). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/catalogue.h"

#ifndef EVENT_FOREIGN
#define EVENT_FOREIGN UINT16_MAX /* struct event.id of a class that sonde's catalogue does not have */
#endif

enum trace_type {
    TYPE_UNSIGNED, /* value.u; an enumeration when the field has labels */
    TYPE_SIGNED,   /* value.i; the same */
    TYPE_BOOLEAN,  /* value.u, 0 for false */
    TYPE_BITMAP,   /* value.u; labels name ranges of bit positions */
    TYPE_REAL,     /* value.d */
    TYPE_STRING,   /* value.s, value.length; not NUL-terminated */
    TYPE_BLOB,     /* the same, bytes */
    TYPE_ARRAY,    /* value.first, value.length: see event_element() */
};

/* Which part of the record a field belongs to. */
enum field_scope { SCOPE_PAYLOAD, SCOPE_CONTEXT, SCOPE_COMMON_CONTEXT, SCOPE_PACKET_CONTEXT };

/* The values [low, high] are called name; signed or unsigned as the field is. */
struct trace_label {
    union {
        uint64_t low;
        int64_t low_signed;
    };
    union {
        uint64_t high;
        int64_t high_signed;
    };
    const char *name;
};

/* A structure or variant within a class. */
struct trace_parent {
    const char *name; /* its own */
    const struct trace_parent *parent;
    uint32_t depth; /* how many parents it has itself */
};

struct trace_field {
    const char *name; /* nested members are flattened: "a.b"; a variant's option is a member: "v.option.b" */
    const char *own_name;              /* the last part of it; NULL: it has but one */
    const struct trace_parent *parent; /* whose member it is; NULL: of none that is nested */
    enum trace_type type;
    enum field_scope scope;
    uint8_t base; /* to show integers in: 2, 8, 10 or 16 */
    uint8_t bits; /* width of an integer or real */
    uint32_t label_count;
    const struct trace_label *labels;
    /* Of an array: the fields of one element (one without a name for scalars, several for structures). */
    uint32_t element_count;
    const struct trace_field *elements;
};

struct value {
    union {
        uint64_t u;
        int64_t i;
        double d;
        const char *s;
        uint64_t first; /* of an array: index of its first child in event.values */
    };
    uint32_t length; /* of a string in bytes, of an array in elements */
    uint32_t absent; /* 1: an option that is not selected, or a field this trace does not have */
};

struct event_class {
    const char *name;
    uint16_t id;       /* of the catalogue, or EVENT_FOREIGN */
    int16_t log_level; /* -1 when not given */
    /* The catalogue's fields first, in its order; then every other field of payload and contexts. */
    uint32_t field_count;
    const struct trace_field *fields;
    /* Fields of the packet context, for event.packet. */
    uint32_t packet_field_count;
    const struct trace_field *packet_fields;
    void *reader; /* private to the reader */
};

struct event {
    /* The trace's clock in ns: since the Epoch for clocks with an origin (LTTng), CLOCK_MONOTONIC for traces
     * that sonde recorded. */
    uint64_t time_ns;
    const struct event_class *class;
    const struct value *values; /* class->field_count of them, then the children of arrays */
    const struct value *packet; /* class->packet_field_count of them; NULL for live events */
    uint64_t present;           /* bit n: values[n] is there (n < 64; see event_has()) */
    int64_t pid, tid;           /* -1 when the trace does not say */
    uint32_t stream;            /* index of the stream within the experiment */
    uint16_t trace;             /* index of the trace (host, domain) within the experiment */
    uint16_t id;                /* class->id */
};

static inline bool event_has(const struct event *event, uint32_t field)
{
    return field < 64 ? event->present >> field & 1
                      : field < event->class->field_count && !event->values[field].absent;
}

/* Child number member (of field->element_count) of element number index. Nested arrays work the same. */
static inline const struct value *event_element(const struct event *event, const struct trace_field *field,
                                                const struct value *array, uint32_t index, uint32_t member)
{
    return event->values + array->first + (uint64_t)index * field->element_count + member;
}

/* The catalogue number of the event that the trace's own writer gave this number, as it stands in a
 * span:open; SONDE_EVENT_none: of none. A recording names all the events that it numbers, so that a later
 * catalogue may have others between them. */
enum sonde_event_id event_recorded_as(const struct event *event, uint64_t number);

/* The index of a field by its flattened name, payload first; -1 when there is none. */
int event_class_find(const struct event_class *class, const char *name);

/* The name of an enumeration's value, or NULL. Overlapping ranges: the first. Bit maps: format_label(). */
const char *trace_field_label(const struct trace_field *field, const struct value *value);

#endif
