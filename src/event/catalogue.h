/* The event catalogue: every event sonde records, written once. From this table come the probe's record
 * layouts (ring.h), the CTF metadata, the readers' field order and doc/events.md.
 *
 * Included by the probe and by user space; no libc needed.
 *
 * An event is a SPAN (written once, when it ends; its time is its end and it has a duration) or an INSTANT.
 * Its origin is the PROBE (a record in a thread's ring; the thread is the stream's), the COLLECTOR or the
 * KERNEL (a stream of their own each; pid and tid are fields).
 *
 * A field's type is u8 u16 u32 u64 i32 i64 or str; its meaning is a unit or an enumeration. Fields stand in
 * order of falling size, strings last, so that records have no holes but at their end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_CATALOGUE_H
#define EVENT_CATALOGUE_H

#include <stdint.h>

#include "event/syscalls.h"
#include "event/target_events.h"
#include "event/targets.h"

/* An operation's context, when it was lost whose it is: nothing says which request's, nor that it is none's.
 */
#define SONDE_CONTEXT_LOST UINT32_MAX

/* ---- what a field's number means ---- */

/* MEANING(ident, "unit") */
#define SONDE_UNITS(M)                                                                \
    M(none, "")                                                                       \
    M(ns, "ns")                                                                       \
    M(bytes, "bytes")                                                                 \
    M(count, "count")                                                                 \
    M(hex, "address")                                                                 \
    M(fd, "descriptor")                                                               \
    M(name_id, "name") /* the text is in the process's probe:name event of that id */ \
    M(async_id, "async id")

/* Enumerations: LABEL(enumeration, ident, value, "label"). In C, SONDE_uv_phase_poll is 4. */
#define SONDE_ENUM_side(L, e) L(e, server, 0, "server") L(e, client, 1, "client")
/* What a store speaks; commands are counted in it. */
#define SONDE_ENUM_wire(L, e)         \
    L(e, resp, 0, "redis")            \
    L(e, postgresql, 1, "postgresql") \
    L(e, mysql, 2, "mysql")           \
    L(e, memcached, 3, "memcached")   \
    L(e, amqp, 4, "amqp")             \
    L(e, nats, 5, "nats")             \
    L(e, mqtt, 6, "mqtt")
/* What becomes of a message that goes through a broker. */
#define SONDE_ENUM_queue_step(L, e)                                                           \
    L(e, sent, 0, "sent")                                                                     \
    L(e, taken, 1, "taken")                                                                   \
    L(e, settled, 2, "settled")                                                               \
    L(e, settled_all, 3, "settled with all before") /* of its channel */                      \
    L(e, asked, 4, "asked for more")                /* what was taken before is dealt with */ \
    L(e, begun, 5, "begun as a job")                /* taken by a worker that may do several at once */
#define SONDE_ENUM_http_method(L, e) \
    L(e, DELETE, 0, "DELETE")        \
    L(e, GET, 1, "GET")              \
    L(e, HEAD, 2, "HEAD")            \
    L(e, POST, 3, "POST")            \
    L(e, PUT, 4, "PUT")              \
    L(e, CONNECT, 5, "CONNECT")      \
    L(e, OPTIONS, 6, "OPTIONS")      \
    L(e, TRACE, 7, "TRACE")          \
    L(e, PATCH, 28, "PATCH")         \
    L(e, other, 255, "other")
#define SONDE_ENUM_stall_cause(L, e)  \
    L(e, unknown, 0, "unknown")       \
    L(e, regexp, 1, "regexp")         \
    L(e, javascript, 2, "javascript") \
    L(e, builtin, 3, "builtin")       \
    L(e, gc, 4, "gc")                 \
    L(e, native, 5, "native")         \
    L(e, waiting, 6, "waiting")
