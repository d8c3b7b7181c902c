/* How the Redis model reads an event's fields: 0 and -1 where a recording does not have them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_EVENT_H
#define TARGETS_REDIS_EVENT_H

#include "trace/event.h"

#define HAS(e, field) ((e)->present >> FIELD_##field & 1)
#define U(e, field)   (HAS(e, field) ? (e)->values[FIELD_##field].u : 0)
#define I(e, field)   (HAS(e, field) ? (e)->values[FIELD_##field].i : -1)

#endif
