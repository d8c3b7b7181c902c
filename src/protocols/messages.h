/* Messages that go through a broker: what a turn of the event loop says of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_MESSAGES_H
#define PROTOCOLS_MESSAGES_H

#include "model/model.h"

/* A message was sent for the request; number: as the item of the turn has it. */
void queue_sent_for(struct analysis *a, uint64_t number, struct request *owner, enum known known,
                    uint32_t parent);

#endif