#define SONDE_ENUM_loss_reason(L, e)                                                                        \
    L(e, ring_full, 0, "ring-full")                                                                         \
    L(e, signal_handler, 1,                                                                                 \
      "signal-handler") /* a hook ran inside a signal handler that interrupted a record */                  \
    L(e, no_thread_slot, 2, "no-thread-slot")                                                               \
    L(e, disk_write_failed, 3, "disk-write-failed")                                                         \
    L(e, unreadable_record, 4, "unreadable-record")                                                         \
    L(e, open_span_depth, 5, "open-span-depth") /* nested deeper than the open-span slots */                \
    L(e, kernel_ring_full_sys, 6, "kernel-ring-full-sys")                                                   \
    L(e, kernel_ring_full_sched, 7, "kernel-ring-full-sched")                                               \
    L(e, kernel_ring_full_wakeup, 8, "kernel-ring-full-wakeup")                                             \
    L(e, kernel_ring_full_tcp, 9, "kernel-ring-full-tcp")                                                   \
    L(e, kernel_ring_full_block, 10, "kernel-ring-full-block")                                              \
    L(e, kernel_not_followed, 11,                                                                           \
      "kernel-not-followed") /* a connection or disk request beyond those kept in the kernel */             \
    L(e, profile_samples_unread, 12, "profile-samples-unread") /* beyond those that the analysis keeps */   \
    L(e, kernel_ring_full_connect, 13, "kernel-ring-full-connect")                                          \
    L(e, kernel_program_missed, 14, "kernel-program-missed") /* the kernel left out a run of a BPF program: \
                                                                an upper bound, of all threads */
#define SONDE_ENUM_call_outcome(L, e)    \
    L(e, ok, 0, "ok")                    \
    L(e, error, 1, "error")              \
    L(e, again, 2, "again") /* EAGAIN */ \
    L(e, interrupted, 3, "interrupted")  \
    L(e, unfinished, 4, "unfinished") /* the thread or the recording ended in it */
#define SONDE_ENUM_off_reason(L, e)                                                          \
    L(e, preempted, 0, "preempted")             /* it could have gone on */                  \
    L(e, blocked, 1, "blocked")                 /* it slept until something woke it */       \
    L(e, uninterruptible, 2, "uninterruptible") /* the same, for a disk, a page or a lock */ \
    L(e, stopped, 3, "stopped")                 /* by a signal or a debugger */              \
    L(e, new, 4, "new")                         /* it had just been made, and ran then */    \
    L(e, ended, 5, "ended")                     /* it has ended */
#define SONDE_ENUM_woken_by(L, e) \
    L(e, nobody, 0, "nobody")     \
    L(e, thread, 1, "thread") L(e, interrupt, 2, "interrupt") L(e, unknown, 3, "unknown")
#define SONDE_ENUM_budget_step(L, e) L(e, family_left_out, 0, "family-left-out") L(e, stopped, 1, "stopped")
#define SONDE_ENUM_block_operation(L, e) \
    L(e, read, 0, "read")                \
    L(e, write, 1, "write") L(e, flush, 2, "flush") L(e, discard, 3, "discard") L(e, other, 255, "other")
#define SONDE_ENUM_level(L, e) \
    L(e, requests, 0, "requests") L(e, usual, 1, "usual") L(e, everything, 2, "everything")
#define SONDE_ENUM_runtime(L, e) L(e, other, 0, "other") SONDE_TARGETS(L, e)

#define SONDE_ENUMS(M) \
    M(side)            \
    M(wire)            \
    M(queue_step)      \
    M(http_method)     \
    M(stall_cause)     \
    M(loss_reason)     \
    M(syscall)         \
    M(call_outcome)    \
    M(off_reason)      \
    M(woken_by)        \
    M(block_operation) \
    M(budget_step)     \
    M(level)           \
    M(runtime)         \
    SONDE_TARGET_ENUMS(M)

#define SONDE_CONSTANT_(e, ident, value, text) SONDE_##e##_##ident = value,
#define M(ident)                               enum sonde_##ident{SONDE_ENUM_##ident(SONDE_CONSTANT_, ident)};
SONDE_ENUMS(M)
#undef M

/* One more than the highest number of a target: what belongs to a target is kept by it. */
enum {
#define SONDE_COUNT_(e, ident, value, text) +1
    SONDE_RUNTIMES = 1 SONDE_TARGETS(SONDE_COUNT_, )
#undef SONDE_COUNT_
};
#define SONDE_DENSE_(e, ident, value, text) _Static_assert(value < SONDE_RUNTIMES, "numbers have no gaps");
SONDE_TARGETS(SONDE_DENSE_, )
#undef SONDE_DENSE_

enum sonde_meaning {
#define M(ident, unit) SONDE_MEANING_##ident,
    SONDE_UNITS(M)
#undef M
#define M(ident) SONDE_MEANING_##ident,
        SONDE_ENUMS(M)
#undef M
            SONDE_MEANINGS
};

/* ---- the events' fields ---- */

/* FIELD(event, type, name, meaning, text) */

#define SONDE_FIELDS_probe_name(F, e)                                                \
    F(e, u32, id, none, "number that name fields of this process carry from now on") \
    F(e, str, text, none, "a command, a resource type, a function")

