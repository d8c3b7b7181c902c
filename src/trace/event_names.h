/* The texts behind name numbers: each process gives a number a text once (probe:name), and its later events
 * carry the number (fields whose meaning in the catalogue is name_id). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_EVENT_NAMES_H
#define TRACE_EVENT_NAMES_H

#include "base/arena.h"
#include "base/map.h"
#include "trace/event.h"

/* Zero-initialise to use; event_names_done() when finished. */
struct event_names {
    struct map texts; /* hash of trace, pid and number -> struct name_text */
    struct arena arena;
};

/* Learns from a probe:name event; others are ignored. 0 or -ENOMEM. */
int event_names_learn(struct event_names *names, const struct event *event);

/* The text, NUL-terminated, or NULL. */
const char *event_names_get(const struct event_names *names, uint16_t trace, int64_t pid, uint64_t number);

/* Whether the field of a catalogue event is a name. */
bool event_names_has_field(const struct event_class *class, uint32_t field);

/* The text behind a field of a catalogue event when the field is a name, or NULL. */
const char *event_names_of_field(const struct event_names *names, const struct event *event, uint32_t field);

void event_names_done(struct event_names *names);

#endif
