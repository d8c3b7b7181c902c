/* The kinds of finding: one table from which the names, the severities, the general remedies, the manual
 * (doc/findings.md) and the checks come. Programs rely on the names and on the evidence that each kind
 * carries; add, never rename. A kind that no analysis reports, or no test expects, may not be here
 * (tools/check-deps).
 *
 * KIND(ident, "name", least severity, greatest severity, "what it means", "what to do about it",
 *      EVIDENCE("name_with_unit", "what it says") ...)
 *
 * A finding has the remedy of its kind unless its analysis knows a more precise one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDING_KINDS_H
#define FINDING_KINDS_H

#include "finding/target_kinds.h"

/* Of callbacks that blocked their event loop. */
#define EVIDENCE_OF_STALLS(cpu, agree, state)                                       \
    EVIDENCE("phase", "the phase in which the event loop was blocked")              \
    EVIDENCE("stalls_count", "how often")                                           \
    EVIDENCE("blocked_ns", "how long the loop was blocked in total")                \
    EVIDENCE("worst_ns", "the longest time")                                        \
    EVIDENCE("cpu_ns", cpu)                                                         \
    EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")    \
    EVIDENCE("gc_ns", "of it in garbage collection")                                \
    EVIDENCE("samples_count", "samples of the stalled callback")                    \
    EVIDENCE("samples_agree_count", agree)                                          \
    EVIDENCE("ended", "\"no\" when it was still " state " at the end of the trace") \
    EVIDENCE("late_count", "requests that arrived then, at an unknown time")        \
    EVIDENCE("late_most_ns", "the most that these can have waited, in total")       \
    EVIDENCE("delay_ns", "time lost by requests, in total")

