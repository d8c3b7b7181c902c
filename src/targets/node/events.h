/* Which events of a Node.js process the analysis of requests reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_EVENTS_H
#define TARGETS_NODE_EVENTS_H

#include "model/protocol.h"

extern const struct event_reading NODE_EVENTS[];

#endif
