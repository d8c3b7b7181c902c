/* See event_names.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/event_names.h"

#include <errno.h>
#include <string.h>

#include "event/event.h"

struct name_text {
    uint64_t number;
    int64_t pid;
    uint16_t trace;
    struct name_text *next; /* of the same hash */
    const char *text;
};

#define NAME_BYTES_MAX (64u << 20) /* of all texts; later ones are not learnt */

static uint64_t key_of(uint16_t trace, int64_t pid, uint64_t number)
{
    uint64_t parts[3] = {trace, (uint64_t)pid, number};
    return map_hash(parts, sizeof(parts));
}

int event_names_learn(struct event_names *names, const struct event *event)
{
    if (event->id != SONDE_EVENT_probe_name || names->arena.held_bytes > NAME_BYTES_MAX)
        return 0;
    int id = event_class_find(event->class, "id"), text = event_class_find(event->class, "text");
    if (id < 0 || text < 0 || !event_has(event, (uint32_t)id) || !event_has(event, (uint32_t)text))
        return 0;
    uint64_t *place = map_put(&names->texts, key_of(event->trace, event->pid, event->values[id].u), NULL);
    struct name_text *n = arena_alloc(&names->arena, sizeof(*n));
    if (!place || !n)
        return -ENOMEM;
    const struct value *v = &event->values[text];
    *n = (struct name_text){.number = event->values[id].u,
                            .pid = event->pid,
                            .trace = event->trace,
                            .next = (struct name_text *)(uintptr_t)*place, /* a newer text stands in front */
                            .text = arena_strndup(&names->arena, v->s, v->length)};
    if (!n->text)
        return -ENOMEM;
    *place = (uint64_t)(uintptr_t)n;
    return 0;
}

const char *event_names_get(const struct event_names *names, uint16_t trace, int64_t pid, uint64_t number)
{
    const uint64_t *place = map_get(&names->texts, key_of(trace, pid, number));
    for (const struct name_text *n = place ? (const struct name_text *)(uintptr_t)*place : NULL; n;
         n = n->next)
        if (n->trace == trace && n->pid == pid && n->number == number)
            return n->text;
    return NULL;
}

bool event_names_has_field(const struct event_class *class, uint32_t field)
{
    return class->id != EVENT_FOREIGN && field < event_catalogue[class->id].field_count &&
           event_catalogue[class->id].fields[field].meaning == SONDE_MEANING_name_id;
}

const char *event_names_of_field(const struct event_names *names, const struct event *event, uint32_t field)
{
    if (!names || !event_names_has_field(event->class, field))
        return NULL;
    return event_names_get(names, event->trace, event->pid, event->values[field].u);
}

void event_names_done(struct event_names *names)
{
    map_done(&names->texts);
    arena_done(&names->arena);
}
