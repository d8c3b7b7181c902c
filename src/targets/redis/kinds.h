/* Kinds of finding of Redis servers: see finding/kinds.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_KINDS_H
#define TARGETS_REDIS_KINDS_H

/* clang-format off */
#define FINDING_KINDS_redis(KIND)                                                                            \
    KIND(slow_command, "redis-slow-command", INFO, CRITICAL,                                                 \
         "A command occupied the single thread that executes all commands; all others queued behind it.",    \
         "Ask for less at a time, or run it on a replica: Redis executes one command at a time.",            \
         EVIDENCE("command", "the command")                                                                  \
         EVIDENCE("calls_count", "how often it was slow")                                                    \
         EVIDENCE("executed_ns", "its execution time in total")                                              \
         EVIDENCE("worst_ns", "its longest execution")                                                       \
         EVIDENCE("run_queue_ns", "of it waiting for a CPU (not this fault's doing)")                        \
         EVIDENCE("argument_bytes", "size of the arguments of the worst one")                                \
         EVIDENCE("arguments_count", "number of arguments of the worst one, with its name")                  \
         EVIDENCE("inner_command", "inside a script or transaction: the command with the most time")         \
         EVIDENCE("inner_calls_count", "how often it ran inside the worst one")                              \
         EVIDENCE("client_id", "the client that sent the worst one")                                         \
         EVIDENCE("clients_count", "clients that sent it")                                                   \
         EVIDENCE("queued_commands_count", "commands of others that waited behind it")                       \
         EVIDENCE("queued_ns", "their waiting time in total, where the sender was traced")                   \
         EVIDENCE("waiting_clients_count", "other clients that had a request waiting when the call ended")   \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                  \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(redis_connection_conflict, "redis-connection-conflict", CRITICAL, CRITICAL,                         \
         "Two threads of a Redis server came to own one connection: queued twice, used at once, freed "      \
         "twice.",                                                                                           \
         "Known of Redis 7.0 to 7.4 with TLS and io-threads-do-reads (Redis issue 12540). Until the "        \
         "server is replaced by Redis 8 or Valkey, restart it with io-threads-do-reads no, or terminate "    \
         "TLS in front of it.",                                                                              \
         EVIDENCE("operation", "what two threads did: queued twice, read at once, written at once, read after "\
                               "it was freed")                                                               \
         EVIDENCE("conflicts_count", "how many connections this happened to")                                \
         EVIDENCE("used_at_once_count", "of these, used by two threads at the same time")                    \
         EVIDENCE("freed_twice_count", "of these, freed twice")                                              \
         EVIDENCE("used_after_free_count", "of these, read after they were freed")                           \
         EVIDENCE("first_client_id", "the first client, where it was not the worst")                         \
         EVIDENCE("client_id", "the client; of several, the one that fared worst, as in what follows")       \
         EVIDENCE("first_added_ns", "when it was put on the list of pending reads")                          \
         EVIDENCE("second_added_ns", "when it was put there again before it had been read")                  \
         EVIDENCE("added_by_thread", "the thread that put it there again")                                   \
         EVIDENCE("first_thread", "a thread that then read it")                                              \
         EVIDENCE("second_thread", "another thread that then read it")                                       \
         EVIDENCE("overlap_ns", "how long both were inside it at once")                                      \
         EVIDENCE("tls_left_bytes", "left in its TLS buffer before that")                                    \
         EVIDENCE("freed_ns", "when it was freed")                                                           \
         EVIDENCE("freed_again_ns", "when it was freed again"))                                              \
    KIND(redis_queueing, "redis-queueing", WARNING, WARNING,                                                 \
         "Requests waited in Redis for others, each of which was quick.",                                    \
         "One thread executes all commands: spread keys or reads over more servers, send fewer and "         \
         "larger requests (MGET, pipelines), or let I/O threads read and write where these are most of "     \
         "the work.",                                                                                        \
         EVIDENCE("requests_count", "requests that were ready at the same time as others")                   \
         EVIDENCE("mean_wait_ns", "how long one waited until it was read, on average")                       \
         EVIDENCE("longest_wait_ns", "the longest")                                                          \
         EVIDENCE("delay_ns", "their waiting time in total")                                                 \
         EVIDENCE("busy_share", "of the recording, in which the event loop worked, 0 to 1"))                 \
    KIND(redis_big_reply, "redis-big-reply", INFO, INFO,                                                     \
         "A reply is so large that sending it is the main cost.",                                            \
         "Ask for parts: ranges with a limit, SCAN and its relatives, fields instead of whole hashes.",      \
         EVIDENCE("command", "the command")                                                                  \
         EVIDENCE("reply_bytes", "the largest reply")                                                        \
         EVIDENCE("all_replies_bytes", "all replies to this command")                                        \
         EVIDENCE("client_id", "the client that got the largest"))                                           \
    KIND(redis_slow_client, "redis-slow-client", WARNING, WARNING,                                           \
         "A client reads its replies too slowly.",                                                           \
         "Examine the client: it reads too slowly for what it requests or subscribes to. Request less, "     \
         "or read on a separate thread.",                                                                    \
         EVIDENCE("clients_count", "clients that took long to read a large reply")                           \
         EVIDENCE("closed_count", "clients that were closed at client-output-buffer-limit")                  \
         EVIDENCE("client_id", "the slowest")                                                                \
         EVIDENCE("taking_ns", "how long it took to read its replies, in total")                             \
         EVIDENCE("reply_bytes", "the largest of them"))                                                     \
    KIND(redis_eviction_storm, "redis-eviction-storm", WARNING, WARNING,                                     \
         "Redis evicts keys when it should serve requests.",                                                 \
         "Memory is at maxmemory: raise it, let keys expire sooner, or spread them over more servers.",      \
         EVIDENCE("evictions_count", "how often keys had to be evicted")                                     \
         EVIDENCE("evicted_count", "keys")                                                                   \
         EVIDENCE("took_ns", "time in it, in total")                                                         \
         EVIDENCE("worst_ns", "the longest time")                                                            \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait "       \
                                           "ended")                                                          \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                  \
         EVIDENCE("delay_ns", "their waiting time in total"))                                                \
    KIND(redis_expiry_storm, "redis-expiry-storm", INFO, WARNING,                                            \
         "Deleting expired keys blocked the event loop.",                                                    \
         "Many keys expire at the same time: add a random part to their time to live. "                      \
         "lazyfree-lazy-expire yes frees large values in another thread.",                                   \
         EVIDENCE("cycles_count", "cycles that looked for them")                                             \
         EVIDENCE("expired_count", "keys that they deleted")                                                 \
         EVIDENCE("expired_on_access_count", "keys deleted because a client accessed them")                  \
         EVIDENCE("took_ns", "time in cycles, in total")                                                     \
         EVIDENCE("worst_ns", "the longest one")                                                             \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait "       \
                                           "ended")                                                          \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                  \
         EVIDENCE("delay_ns", "their waiting time in total"))                                                \
    KIND(redis_hot_connection, "redis-hot-connection", INFO, INFO,                                           \
         "One connection causes most of the work of a busy server.",                                         \
         "Spread its load over replicas or other servers, or limit its rate: the others share what it "      \
         "leaves.",                                                                                          \
         EVIDENCE("client_id", "the client")                                                                 \
         EVIDENCE("commands_count", "its commands")                                                          \
         EVIDENCE("executed_ns", "their execution time")                                                     \
         EVIDENCE("executed_share", "of all that was executed, 0 to 1"))                                     \
    KIND(redis_fsync_stall, "redis-fsync-stall", WARNING, WARNING,                                           \
         "Writing the append-only file blocked the event loop.",                                             \
         "With appendfsync everysec a separate thread does it, and a crash of the machine may cost the "     \
         "last second; or use a faster disk, or keep the append-only file on a replica.",                    \
         EVIDENCE("syncs_count", "how often the main thread forced it to the disk")                          \
         EVIDENCE("writes_count", "instead: how often it was written")                                       \
         EVIDENCE("took_ns", "time in it, in total")                                                         \
         EVIDENCE("worst_ns", "the longest time")                                                            \
         EVIDENCE("time_share", "of the time that was recorded, 0 to 1")                                     \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait "       \
                                           "ended")                                                          \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                  \
         EVIDENCE("delay_ns", "their waiting time in total"))                                                \
    KIND(redis_fork_stall, "redis-fork-stall", INFO, WARNING,                                                \
         "Forking for persistence blocked the event loop.",                                                  \
         "Save on a replica, or less often; keep less in one server. LATENCY and latest_fork_usec of "       \
         "INFO show how long forks took.",                                                                   \
         EVIDENCE("forks_count", "how often it forked")                                                      \
         EVIDENCE("took_ns", "time in it, in total")                                                         \
         EVIDENCE("worst_ns", "the longest time")                                                            \
         EVIDENCE("memory_bytes", "memory of the server at that time")                                       \
         EVIDENCE("waiting_clients_count", "clients that had a request waiting when the longest wait "       \
                                           "ended")                                                          \
         EVIDENCE("longest_wait_ns", "the longest of their waits, at most")                                  \
         EVIDENCE("delay_ns", "their waiting time in total"))                                                \
    KIND(redis_bus_overload, "redis-bus-overload", WARNING, WARNING,                                         \
         "The cluster bus takes much of the event loop's time.",                                             \
         "Use fewer nodes, or a longer cluster-node-timeout, which makes heartbeats rarer.",                 \
         EVIDENCE("bus_bytes", "read and written on the bus")                                                \
         EVIDENCE("client_bytes", "read from and written to clients")                                        \
         EVIDENCE("took_ns", "time in reading and writing the bus")                                          \
         EVIDENCE("time_share", "of the recording, 0 to 1"))                                                 \
    KIND(redis_publish_amplification, "redis-publish-amplification", INFO, INFO,                             \
         "Published messages take many times their size on the cluster bus.",                                \
         "SPUBLISH sends to the nodes of one shard only; several small messages in one share its "           \
         "envelope.",                                                                                        \
         EVIDENCE("messages_count", "published by clients of this server")                                   \
         EVIDENCE("published_bytes", "channels and messages as clients sent them")                           \
         EVIDENCE("bus_bytes", "sent to other nodes for them")                                               \
         EVIDENCE("amplification", "the second to the first")                                                \
         EVIDENCE("copies", "to how many nodes one message was sent: the broadcast")                         \
         EVIDENCE("envelope_bytes", "of one copy, without channel and message"))
/* clang-format on */

#endif
