/* The table of protocols; those of stores are the catalogue's list of wires. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/protocols.h"

const struct protocol *const PROTOCOLS[] = {
    &protocol_http2,
    &protocol_websocket,
    &protocol_http_server,
    &protocol_http_client,
#define STORE(e, name, number, label) &protocol_##name,
    SONDE_ENUM_wire(STORE, wire)
#undef STORE
        & protocol_pipe,
    &protocol_exchange,
    NULL,
};

const struct protocol *connection_protocol(const struct connection *c)
{
    return c->protocol ? c->protocol : connection_is_pipe(c) ? &protocol_pipe : &protocol_exchange;
}

const struct protocol *command_protocol(uint8_t wire)
{
    for (const struct protocol *const *p = PROTOCOLS; *p; p++)
        if ((*p)->command && (*p)->wire == wire)
            return *p;
    return &protocol_exchange; /* of a later version */
}
