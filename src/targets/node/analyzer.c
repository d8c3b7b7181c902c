/* Node.js in the analysis of requests: which events it reads (the operations of the thread pool, message
 * ports, and all that makes up a turn of the event loop: turn.c), and what is known of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"
#include "targets/node/node.h"

static const struct event_reading EVENTS[] = {
    {SONDE_EVENT_uv_submit, pool_event},     {SONDE_EVENT_uv_run, pool_event},
    {SONDE_EVENT_js_promises, gc_promises},  {SONDE_EVENT_js_chosen, function_chosen},
    {SONDE_EVENT_process_memory, gc_memory}, {SONDE_EVENT_port_receive, port_received},
    {SONDE_EVENT_port_post, port_posted},    {SONDE_EVENT_node_async_init, turn_event},
    {SONDE_EVENT_node_callback, turn_event}, {SONDE_EVENT_uv_done, turn_event},
    {SONDE_EVENT_uv_phase, turn_event},      {SONDE_EVENT_stream_io, turn_event},
    {SONDE_EVENT_port_turn, turn_event},     {SONDE_EVENT_v8_gc, turn_event},
    {SONDE_EVENT_v8_encode, turn_event},     {SONDE_EVENT_v8_regexp, turn_event},
    {SONDE_EVENT_js_measure, turn_event},    {SONDE_EVENT_js_function, turn_event},
    {SONDE_EVENT_js_settled, turn_event},    {0},
};

static void thread_free(struct thread *thread)
{
    array_foreach (&thread->items, item)
        if (item->event == SONDE_EVENT_uv_done)
            pool_op_free(item->pointer);
    functions_free(thread);
    free(node_thread(thread)->types);
    free(node_thread(thread)->loop);
    gc_free(node_thread(thread)->gc);
}

static void process_free(struct process *process)
{
    map_foreach (&node_process(process)->pool, slot) {
        pool_op_free((struct pool_op *)(uintptr_t)slot->value);
    }
    map_done(&node_process(process)->pool);
    free(node_process(process)->encode);
    channels_free(process);
    function_sums_free(process);
}

static void process_serves(struct thread *thread)
{
    node_process(thread->process)->net_before_ns =
        node_thread(thread)->loop ? node_thread(thread)->loop->net_ns : 0;
    encode_serves(thread->process);
}

static void request_done(struct analysis *a, struct process *process, struct request *request)
{
    gc_request_done(a, process, request);
    encode_request_done(a, process, request);
    call_waited_for(a, request);
}

const struct analyzer analyzer_node = {.name = "node",
                                       .called = "Node.js",
                                       .runtime = SONDE_runtime_node,
                                       .events = EVENTS,
                                       .hosts_services = true,
                                       .unasked = NOTHING_WAS_ASKED,
                                       .frames = &node_frames,
                                       .process_bytes = sizeof(struct node_process),
                                       .thread_bytes = sizeof(struct node_thread),
                                       .thread_free = thread_free,
                                       .process_free = process_free,
                                       .process_serves = process_serves,
                                       .scheduled = loop_scheduled,
                                       .paused_ns = gc_overlap_ns,
                                       .stalled = ports_stalled,
                                       .ambiguous_work = pool_ambiguous_work,
                                       .request_done = request_done,
                                       .is_in = turn_is_in,
                                       .thread_finish = turn_finish,
                                       .findings = node_findings,
                                       .limits = functions_report};
