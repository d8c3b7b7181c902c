/* What a target shows as states over time: one `const struct state_source states_NAME` in
 * src/targets/NAME/states.c, which need not exist. states.c hands it the events that it wants. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_SOURCE_H
#define STATES_SOURCE_H

#include "event/catalogue.h"
#include "states/state_places.h"

struct state_source {
    const uint16_t *wanted;        /* catalogue ids, ended by 0; no two sources want the same */
    int (*start)(void **ret_self); /* 0 or -ENOMEM; what the others get as self, may be NULL */
    int (*event)(void *self, struct state_places *places, const struct event *e); /* 0 or a negative errno */
    void (*stop)(void *self); /* frees self; NULL: nothing to free */
};

/* When a span began, whose event's time is its end. */
static inline uint64_t state_start(const struct event *e)
{
    uint64_t duration = e->values[FIELD_DURATION].absent ? 0 : e->values[FIELD_DURATION].u;
    return e->time_ns > duration ? e->time_ns - duration : 0;
}

#endif
