/* Bytes to and from an address whose protocol is not known. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_EXCHANGE_H
#define PROTOCOLS_EXCHANGE_H

#include "model/model.h"

/* Nothing has come back since the exchange on c began: the newest call, of that number, is more of it. */
bool exchange_joins(struct connection *c, uint64_t number);

/* The protocol of c is known from now on. What is still waited for was no exchange: its calls end where they
 * began; with a broker nothing was. */
void exchange_is_of(struct analysis *a, struct connection *c, const struct protocol *protocol);

#endif
