/* The probe's events by family: what is switched off together in a program that runs, when tracing costs more
 * than its budget. Names and connections are never switched off: others refer to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_FAMILIES_H
#define EVENT_FAMILIES_H

#include "event/catalogue.h"

/* How many levels there are (enum sonde_level of the catalogue): how much is recorded. */
enum { SONDE_LEVELS = 3 };

/* FAMILY(ident, the least level that it belongs to, whether findings rest on it (1 or 0), price, "name").
 *
 * price: what a record costs a program with all that its wrapper does, in tenths of budget_record_ns().
 * Medians of bench/overhead.mjs at 8fce847 and 26da78c without the kernel's events: 72 ns a record in a
 * Node.js service (node-hash, 64 pairs), 30 to 39 ns in Redis (seven cells, 8 to 20 pairs each), where
 * budget_record_ns() is 20.4 ns. Others are taken for as dear as Redis. */
#define SONDE_PROBE_FAMILIES(F)                             \
    F(stream, requests, 1, 35, "streams and message ports") \
    F(http, requests, 1, 35, "HTTP requests and responses") \
    SONDE_TARGET_FAMILIES(F) /* of targets' own events.h: all of one target's, unless it says more */

enum sonde_probe_family {
#define F(ident, level, needed, price, name) SONDE_PROBE_FAMILY_##ident,
    SONDE_PROBE_FAMILIES(F)
#undef F
        SONDE_PROBE_FAMILY_COUNT
};

/* The price of what belongs to no family: names and connections. */
enum { SONDE_OTHER_PRICE = 35 };

/* The bit of an event's family in struct sonde_thread.families_off; 0: it is never switched off. */
static inline uint32_t sonde_family_bit(enum sonde_event_id event)
{
    switch (event) {
    case SONDE_EVENT_stream_io:
    case SONDE_EVENT_stream_write:
    case SONDE_EVENT_sql_statement:
        return 1u << SONDE_PROBE_FAMILY_stream;
    case SONDE_EVENT_http_request:
    case SONDE_EVENT_http_response:
    case SONDE_EVENT_http_end:
    case SONDE_EVENT_http_grpc:
    case SONDE_EVENT_ws_message:
    case SONDE_EVENT_queue_message:
        return 1u << SONDE_PROBE_FAMILY_http;
#define E(ident, name, shape, origin, text) case SONDE_EVENT_##ident:
#define T(target)                           SONDE_EVENTS_##target(E) return 1u << SONDE_PROBE_FAMILY_##target;
        SONDE_TARGETS_WITH_ONE_FAMILY(T)
#undef T
#undef E
#define C(event, family)      \
    case SONDE_EVENT_##event: \
        return 1u << SONDE_PROBE_FAMILY_##family;
        SONDE_TARGET_FAMILY_OF(C)
#undef C
    default:
        return 0;
    }
}

#endif
