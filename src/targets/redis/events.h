/* Events of Redis and Valkey servers. See event/catalogue.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_EVENTS_H
#define TARGETS_REDIS_EVENTS_H

/* Families of them, and which family an event belongs to: clients that are freed are never switched off. */
#define SONDE_FAMILIES_redis(F)                                    \
    F(redis_io, requests, 1, 18, "Redis' reads, writes and lists") \
    F(redis_loop, usual, 0, 18, "the phases of Redis' loop")       \
    F(redis_bus, usual, 0, 18, "Redis' cluster bus")               \
    F(redis_command, requests, 1, 18, "Redis commands")            \
    F(redis_work, requests, 1, 18, "Redis' files, children, expiry")

#define SONDE_FAMILY_OF_redis(C)         \
    C(redis_read_query, redis_io)        \
    C(redis_write_reply, redis_io)       \
    C(redis_ssl_read, redis_io)          \
    C(redis_add_file_event, redis_io)    \
    C(redis_delete_file_event, redis_io) \
    C(redis_pending_io, redis_io)        \
    C(redis_loop_phase, redis_loop)      \
    C(redis_bus_read, redis_bus)         \
    C(redis_bus_packet, redis_bus)       \
    C(redis_bus_send, redis_bus)         \
    C(redis_bus_write, redis_bus)        \
    C(redis_command, redis_command)      \
    C(redis_block, redis_command)        \
    C(redis_answered, redis_command)     \
    C(redis_publish, redis_command)      \
    C(redis_message, redis_command)      \
    C(redis_hand_over, redis_io)         \
    C(redis_fork, redis_work)            \
    C(redis_fsync, redis_work)           \
    C(redis_aof_write, redis_work)       \
    C(redis_expire, redis_work)          \
    C(redis_evict, redis_work)           \
    C(redis_output_limit, redis_work)    \
    C(redis_replicated, redis_command)

#define SONDE_ENUM_redis_kind(L, e) \
    L(e, other, 0, "other") L(e, read, 1, "read") L(e, write, 2, "write") L(e, admin, 3, "admin")
#define SONDE_ENUM_redis_phase(L, e)      \
    L(e, before_sleep, 0, "before-sleep") \
    L(e, after_sleep, 1, "after-sleep") L(e, process_events, 2, "process-events")
#define SONDE_ENUM_redis_list(L, e) L(e, pending_read, 0, "pending-read")
#define SONDE_ENUM_redis_child(L, e) \
    L(e, other, 0, "other")          \
    L(e, rdb, 1, "RDB")              \
    L(e, aof, 2, "AOF rewrite")      \
    L(e, debugger, 3, "Lua debugger") L(e, module, 4, "module") L(e, slots, 5, "slot migration")
#define SONDE_ENUM_redis_cycle(L, e) \
    L(e, slow, 0, "timer")           \
    L(e, fast, 1, "before-sleep")    \
    L(e, unseen, 2, "unseen") /* this build's cycles are not seen: how the keys were deleted is not known */
#define SONDE_ENUM_redis_answer(L, e)    \
    L(e, refused, 0, "refused")          \
    L(e, queued, 1, "queued")            \
    L(e, cross_slot, 2, "CROSSSLOT")     \
    L(e, unstable, 3, "TRYAGAIN")        \
    L(e, ask, 4, "ASK")                  \
    L(e, moved, 5, "MOVED")              \
    L(e, down, 6, "CLUSTERDOWN")         \
    L(e, unbound, 7, "CLUSTERDOWN slot") \
    L(e, read_only, 8, "CLUSTERDOWN read-only")
#define SONDE_ENUMS_redis(M) \
    M(redis_kind) M(redis_phase) M(redis_list) M(redis_child) M(redis_answer) M(redis_cycle)

#define SONDE_FIELDS_redis_read_query(F, e)                                      \
    F(e, u64, client_id, none, "the client's id")                                \
    F(e, u64, used_memory, bytes, "zmalloc_used_memory after the read")          \
    F(e, u32, query_buffer, bytes, "length of the query buffer before the read") \
    F(e, i32, fd, fd, "the client's descriptor")                                 \
    F(e, i32, bytes, bytes, "bytes read, after decryption; -1 unknown")          \
    F(e, i32, wire_bytes, bytes, "bytes read from the socket; -1 unknown")

#define SONDE_FIELDS_redis_command(F, e)                                                            \
    F(e, u64, client_id, none, "the client's id")                                                   \
    F(e, u64, sequence, count, "position among the commands of this connection, from 1; 0 unknown") \
    F(e, u64, bytes, bytes, "sum of the argument lengths; 0 unknown")                               \
    F(e, u32, name, name_id, "the command")                                                         \
    F(e, i32, fd, fd, "the client's descriptor, -1 for none")                                       \
    F(e, i32, argument_count, count, "arguments with the command's name; -1 unknown")               \
    F(e, i32, db, none, "database number; -1 unknown")                                              \
    F(e, u8, kind, redis_kind, "read, write or admin")                                              \
    F(e, u8, depth, count, "0 from a client, more inside EVAL or EXEC")

