/* The kinds of finding: one table from which the names, the manual (doc/findings.md) and the checks come.
 * Programs rely on the names and on the evidence that each kind carries; add, never rename.
 *
 * KIND(ident, "name", "what it means", EVIDENCE("name_with_unit", "what it says") ...) */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDING_KINDS_H
#define FINDING_KINDS_H

#include "finding/target_kinds.h"

/* clang-format off */
#define FINDING_KINDS(KIND)                                                                                   \
    KIND(events_lost, "events-lost",                                                                          \
         "So much was lost while recording that what is missing may matter more than what was found.",        \
         EVIDENCE("lost_count", "events that were lost")                                                      \
         EVIDENCE("events_count", "events that were read")                                                    \
         EVIDENCE("lost_share", "the first of both together, 0 to 1"))                                        \
    KIND(blocking_regexp, "blocking-regexp",                                                                  \
         "A regular expression ran so long that it blocked the event loop.",                                 \
         EVIDENCE("pattern", "the expression with its flags")                                                 \
         EVIDENCE("phase", "the phase in which the event loop was blocked")                                         \
         EVIDENCE("stalls_count", "how often")                                                                \
         EVIDENCE("blocked_ns", "how long the loop was blocked in total")                                             \
         EVIDENCE("worst_ns", "the longest time")                                                             \
         EVIDENCE("cpu_ns", "of it on a CPU")                                                           \
         EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")                   \
         EVIDENCE("gc_ns", "of it in garbage collection")                                                     \
         EVIDENCE("samples_count", "looks into the stalled callback")                                         \
         EVIDENCE("samples_agree_count", "of them saw this expression")                                       \
         EVIDENCE("ended", "\"no\" when it was still running at the end of the trace")                        \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(event_loop_blocked, "event-loop-blocked",                                                            \
         "One callback kept the event loop from everything else: JavaScript, a built-in function, garbage "   \
         "collection, native code or a synchronous call.",                                                    \
         EVIDENCE("cause", "javascript, builtin, gc, native or waiting")                                      \
         EVIDENCE("called", "what the function at that place called, by its public name")                     \
         EVIDENCE("variants", "shares of what the function did, where it is not one thing")                   \
         EVIDENCE("phase", "the phase in which the event loop was blocked")                                         \
         EVIDENCE("stalls_count", "how often")                                                                \
         EVIDENCE("blocked_ns", "how long the loop was blocked in total")                                             \
         EVIDENCE("worst_ns", "the longest time")                                                             \
         EVIDENCE("cpu_ns", "of it on a CPU")                                                           \
         EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")                   \
         EVIDENCE("gc_ns", "of it in garbage collection")                                                     \
         EVIDENCE("samples_count", "looks into the stalled callback")                                         \
         EVIDENCE("samples_agree_count", "of them saw this place")                                            \
         EVIDENCE("ended", "\"no\" when it was still running at the end of the trace")                        \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(gc_pressure, "gc-pressure", "Garbage collection takes much of the time of requests.",                \
         EVIDENCE("collections_count", "collections in all")                                                  \
         EVIDENCE("major_count", "of them major ones (mark-sweep-compact)")                                   \
         EVIDENCE("gc_ns", "time in collection since there are requests")                                         \
         EVIDENCE("active_ns", "what the event loop was at work in that time")                                \
         EVIDENCE("gc_share", "the first of the second, 0 to 1")                                              \
         EVIDENCE("longest_ns", "the longest collection")                                                     \
         EVIDENCE("tigc_ns", "mean time in a collection (TIGC)")                                              \
         EVIDENCE("tbgc_ns", "mean time between two collections (TBGC)")                                      \
         EVIDENCE("heap_bytes", "heap in use after the last collection")                                      \
         EVIDENCE("promises_created_count", "promises made, where Node tells of them")                        \
         EVIDENCE("promises_alive_count", "of them still in memory, as one in 128 of them shows")             \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(memory_leak_suspected, "memory-leak-suspected",                                                      \
         "What is alive after major collections grows and goes on growing.",                                  \
         EVIDENCE("collections_count", "collections in all")                                                  \
         EVIDENCE("major_count", "of them major ones (mark-sweep-compact)")                                   \
         EVIDENCE("heap_first_bytes", "heap in use after the first major collection")                         \
         EVIDENCE("heap_last_bytes", "heap in use after the last one")                                        \
         EVIDENCE("memory_first_bytes",                                                                       \
                  "of Buffers and native code: the process' memory after the first one, at least")            \
         EVIDENCE("memory_last_bytes", "likewise after the last one")                                         \
         EVIDENCE("growth_bytes_per_s", "what it grew by, a second")                                          \
         EVIDENCE("gc_ns", "time in collection in all")                                                       \
         EVIDENCE("tigc_ns", "mean time in a collection (TIGC)")                                              \
         EVIDENCE("tbgc_ns", "mean time between two collections (TBGC)")                                      \
         EVIDENCE("tigc_tbgc_ratio", "the first of the second: above a third, they balance")                  \
         EVIDENCE("promises_created_count", "promises made, where Node tells of them")                        \
         EVIDENCE("promises_alive_count", "of them still in memory, as one in 128 of them shows")             \
         EVIDENCE("delay_ns", "time lost by requests to collections, theirs together"))                       \
    KIND(thread_pool_starved, "thread-pool-starved",                                                          \
         "Operations waited for a thread of libuv's pool because other work held all of them.",               \
         EVIDENCE("operations_count", "operations that waited longer than the threshold")                     \
         EVIDENCE("waited_ns", "their time in the queue, together")                                           \
         EVIDENCE("worst_ns", "the longest time in the queue")                                                \
         EVIDENCE("run_ns", "their own time on a pool thread, together")                                      \
         EVIDENCE("pool_threads_count", "threads of the pool seen at work")                                   \
         EVIDENCE("occupied_by", "the work that held the pool most of that time")                             \
         EVIDENCE("occupied_share", "its share of the pool's time in that period, 0 to 1")                         \
         EVIDENCE("occupant_worst_ns", "its longest run")                                                     \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(connection_pool_starved, "connection-pool-starved",                                                  \
         "Requests waited for one of a few connections to an address because others held all of them.",       \
         EVIDENCE("peer", "the address that the connections lead to, or the service")                         \
         EVIDENCE("lanes_count", "connections, all of which were busy")                                       \
         EVIDENCE("waits_count", "how often requests waited for one")                                         \
         EVIDENCE("waited_ns", "their waiting together")                                                      \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("held_by", "whose requests held them most of that time")                                    \
         EVIDENCE("held_share", "their share of it, 0 to 1")                                                  \
         EVIDENCE("held_worst_ns", "the longest that one of them held one")                                   \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(worker_pool_starved, "worker-pool-starved",                                                          \
         "Requests waited for a worker thread because tasks of others held all of them.",                     \
         EVIDENCE("lanes_count", "worker threads, all of which were busy")                                    \
         EVIDENCE("waits_count", "how often requests waited for one")                                         \
         EVIDENCE("waited_ns", "their waiting together")                                                      \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("held_by", "whose tasks held them most of that time")                                       \
         EVIDENCE("held_share", "their share of it, 0 to 1")                                                  \
         EVIDENCE("held_worst_ns", "the longest task")                                                        \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(slow_io, "slow-io", "A file, DNS or device operation took long at the system.",                      \
         EVIDENCE("operation", "the operation: fs_read, getaddrinfo, ...")                                    \
         EVIDENCE("operations_count", "how often requests waited for it for so long")                         \
         EVIDENCE("waited_ns", "their waiting for it together")                                               \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("usual_ns", "what half of all such operations of the service take at most")                 \
         EVIDENCE("all_count", "all such operations of the service")                                          \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(slow_peer, "slow-peer", "Another service or data store answered late.",                              \
         EVIDENCE("peer", "the service, or its address where it is not traced")                               \
         EVIDENCE("call", "what was asked, where known")                                                      \
         EVIDENCE("traced", "\"yes\" when the peer is traced")                                                \
         EVIDENCE("calls_count", "calls that requests waited for so long")                                    \
         EVIDENCE("waited_ns", "their waiting together, without what the own event loop or a lack of CPUs explains") \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(server_errors, "server-errors", "Requests were answered with an error of the server (5xx).", \
         EVIDENCE("endpoint", "method and route")                                                             \
         EVIDENCE("status", "of the answer")                  \
         EVIDENCE("errors_count", "how often for this cause")                                                 \
         EVIDENCE("requests_count", "requests of the endpoint in all")                                        \
         EVIDENCE("error_share", "the first of the second, 0 to 1")                                           \
         EVIDENCE("first_cause", "what had failed before, in words")                                          \
         EVIDENCE("delay_ns", "time that these requests took, together"))                                     \
    KIND(failed_calls, "failed-calls",                                                                        \
         "Calls or connects failed, and the requests that made them, if any, were answered all the same.",    \
         EVIDENCE("what", "what failed, in words")                                                            \
         EVIDENCE("peer", "the address or service that was called")                                           \
         EVIDENCE("failed_count", "how often")                                                                \
         EVIDENCE("delay_ns", "time that requests spent on it, together"))                                    \
    KIND(retry_storm, "retry-storm", "Calls that failed were made again and again for the same request.",     \
         EVIDENCE("what", "what failed, in words")                                                            \
         EVIDENCE("peer", "the address or service that was called")                                           \
         EVIDENCE("call", "what was asked")                                                                   \
         EVIDENCE("requests_count", "requests that did so")                                                   \
         EVIDENCE("calls_count", "calls that they made together")                                             \
         EVIDENCE("failed_count", "of these, failed")                                                         \
         EVIDENCE("calls_per_request", "the mean")                                                            \
         EVIDENCE("most_count", "calls for one request, at most")                                             \
         EVIDENCE("delay_ns", "from the first failure to the last call, theirs together"))                    \
    KIND(server_exited, "server-exited", "A service ended itself with an error while it served.",             \
         EVIDENCE("exit_status", "as the shell would show it")                                                \
         EVIDENCE("open_count", "requests that it had not answered")                                          \
         EVIDENCE("ended_ns", "when"))                                                                        \
    KIND(unexplained_wait, "unexplained-wait",                                                                \
         "Requests waited long for something that was not seen.",                                             \
         EVIDENCE("waits_count", "how often")                                                                 \
         EVIDENCE("waited_ns", "their waiting together")                                                      \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("busy_peer", "an address all of whose connections were busy in the longest")                \
         EVIDENCE("busy_count", "how many connections those are")                                             \
         EVIDENCE("ambiguous_count", "waits of requests with operations that may be another request's")       \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(serialisation, "serialisation", "Encoding or decoding took the time, not reading or sending.",       \
         EVIDENCE("called", "what took most of it: JSON.stringify, JSON.parse or Buffer.toString")            \
         EVIDENCE("calls_count", "calls of it that took a millisecond or more")                               \
         EVIDENCE("encoding_ns", "their time together, with what else the functions around them did")                                                       \
         EVIDENCE("active_ns", "what the event loop was at work in all")                                      \
         EVIDENCE("encode_share", "the first of the second, 0 to 1")                                          \
         EVIDENCE("encoded_bytes", "text made or read by all its calls")                                      \
         EVIDENCE("worst_ns", "the longest call")                                                             \
         EVIDENCE("worst_bytes", "its text")                                                                  \
         EVIDENCE("hurts_from_bytes", "the smallest text that took a millisecond or more")                    \
         EVIDENCE("ns_per_byte", "time per byte of text")                                                     \
         EVIDENCE("read_ns", "time of this process's file reads at work, for comparison")                     \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(run_queue_wait, "run-queue-wait",                                                                    \
         "Threads were ready to run but the machine had no CPU for them.",                              \
         EVIDENCE("stalls_count", "callbacks that took long for this reason")                                 \
         EVIDENCE("waited_ns", "time ready but not running, in all")                                          \
         EVIDENCE("worst_ns", "the longest wait within one callback")                                         \
         EVIDENCE("cpu_ns", "time these callbacks did run")                                                   \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(cpu_throttled, "cpu-throttled",                                                                      \
         "A process had used up its CPU quota and was kept from running, whatever the machine had left.",     \
         EVIDENCE("quota_cpus", "the quota, in CPUs")                                                         \
         EVIDENCE("stalls_count", "callbacks that did not make progress for this reason")                               \
         EVIDENCE("throttled_ns", "how long, in all")                                                         \
         EVIDENCE("worst_ns", "the longest within one callback")                                              \
         EVIDENCE("cpu_ns", "time these callbacks did run")                                                   \
         EVIDENCE("periods_count", "periods of the quota in that time")                                          \
         EVIDENCE("throttled_periods_count", "of them, those in which it was used up")                        \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(lock_wait, "lock-wait", "The event loop waited for a lock that another thread held.",                \
         EVIDENCE("called", "the function that waited")                                                       \
         EVIDENCE("cause", "waiting")                                                                         \
         EVIDENCE("phase", "the phase in which the event loop was blocked")                                         \
         EVIDENCE("stalls_count", "how often")                                                                \
         EVIDENCE("blocked_ns", "how long the loop was blocked in total")                                             \
         EVIDENCE("worst_ns", "the longest time")                                                             \
         EVIDENCE("cpu_ns", "of it that no lack of CPUs explains")                                      \
         EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")                   \
         EVIDENCE("gc_ns", "of it in garbage collection")                                                     \
         EVIDENCE("samples_count", "looks into the stalled callback")                                         \
         EVIDENCE("samples_agree_count", "of them saw this place")                                            \
         EVIDENCE("ended", "\"no\" when it was still waiting at the end of the trace")                        \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(ipc_blocked, "ipc-blocked", "A process waited for another over a pipe or socket.",                   \
         EVIDENCE("channel", "the descriptor, and the process and descriptor at its other end where known")   \
         EVIDENCE("waits_for", "\"answer\" to a message, or \"reader\" of a full pipe")                       \
         EVIDENCE("waits_count", "how often requests waited for it for so long")                              \
         EVIDENCE("waited_ns", "their waiting for it together")                                               \
         EVIDENCE("worst_ns", "the longest wait")                                                             \
         EVIDENCE("ended", "\"no\" when a request still waited at the end of the trace")                      \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(redis_slow_command, "redis-slow-command",                                                            \
         "A command held the single thread that executes all commands; everybody else queued behind it.",     \
         EVIDENCE("command", "the command")                                                                   \
         EVIDENCE("calls_count", "how often it was slow")                                                     \
         EVIDENCE("executed_ns", "its execution time in all")                                                 \
         EVIDENCE("worst_ns", "its longest execution")                                                        \
         EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")                   \
         EVIDENCE("argument_bytes", "size of the arguments of the worst one")                                 \
         EVIDENCE("arguments_count", "number of arguments of the worst one, with its name")                   \
         EVIDENCE("inner_command", "inside a script or transaction: the command with the most time")          \
         EVIDENCE("inner_calls_count", "how often it ran inside the worst one")                               \
         EVIDENCE("client_id", "the client that sent the worst one")                                          \
         EVIDENCE("clients_count", "clients that sent it")                                                    \
         EVIDENCE("queued_commands_count", "commands of others that waited behind it")                        \
         EVIDENCE("queued_ns", "their waiting time together, where the sender was traced")                    \
         EVIDENCE("waiting_clients_count", "other clients that had a request waiting when the call ended")    \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                   \
         EVIDENCE("delay_ns", "time lost by requests, theirs together"))                                      \
    KIND(redis_connection_conflict, "redis-connection-conflict",                                              \
         "Two threads of a Redis server came to own one connection: queued twice, used at once, freed twice.",\
         EVIDENCE("client_id", "the client")                                                                  \
         EVIDENCE("first_added_ns", "when it was put on the list of pending reads")                           \
         EVIDENCE("second_added_ns", "when it was put there again, before anybody had read it")               \
         EVIDENCE("added_by_thread", "the thread that put it there again")                                    \
         EVIDENCE("first_thread", "a thread that then read it")                                               \
         EVIDENCE("second_thread", "another thread that then read it")                                        \
         EVIDENCE("overlap_ns", "how long both were inside it at once")                                       \
         EVIDENCE("tls_left_bytes", "left in its TLS buffer before that")                                     \
         EVIDENCE("freed_ns", "when it was freed")                                                            \
         EVIDENCE("freed_again_ns", "when it was freed again"))                                               \
    KIND(server_killed, "server-killed", "A traced server was ended by a signal.",                            \
         EVIDENCE("signal", "the signal, \"SIGABRT\"")                                                        \
         EVIDENCE("ended_ns", "when"))                                                                        \
    KIND(redis_queueing, "redis-queueing", "Requests waited in Redis for others that were each quick.",       \
         EVIDENCE("requests_count", "requests that were ready at the same time as others")                    \
         EVIDENCE("mean_wait_ns", "how long one waited until it was read, on average")                        \
         EVIDENCE("longest_wait_ns", "the longest")                                                           \
         EVIDENCE("delay_ns", "their waiting together")                                                       \
         EVIDENCE("busy_share", "of the recording, in which the event loop worked, 0 to 1"))                  \
    KIND(redis_big_reply, "redis-big-reply", "A reply is so large that sending it is the cost.", \
         EVIDENCE("command", "the command") \
         EVIDENCE("reply_bytes", "the largest reply") \
         EVIDENCE("all_replies_bytes", "all replies to this command") \
         EVIDENCE("client_id", "the client that got the largest")) \
    KIND(redis_slow_client, "redis-slow-client", "A client reads its replies too slowly.", \
         EVIDENCE("clients_count", "clients that took long to take a large reply") \
         EVIDENCE("closed_count", "clients that were closed at client-output-buffer-limit") \
         EVIDENCE("client_id", "the slowest") \
         EVIDENCE("taking_ns", "how long it took to take its replies, in all") \
         EVIDENCE("reply_bytes", "the largest of them")) \
    KIND(redis_eviction_storm, "redis-eviction-storm", "Redis evicts keys while it should serve.", \
         EVIDENCE("evictions_count", "how often keys had to be evicted") \
         EVIDENCE("evicted_count", "keys") \
         EVIDENCE("took_ns", "time in it, in all") \
         EVIDENCE("worst_ns", "the longest time") \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait ended")  \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                   \
         EVIDENCE("delay_ns", "their waiting together")) \
    KIND(redis_expiry_storm, "redis-expiry-storm", "Deleting expired keys held the event loop.", \
         EVIDENCE("cycles_count", "cycles that looked for them") \
         EVIDENCE("expired_count", "keys that they deleted") \
         EVIDENCE("expired_on_access_count", "keys deleted because somebody asked for them") \
         EVIDENCE("took_ns", "time in cycles, in all") \
         EVIDENCE("worst_ns", "the longest one") \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait ended")  \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                   \
         EVIDENCE("delay_ns", "their waiting together")) \
    KIND(redis_hot_connection, "redis-hot-connection", "One connection has most of what a busy server executes.", \
         EVIDENCE("client_id", "the client") \
         EVIDENCE("commands_count", "its commands") \
         EVIDENCE("executed_ns", "their execution") \
         EVIDENCE("executed_share", "of all that was executed, 0 to 1")) \
    KIND(redis_fsync_stall, "redis-fsync-stall", "Writing the append-only file held the event loop.", \
         EVIDENCE("syncs_count", "how often the main thread forced it to the disk") \
         EVIDENCE("writes_count", "in its place: how often it was written") \
         EVIDENCE("took_ns", "time in it, in all") \
         EVIDENCE("worst_ns", "the longest time") \
         EVIDENCE("time_share", "of the time that was recorded, 0 to 1") \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait ended")  \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                   \
         EVIDENCE("delay_ns", "their waiting together")) \
    KIND(redis_fork_stall, "redis-fork-stall", "Forking for persistence held the event loop.", \
         EVIDENCE("forks_count", "how often it forked") \
         EVIDENCE("took_ns", "time in it, in all") \
         EVIDENCE("worst_ns", "the longest time") \
         EVIDENCE("memory_bytes", "what the server had then") \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait ended")  \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                   \
         EVIDENCE("delay_ns", "their waiting together")) \
    KIND(redis_bus_overload, "redis-bus-overload", "The cluster bus takes much of the event loop's time.",    \
         EVIDENCE("bus_bytes", "read and written on the bus")                                                 \
         EVIDENCE("client_bytes", "read from and written to clients")                                         \
         EVIDENCE("took_ns", "time in reading and writing the bus")                                           \
         EVIDENCE("time_share", "of the recording, 0 to 1"))                                                  \
    KIND(redis_publish_amplification, "redis-publish-amplification",                                          \
         "Published messages take many times their size on the cluster bus.",                                 \
         EVIDENCE("messages_count", "published by clients of this server")                                    \
         EVIDENCE("published_bytes", "channels and messages as clients sent them")                            \
         EVIDENCE("bus_bytes", "sent to other nodes for them")                                                \
         EVIDENCE("amplification", "the second to the first")                                                 \
         EVIDENCE("copies", "to how many nodes one message was sent: the broadcast")                          \
         EVIDENCE("envelope_bytes", "of one copy, without channel and message"))                                \
    KIND(hot_function, "hot-function", "A function takes a large share of the CPUs.",                   \
         EVIDENCE("function", "the function, of the application where one is on the stack")                   \
         EVIDENCE("language", "what it is written in, or runs in")                                            \
         EVIDENCE("share", "of all that was sampled, with what it calls, 0 to 1")                             \
         EVIDENCE("total_ns", "time in it and in what it calls")                                              \
         EVIDENCE("own_ns", "time in the function itself")                                                    \
         EVIDENCE("library", "the library function it calls that costs the most")                             \
         EVIDENCE("library_ns", "time in that one, called from here")                                         \
         EVIDENCE("total_count", "in the place of total_ns where the event is not time")                      \
         EVIDENCE("own_count", "likewise")                                                                    \
         EVIDENCE("library_count", "likewise"))                                                               \
    KIND(suspect_service, "suspect-service", "A service explains what differs from a normal period.",         \
         EVIDENCE("service", "the service")                                                                   \
         EVIDENCE("score", "of its evidence, the highest of all services")                                    \
         EVIDENCE("ratio", "how many times its strongest evidence is what it was")                            \
         EVIDENCE("why", "that evidence, in words"))                                                          \
    KIND(outlier_instance, "outlier-instance", "One instance, or one thread of a pool, costs more than its "  \
         "equals.",                                                                                           \
         EVIDENCE("instance", "the process, thread or host")                                                        \
         EVIDENCE("equals_count", "processes of the same name, or threads of the same pool, besides it")       \
         EVIDENCE("total_ns", "time sampled in it; of a host, what a request typically takes on it")                                                           \
         EVIDENCE("median_ns", "and in the middle one of its equals")                                         \
         EVIDENCE("ratio", "the first to the second")                                                         \
         EVIDENCE("function", "the function that makes most of the difference")                               \
         EVIDENCE("function_ns", "time in it here")                                                           \
         EVIDENCE("function_mean_ns", "and on average in its equals")                                         \
         EVIDENCE("bucket", "of a host: the operation and the values of the bucketing attributes") \
         EVIDENCE("service", "of a host: the service that is slow on it") \
         EVIDENCE("version", "of a host: the version that it runs") \
         EVIDENCE("p_value", "of a host: that the slowest of as many would be so slow by chance") \
         EVIDENCE("requests_count", "of a host: requests that it served") \
         EVIDENCE("total_count", "in the place of total_ns where the event is not time")                      \
         EVIDENCE("median_count", "likewise")                                                                 \
         EVIDENCE("function_count", "likewise")                                                               \
         EVIDENCE("function_mean_count", "likewise"))                                                         \
    KIND(regression, "regression", "A version is slower, or fails more often, than the versions before it.",   \
         EVIDENCE("request_type", "the service and operation that requests begin with")                       \
         EVIDENCE("bucket", "the slice: request type and the values of the bucketing attributes")             \
         EVIDENCE("service", "the service whose version changed")                                             \
         EVIDENCE("callee", "where a caller grew: the service whose version makes the difference")            \
         EVIDENCE("callee_version", "and that version")                                                       \
         EVIDENCE("version", "the newer version")                                                             \
         EVIDENCE("base_version", "the newest of the versions that it is compared with")                      \
         EVIDENCE("since_version", "the first version that is as slow")                                       \
         EVIDENCE("measure", "what differs most surely: middle (geometric mean), p95, p99 or errors")         \
         EVIDENCE("compared_over", "same time, or different times")                                           \
         EVIDENCE("ratio", "newer / older of that measure")                                                   \
         EVIDENCE("ratio_low", "lower end of its 95 % interval")                                              \
         EVIDENCE("ratio_high", "upper end")                                                                  \
         EVIDENCE("method", "the test")                                                                       \
         EVIDENCE("error_share", "newer requests that fail, 0 to 1")                                          \
         EVIDENCE("base_error_share", "and older ones")                                                       \
         EVIDENCE("mix_ratio", "newer / older latency that the mix of requests makes; taken out of ratio")    \
         EVIDENCE("cost_share", "what it adds to the time of all newer requests of the service, 0 to 1 or more") \
         EVIDENCE("p_value", "one-sided, for the measures examined")                                         \
         EVIDENCE("adjusted_p_value", "over all buckets examined (Benjamini-Hochberg)")                      \
         EVIDENCE("e_value", "of the sequential test, valid at any time (watch)")                             \
         EVIDENCE("z_score", "mean against the spread of older requests")                                     \
         EVIDENCE("z_score_versions", "mean against the spread of older versions' means")                     \
         EVIDENCE("effect_size", "log ratio over the spread of older requests' logarithms")                   \
         EVIDENCE("requests_count", "newer requests")                                                         \
         EVIDENCE("base_requests_count", "older requests")                                                    \
         EVIDENCE("hosts_count", "hosts of the newer side that were tested")                                  \
         EVIDENCE("base_hosts_count", "hosts of the older side that were tested")                             \
         EVIDENCE("mean_ns", "newer mean latency")                                                            \
         EVIDENCE("base_mean_ns", "older mean latency")                                                       \
         EVIDENCE("p95_ns", "newer 95th percentile")                                                          \
         EVIDENCE("base_p95_ns", "older 95th percentile")                                                     \
         EVIDENCE("p99_ns", "newer 99th percentile")                                                          \
         EVIDENCE("base_p99_ns", "older 99th percentile")                                                     \
         EVIDENCE("path", "the call path that grew most on the critical path")                                \
         EVIDENCE("path_change", "slower, sequential, appeared, more-calls, edge, ...")                       \
         EVIDENCE("path_ns", "its time on the critical path per newer request")                               \
         EVIDENCE("base_path_ns", "and per older request")                                                    \
         EVIDENCE("path_share", "its share of the growth of the mean")                                        \
         EVIDENCE("concurrency", "how many of its calls run at once, newer")                                  \
         EVIDENCE("base_concurrency", "and older")                                                            \
         EVIDENCE("cause", "the attribute combination that explains it")                                      \
         EVIDENCE("cause_coverage", "share of the slow-down, or of the added errors, within that combination")                         \
         EVIDENCE("cause_ratio", "newer / older within it (of latency or errors)")                                                   \
         EVIDENCE("cause_ratio_outside", "and outside of it")                                                 \
         EVIDENCE("subgroup_requests_count", "requests of the newer version within the cause, where only those are slower")\
         EVIDENCE("subgroup_base_requests_count", "and of the older version")                                 \
         EVIDENCE("rule_cause", "what the simple rule says: the one value with the largest ratio")) \
    TARGET_FINDING_KINDS(KIND)
/* clang-format on */
/* Those of targets with a table of their own, src/targets/NAME/kinds.h, come behind. */

enum finding_kind {
#define EVIDENCE(name, text)
#define KIND(ident, name, text, evidence) FINDING_##ident,
    FINDING_KINDS(KIND)
#undef KIND
#undef EVIDENCE
        FINDING_KIND_COUNT
};

#endif