#define SONDE_FIELDS_net_connection(F, e)                                                         \
    F(e, u64, key, hex, "Redis: the client's id; Node: the handle's address")                     \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian")    \
    F(e, u64, local_low, none, "last 8 bytes")                                                    \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                       \
    F(e, u64, peer_low, none, "last 8 bytes")                                                     \
    F(e, u64, inode, none, "the socket's inode, for UNIX sockets and pipes")                      \
    F(e, u32, generation, count, "how often this descriptor was opened anew since tracing began") \
    F(e, i32, fd, fd, "the descriptor")                                                           \
    F(e, u16, local_port, none, "TCP port, 0 for UNIX sockets")                                   \
    F(e, u16, peer_port, none, "TCP port, 0 for UNIX sockets")                                    \
    F(e, u16, family, none, "AF_INET, AF_INET6, AF_UNIX or 0 for a pipe")

/* Streams: connections and pipes of a runtime. Recordings name them after libuv, whose streams were the
 * first. */

#define SONDE_FIELDS_stream_io(F, e)                            \
    F(e, u32, generation, count, "which use of the descriptor") \
    F(e, i32, fd, fd, "the stream's descriptor")                \
    F(e, u32, events, none, "POLLIN 1, POLLOUT 4, ...")         \
    F(e, u32, bytes, bytes,                                     \
      "what was read and given to JavaScript, of TLS in the clear; 0: nothing, or unknown")

#define SONDE_FIELDS_stream_write(F, e)                                                           \
    F(e, u64, bytes, bytes, "bytes handed over")                                                  \
    F(e, i64, result, bytes, "bytes taken at once; 0 when queued; negative errno")                \
    F(e, u64, first_message, count, "number of the first command begun here, from 1; 0 for none") \
    F(e, u32, generation, count, "which use of the descriptor")                                   \
    F(e, i32, fd, fd, "the stream's descriptor")                                                  \
    F(e, u32, messages, count, "commands to a store that are begun in these bytes")               \
    F(e, u32, context, none, "whose they are: as uv:submit's")                                    \
    F(e, u32, operation, name_id, "what the first of the commands is called, 0 unknown")          \
    F(e, u8, last_chunk, none, "1 when the bytes end a chunked HTTP body")                        \
    F(e, u8, wire, wire, "of commands: what the store speaks")

#define SONDE_FIELDS_sql_statement(F, e)                                               \
    F(e, u64, number, count,                                                           \
      "number of the command on its connection, from 1: of the uv:write that follows") \
    F(e, u32, generation, count, "which use of the descriptor")                        \
    F(e, i32, fd, fd, "the connection's descriptor")                                   \
    F(e, u32, statement, name_id, "its text without values")

#define SONDE_FIELDS_http_request(F, e)                                                                     \
    F(e, u64, parser, hex, "server: the parser; client: 0; HTTP/2: the session, as http:session's")         \
    F(e, u64, resource, async_id, "HTTP/2, server: the stream's resource, 0 unknown")                       \
    F(e, u32, generation, count, "which use of the descriptor")                                             \
    F(e, i32, fd, fd, "the connection's descriptor; -1: only the session is known")                         \
    F(e, u32, context, none, "server: the number given to it, 0 none; client: whose it is, as uv:submit's") \
    F(e, u32, stream, none, "HTTP/2: the stream's number; 0 otherwise")                                     \
    F(e, u8, side, side, "server: parsed; client: sent")                                                    \
    F(e, u8, method, http_method, "the method")                                                             \
    F(e, str, path, none, "the path, without the query string")

#define SONDE_FIELDS_http_response(F, e)                                                      \
    F(e, u64, parser, hex, "client: the parser; server: 0; HTTP/2: the session")              \
    F(e, i64, content_length, bytes, "of the body; -1 chunked or unknown")                    \
    F(e, u64, header_bytes, bytes, "server: bytes of this write that are headers; 0 unknown") \
    F(e, u32, generation, count, "which use of the descriptor")                               \
    F(e, i32, fd, fd, "the connection's descriptor; -1: only the session is known")           \
    F(e, u32, stream, none, "HTTP/2: the stream's number; 0 otherwise")                       \
    F(e, u16, status, none, "the status code")                                                \
    F(e, u8, side, side, "server: sent; client: parsed")