#define SONDE_FIELDS_redis_write_reply(F, e)                                \
    F(e, u64, client_id, none, "the client's id")                           \
    F(e, i32, bytes, bytes, "bytes written, before encryption; -1 unknown") \
    F(e, i32, wire_bytes, bytes, "bytes written to the socket; -1 unknown") \
    F(e, i32, fd, fd, "the client's descriptor")                            \
    F(e, u8, waited, none, "1: the client had not taken all of it at once, and its socket has room again")

#define SONDE_FIELDS_redis_free_client(F, e)      \
    F(e, u64, client_id, none, "the client's id") \
    F(e, i32, fd, fd, "the client's descriptor")

#define SONDE_FIELDS_redis_ssl_read(F, e)                  \
    F(e, i64, asked, bytes, "bytes asked for")             \
    F(e, i64, read, bytes, "bytes read")                   \
    F(e, i64, left, bytes, "bytes left in the TLS buffer") \
    F(e, i32, fd, fd, "the client's descriptor")

#define SONDE_FIELDS_redis_bus_read(F, e)           \
    F(e, u64, link, hex, "the bus link; 0 unknown") \
    F(e, i32, fd, fd, "the bus link's descriptor")  \
    F(e, i32, bytes, bytes, "bytes read; -1 unknown")

#define SONDE_FIELDS_redis_bus_write(F, e)          \
    F(e, u64, link, hex, "the bus link; 0 unknown") \
    F(e, i32, fd, fd, "the bus link's descriptor")  \
    F(e, i32, bytes, bytes, "bytes written; -1 unknown")

#define SONDE_FIELDS_redis_bus_packet(F, e)                                            \
    F(e, u64, link, hex, "the bus link")                                               \
    F(e, u32, bytes, bytes, "length of the packet")                                    \
    F(e, u32, mark, hex, "a hash of its last bytes; bus_send has the same; 0 unknown") \
    F(e, u16, type, none, "CLUSTERMSG_TYPE_*")

#define SONDE_FIELDS_redis_bus_send(F, e)                                                \
    F(e, u64, link, hex, "the bus link")                                                 \
    F(e, u32, bytes, bytes, "length of the message")                                     \
    F(e, u32, mark, hex, "a hash of its last bytes; bus_packet has the same; 0 unknown") \
    F(e, u16, type, none, "CLUSTERMSG_TYPE_*")

#define SONDE_FIELDS_redis_add_file_event(F, e)     \
    F(e, u64, handler, hex, "the handler function") \
    F(e, i32, fd, fd, "the descriptor")             \
    F(e, i32, mask, none, "AE_READABLE 1, AE_WRITABLE 2, AE_BARRIER 4")

#define SONDE_FIELDS_redis_delete_file_event(F, e) \
    F(e, i32, fd, fd, "the descriptor")            \
    F(e, i32, mask, none, "AE_READABLE 1, AE_WRITABLE 2, AE_BARRIER 4")

#define SONDE_FIELDS_redis_loop_phase(F, e)                                               \
    F(e, i32, ready, count, "events processed in the iteration (process-events), else 0") \
    F(e, u8, phase, redis_phase, "which part of the loop")

#define SONDE_FIELDS_redis_pending_io(F, e)       \
    F(e, u64, client_id, none, "the client's id") \
    F(e, i32, fd, fd, "the client's descriptor")  \
    F(e, u8, list, redis_list, "which list")      \
    F(e, u8, added, none, "1: it was put on the list")

#define SONDE_FIELDS_redis_block(F, e)            \
    F(e, u64, client_id, none, "the client's id") \
    F(e, u32, name, name_id, "its command")       \
    F(e, i32, fd, fd, "the client's descriptor")  \
    F(e, u8, begins, none, "1: it is blocked from now on, 0: no longer")

#define SONDE_FIELDS_redis_answered(F, e)                                                           \
    F(e, u64, client_id, none, "the client's id")                                                   \
    F(e, u64, sequence, count, "position among the commands of this connection, from 1; 0 unknown") \
    F(e, u32, name, name_id, "the command; 0: none that exists")                                    \
    F(e, i32, fd, fd, "the client's descriptor")                                                    \
    F(e, i32, slot, none, "the hash slot; -1 for none")                                             \
    F(e, u8, answer, redis_answer, "how it was answered")

#define SONDE_FIELDS_redis_publish(F, e)                                 \
    F(e, u32, receivers, count, "subscribers of this server it went to") \
    F(e, u8, from_bus, none, "1: it came from another node")

#define SONDE_FIELDS_redis_message(F, e)              \
    F(e, u64, client_id, none, "the subscriber's id") \
    F(e, i32, fd, fd, "its descriptor")

