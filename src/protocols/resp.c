/* RESP: Redis, Valkey and what speaks as they do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/commands.h"
#include "protocols/protocols.h"

enum { SHORTEST = 11 }; /* "*1\r\n$1\r\nx\r\n" */

const struct protocol protocol_resp = COMMAND_PROTOCOL(resp, SHORTEST, .server = "Redis");
