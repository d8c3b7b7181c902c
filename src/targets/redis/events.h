/* Which events of Redis the analysis of requests reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_EVENTS_H
#define TARGETS_REDIS_EVENTS_H

#include "model/protocol.h"

extern const struct event_reading REDIS_EVENTS[];

#endif
