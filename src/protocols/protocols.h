/* The protocols: one file each, one table (protocols.c). A protocol is a struct protocol (model/protocol.h)
 * that its file defines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_PROTOCOLS_H
#define PROTOCOLS_PROTOCOLS_H

#include "model/model.h"

/* That of a connection: of one that nothing tells more of, a pipe's or an exchange's. Never NULL. */
const struct protocol *connection_protocol(const struct connection *c);

/* That of uv:write's wire; of one that this version does not know the exchange's. */
const struct protocol *command_protocol(uint8_t wire);

/* In the order in which they are asked about a connection that is closed. Ends with NULL. */
extern const struct protocol *const PROTOCOLS[];

extern const struct protocol protocol_http2, protocol_websocket, protocol_http_server, protocol_http_client,
    protocol_pipe, protocol_exchange;
#define STORE(e, name, number, label) extern const struct protocol protocol_##name;
SONDE_ENUM_wire(STORE, wire);
#undef STORE

/* uv:write and uv:close, by the protocol of their connection (streams.c). */
extern const struct event_reading STREAM_EVENTS[];

#endif
