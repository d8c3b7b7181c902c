/* Bytes to and from an address whose protocol is not known. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_EXCHANGE_H
#define PROTOCOLS_EXCHANGE_H

#include "model/model.h"

/* Nothing has come back since the exchange on c began: the newest call, of that number, is more of it. */
bool exchange_joins(struct connection *c, uint64_t number);

#endif