#define SONDE_FIELDS_http_end(F, e)                                                                        \
    F(e, u64, parser, hex, "the parser; HTTP/2: the session")                                              \
    F(e, u32, generation, count, "which use of the descriptor")                                            \
    F(e, i32, fd, fd, "the connection's descriptor; -1: only the session is known")                        \
    F(e, u32, stream, none, "HTTP/2: the stream's number; 0 otherwise")                                    \
    F(e, u32, error, none, "HTTP/2: why the stream was closed, 0 in good order")                           \
    F(e, u8, side, side,                                                                                   \
      "server: a request that took several reads is whole, or an HTTP/2 stream closed; client: what came " \
      "is whole")

#define SONDE_FIELDS_http_grpc(F, e)                                       \
    F(e, u64, session, hex, "the HTTP/2 session, as http:session's")       \
    F(e, u32, stream, none, "the stream's number")                         \
    F(e, u8, status, none, "grpc-status: 0 in good order, 14 unavailable") \
    F(e, u8, side, side, "server: the status is sent; client: it is read")

#define SONDE_FIELDS_http_session(F, e)                         \
    F(e, u64, session, hex, "the HTTP/2 session (nghttp2)")     \
    F(e, u32, generation, count, "which use of the descriptor") \
    F(e, i32, fd, fd, "the descriptor that its bytes go through")

#define SONDE_FIELDS_ws_message(F, e)                                                                   \
    F(e, u64, first, count, "number of the first of them on the connection, from 1, each way")          \
    F(e, u64, bytes, bytes, "payload seen with them")                                                   \
    F(e, u32, generation, count, "which use of the descriptor")                                         \
    F(e, i32, fd, fd, "the connection's descriptor")                                                    \
    F(e, u32, messages, count, "messages that ended in these bytes")                                    \
    F(e, u32, context, none, "received: the number given to them, 0 none; sent: whose, as uv:submit's") \
    F(e, u8, side, side, "which end of the connection this is")                                         \
    F(e, u8, sent, none, "1: sent, 0: received")

#define SONDE_FIELDS_queue_message(F, e)                                                                   \
    F(e, u64, identity, hex,                                                                               \
      "sent, taken: a hash of the message with a key that is not recorded, the same at both ends")         \
    F(e, u64, number, hex, "taken, settled: which of those taken; 0: it has none")                         \
    F(e, u64, bytes, bytes, "of the message")                                                              \
    F(e, u32, generation, count, "which use of the descriptor")                                            \
    F(e, i32, fd, fd, "the connection's descriptor")                                                       \
    F(e, u32, queue, name_id,                                                                              \
      "where it goes: AMQP exchange and routing key, NATS subject, MQTT topic, a number for Redis' keys; " \
      "0: too long, "                                                                                      \
      "or not known")                                                                                      \
    F(e, u32, context, none, "taken: the number given to them, 0 none; sent: whose, as uv:submit's")       \
    F(e, u8, wire, wire, "what the broker speaks")                                                         \
    F(e, u8, step, queue_step, "what became of it")

#define SONDE_FIELDS_http_trace(F, e)                        \
    F(e, u64, trace_high, hex, "the trace's id, first half") \
    F(e, u64, trace_low, hex, "its second half")             \
    F(e, u64, parent, hex, "the caller's span")              \
    F(e, u32, context, none, "the number given to the request that carries it")

#define SONDE_FIELDS_stream_close(F, e)                         \
    F(e, u64, handle, hex, "the handle")                        \
    F(e, u32, generation, count, "which use of the descriptor") \
    F(e, i32, fd, fd, "the descriptor, -1 for none")

#define SONDE_FIELDS_process_start(F, e)                        \
    F(e, u64, start_ns, ns, "when it started, CLOCK_MONOTONIC") \
    F(e, u32, pid, none, "the process")                         \
    F(e, u32, parent, none, "its parent")                       \
    F(e, u8, runtime, runtime, "what runs in it")               \
    F(e, str, name, none, "short name: the script or program")  \
    F(e, str, command, none, "the program's path and, for an interpreter, its script")

#define SONDE_FIELDS_process_exit(F, e) \
    F(e, u32, pid, none, "the process") \
    F(e, i32, status, none, "wait status where known, else -1")

#define SONDE_FIELDS_thread_sched(F, e)                           \
    F(e, u64, run_ns, ns, "CPU time since the thread began")      \
    F(e, u64, wait_ns, ns, "time runnable but waiting for a CPU") \
    F(e, u32, pid, none, "the process")                           \
    F(e, u32, tid, none, "the thread")

#define SONDE_FIELDS_process_memory(F, e)                                                        \
    F(e, u64, anonymous_bytes, bytes, "what it has in memory that is of no file and not shared") \
    F(e, u32, pid, none, "the process")

