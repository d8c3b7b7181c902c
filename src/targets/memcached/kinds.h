/* Kinds of finding of Memcached: see finding/kinds.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_KINDS_H
#define TARGETS_MEMCACHED_KINDS_H

/* clang-format off */
#define FINDING_KINDS_memcached(KIND)                                                                         \
    KIND(memcached_misses, "memcached-misses", WARNING, WARNING,                                              \
         "A cache did not have far more of the keys that it was asked for than usual.",                       \
         "Find out what removed the keys (a restart, keys that expire together, evictions: `stats items`) "   \
         "or which client asks for keys that are never stored. Let expiry times differ, and let one client at a time "    \
         "fill a missing key.",                                                                               \
         EVIDENCE("missed_count", "keys that were asked for in that time and not there")                       \
         EVIDENCE("asked_count", "all keys that were asked for in that time")                                 \
         EVIDENCE("missed_share", "the part that was not there")                                              \
         EVIDENCE("usual_share", "the part that is usually not there")                                        \
         EVIDENCE("flushed_ns", "how long before it began flush_all was executed"))                           \
    KIND(memcached_busy_thread, "memcached-busy-thread", INFO, INFO,                                          \
         "One thread of Memcached has most of the work, since a connection stays with its thread.",           \
         "Spread the load over more connections, or connect anew now and then.",                              \
         EVIDENCE("tid", "the thread")                                                                        \
         EVIDENCE("busy_share", "of its time in which it did not wait for something to do")                   \
         EVIDENCE("others_busy_share", "the same of the busiest of the others")                               \
         EVIDENCE("commands_count", "commands that it executed")                                              \
         EVIDENCE("commands_share", "the part of all that these are"))
/* clang-format on */

#endif
