/* Memcached, in its text and its binary form. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/commands.h"
#include "protocols/protocols.h"

enum { SHORTEST = 4 }; /* "mn\r\n" */

const struct protocol protocol_memcached = COMMAND_PROTOCOL(memcached, SHORTEST, .server = "Memcached");