#define SONDE_FIELDS_machine_stall(F, e) \
    F(e, u64, late_ns, ns, "how much later than asked for sonde's thread was run")

/* In the place of frames that were left out of a stack: its neighbours did not call one another. */
#define SONDE_FRAMES_LEFT_OUT "..."
#define SONDE_FIELDS_stall_sample(F, e)                                                               \
    F(e, u64, since_ns, ns, "start of the callback that is open")                                     \
    F(e, u64, run_ns, ns, "CPU time of the thread since then")                                        \
    F(e, u32, pid, none, "the process")                                                               \
    F(e, u32, tid, none, "the thread")                                                                \
    F(e, u32, line, none, "line of the innermost JavaScript frame, from 1; 0 unknown")                \
    F(e, u32, column, none, "its column, from 1; 0 unknown")                                          \
    F(e, u8, cause, stall_cause, "what it was doing")                                                 \
    F(e, u8, brief, none, "1: the callback was not open for long, since_ns is when it was looked at") \
    F(e, str, function, none, "the innermost JavaScript function")                                    \
    F(e, str, script, none, "its file")                                                               \
    F(e, str, detail, none, "the regular expression with flags, or the builtin or native function")   \
    F(e, str, stack, none, "frames, outermost first, separated by semicolons; ... where some were left out")

#define SONDE_FIELDS_profile_sample(F, e)                \
    F(e, u64, weight, ns, "CPU time that it represents") \
    F(e, u32, pid, none, "the process")                  \
    F(e, u32, tid, none, "the thread")                   \
    F(e, str, function, none, "the innermost function")  \
    F(e, str, stack, none, "frames, outermost first, separated by semicolons")

#define SONDE_FIELDS_open_span(F, e)                                              \
    F(e, u64, since_ns, ns, "when it began")                                      \
    F(e, u64, argument, none, "the span's own key: async id, request, client id") \
    F(e, u32, pid, none, "the process")                                           \
    F(e, u32, tid, none, "the thread")                                            \
    F(e, u32, event, none, "catalogue number of the event it will become")        \
    F(e, u32, name, name_id, "its name where it has one")                         \
    F(e, u8, depth, count, "nesting depth on its thread, from 0")                 \
    F(e, u8, final, none, "1 when the process ended or tracing stopped with it open")

#define SONDE_FIELDS_loss(F, e)                                          \
    F(e, u64, count, count, "events lost since the previous such event") \
    F(e, u32, pid, none, "the process")                                  \
    F(e, u32, tid, none, "the thread, 0 for all")                        \
    F(e, u8, reason, loss_reason, "why")

#define SONDE_FIELDS_budget(F, e)                                                        \
    F(e, u64, cpu_ppm, none, "what tracing took of all CPUs, in millionths")             \
    F(e, u64, memory, bytes, "what sonde used of memory")                                \
    F(e, u8, step, budget_step, "what was done")                                         \
    F(e, u8, incomplete, none, "1: the programs' own events are incomplete from now on") \
    F(e, str, what, none, "the family of events that is left out from now on")

#define SONDE_FIELDS_level(F, e)                                                              \
    F(e, u64, at_ns, ns,                                                                      \
      "when the choice was made: events between that time and this event are of both levels") \
    F(e, u8, level, level, "what is recorded from now on")

/* From the kernel. */

#define SONDE_FIELDS_sys_call(F, e)                                                      \
    F(e, i64, result, none, "what it returned: a count, a descriptor, a negative errno") \
    F(e, u32, pid, none, "the process")                                                  \
    F(e, u32, tid, none, "the thread")                                                   \
    F(e, i32, fd, fd, "the descriptor it was about, -1 for none")                        \
    F(e, u16, call, syscall, "which call")                                               \
    F(e, u8, outcome, call_outcome, "how it ended")

#define SONDE_FIELDS_sched_switch(F, e)                                                                  \
    F(e, u64, runnable_ns, ns, "of that time, runnable but waiting for a CPU")                           \
    F(e, u32, waker_pid, none, "the process that woke it, 0 for none; \"unknown\": what ran then, or 0") \
    F(e, u32, waker_tid, none, "the thread that woke it, 0 for none; \"unknown\": what ran then, or 0")  \
    F(e, u32, pid, none, "the process")                                                                  \
    F(e, u32, tid, none, "the thread")                                                                   \
    F(e, i32, fd, fd, "the descriptor of the system call it was in, -1 for none")                        \
    F(e, u16, call, syscall, "the system call it was in")                                                \
    F(e, u16, processor, none, "where it goes on")                                                       \
    F(e, u8, reason, off_reason, "why it left the CPU")                                                  \
    F(e, u8, woken_by, woken_by,                                                                         \
      "who made it runnable; \"unknown\" also where threads are woken very often")                       \
    F(e, u8, unfinished, none, "1 when the recording ended before it came back")

