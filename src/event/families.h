/* The probe's events by family: what is switched off together in a program that runs, when tracing costs more
 * than its budget. Names and connections are never switched off: others refer to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_FAMILIES_H
#define EVENT_FAMILIES_H

#include "event/catalogue.h"

/* FAMILY(ident, "name") */
#define SONDE_PROBE_FAMILIES(F)                        \
    F(redis_io, "Redis' reads, writes and lists")      \
    F(redis_loop, "the phases of Redis' loop")         \
    F(redis_bus, "Redis' cluster bus")                 \
    F(redis_command, "Redis commands")                 \
    F(uv_loop, "phases and streams of the event loop") \
    F(uv_pool, "operations of the thread pool")        \
    F(async, "asynchronous resources and callbacks")   \
    F(http, "HTTP requests and responses")             \
    F(runtime, "garbage collection, regular expressions, encoding of text, measures, functions")

enum sonde_probe_family {
#define F(ident, name) SONDE_PROBE_FAMILY_##ident,
    SONDE_PROBE_FAMILIES(F)
#undef F
        SONDE_PROBE_FAMILY_COUNT
};

/* The bit of an event's family in struct sonde_thread.families_off; 0: it is never switched off. */
static inline uint32_t sonde_family_bit(enum sonde_event_id event)
{
    switch (event) {
    case SONDE_EVENT_redis_read_query:
    case SONDE_EVENT_redis_write_reply:
    case SONDE_EVENT_redis_ssl_read:
    case SONDE_EVENT_redis_add_file_event:
    case SONDE_EVENT_redis_delete_file_event:
    case SONDE_EVENT_redis_pending_io:
        return 1u << SONDE_PROBE_FAMILY_redis_io;
    case SONDE_EVENT_redis_loop_phase:
        return 1u << SONDE_PROBE_FAMILY_redis_loop;
    case SONDE_EVENT_redis_bus_read:
    case SONDE_EVENT_redis_bus_packet:
    case SONDE_EVENT_redis_bus_send:
        return 1u << SONDE_PROBE_FAMILY_redis_bus;
    case SONDE_EVENT_redis_command:
        return 1u << SONDE_PROBE_FAMILY_redis_command;
    case SONDE_EVENT_uv_phase:
    case SONDE_EVENT_uv_io:
    case SONDE_EVENT_uv_write:
    case SONDE_EVENT_port_post:
    case SONDE_EVENT_port_receive:
    case SONDE_EVENT_port_turn:
        return 1u << SONDE_PROBE_FAMILY_uv_loop;
    case SONDE_EVENT_uv_submit:
    case SONDE_EVENT_uv_run:
    case SONDE_EVENT_uv_done:
        return 1u << SONDE_PROBE_FAMILY_uv_pool;
    case SONDE_EVENT_node_async_init:
    case SONDE_EVENT_node_callback:
        return 1u << SONDE_PROBE_FAMILY_async;
    case SONDE_EVENT_http_request:
    case SONDE_EVENT_http_response:
    case SONDE_EVENT_http_end:
    case SONDE_EVENT_ws_message:
        return 1u << SONDE_PROBE_FAMILY_http;
    case SONDE_EVENT_v8_gc:
    case SONDE_EVENT_v8_regexp:
    case SONDE_EVENT_v8_encode:
    case SONDE_EVENT_js_measure:
    case SONDE_EVENT_js_function:
    case SONDE_EVENT_js_settled:
    case SONDE_EVENT_js_promises:
        return 1u << SONDE_PROBE_FAMILY_runtime;
    default:
        return 0;
    }
}

#endif
