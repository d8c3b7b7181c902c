/* Events as text: one line for people, one JSON object for programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include "base/text.h"
#include "trace/event.h"
#include "trace/event_names.h"

/* Appends "name=value, name=value" for the fields of one scope; arrays in brackets, structures in braces,
 * labels of enumerations and names behind the numbers: kind=read(1). */
void format_fields(struct text *text, const struct event *event, enum field_scope scope,
                   const struct event_names *names);

/* Appends one JSON object without a newline:
 *     {"time_ns":1,"name":"redis:command","host":"h","pid":7,"tid":8,"stream":0,"fields":{"bytes":12,...}}
 * "context" and "packet" hold the other scopes when they have fields. An enumeration's label or a name's text
 * stands beside the number as "kind.label". Text that is not UTF-8 has U+FFFD in place of the wrong bytes;
 * reals that JSON cannot say are null. */
void format_json(struct text *text, const struct event *event, const char *host,
                 const struct event_names *names);

/* Appends the name of an enumeration's value, or those of a bit map's bits that are set: "read|write". False
 * when there is none. */
bool format_label(struct text *text, const struct trace_field *field, const struct value *value);

/* Appends an integer; faster than text_addf(). */
void format_unsigned(struct text *text, uint64_t value);
void format_signed(struct text *text, int64_t value);

/* Appends the time of day of a wall-clock time in UTC: "2022-04-07 19:56:48.569332756". */
void format_time(struct text *text, int64_t since_epoch_ns);

#endif