#define SONDE_FIELDS_redis_hand_over(F, e)        \
    F(e, u64, client_id, none, "the client's id") \
    F(e, i32, fd, fd, "its descriptor")           \
    F(e, u8, to_thread, none, "1: an I/O thread owns it from now on, 0: the main thread")

#define SONDE_FIELDS_redis_fork(F, e)                               \
    F(e, u64, used_memory, bytes, "zmalloc_used_memory; 0 unknown") \
    F(e, i32, child, none, "the child's pid, or -1: it failed")     \
    F(e, u8, purpose, redis_child, "what the child does")

#define SONDE_FIELDS_redis_fsync(F, e) \
    F(e, i32, fd, fd, "the file")      \
    F(e, i32, result, none, "0, or -1: it failed")

#define SONDE_FIELDS_redis_aof_write(F, e) F(e, i64, bytes, bytes, "bytes written to files; -1 unknown")

#define SONDE_FIELDS_redis_expire(F, e)                                                             \
    F(e, u32, expired, count, "keys that the cycle deleted")                                        \
    F(e, u32, on_access, count, "keys deleted since the record before because they were asked for") \
    F(e, u8, cycle, redis_cycle, "which cycle")

#define SONDE_FIELDS_redis_evict(F, e)               \
    F(e, u32, keys, count, "keys that were deleted") \
    F(e, u8, result, none, "0: there is room now, 1: to be continued, 2: there is nothing to delete")

#define SONDE_FIELDS_redis_output_limit(F, e)     \
    F(e, u64, client_id, none, "the client's id") \
    F(e, i32, fd, fd, "the client's descriptor")

#define SONDE_FIELDS_redis_replicated(F, e)                                        \
    F(e, u64, offset, none, "place in the replication stream, behind these bytes") \
    F(e, u32, bytes, bytes, "how many")                                            \
    F(e, u8, applied, none, "1: a replica has executed them, 0: a server has queued them for its replicas")

#define SONDE_EVENTS_redis(E)                                                                               \
    E(redis_read_query, "redis:read_query", SPAN, PROBE,                                                    \
      "a query is read and executed, from where the loop had finished with the client before it, to its "   \
      "last command")                                                                                       \
    E(redis_command, "redis:command", SPAN, PROBE, "a command is executed; in a pipeline with its parsing") \
    E(redis_write_reply, "redis:write_reply", SPAN, PROBE, "a reply is written")                            \
    E(redis_free_client, "redis:free_client", INSTANT, PROBE, "a client is freed")                          \
    E(redis_ssl_read, "redis:ssl_read", SPAN, PROBE, "a TLS connection is read")                            \
    E(redis_bus_read, "redis:bus_read", SPAN, PROBE, "a cluster bus link is read")                          \
    E(redis_bus_packet, "redis:bus_packet", SPAN, PROBE, "a bus packet is processed")                       \
    E(redis_bus_send, "redis:bus_send", SPAN, PROBE, "a bus message is queued on a link")                   \
    E(redis_add_file_event, "redis:add_file_event", INSTANT, PROBE, "a descriptor is watched")              \
    E(redis_delete_file_event, "redis:delete_file_event", INSTANT, PROBE, "a descriptor is unwatched")      \
    E(redis_loop_phase, "redis:loop_phase", SPAN, PROBE, "a part of the event loop that took time")         \
    E(redis_pending_io, "redis:pending_io", INSTANT, PROBE, "a read is left to the I/O threads")            \
    E(redis_block, "redis:block", INSTANT, PROBE, "a client is blocked by its command, or no longer")       \
    E(redis_answered, "redis:answered", INSTANT, PROBE, "a command is answered without being executed")     \
    E(redis_hand_over, "redis:hand_over", INSTANT, PROBE, "a client gets another thread as its owner")      \
    E(redis_message, "redis:message", INSTANT, PROBE, "a published message is queued for a subscriber")     \
    E(redis_publish, "redis:publish", INSTANT, PROBE, "a message is handed to the subscribers")             \
    E(redis_fork, "redis:fork", SPAN, PROBE, "the server forks a child")                                    \
    E(redis_fsync, "redis:fsync", SPAN, PROBE, "a file is forced to the disk")                              \
    E(redis_aof_write, "redis:aof_write", SPAN, PROBE, "the append-only file is written")                   \
    E(redis_expire, "redis:expire", SPAN, PROBE, "expired keys are looked for and deleted")                 \
    E(redis_evict, "redis:evict", SPAN, PROBE, "keys are deleted because memory is at its limit")           \
    E(redis_output_limit, "redis:output_limit", INSTANT, PROBE,                                             \
      "a client is closed because it does not take its replies")                                            \
    E(redis_bus_write, "redis:bus_write", SPAN, PROBE, "a cluster bus link is written")                     \
    E(redis_replicated, "redis:replicated", INSTANT, PROBE,                                                 \
      "commands are queued for the replicas, or executed by one")

#endif
