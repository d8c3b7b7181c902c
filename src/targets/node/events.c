/* Which events of a Node.js process the analysis of requests reads: the operations of its thread pool, its
 * message ports, and all that makes up a turn of its event loop (turn.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/events.h"

#include "model/model.h"

const struct event_reading NODE_EVENTS[] = {
    {SONDE_EVENT_uv_submit, pool_event},     {SONDE_EVENT_uv_run, pool_event},
    {SONDE_EVENT_js_promises, gc_promises},  {SONDE_EVENT_js_chosen, function_chosen},
    {SONDE_EVENT_process_memory, gc_memory}, {SONDE_EVENT_port_receive, port_received},
    {SONDE_EVENT_port_post, port_posted},    {SONDE_EVENT_node_async_init, turn_event},
    {SONDE_EVENT_node_callback, turn_event}, {SONDE_EVENT_uv_done, turn_event},
    {SONDE_EVENT_uv_phase, turn_event},      {SONDE_EVENT_uv_io, turn_event},
    {SONDE_EVENT_port_turn, turn_event},     {SONDE_EVENT_v8_gc, turn_event},
    {SONDE_EVENT_v8_encode, turn_event},     {SONDE_EVENT_v8_regexp, turn_event},
    {SONDE_EVENT_js_measure, turn_event},    {SONDE_EVENT_js_function, turn_event},
    {SONDE_EVENT_js_settled, turn_event},    {0},
};
