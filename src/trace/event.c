/* See event.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/event.h"

#include <stddef.h>
#include <string.h>

#include "trace/metadata.h"

enum sonde_event_id event_recorded_as(const struct event *event, uint64_t number)
{
    const struct event_meta *own = event->class ? event->class->reader : NULL;
    if (!own) /* it comes from this very program */
        return number < SONDE_EVENT_COUNT ? (enum sonde_event_id)number : SONDE_EVENT_none;
    for (const struct event_meta *e = own->stream->events; e; e = e->next)
        if (e->has_id && e->id == number)
            return e->public->id == EVENT_FOREIGN ? SONDE_EVENT_none : (enum sonde_event_id)e->public->id;
    return SONDE_EVENT_none;
}

int event_class_find(const struct event_class *class, const char *name)
{
    int found = -1;
    for (uint32_t i = 0; i < class->field_count; i++) {
        if (strcmp(class->fields[i].name, name) != 0)
            continue;
        if (class->fields[i].scope == SCOPE_PAYLOAD)
            return (int)i;
        if (found < 0)
            found = (int)i;
    }
    return found;
}

const char *trace_field_label(const struct trace_field *field, const struct value *value)
{
    if (field->type == TYPE_BITMAP)
        return NULL;
    for (uint32_t i = 0; i < field->label_count; i++) {
        const struct trace_label *l = &field->labels[i];
        if (field->type == TYPE_SIGNED ? value->i >= l->low_signed && value->i <= l->high_signed
                                       : value->u >= l->low && value->u <= l->high)
            return l->name;
    }
    return NULL;
}