#define SONDE_FIELDS_sched_brief(F, e)                                                          \
    F(e, u64, off_ns, ns, "how long it was off its CPU in total")                               \
    F(e, u64, runnable_ns, ns, "of that time, runnable but waiting for a CPU")                  \
    F(e, u64, since_ns, ns, "of the event's duration, what has passed since it came back last") \
    F(e, u32, count, count, "how many times it was off")                                        \
    F(e, u32, pid, none, "the process")                                                         \
    F(e, u32, tid, none, "the thread")

#define SONDE_FIELDS_sched_wakeup(F, e)                     \
    F(e, u32, pid, none, "the process that wakes")          \
    F(e, u32, tid, none, "the thread that wakes")           \
    F(e, u32, woken_pid, none, "the process that is woken") \
    F(e, u32, woken_tid, none, "the thread that is woken")

#define SONDE_FIELDS_tcp_connect(F, e)                                                         \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian") \
    F(e, u64, local_low, none, "last 8 bytes")                                                 \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                    \
    F(e, u64, peer_low, none, "last 8 bytes")                                                  \
    F(e, i64, result, none, "0 or a negative errno (connection refused, timed out)")           \
    F(e, u32, pid, none, "the process")                                                        \
    F(e, u32, tid, none, "the thread")                                                         \
    F(e, i32, fd, fd, "the descriptor, -1 unknown")                                            \
    F(e, u16, local_port, none, "TCP port")                                                    \
    F(e, u16, peer_port, none, "TCP port")                                                     \
    F(e, u16, family, none, "AF_INET or AF_INET6")                                             \
    F(e, u8, resent, count, "how often the kernel had to ask for it again")

#define SONDE_FIELDS_tcp_retransmit(F, e)                                                      \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian") \
    F(e, u64, local_low, none, "last 8 bytes")                                                 \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                    \
    F(e, u64, peer_low, none, "last 8 bytes")                                                  \
    F(e, u32, pid, none, "the process that opened the connection, or listens for it")          \
    F(e, u16, local_port, none, "TCP port")                                                    \
    F(e, u16, peer_port, none, "TCP port")                                                     \
    F(e, u16, family, none, "AF_INET or AF_INET6")

#define SONDE_FIELDS_tcp_accept(F, e)                                                          \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian") \
    F(e, u64, local_low, none, "last 8 bytes")                                                 \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                    \
    F(e, u64, peer_low, none, "last 8 bytes")                                                  \
    F(e, i64, result, none, "the new descriptor")                                              \
    F(e, u32, pid, none, "the process")                                                        \
    F(e, u32, tid, none, "the thread")                                                         \
    F(e, i32, fd, fd, "the descriptor, -1 unknown")                                            \
    F(e, u16, local_port, none, "TCP port")                                                    \
    F(e, u16, peer_port, none, "TCP port")                                                     \
    F(e, u16, family, none, "AF_INET or AF_INET6")

#define SONDE_FIELDS_tcp_send(F, e)                                                            \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian") \
    F(e, u64, local_low, none, "last 8 bytes")                                                 \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                    \
    F(e, u64, peer_low, none, "last 8 bytes")                                                  \
    F(e, i64, result, bytes, "bytes taken")                                                    \
    F(e, u32, pid, none, "the process")                                                        \
    F(e, u32, tid, none, "the thread")                                                         \
    F(e, i32, fd, fd, "the descriptor, -1 unknown")                                            \
    F(e, u16, local_port, none, "TCP port")                                                    \
    F(e, u16, peer_port, none, "TCP port")                                                     \
    F(e, u16, family, none, "AF_INET or AF_INET6")

#define SONDE_FIELDS_tcp_recv(F, e)                                                            \
    F(e, u64, local_high, none, "local IPv6 address (IPv4 mapped), first 8 bytes, big endian") \
    F(e, u64, local_low, none, "last 8 bytes")                                                 \
    F(e, u64, peer_high, none, "peer's address, first 8 bytes, big endian")                    \
    F(e, u64, peer_low, none, "last 8 bytes")                                                  \
    F(e, i64, result, bytes, "bytes received, 0 at the end")                                   \
    F(e, u32, pid, none, "the process")                                                        \
    F(e, u32, tid, none, "the thread")                                                         \
    F(e, i32, fd, fd, "the descriptor, -1 unknown")                                            \
    F(e, u16, local_port, none, "TCP port")                                                    \
    F(e, u16, peer_port, none, "TCP port")                                                     \
    F(e, u16, family, none, "AF_INET or AF_INET6")