/* clang-format off */
#define FINDING_KINDS(KIND)                                                                                  \
    KIND(events_lost, "events-lost", INFO, WARNING,                                                          \
         "So many events were lost while recording that what is missing may matter more than what was "      \
         "found.",                                                                                           \
         "Give the recorder a CPU and room on its disk, or record less: a shorter time, fewer families "     \
         "(--no-kernel, --budget).",                                                                         \
         EVIDENCE("lost_count", "events that were lost")                                                     \
         EVIDENCE("events_count", "events that were read")                                                   \
         EVIDENCE("lost_share", "the first as a share of both, 0 to 1"))                                     \
    KIND(blocking_regexp, "blocking-regexp", INFO, CRITICAL,                                                 \
         "A regular expression ran so long that it blocked the event loop.",                                 \
         "Rewrite the pattern so that no repeated group can match the same text in two ways, limit the "     \
         "length of the text before matching, or match in linear time (the re2 package).",                   \
         EVIDENCE("pattern", "the expression with its flags")                                                \
         EVIDENCE_OF_STALLS("of it on a CPU", "those of them in this expression", "running"))                \
    KIND(event_loop_blocked, "event-loop-blocked", INFO, CRITICAL,                                           \
         "One callback blocked the event loop: JavaScript, a built-in function, garbage collection, "        \
         "native code or a synchronous call.",                                                               \
         "Split the work into pieces with setImmediate between them, move it to a worker thread, or use "    \
         "the asynchronous form of the call.",                                                               \
         EVIDENCE("cause", "javascript, builtin, gc, native or waiting")                                     \
         EVIDENCE("called", "what the function at that place called, by its public name")                    \
         EVIDENCE("variants", "shares of what the function did, where it is not one thing")                  \
         EVIDENCE_OF_STALLS("of it on a CPU", "those of them at this place", "running"))                     \
    KIND(thread_pool_starved, "thread-pool-starved", INFO, CRITICAL,                                         \
         "Operations waited for a thread of libuv's pool because other work occupied all of them.",          \
         "Give the pool more threads (UV_THREADPOOL_SIZE), let fewer of the long operations run at once, "   \
         "or move them to worker threads or another process.",                                               \
         EVIDENCE("operations_count", "operations that waited longer than the threshold, alone or together") \
         EVIDENCE("waited_ns", "their time in the queue, in total")                                          \
         EVIDENCE("worst_ns", "the longest time in the queue")                                               \
         EVIDENCE("run_ns", "their own time on a pool thread, in total")                                     \
         EVIDENCE("pool_threads_count", "threads of the pool that were seen working")                        \
         EVIDENCE("occupied_by", "the work that occupied the pool for most of that time")                    \
         EVIDENCE("occupied_share", "its share of the pool's time in that period, 0 to 1")                   \
         EVIDENCE("occupant_worst_ns", "its longest run")                                                    \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(connection_pool_starved, "connection-pool-starved", INFO, WARNING,                                  \
         "Requests waited for one of a few connections to an address because others held all of them.",      \
         "Shorten what holds them (the slow statement, work done while one is held), give the pool more "    \
         "connections or allow more calls at once where the other side can serve them, or let fewer "        \
         "requests in.",                                                                                     \
         EVIDENCE("peer", "the address that the connections lead to, or the service")                        \
         EVIDENCE("lanes_count", "connections, all of which were busy, or calls that are made at once")             \
         EVIDENCE("waits_count", "how often requests waited for one")                                        \
         EVIDENCE("excused_count", "of them, those that a lack of CPUs of this machine may explain")         \
         EVIDENCE("waited_ns", "their waiting time in total")                                                \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("run_queue_ns", "of it, while the event loop had no CPU (not this fault's doing)")               \
         EVIDENCE("held_by", "whose requests held them most of that time")                                   \
         EVIDENCE("held_share", "their share of it, 0 to 1")                                                 \
         EVIDENCE("held_worst_ns", "the longest that one of them held one")                                  \
         EVIDENCE("statement", "with --sql: the statement that held them most, without values") \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(worker_pool_starved, "worker-pool-starved", INFO, WARNING,                                          \
         "Requests waited for a worker thread because tasks of others occupied all of them.",                \
         "Make the tasks shorter or fewer, or give the pool more threads where the machine has CPUs for "    \
         "them; refuse work when the queue is long.",                                                        \
         EVIDENCE("lanes_count", "worker threads, all of which were busy")                                   \
         EVIDENCE("waits_count", "how often requests waited for one")                                        \
         EVIDENCE("waited_ns", "their waiting time in total")                                                \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("run_queue_ns", "of it, while the workers had no CPU (not this fault's doing)")               \
         EVIDENCE("held_by", "whose tasks held them most of that time")                                      \
         EVIDENCE("held_share", "their share of it, 0 to 1")                                                 \
         EVIDENCE("held_worst_ns", "the longest task")                                                       \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(slow_io, "slow-io", INFO, WARNING,                                                                  \
         "A file, DNS or device operation took long in the kernel or the device.",                           \
         "Check the device and the file system behind it (iostat, network mounts, a pipe without a "         \
         "writer); keep what is read often in memory.",                                                      \
         EVIDENCE("operation", "the operation: fs_read, getaddrinfo, ...")                                   \
         EVIDENCE("operations_count", "how often requests waited that long for it")                          \
         EVIDENCE("waited_ns", "their waiting time in total")                                                \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("usual_ns", "what half of all such operations of the service take at most")                \
         EVIDENCE("all_count", "all such operations of the service")                                         \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(slow_peer, "slow-peer", INFO, WARNING,                                                              \
         "Another service or data store answered late.",                                                     \
         "Investigate the peer (trace it, read its logs or its slow query log); call it less often, in "     \
         "parallel, with a timeout or through a cache.",                                                     \
         EVIDENCE("peer", "the service, or its address where it is not traced")                              \
         EVIDENCE("call", "what was requested, where known")                                                 \
         EVIDENCE("traced", "\"yes\" when the peer is traced")                                               \
         EVIDENCE("statement", "with --sql: the statement, without values") \
         EVIDENCE("calls_count", "calls that requests waited that long for")                                 \
         EVIDENCE("excused_count", "of them, those that a lack of CPUs of this machine may explain")         \
         EVIDENCE("waited_ns", "their waiting time in total, less what the service's own event loop or a "   \
                               "lack of CPUs explains")                                                      \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(server_errors, "server-errors", INFO, WARNING,                                                      \
         "Requests were answered with a server error (5xx).",                                                \
         "Find out what failed before the answer; answer from a cache or with less where it may be "         \
         "missing, and limit how long requests wait for it.",                                                \
         EVIDENCE("endpoint", "method and route")                                                            \
         EVIDENCE("status", "of the answer")                                                                 \
         EVIDENCE("errors_count", "how often for this cause")                                                \
         EVIDENCE("requests_count", "requests of the endpoint in total")                                     \
         EVIDENCE("error_share", "the first of the second, 0 to 1")                                          \
         EVIDENCE("first_cause", "what had failed before, in words")                                         \
         EVIDENCE("delay_ns", "time that these requests took, in total"))                                    \
    KIND(many_calls, "many-calls", INFO, WARNING, \
         "Requests called the same store or service many times, one after another.", \
         "Ask for all of it at once (a join, IN, MGET, a batch endpoint, DataLoader), send calls that do not need each " \
         "other's answers together, or keep what is asked for often.", \
         EVIDENCE("endpoint", "method and route") \
         EVIDENCE("peer", "the service, or its address where it is not traced") \
         EVIDENCE("statement", "with --sql: the statement that most of the calls were, without values") \
         EVIDENCE("requests_count", "requests that did so") \
         EVIDENCE("calls_count", "calls that they made, in total") \
         EVIDENCE("most_count", "calls of one request, at most") \
         EVIDENCE("waited_ns", "what their calls took, in total, without waits for a CPU") \
         EVIDENCE("worst_ns", "those of one request, at most") \
         EVIDENCE("delay_ns", "time lost by requests, in total")) \
    KIND(failed_calls, "failed-calls", INFO, WARNING,                                                        \
         "Calls or connection attempts failed; the requests that made them, if any, were answered "          \
         "nevertheless.",                                                                                    \
         "Check that the other side is running and listens at that address, that it answers within the "     \
         "time that it is given, and that a failure is noticed early.",                                      \
         EVIDENCE("what", "what failed, in words")                                                           \
         EVIDENCE("peer", "the address or service that was called")                                          \
         EVIDENCE("failed_count", "how often")                                                               \
         EVIDENCE("delay_ns", "time that requests spent on it, in total"))                                   \
    KIND(retry_storm, "retry-storm", INFO, WARNING,                                                          \
         "Calls that failed were repeated again and again for the same request.",                            \
         "Retry once or twice, with growing and random pauses, in one layer only; stop retrying while "      \
         "most calls fail (a retry budget or circuit breaker).",                                             \
         EVIDENCE("what", "what failed, in words")                                                           \
         EVIDENCE("peer", "the address or service that was called")                                          \
         EVIDENCE("call", "what was requested")                                                              \
         EVIDENCE("requests_count", "requests that did so")                                                  \
         EVIDENCE("calls_count", "calls that they made, in total")                                           \
         EVIDENCE("failed_count", "of these, failed")                                                        \
         EVIDENCE("calls_per_request", "the mean")                                                           \
         EVIDENCE("most_count", "calls for one request, at most")                                            \
         EVIDENCE("delay_ns", "from the first failure to the last call, in total"))                          \
    KIND(server_exited, "server-exited", CRITICAL, CRITICAL,                                                 \
         "A service exited with an error while it was serving requests.",                                    \
         "The end of its log has the exception.",                                                            \
         EVIDENCE("exit_status", "as the shell would show it")                                               \
         EVIDENCE("open_count", "requests that it had not answered")                                         \
         EVIDENCE("ended_ns", "when"))                                                                       \
    KIND(consumers_busy, "consumers-busy", INFO, WARNING,                                                    \
         "Messages or jobs waited in a queue because all that take them were busy with others.",             \
         "Add consumers, let each take more at a time (prefetch, concurrency) if it waits rather than "      \
         "computes, make the work for one message shorter, or give long work a queue of its own.",           \
         EVIDENCE("queue", "where the messages go: AMQP exchange and routing key, NATS subject, MQTT topic; a stream "   \
                           "or queue of jobs in Redis has a number in place of its key")                     \
         EVIDENCE("peer", "the broker's address")                                                            \
         EVIDENCE("consumers_count", "connections on which they are taken")                                  \
         EVIDENCE("places_count", "of jobs: how many are done at a time")                                    \
         EVIDENCE("held_by", "of jobs: what the jobs did that were processed at that time")                 \
         EVIDENCE("waits_count", "messages that waited")                                                     \
         EVIDENCE("waited_ns", "how long, in total")                                                         \
         EVIDENCE("left_ns", "for how long besides, while a consumer was between two: with the broker")      \
         EVIDENCE("worst_ns", "the longest")                                                                 \
         EVIDENCE("held_worst_ns", "the longest that a consumer was busy with one message")                  \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(unexplained_wait, "unexplained-wait", INFO, INFO,                                                   \
         "Requests waited long for something that was not seen.",                                            \
         "Examine the request (see below) and the program where it continues. --function NAME shows when "   \
         "one of its functions is called and its promise settled; request contexts (--context auto) and "    \
         "kernel events make more of it visible; trace the services and stores that it calls.",              \
         EVIDENCE("waits_count", "how often")                                                                \
         EVIDENCE("waited_ns", "their waiting time in total")                                                \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("busy_peer", "an address all of whose connections were busy in the longest")               \
         EVIDENCE("busy_count", "how many connections those are")                                            \
         EVIDENCE("work", "what was worked on in the longest, for one of several requests")                  \
         EVIDENCE("broker", "a broker that the program exchanges messages with: protocol and address")       \
         EVIDENCE("ambiguous_count", "waits of requests with operations that may be another request's")      \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(run_queue_wait, "run-queue-wait", INFO, INFO,                                                       \
         "Threads were ready to run but the machine had no CPU for them.",                                   \
         "Give the machine more CPUs or less work, or raise the service's CPU share.",                       \
         EVIDENCE("stalls_count", "callbacks that took long for this reason")                                \
         EVIDENCE("waited_ns", "time runnable but not running, in total")                                    \
         EVIDENCE("worst_ns", "the longest wait within one callback")                                        \
         EVIDENCE("cpu_ns", "time that these callbacks did run")                                             \
         EVIDENCE("idle_cpu_ns", "of waited_ns, while another CPU of the machine was idle")                  \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(cpu_throttled, "cpu-throttled", INFO, WARNING,                                                      \
         "A process had used up its CPU quota and was kept from running, however idle the machine was.",     \
         "Give it a larger quota (in Kubernetes a larger CPU limit, or none), run fewer threads at once "    \
         "(UV_THREADPOOL_SIZE, --v8-pool-size, workers), or let it do less.",                                \
         EVIDENCE("quota_cpus", "the quota, in CPUs")                                                        \
         EVIDENCE("stalls_count", "callbacks that did not make progress for this reason")                    \
         EVIDENCE("throttled_ns", "how long, in total")                                                      \
         EVIDENCE("worst_ns", "the longest within one callback")                                             \
         EVIDENCE("cpu_ns", "time that these callbacks did run")                                             \
         EVIDENCE("periods_count", "periods of the quota in that time")                                      \
         EVIDENCE("throttled_periods_count", "of them, those in which it was used up")                       \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(cpu_stolen, "cpu-stolen", INFO, INFO,                                                               \
         "The hypervisor of a virtual machine ran others on the CPUs that a process had.",                   \
         "Move the virtual machine to a host that is not overcommitted, or give it CPUs of its own (no "     \
         "burstable instance); steal time is the column st of top and vmstat.",                              \
         EVIDENCE("stalls_count", "callbacks that did not make progress for this reason")                    \
         EVIDENCE("stolen_ns", "how long, in total")                                                         \
         EVIDENCE("worst_ns", "the longest within one callback")                                             \
         EVIDENCE("cpu_ns", "time that these callbacks did run")                                             \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(tcp_retransmissions, "tcp-retransmissions", INFO, WARNING,                                          \
         "Requests waited for TCP to send again what the other side had not acknowledged.",                  \
         "Look for lost packets between the two (ip -s link, tc -s qdisc, nstat), and at the load of the "   \
         "other machine.",                                                                                   \
         EVIDENCE("peer", "the other side")                                                                  \
         EVIDENCE("call", "what was asked of it, or \"connecting\"")                                         \
         EVIDENCE("calls_count", "how often a request waited for this")                                      \
         EVIDENCE("retransmissions_count", "segments that were sent again in these waits")                   \
         EVIDENCE("waited_ns", "how long, until the last of them, in total")                                 \
         EVIDENCE("worst_ns", "the longest")                                                                 \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(clients_gave_up, "clients-gave-up", INFO, WARNING,                                                  \
         "Connections were closed before their requests were answered, after at least half a second.",       \
         "Find out what the requests waited for. If they may take so long, give the clients more time; if not, "\
         "stop the work when the client is gone (the request's 'close' event, an AbortSignal).",             \
         EVIDENCE("endpoint", "method and route")                                                            \
         EVIDENCE("requests_count", "requests whose connection was closed")                                  \
         EVIDENCE("waited_ns", "how long they had waited, in total")                                         \
         EVIDENCE("worst_ns", "the longest")                                                                 \
         EVIDENCE("waited_for", "what one of them had waited for most of the time")                          \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(lock_wait, "lock-wait", INFO, CRITICAL,                                                             \
         "The event loop waited for a lock that another thread held.",                                       \
         "Do not wait for other threads on the thread of the event loop: send a message when they are "      \
         "done, or use Atomics.waitAsync; hold the lock more briefly.",                                      \
         EVIDENCE("called", "the function that waited")                                                      \
         EVIDENCE("cause", "waiting")                                                                        \
         EVIDENCE_OF_STALLS("of it that no lack of CPUs explains", "those of them at this place", "waiting"))\
    KIND(ipc_blocked, "ipc-blocked", INFO, CRITICAL,                                                         \
         "A process waited for another one over a pipe or socket.",                                          \
         "Find out what the other process was doing (its own findings), or do not make requests wait for "   \
         "it.",                                                                                              \
         EVIDENCE("channel", "the descriptor, and the process and descriptor at its other end where "        \
                             "known")                                                                        \
         EVIDENCE("waits_for", "\"answer\" to a message, or \"reader\" of a full pipe")                      \
         EVIDENCE("waits_count", "how often requests waited that long for it")                               \
         EVIDENCE("waited_ns", "their waiting time in total")                                                \
         EVIDENCE("worst_ns", "the longest wait")                                                            \
         EVIDENCE("ended", "\"no\" when a request still waited at the end of the trace")                     \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(server_killed, "server-killed", CRITICAL, CRITICAL,                                                 \
         "A traced server was terminated by a signal.",                                                      \
         "Read the end of the server's log.",                                                                \
         EVIDENCE("signal", "the signal, \"SIGABRT\"")                                                       \
         EVIDENCE("ended_ns", "when"))                                                                       \
    KIND(hot_function, "hot-function", INFO, INFO,                                                           \
         "A function takes a large share of the CPUs.",                                                      \
         "Call it less often, or make what it spends its time on cheaper: sonde profile --lines shows "      \
         "where that is.",                                                                                   \
         EVIDENCE("function", "the function, of the application where one is on the stack")                  \
         EVIDENCE("language", "what it is written in, or runs in")                                           \
         EVIDENCE("share", "of all that was sampled, with what it calls, 0 to 1")                            \
         EVIDENCE("share_low", "of its interval of 95 %, if four samples are worth one independent draw")    \
         EVIDENCE("share_high", "likewise")                                                                  \
         EVIDENCE("samples_count", "what was sampled in total")                                              \
         EVIDENCE("total_ns", "time in it and in what it calls")                                             \
         EVIDENCE("own_ns", "time in the function itself")                                                   \
         EVIDENCE("library", "the library function it calls that costs the most")                            \
         EVIDENCE("library_ns", "time in that one, called from here")                                        \
         EVIDENCE("total_count", "instead of total_ns where the event is not time")                          \
         EVIDENCE("own_count", "likewise")                                                                   \
         EVIDENCE("library_count", "likewise"))                                                              \
    KIND(suspect_service, "suspect-service", WARNING, WARNING,                                               \
         "A service explains most of what differs from a normal period.",                                    \
         "Investigate that service first: its host, what it waits for, and what changed there.",             \
         EVIDENCE("service", "the service")                                                                  \
         EVIDENCE("score", "of its evidence, the highest of all services")                                   \
         EVIDENCE("ratio", "how many times its strongest evidence is what it was")                           \
         EVIDENCE("why", "that evidence, in words"))                                                         \
    KIND(outlier_instance, "outlier-instance", WARNING, WARNING,                                             \
         "One instance, or one thread of a pool, costs more than its peers.",                                \
         "Compare it with a peer: profile each, then sonde diff.",                                           \
         EVIDENCE("instance", "the process, thread or host")                                                 \
         EVIDENCE("equals_count", "other processes with the same job, or other threads of the same pool")    \
         EVIDENCE("total_ns", "time sampled in it; of a host, what a request typically takes on it")         \
         EVIDENCE("median_ns", "and in the median one of its peers, in the time in which both were there")      \
         EVIDENCE("ratio", "the first to the second")                                                        \
         EVIDENCE("function", "the function that makes most of the difference")                              \
         EVIDENCE("function_ns", "time in it here")                                                          \
         EVIDENCE("function_mean_ns", "and on average in its peers")                                         \
         EVIDENCE("bucket", "of a host: the operation and the values of the bucketing attributes")           \
         EVIDENCE("service", "of a host: the service that is slow on it")                                    \
         EVIDENCE("version", "of a host: the version that it runs")                                          \
         EVIDENCE("p_value", "of a host: that the slowest of as many would be so slow by chance")            \
         EVIDENCE("requests_count", "of a host: requests that it served")                                    \
         EVIDENCE("total_count", "instead of total_ns where the event is not time")                          \
         EVIDENCE("median_count", "likewise")                                                                \
         EVIDENCE("function_count", "likewise")                                                              \
         EVIDENCE("function_mean_count", "likewise"))                                                        \
    KIND(cpu_regression, "cpu-regression", WARNING, WARNING,                                                 \
         "A function takes a larger share of its service's CPU than in earlier stretches of the same kind.", \
         "See what was deployed or configured since then, and compare the flame graphs of both times: "      \
         "sonde diff --since WHEN -o diff.html STORE.",                                                      \
         EVIDENCE("service", "the service")                                                                  \
         EVIDENCE("function", "the function")                                                                \
         EVIDENCE("cpu_share", "its own share of the service's CPU, 0 to 1")                                 \
         EVIDENCE("base_cpu_share", "that share before")                                                     \
         EVIDENCE("growth_share", "what it takes more of the service's CPU, 0 to 1, relative to what most "  \
                                  "functions did")                                                           \
         EVIDENCE("growth_share_low", "lower end of its 95 % interval")                                      \
         EVIDENCE("growth_share_high", "upper end")                                                          \
         EVIDENCE("ratio", "its share now / before, relative to most functions; none when it is new")        \
         EVIDENCE("ratio_low", "lower end of its 95 % interval")                                             \
         EVIDENCE("ratio_high", "upper end")                                                                 \
         EVIDENCE("p_value", "two-sided, of this function alone")                                            \
         EVIDENCE("base_stretches_count", "earlier stretches that it was compared with")                     \
         EVIDENCE("compared_over", "same hours of earlier days, same hours of days of the same kind, or the " \
                                   "stretches before"))                                                      \
    KIND(regression, "regression", WARNING, CRITICAL,                                                        \
         "A version is slower, or fails more often, than the versions before it.",                           \
         "Stop the rollout or roll back to the base version, and examine the call path that grew.",          \
         EVIDENCE("request_type", "the service and operation that requests begin with")                      \
         EVIDENCE("bucket", "the slice: request type and the values of the bucketing attributes")            \
         EVIDENCE("service", "the service whose version changed")                                            \
         EVIDENCE("callee", "where a caller grew: the service whose version makes the difference")           \
         EVIDENCE("callee_version", "and that version")                                                      \
         EVIDENCE("version", "the newer version")                                                            \
         EVIDENCE("base_version", "the newest of the versions that it is compared with")                     \
         EVIDENCE("since_version", "the first version that is as slow")                                      \
         EVIDENCE("measure", "what differs with the greatest certainty: middle (geometric mean), p95, "      \
                             "p99 or errors")                                                                \
         EVIDENCE("compared_over", "same time, or different times")                                          \
         EVIDENCE("ratio", "newer / older of that measure")                                                  \
         EVIDENCE("ratio_low", "lower end of its 95 % interval")                                             \
         EVIDENCE("ratio_high", "upper end")                                                                 \
         EVIDENCE("method", "the test")                                                                      \
         EVIDENCE("error_share", "newer requests that fail, 0 to 1")                                         \
         EVIDENCE("base_error_share", "and older ones")                                                      \
         EVIDENCE("mix_ratio", "newer / older latency that the mix of requests makes; taken out of ratio")   \
         EVIDENCE("cost_share", "what it adds to the time of all newer requests of the service, 0 to 1 "     \
                                "or more")                                                                   \
         EVIDENCE("p_value", "one-sided, for the measures examined")                                         \
         EVIDENCE("adjusted_p_value", "over all buckets examined (Benjamini-Hochberg)")                      \
         EVIDENCE("e_value", "of the sequential test, valid at any time (watch)")                            \
         EVIDENCE("z_score", "mean against the spread of older requests")                                    \
         EVIDENCE("z_score_versions", "mean against the spread of older versions' means")                    \
         EVIDENCE("effect_size", "log ratio over the spread of older requests' logarithms")                  \
         EVIDENCE("requests_count", "newer requests")                                                        \
         EVIDENCE("base_requests_count", "older requests")                                                   \
         EVIDENCE("hosts_count", "hosts of the newer side that were tested")                                 \
         EVIDENCE("base_hosts_count", "hosts of the older side that were tested")                            \
         EVIDENCE("mean_ns", "newer mean latency")                                                           \
         EVIDENCE("base_mean_ns", "older mean latency")                                                      \
         EVIDENCE("p95_ns", "newer 95th percentile")                                                         \
         EVIDENCE("base_p95_ns", "older 95th percentile")                                                    \
         EVIDENCE("p99_ns", "newer 99th percentile")                                                         \
         EVIDENCE("base_p99_ns", "older 99th percentile")                                                    \
         EVIDENCE("path", "the call path that grew most on the critical path")                               \
         EVIDENCE("path_change", "slower, sequential, appeared, more-calls, edge, ...")                      \
         EVIDENCE("path_ns", "its time on the critical path per newer request")                              \
         EVIDENCE("base_path_ns", "and per older request")                                                   \
         EVIDENCE("path_share", "its share of the growth of the mean")                                       \
         EVIDENCE("concurrency", "how many of its calls run at once, newer")                                 \
         EVIDENCE("base_concurrency", "and older")                                                           \
         EVIDENCE("cause", "the attribute combination that explains it")                                     \
         EVIDENCE("cause_coverage", "share of the slow-down, or of the added errors, within that "           \
                                    "combination")                                                           \
         EVIDENCE("cause_ratio", "newer / older within it (of latency or errors)")                           \
         EVIDENCE("cause_ratio_outside", "and outside of it")                                                \
         EVIDENCE("subgroup_requests_count", "requests of the newer version within the cause, where only "   \
                                             "those are slower")                                             \
         EVIDENCE("subgroup_base_requests_count", "and of the older version")                                \
         EVIDENCE("rule_cause", "what the simple rule says: the one value with the largest ratio"))          \
    KIND(slower_than_before, "slower-than-before", WARNING, WARNING,                                         \
         "A service is slower, or fails more often, than at the same hour of the days before, and no "       \
         "version explains it.",                                                                             \
         "See what else has changed since yesterday: load, data, configuration, machines, or a dependency "  \
         "that sends no spans.",                                                                             \
         EVIDENCE("service", "the service")                                                                  \
         EVIDENCE("bucket", "its operation and the values of the bucketing attributes")                      \
         EVIDENCE("measure", "middle (geometric mean), p95 or errors")                                       \
         EVIDENCE("version", "a version that came since yesterday, and was not found to be slower")          \
         EVIDENCE("ratio", "the hours that are slower / the same hours of a usual day (errors: of yesterday)")\
         EVIDENCE("hours_count", "how many hours in succession that are; 1: the newest alone")               \
         EVIDENCE("level_ns", "latency in the newest whole hour: p95 where that is the measure")             \
         EVIDENCE("yesterday_ns", "and in the same hour of yesterday")                                       \
         EVIDENCE("last_week_ns", "and of the same day a week ago, where that is known")                     \
         EVIDENCE("error_share", "requests that fail, 0 to 1")                                               \
         EVIDENCE("yesterday_error_share", "and yesterday")                                                  \
         EVIDENCE("last_week_error_share", "and a week ago")                                                 \
         EVIDENCE("requests_count", "requests in that hour")                                                 \
         EVIDENCE("yesterday_requests_count", "and yesterday")                                               \
         EVIDENCE("last_week_requests_count", "and a week ago")                                              \
         EVIDENCE("days_count", "days before with that hour")                                                \
         EVIDENCE("p_value", "one-sided, by how much the days before differ among themselves"))              \
    KIND(less_throughput, "less-throughput", WARNING, WARNING,                                               \
         "Hosts of a version complete fewer requests than those of the versions before it, while others "    \
         "wait for them.",                                                                                   \
         "Compare how many requests a host works on at once, and what it waits for between two of them.",    \
         EVIDENCE("service", "the service")                                                                  \
         EVIDENCE("version", "the newer version")                                                            \
         EVIDENCE("base_version", "the one to go back to")                                                   \
         EVIDENCE("bucket", "the operation and the values of the bucketing attributes")                      \
         EVIDENCE("ratio", "what a newer host completes while requests wait / an older one")                 \
         EVIDENCE("ratio_low", "lower end of its 95 % interval")                                             \
         EVIDENCE("ratio_high", "upper end")                                                                 \
         EVIDENCE("completed_per_s", "requests that a newer host completes in a second")                     \
         EVIDENCE("base_completed_per_s", "and an older one")                                                \
         EVIDENCE("wait_ns", "how long requests wait during that time, on average")                         \
         EVIDENCE("usual_wait_ns", "and at the best of times")                                               \
         EVIDENCE("hosts_count", "hosts of the newer version")                                               \
         EVIDENCE("base_hosts_count", "and of the older ones")                                               \
         EVIDENCE("requests_count", "what newer hosts completed during that time")                          \
         EVIDENCE("p_value", "one-sided, over hosts"))                                                       \
    KIND(growing_queue, "growing-queue", WARNING, WARNING,                                                   \
         "More comes than a service completes: requests wait longer and longer.",                            \
         "Start more instances, or let each work on more at once; if it is for a short time, see how long "  \
         "the queue may become.",                                                                            \
         EVIDENCE("service", "the service")                                                                  \
         EVIDENCE("bucket", "the operation and the values of the bucketing attributes")                      \
         EVIDENCE("completed_share", "of what comes, 0 to 1")                                                \
         EVIDENCE("completed_share_low", "lower end of its 95 % interval")                                   \
         EVIDENCE("completed_share_high", "upper end")                                                       \
         EVIDENCE("wait_ns", "how long requests wait at the end, on average")                                \
         EVIDENCE("usual_wait_ns", "and at the best of times")                                               \
         EVIDENCE("requests_count", "that were served"))                                                     \
    TARGET_FINDING_KINDS(KIND)
/* clang-format on */
/* Those of targets with a table of their own, src/targets/NAME/kinds.h, follow. */

enum finding_kind {
#define EVIDENCE(name, text)
#define KIND(ident, name, least, most, text, remedy, evidence) FINDING_##ident,
    FINDING_KINDS(KIND)
#undef KIND
#undef EVIDENCE
        FINDING_KIND_COUNT
};

#endif
