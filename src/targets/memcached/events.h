/* Events of Memcached servers. See event/catalogue.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_EVENTS_H
#define TARGETS_MEMCACHED_EVENTS_H

#define SONDE_FAMILY_memcached "Memcached's commands and waits"

#define SONDE_ENUMS_memcached(M)

#define SONDE_FIELDS_memcached_command(F, e)                                            \
    F(e, u64, bytes, bytes, "of these commands, with the values that they store")       \
    F(e, u64, reply_bytes, bytes, "of their answers")                                   \
    F(e, u64, first_number, count,                                                      \
      "position of the first among the commands that the client counts; 0 unknown")     \
    F(e, u32, name, name_id, "the command")                                             \
    F(e, u32, commands, count, "how many")                                              \
    F(e, u32, keys, count, "that they asked for; 0 for those that store")               \
    F(e, u32, hits, count, "keys among them that were there")                           \
    F(e, u32, refused, count, "that stored nothing because of what is there or is not") \
    F(e, u32, errors, count, "answered with an error")                                  \
    F(e, u32, together, count, "commands of all kinds that share this execution")       \
    F(e, u32, generation, none, "which use of the descriptor")                          \
    F(e, i32, fd, fd, "the client's connection")

#define SONDE_FIELDS_memcached_wait(F, e) F(e, i32, ready, count, "descriptors that were ready; -1: an error")

#define SONDE_FIELDS_memcached_close(F, e)                                                    \
    F(e, u64, in_bytes, bytes, "that were read since the connection was first seen")          \
    F(e, u64, out_bytes, bytes, "that were written")                                          \
    F(e, u64, unread_bytes, bytes, "of them, read but not understood: no commands were seen") \
    F(e, u32, generation, none, "which use of the descriptor")                                \
    F(e, i32, fd, fd, "the client's connection")

#define SONDE_FIELDS_memcached_datagram(F, e) F(e, u64, bytes, bytes, "of the answer")

#define SONDE_EVENTS_memcached(E)                                                                           \
    E(memcached_command, "memcached:command", SPAN, PROBE,                                                  \
      "commands of one kind on one connection, executed without a pause: from when they were read to when " \
      "their answers were written")                                                                         \
    E(memcached_wait, "memcached:wait", SPAN, PROBE, "a thread waits for something to do")                  \
    E(memcached_datagram, "memcached:datagram", INSTANT, PROBE,                                             \
      "an answer is sent by UDP, whose commands are not read")                                              \
    E(memcached_close, "memcached:close", INSTANT, PROBE, "a client's connection is closed")

#endif