#define SONDE_FIELDS_block_io(F, e)                                                               \
    F(e, u64, queued_ns, ns, "from its making until it was given to the device, before the span") \
    F(e, u64, sector, none, "first sector of 512 bytes")                                          \
    F(e, u32, bytes, bytes, "how much")                                                           \
    F(e, u32, device, none, "major << 20 | minor")                                                \
    F(e, u32, pid, none, "the process that gave it to the device")                                \
    F(e, u32, tid, none, "the thread")                                                            \
    F(e, i32, error, none, "0, or the kernel's status of the failure")                            \
    F(e, u8, operation, block_operation, "what is done")

#define SONDE_FIELDS_cgroup_cpu(F, e)                                                                     \
    F(e, u64, throttled_ns, ns, "how long its control groups were kept from running so far, on all CPUs") \
    F(e, u64, periods, count, "periods of the quota so far")                                              \
    F(e, u64, throttled_periods, count, "of them, those in which the quota was used up")                  \
    F(e, u64, quota_us, none, "the quota: microseconds on CPUs ...")                                      \
    F(e, u64, period_us, none, "... in so many microseconds")                                             \
    F(e, u32, pid, none, "the process")

#define SONDE_FIELDS_machine_cpu(F, e)                                                                    \
    F(e, u64, stolen_ns, ns, "how long the hypervisor kept CPUs from this machine so far: steal time")    \
    F(e, u64, idlest_ns, ns, "since the reading before, how long the CPU was idle that was idle longest") \
    F(e, u32, cpus, count, "CPUs that are online")

#define SONDE_FIELDS_clock_jump(F, e) \
    F(e, i64, ahead_ns, none,         \
      "nanoseconds that the CPUs' time stamp counter went ahead of the clock; negative: back")

/* ---- the events ---- */

/* EVENT(ident, "name", SPAN or INSTANT, PROBE, COLLECTOR or KERNEL, text). Recordings carry the
 * names of all of them: their order is free. */
#define SONDE_EVENTS(E)                                                                                     \
    E(probe_name, "probe:name", INSTANT, PROBE, "gives a number a text")                                    \
    E(net_connection, "net:connection", INSTANT, PROBE, "first use of a descriptor: its two addresses")     \
    E(stream_io, "uv:io", SPAN, PROBE, "a stream's events are handled")                                     \
    E(stream_write, "uv:write", INSTANT, PROBE, "bytes are written to a stream")                            \
    E(sql_statement, "sql:statement", INSTANT, PROBE,                                                       \
      "with --sql: a statement is sent to PostgreSQL, MySQL or MariaDB")                                    \
    E(stream_close, "uv:close", INSTANT, PROBE, "a handle is closed")                                       \
    E(http_request, "http:request", INSTANT, PROBE, "an HTTP request is received or sent")                  \
    E(http_response, "http:response", INSTANT, PROBE, "an HTTP response is sent or received")               \
    E(http_end, "http:end", INSTANT, PROBE, "an HTTP message is received whole")                            \
    E(http_session, "http:session", INSTANT, PROBE, "an HTTP/2 session is seen on a connection")            \
    E(ws_message, "ws:message", INSTANT, PROBE, "WebSocket messages are received or sent")                  \
    E(queue_message, "queue:message", INSTANT, PROBE, "a message goes to a broker, or comes from it")       \
    E(http_trace, "http:trace", INSTANT, PROBE, "a request that came carries a W3C traceparent")            \
    E(process_start, "process:start", INSTANT, COLLECTOR, "a traced process begins")                        \
    E(process_exit, "process:exit", INSTANT, COLLECTOR, "a traced process is gone")                         \
    E(thread_sched, "thread:sched", INSTANT, COLLECTOR, "a thread's run and run-queue time so far")         \
    E(process_memory, "process:memory", INSTANT, COLLECTOR,                                                 \
      "how much memory a process has, when that has changed")                                               \
    E(machine_stall, "machine:stall", SPAN, COLLECTOR,                                                      \
      "the machine was stopped or overloaded: sonde itself was not run")                                    \
    E(stall_sample, "stall:sample", INSTANT, COLLECTOR, "a sample of a callback that is open too long")     \
    E(open_span, "span:open", INSTANT, COLLECTOR, "a span that has not ended")                              \
    E(loss, "trace:loss", INSTANT, COLLECTOR, "events lost")                                                \
    E(sys_call, "sys:call", SPAN, KERNEL, "a system call")                                                  \
    E(sched_switch, "sched:switch", SPAN, KERNEL, "a thread was off the CPU, and why")                      \
    E(sched_wakeup, "sched:wakeup", INSTANT, KERNEL, "a thread makes another one runnable")                 \
    E(tcp_connect, "tcp:connect", SPAN, KERNEL, "a connection is made, until it is answered")               \
    E(tcp_accept, "tcp:accept", SPAN, KERNEL, "a connection is taken from its listener")                    \
    E(tcp_send, "tcp:send", SPAN, KERNEL, "a system call that writes to a TCP socket")                      \
    E(tcp_recv, "tcp:recv", SPAN, KERNEL, "a system call that reads from a TCP socket")                     \
    E(budget, "trace:budget", INSTANT, COLLECTOR, "tracing cost too much: something is left out")           \
    E(level, "trace:level", INSTANT, COLLECTOR, "somebody chose how much is recorded from now on")          \
    E(block_io, "block:io", SPAN, KERNEL, "a disk works on a request")                                      \
    E(profile_sample, "profile:sample", INSTANT, COLLECTOR, "what a thread ran, as `sonde profile` saw it") \
    E(cgroup_cpu, "cgroup:cpu", INSTANT, COLLECTOR,                                                         \
      "how long a process was kept from running by its CPU quota")                                          \
    E(clock_jump, "clock:jump", INSTANT, COLLECTOR,                                                         \
      "the CPUs' time stamp counter was set (a suspend, a migration): times are right on both sides of it") \
    E(sched_brief, "sched:brief", SPAN, KERNEL,                                                             \
      "a thread was off its CPU several times, each time for less than 50 us")                              \
    E(http_grpc, "http:grpc", INSTANT, PROBE, "how a gRPC call ended")                                      \
    E(machine_cpu, "machine:cpu", INSTANT, COLLECTOR,                                                       \
      "whether the machine's CPUs were idle, or taken by the hypervisor")                                   \
    E(tcp_retransmit, "tcp:retransmit", INSTANT, KERNEL,                                                    \
      "a TCP segment is sent again: the other side has not acknowledged it")                                \
    SONDE_TARGET_EVENTS(E)

/* Catalogue numbers; 0 is no event. Traces carry names; span:open refers to those. */
enum sonde_event_id {
    SONDE_EVENT_none,
#define E(ident, name, shape, origin, text) SONDE_EVENT_##ident,
    SONDE_EVENTS(E)
#undef E
        SONDE_EVENT_COUNT
};
_Static_assert(SONDE_EVENT_COUNT <= 256, "a record has 8 bits for it (ring.h)");

/* A field's index in values[] of a decoded event: FIELD_redis_command_fd. Index 0 is the duration in ns,
 * absent from instants. */
enum { FIELD_DURATION = 0 };
#define SONDE_FIELD_INDEX_(e, type, name, meaning, text) FIELD_##e##_##name,
#define E(ident, name, shape, origin, text)                                   \
    enum {                                                                    \
        FIELD_##ident##_first_ = 0,                                           \
        SONDE_FIELDS_##ident(SONDE_FIELD_INDEX_, ident) FIELD_##ident##_COUNT \
    };
SONDE_EVENTS(E)
#undef E

/* The payload of a PROBE event as it stands in a ring, behind struct sonde_record: struct
 * record_redis_command. A string is its length here; the bytes of all strings follow the struct in order. */
#define SONDE_MEMBER_u8(name)                       uint8_t name;
#define SONDE_MEMBER_u16(name)                      uint16_t name;
#define SONDE_MEMBER_u32(name)                      uint32_t name;
#define SONDE_MEMBER_u64(name)                      uint64_t name;
#define SONDE_MEMBER_i32(name)                      int32_t name;
#define SONDE_MEMBER_i64(name)                      int64_t name;
#define SONDE_MEMBER_str(name)                      uint16_t name##_length;
#define SONDE_MEMBER_(e, type, name, meaning, text) SONDE_MEMBER_##type(name)
#define E(ident, name, shape, origin, text)        \
    struct record_##ident {                        \
        SONDE_FIELDS_##ident(SONDE_MEMBER_, ident) \
    };
SONDE_EVENTS(E)
#undef E

#endif
